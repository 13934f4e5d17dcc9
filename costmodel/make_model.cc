#include "costmodel/make_model.h"

#include "costmodel/ensemble.h"
#include "costmodel/mlp_model.h"
#include "costmodel/random_model.h"
#include "costmodel/tree_model.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"

namespace tw {
namespace {

MadeModel make_mlp(int columns, u64 seed) {
  std::string why;
  MadeModel made{open_mlp_model(columns, seed, &why), ""};
  if (!made.model) made.note = cat("the cost model `mlp` needs the LibTorch plugin, which did not open: ", why);
  return made;
}

template <class Model>
MadeModel make(int columns, u64 seed) {
  return {std::make_unique<Model>(columns, seed), ""};
}

MadeModel make_auto(int columns, u64 seed) {
  MadeModel mlp = make_mlp(columns, seed);
  if (mlp.model) return mlp;
  MadeModel tree = make<TreeModel>(columns, seed);
  tree.note = cat("using the built-in cost model `tree`: ", mlp.note);
  return tree;
}

struct Row {
  const char* name;
  MadeModel (*make)(int columns, u64 seed);
};
constexpr Row models[] = {
    {"auto", make_auto}, {"mlp", make_mlp}, {"tree", make<TreeModel>}, {"random", make<RandomModel>}};

MadeModel make_one(std::string_view name, int columns, u64 seed) {
  std::vector<std::string> names;
  for (const Row& row : models) {
    if (name == row.name) return row.make(columns, seed);
    names.push_back(row.name);
  }
  const std::string near = closest(std::string(name), names);
  return {nullptr, cat("unknown cost model `", name, "`", near.empty() ? "" : cat("; did you mean `", near, "`?"),
                       " (there are: ", model_names(), ")")};
}

}  // namespace

MadeModel make_model(std::string_view name, int columns, u64 seed, int models) {
  MadeModel made = make_one(name, columns, seed);
  if (!made.model || models < 2) return made;
  std::vector<std::unique_ptr<CostModel>> all;
  all.push_back(std::move(made.model));
  for (int i = 1; i < models; ++i)
    all.push_back(make_one(all[0]->name(), columns, mix64(seed + static_cast<u64>(i))).model);
  made.model = std::make_unique<Ensemble>(std::move(all), seed);
  return made;
}

std::string model_names() {
  std::vector<std::string> names;
  for (const Row& row : models) names.push_back(row.name);
  return join(names, ", ");
}

}  // namespace tw

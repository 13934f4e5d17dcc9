#include "costmodel/make_model.h"

#include <algorithm>

#include "costmodel/ensemble.h"
#include "costmodel/model_bytes.h"
#include "costmodel/network_model.h"
#include "costmodel/random_model.h"
#include "costmodel/tree_model.h"
#include "costmodel/xgboost_model.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"

namespace tw {
namespace {

template <const NetworkForm& form>
MadeModel make_network(int columns, u64 seed, const ModelOptions& options) {
  std::string why;
  MadeModel made{open_network_model(form, columns, seed, options.objective, &why), ""};
  if (!made.model)
    made.note = cat("the cost model `", form.name, "` needs the LibTorch plugin, which did not open: ", why);
  return made;
}

template <const XgboostForm& form>
MadeModel make_xgboost(int columns, u64 seed, const ModelOptions& options) {
  std::string why;
  MadeModel made{open_xgboost_model(form, columns, seed, options.objective, &why), ""};
  if (!made.model)
    made.note = cat("the cost model `", form.name, "` needs XGBoost, which did not open: ", why,
                    " (sudo apt install libxgboost0, or set TRACEWRIGHT_XGBOOST to the library)");
  return made;
}

MadeModel make_tree(int columns, u64 seed, const ModelOptions& options) {
  return {std::make_unique<TreeModel>(columns, seed, options.objective), ""};
}

MadeModel make_random(int columns, u64 seed, const ModelOptions&) {
  return {std::make_unique<RandomModel>(columns, seed), ""};
}

MadeModel make_draft(int, u64, const ModelOptions&) {
  return {nullptr, "without a learned cost model candidates are ranked by the draft model"};
}

MadeModel make_auto(int columns, u64 seed, const ModelOptions& options) {
  MadeModel mlp = make_network<kMlp>(columns, seed, options);
  if (mlp.model) return mlp;
  MadeModel tree = make_tree(columns, seed, options);
  tree.note = cat("using the built-in cost model `tree`: ", mlp.note);
  return tree;
}

struct Row {
  const char* name;
  MadeModel (*make)(int columns, u64 seed, const ModelOptions& options);
  FeatureKind features = FeatureKind::Stores;
  bool learns = true;
};
constexpr Row models[] = {{"auto", make_auto},
                          {"mlp", make_network<kMlp>},
                          {"mlp-reference", make_network<kMlpReference>, FeatureKind::Reference},
                          {"treegru", make_network<kTreeGru>, FeatureKind::Loops},
                          {"tlp", make_network<kTlp>, FeatureKind::Tokens},
                          {"xgboost", make_xgboost<kXgboost>},
                          {"xgboost-reference", make_xgboost<kXgboostReference>},
                          {"xgboost-relation", make_xgboost<kXgboostRelation>, FeatureKind::Relation},
                          {"xgboost-knobs", make_xgboost<kXgboostKnobs>, FeatureKind::Knobs},
                          {"tree", make_tree},
                          {"draft", make_draft, FeatureKind::Stores, false},
                          {"random", make_random, FeatureKind::Stores, false}};

const Row* row_of(std::string_view name) {
  const auto* row = std::find_if(std::begin(models), std::end(models), [&](const Row& r) { return name == r.name; });
  return row == std::end(models) ? nullptr : row;
}

MadeModel make_one(std::string_view name, int columns, u64 seed, const ModelOptions& options) {
  std::vector<std::string> names;
  for (const Row& row : models) {
    if (name == row.name) return row.make(columns, seed, options);
    names.push_back(row.name);
  }
  const std::string near = closest(std::string(name), names);
  return {nullptr, cat("unknown cost model `", name, "`", near.empty() ? "" : cat("; did you mean `", near, "`?"),
                       " (there are: ", join(model_names(), ", "), ")")};
}

}  // namespace

MadeModel make_model(std::string_view name, int columns, u64 seed, const ModelOptions& options) {
  MadeModel made = make_one(name, columns, seed, options);
  if (!made.model || options.models < 2) return made;
  std::vector<std::unique_ptr<CostModel>> all;
  all.push_back(std::move(made.model));
  for (int i = 1; i < options.models; ++i)
    all.push_back(make_one(all[0]->name(), columns, mix64(seed + static_cast<u64>(i)), options).model);
  made.model = std::make_unique<Ensemble>(std::move(all), seed);
  return made;
}

MadeModel open_model(std::string_view bytes, int columns) {
  const std::optional<ModelHeader> header = model_header(bytes);
  if (!header) return {nullptr, "it is no saved cost model"};
  if (!header->is_readable()) return {nullptr, to_string(other_format(header->version))};
  if (header->models > kMostModels) return {nullptr, to_string(damaged_model())};
  MadeModel made = make_model(header->kind, columns > 0 ? columns : model_columns(header->kind), 0,
                              {.objective = header->objective, .models = static_cast<int>(header->models)});
  if (!made.model) return made;
  if (Status loaded = made.model->load(bytes); !loaded) return {nullptr, to_string(loaded.rejected())};
  return made;
}

std::optional<FeatureKind> feature_kind_of_saved(std::string_view bytes) {
  const std::optional<ModelHeader> header = model_header(bytes);
  return header ? std::optional(feature_kind_of(header->kind)) : std::nullopt;
}

FeatureKind feature_kind_of(std::string_view name) {
  const Row* row = row_of(name);
  return row ? row->features : FeatureKind::Stores;
}

bool learns(std::string_view name) {
  const Row* row = row_of(name);
  return !row || row->learns;
}

int model_columns(std::string_view name) { return columns_of(feature_kind_of(name)); }

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Row& row : models) names.push_back(row.name);
  return names;
}

}  // namespace tw

#include "sampler/tasks/global_model.h"

#include "costmodel/make_model.h"
#include "costmodel/model_bytes.h"
#include "dsl/base/files.h"
#include "dsl/base/text.h"
#include "sampler/strategies/search_choice.h"

namespace tw {
namespace {

constexpr const char* kShippedModelFile = "cpu_model.bin";

}  // namespace

std::string why_no_global_model(const std::string& cost_model, Objective objective, Objective learned) {
  if (!learns(cost_model)) return cat("the cost model `", cost_model, "` learns nothing");
  if (resolved(objective, learned) == learned) return "";
  return cat("a global model has learned the ", learned == Objective::Rank ? "order" : "speed",
             ", and the objective is ", name_of(objective));
}

std::optional<std::string> read_global_model(const std::string& name, const std::string& cost_model,
                                             Objective objective, std::string& error) {
  std::string path = name;
  if (name == kShippedModel) {
    std::optional<std::string> own = find_shared_file(kShippedModelFile);
    if (!own) return error = cat(kShippedModelFile, " is not installed"), std::nullopt;
    path = *own;
  }
  std::optional<std::string> bytes = read_whole_file(path);
  if (!bytes) {
    const std::string near = closest(name, {kShippedModel, kNoTransfer});
    return error = cat("cannot read ", path, near.empty() ? "" : cat("; did you mean `", near, "`?")), std::nullopt;
  }
  std::optional<ModelHeader> header = model_header(*bytes);
  if (header && !header->is_readable()) header.reset();  // open_model() says so
  if (header && !learns(header->kind))
    return error = cat(path, ": a `", header->kind, "` model has learned nothing"), std::nullopt;
  if (header && feature_kind_of(header->kind) != feature_kind_of(cost_model))
    return error = cat(path, ": the model `", header->kind, "` sees ", name_of(feature_kind_of(header->kind)),
                       ", and the cost model `", cost_model, "` sees ", name_of(feature_kind_of(cost_model))),
           std::nullopt;
  MadeModel made = open_model(*bytes);
  if (!made.model) return error = cat(path, ": ", made.note), std::nullopt;
  if (std::string why = why_no_global_model(cost_model, objective, made.model->objective()); !why.empty())
    return error = cat(path, ": ", why), std::nullopt;
  return bytes;
}

}  // namespace tw

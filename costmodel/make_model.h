// A cost model by name: what tasks, the command line and the database call it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "costmodel/cost_model.h"
#include "costmodel/feature_kind.h"
#include "costmodel/objective.h"

namespace tw {

inline constexpr int kMostModels = 64;  // that predict together

struct ModelOptions {
  Objective objective = Objective::Usual;
  int models = 1;  // several are an Ensemble; at most kMostModels
};

struct MadeModel {
  std::unique_ptr<CostModel> model;  // null: no such model, or it cannot run here; `note` says why and what to do
  std::string note;                  // a sentence for the user; empty if there is nothing to say
};

// "mlp", "mlp-reference" (with MetaSchedule's form), "treegru" and "tlp" (LibTorch), "xgboost" and "xgboost-reference"
// (XGBoost; the latter with TVM's hyper-parameters), "xgboost-relation" and "xgboost-knobs" (XGBoost on other
// features), "tree" (built in), "draft" (no model: the draft model alone, draft_model.h), "random" (baseline), or
// "auto": mlp where its plugin opens, else tree, and `note` says which and why. `columns` is the number of features per
// row, model_columns(name) for candidates.
MadeModel make_model(std::string_view name, int columns, u64 seed, const ModelOptions& options = {});

// The model whose saved bytes these are (CostModel::save), as it was; its kind is in the bytes. Null with a note where
// it cannot run here, or the bytes are none of this version. `columns`: 0 = those of its kind.
MadeModel open_model(std::string_view bytes, int columns = 0);
// What the model of these bytes sees; nullopt if they are no saved model.
std::optional<FeatureKind> feature_kind_of_saved(std::string_view bytes);

// The rows that a model of this name sees; stores, if there is no such model.
FeatureKind feature_kind_of(std::string_view name);
int model_columns(std::string_view name);
bool learns(std::string_view name);  // from measured candidates; false: it is the same whatever was measured

// auto, mlp, treegru, ...
std::vector<std::string> model_names();

}  // namespace tw

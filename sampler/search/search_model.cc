#include "sampler/search/search_model.h"

#include "costmodel/make_model.h"
#include "costmodel/transfer_model.h"
#include "dsl/base/text.h"

namespace tw {
namespace {

// Null where none is given, or it is not used; with a note where it cannot be.
MadeModel global_model(const TuneOptions& options, const BatchSearch& search) {
  const FeatureKind own = feature_kind_of(options.cost_model);
  bool is_used = !options.global_model.empty() && options.model_bytes.empty() && search.has_transfer() &&
                 learns(options.cost_model) && feature_kind_of_saved(options.global_model).value_or(own) == own;
  if (!is_used) return {};
  MadeModel made = open_model(options.global_model);
  const Objective learned = made.model ? made.model->objective() : options.objective;
  if (resolved(options.objective, learned) != learned)
    made = {nullptr,
            cat("it has learned by ", name_of(learned), ", and this run learns by ", name_of(options.objective))};
  if (!made.model) made.note = cat("the global cost model is not used: ", made.note);
  return made;
}

}  // namespace

SearchModel make_search_model(const TuneOptions& options, const BatchSearch& search, TuneObserver& observer) {
  SearchModel out;
  MadeModel global = global_model(options, search);
  // Beside a global model trees learn more of few trials than the network, and spoil less (bench/model_bench.cc).
  std::string name = global.model && options.cost_model == "auto" ? "tree" : options.cost_model;
  MadeModel made = make_model(
      name, model_columns(name), options.seed,
      {.objective = global.model ? global.model->objective() : options.objective, .models = search.models()});
  for (const std::string& note : {made.note, global.note}) {
    if (!note.empty()) observer.on_message(note);
  }
  out.model = std::move(made.model);
  if (out.model && global.model) {
    out.model = std::make_unique<TransferModel>(std::move(global.model), std::move(out.model));
    out.is_ready = true;
  }
  if (out.model && !options.model_bytes.empty()) {
    if (Status loaded = out.model->load(options.model_bytes); loaded)
      out.is_ready = out.is_loaded = true;
    else
      observer.on_message(cat("cost model: ", to_string(loaded.rejected()), "; it begins anew"));
  }
  return out;
}

}  // namespace tw

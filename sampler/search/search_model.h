// The cost model of a run: what it begins with. Used by tune.cc.
#pragma once
#include <memory>

#include "sampler/search/batch_search.h"

namespace tw {

struct SearchModel {
  std::unique_ptr<CostModel> model;  // null: the search goes by the draft model alone
  bool is_ready = false;             // its scores are worth something
  bool is_loaded = false;            // it was trained by an earlier run
};

// The model that the options name, in front of the global one where there is one. Says why one cannot be used.
SearchModel make_search_model(const TuneOptions& options, const BatchSearch& search, TuneObserver& observer);

}  // namespace tw

// The model that was trained before, with which a search may begin (costmodel/transfer_model.h).
#pragma once
#include <optional>
#include <string>

#include "costmodel/objective.h"

namespace tw {

// Why a search with this cost model and objective cannot begin with a global model that has learned by `learned` (rank
// or regression), as a sentence; "" if it can. With the usual objective the search learns what the global model has.
std::string why_no_global_model(const std::string& cost_model, Objective objective, Objective learned);

// The bytes of a trained model that is to be the global one of a search: `shipped`, or a file. nullopt, and why, if
// this program cannot load it, it does not see what the cost model of the search sees (FeatureKind), or that one does
// not learn what it has learned.
std::optional<std::string> read_global_model(const std::string& name, const std::string& cost_model,
                                             Objective objective, std::string& error);

}  // namespace tw

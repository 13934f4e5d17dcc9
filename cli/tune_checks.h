// What `tune` refuses before it starts. A part of the subcommand tune.
#pragma once
#include <optional>
#include <string>

#include "sampler/search/tune.h"
#include "sampler/tasks/load_list.h"

namespace tw::cli {

// One run measures with one worker. False after a message.
bool have_one_worker(const LoadedList& list);

// False after a message: kernels for this target cannot be measured here.
bool have_device(const Target& target);

// False after a message that names --objective.
bool check_objective(const std::string& name);

// What --transfer says takes the place of what the list says. False after a message.
bool choose_transfer(SearchChoice& choice, const std::string& said);

// The bytes of the global model of a run; "" = it has none, nullopt after a message. Without a word of the user's the
// shipped one is taken where it fits: for processors, with the network, which is to learn the order.
std::optional<std::string> global_model_of(const TuneOptions& tuning, bool is_flag, const LoadedList& list);

// False after a message: the strategy cannot search the space of a task, or its acquisition has no model.
bool can_be_searched(const LoadedList& list, const TuneOptions& tuning);

}  // namespace tw::cli

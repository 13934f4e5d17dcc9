// `tune --measure-on fleet`: the run's link to the machines that measure for it.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runtime/fleet/tuner_link.h"
#include "runtime/store/database.h"
#include "sampler/search/tune.h"

namespace tw::cli {

// What --measure-on may be.
inline constexpr const char *kHere = "here", *kFleet = "fleet";
// False after a message. `replays`: the run measures nothing.
bool check_measure_on(const std::string& said, const std::string& database, bool replays);

// False after a message if a task is for another machine than this one (TuneTask::machine).
bool are_for_this_machine(const std::vector<TuneTask>& tasks);

// Waits until some machine measures for the first of the tasks, at most tuning.seconds, which become fewer by that. The
// search then knows the rates of that machine. Null after a message, with the exit code.
std::unique_ptr<TunerLink> join_fleet(const std::vector<TuneTask>& tasks, const std::string& address,
                                      Database& database, TuneOptions& tuning, int& code);

}  // namespace tw::cli

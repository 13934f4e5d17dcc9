// `tune --measure-on`: where a run measures, and on a fleet the run's link to the machines that measure for it.
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
// Where a run measures that was not told: here, or on the fleet where the database may have one and a task cannot be
// measured here, which is said.
std::string where_to_measure(const std::vector<TuneTask>& tasks, const std::string& database);
// False after a message. `replays`: the run measures nothing.
bool check_measure_on(const std::string& said, const std::string& database, bool replays);

// Why no worker of this machine runs code for the target, a sentence: there is no device, or the processor is of
// another kind; "" if one does.
std::string why_no_worker(const Target& target);
// Why this machine is not the one that a task is for (TuneTask::machine), a sentence; "" if it is.
std::string why_not_this_machine(const TuneTask& task);

// Waits until some machine measures for the first of the tasks, at most tuning.seconds, which become fewer by that. The
// search then knows the rates of that machine. Null after a message, with the exit code.
std::unique_ptr<TunerLink> join_fleet(const std::vector<TuneTask>& tasks, const std::string& address,
                                      Database& database, TuneOptions& tuning, int& code);

}  // namespace tw::cli

// A search that measures nothing: tasks, a measurer that computes a time from a kernel's code, and databases of many
// records. It shows how much memory a run takes and how much work a round is. Used by search_scale, search_profile and
// search_scale_test.
#pragma once
#include <cstdint>
#include <set>

#include "runtime/measure/measurer.h"
#include "runtime/store/database.h"
#include "sampler/search/tune.h"

namespace tw::bench {

// Compiled kernels are not run. The time of one follows from its object code: longer code counts as slower, which a
// cost model can learn, with 5 % of noise.
class SimulatedMeasurer : public Measurer {
 public:
  TaskStart begin_task(const Kernel& reference, Tolerance tolerance, u64 seed) override;
  void end_task(int task) override;
  MeasureResult measure(int task, const Kernel& candidate, const MeasureOptions& options) override;

  std::size_t room = SIZE_MAX;  // tasks that may be open at once: of more it says that there is no memory

  i64 measured() const { return measured_; }
  i64 begun() const { return begun_; }                  // tasks, those that were begun again included
  std::size_t open() const { return open_.size(); }     // now
  std::size_t most_open() const { return most_open_; }  // at once

 private:
  std::set<int> open_;
  i64 measured_ = 0, begun_ = 0;
  std::size_t most_open_ = 0;
};

// Products of different small shapes for one thread of a processor that is the same everywhere, named product_0,
// product_1, ...
std::vector<TuneTask> simulated_tasks(int count);
// One product whose space has millions of candidates.
TuneTask simulated_large_task();

// Stores `count` trials, spread evenly over the tasks: draws from their spaces with the traces that a search would
// store, timed by the draft model. Returns what went wrong, or "".
std::string store_simulated_records(Database& database, const std::vector<TuneTask>& tasks,
                                    const rules::Library& library, i64 count);

}  // namespace tw::bench

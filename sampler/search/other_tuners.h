// Trials that another tuner, at work on the same database, stored while a batch was measured: they are not measured
// again, and count as if they were ours. Used by BatchRunner: on the thread that measures, and after a batch on the
// thread that searches. Both tuners may have begun with the same seed; then they propose the same batches, and one of
// them turns the order of its batch round.
#pragma once
#include <string>
#include <vector>

#include "runtime/store/database.h"
#include "sampler/search/task_state.h"

namespace tw {

class OtherTuners {
 public:
  // Reads what is new about the task. `own` was just stored. True if another tuner had stored the same program before.
  // `problem` is set if the database cannot be read.
  bool look(Database& database, TaskState& state, const Record& own, std::string& problem);
  bool has_measured(const Hash128& program) const { return programs_.count(program) > 0; }
  // What was found since the last call.
  std::vector<Record> take();

 private:
  std::vector<Record> records_;
  HashSet programs_;
};

}  // namespace tw

#include "sampler/search/other_tuners.h"

#include <algorithm>
#include <utility>

namespace tw {

bool OtherTuners::look(Database& database, TaskState& state, const Record& own, std::string& problem) {
  auto stored = database.all(state.workload_key, state.target_key, state.last_record);
  if (!stored) {
    problem = stored.error();
    return false;
  }
  bool was_first = true;
  for (Record& record : *stored) {
    state.last_record = std::max(state.last_record, record.id);
    std::optional<Hash128> program = parse_hash(record.program);
    if (record.id == own.id || !program || !state.is_own(record)) continue;
    was_first &= record.id > own.id || record.program != own.program;
    note_object(state, record);
    programs_.insert(*program);
    records_.push_back(std::move(record));
  }
  return !was_first;
}

std::vector<Record> OtherTuners::take() {
  programs_.clear();
  return std::exchange(records_, {});
}

}  // namespace tw

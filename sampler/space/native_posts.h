// What postprocessors of plugins do wrong costs them or single candidates, not the search.
#pragma once
#include <atomic>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>

#include "dsl/base/result.h"

namespace tw {

struct CandidateSpace;

// Faults that show in single candidates, which are rejected. Each is said once, and a candidate that has one is not
// tried again. Threads may use it at the same time.
class PostFaults {
 public:
  // Remembers the reject if it is a fault of a postprocessor (rules::is_fault_of_post). `key`: of the candidate
  // (decision_key).
  void note(u64 key, const Reject& why);
  // What was noted for a candidate.
  std::optional<Reject> find(u64 key);
  // Lines about those that were noted since the last call and never before; "" if there are none.
  std::string take();

 private:
  std::atomic<bool> has_any_ = false;
  std::mutex mutex_;
  std::unordered_map<u64, Reject> rejects_;
  std::set<std::string> known_;
  std::string lines_;
};

// Tries each postprocessor of a plugin in a child process, on a few draws of every sketch. One that crashes, hangs,
// throws or ends the process there is left out of the space, and `errors` says so. Takes about a second at most;
// nothing where there are none.
void leave_out_wrong_posts(CandidateSpace& space, std::string& errors, const std::function<bool()>& stop = {});

}  // namespace tw

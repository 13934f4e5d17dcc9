// A library that `tracewright compile` wrote, opened in this process: contexts for as many callers as there are at one
// time. Needs no libtracewright and knows nothing of Python.
#pragma once
#include <sys/types.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/export/model_functions.h"
#include "runtime/measure/thread_pool.h"

namespace tw::python {

class OpenedModel {
 public:
  // `name`: prefix of the library's symbols. `entries`: how many it has. `threads`: of one call. Throws
  // std::runtime_error with why it cannot be opened. The first context is made here, so that a processor or a file that
  // does not fit is known at once.
  OpenedModel(const std::string& library, const std::string& name, const std::string& weights, int entries,
              int threads);
  ~OpenedModel();
  OpenedModel(const OpenedModel&) = delete;

  // Runs an entry. Pointers to dense arrays, aligned to TW_ALIGNMENT bytes. Several threads may call it at once; each
  // gets a context of its own, which is kept for later calls. Throws std::runtime_error.
  void run(int entry, const std::vector<const void*>& inputs, const std::vector<void*>& outputs);

 private:
  struct Context {
    void* context = nullptr;
    tw_pool* pool = nullptr;
    pid_t owner = 0;  // the process that has the threads of the pool
  };
  Context make_context(int entry) const;
  Context take_context(int entry);
  std::vector<Context>& idle(int entry) { return idle_[static_cast<std::size_t>(entry)]; }
  void destroy(const Context& context) const;

  std::string weights_;
  int threads_;
  void* handle_ = nullptr;
  ModelCreate create_ = nullptr;
  ModelCreateEntry create_entry_ = nullptr;  // of a library with several entries
  ModelDestroy destroy_ = nullptr;
  ModelRunFunction run_ = nullptr;
  std::mutex mutex_;
  std::vector<std::vector<Context>> idle_;  // of each entry
};

}  // namespace tw::python

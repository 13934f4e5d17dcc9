// Runs reference kernels on data that is there: programs of nodes, and workloads of kernels with the variances of
// rounding. In this process, since no schedule has changed them.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "backends/interpreter.h"
#include "runtime/measure/thread_pool.h"

namespace tw {

class ReferenceRunner {
 public:
  // Null, and why in `error`, if nothing can be compiled here.
  static std::unique_ptr<ReferenceRunner> create(std::string& error);
  ~ReferenceRunner() { tw_pool_destroy(pool_); }
  ReferenceRunner(const ReferenceRunner&) = delete;

  LlvmCompiler& compiler() { return compiler_; }
  using Results = std::map<std::string, HostArray, std::less<>>;
  // The outputs of a kernel without prepack, by name, in its types. `operands`: of its inputs and constants, in order.
  // Uses all cores. Nothing, and why in `error`.
  std::optional<Results> run(const Kernel& kernel, const std::vector<const HostArray*>& operands,
                             std::string& error) const;

 private:
  explicit ReferenceRunner(LlvmCompiler compiler);

  LlvmCompiler compiler_;
  tw_pool* pool_;
};

}  // namespace tw

// Pipeline: runs passes over one program and keeps the text after each that changed it. For the lowerings.
#pragma once
#include "dsl/ir/print.h"
#include "dsl/passes/lower.h"

namespace tw {

class Pipeline {
 public:
  Pipeline(Program program, std::vector<PassDump>* dumps) : program_(program), dumps_(dumps) {}

  Status step(const char* pass, Result<Program> result) {
    if (!result) return result.rejected();
    bool changed = result->body != program_.body;
    program_ = *result;
    if (changed && dumps_) dumps_->push_back({pass, print(program_)});
    return ok();
  }
  const Program& program() const { return program_; }

 private:
  Program program_;
  std::vector<PassDump>* dumps_;
};

// The arguments of an entry point of `original`, as LoweredProgram lists them.
std::vector<LoweredArgument> lowered_arguments(Arena& arena, const Program& entry, const Program& original);

}  // namespace tw

#include "support/drawn_kernels.h"

#include <gtest/gtest.h>

#include "sampler/search/trial.h"
#include "sampler/space/candidate.h"
#include "support/scheduled.h"

namespace tw::test {

DrawnKernels drawn_kernels(const std::string& use, const std::string& set, const Target& target, int draws) {
  return drawn_kernels(Scheduled(use, {}, "").program(), set, target, draws);
}

DrawnKernels drawn_kernels(const Program& workload, const std::string& set, const Target& target, int draws,
                           i64 first) {
  static const rules::Library library = rules::Library::built_in();
  std::string errors;
  DrawnKernels out;
  CandidateSpace space = make_candidate_space(workload, *library.find_set(set), library, target, errors);
  EXPECT_EQ(errors, "");
  CandidateBuilder builder(space);
  int sketches = static_cast<int>(space.space.sketches.size());
  for (int i = 0; i < draws; ++i) {
    Rng rng(9, static_cast<u64>(first + i));
    Candidate candidate;
    Result<Program> program = reject("the prior has no draw");
    if (builder.draw(i * sketches / draws, candidate, rng)) program = builder.build(candidate, &rng);
    if (!program) {
      out.rejected += to_string(program.rejected()) + "\n";
      continue;
    }
    Arena arena;
    Result<LoweredGpuProgram> lowered = lower_gpu(arena, *program, lowering_options(target), gpu_limits(target));
    if (!lowered) {
      out.not_lowered += to_string(lowered.rejected()) + "\n";
      continue;
    }
    Result<Kernel> kernel = device_source(*lowered, target, "k");
    EXPECT_TRUE(kernel) << workload.name;
    if (kernel) out.kernels.push_back(*kernel), out.scheduled.push_back(clone(*program));
  }
  return out;
}

Target cuda_target() {
  Target target;
  target.kind = TargetKind::Cuda;
  target.arch = "sm_80", target.group_threads = 1024, target.shared_bytes = 48 << 10;
  target.vector_bits = 128, target.vector_registers = 64;
  return target;
}

Kernel cuda_kernel(const std::string& use, const std::string& schedule) {
  return cuda_kernel(Scheduled(use, {}, schedule).program());
}

Kernel cuda_kernel(const Program& program) {
  Result<LlvmCompiler> compiler = LlvmCompiler::create({});
  BuiltKernel built = build_kernel(program, cuda_target(), *compiler);
  EXPECT_TRUE(built.kernel) << built.problem;
  return built.kernel.value_or(Kernel{});
}

}  // namespace tw::test

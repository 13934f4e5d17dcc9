#include "support/drawn_kernels.h"

#include <gtest/gtest.h>

#include "sampler/search/candidate.h"
#include "sampler/search/trial.h"
#include "support/scheduled.h"

namespace tw::test {

std::vector<Kernel> drawn_kernels(const std::string& use, const std::string& set, const Target& target, int draws) {
  static const rules::Library library = rules::Library::built_in();
  Scheduled plain(use, {}, "");
  std::string errors;
  std::vector<Kernel> out;
  CandidateSpace space = make_candidate_space(plain.program(), *library.find_set(set), library, target, errors);
  EXPECT_EQ(errors, "");
  CandidateBuilder builder(space);
  int sketches = static_cast<int>(space.space.sketches.size());
  for (int i = 0; i < draws; ++i) {
    Rng rng(9, static_cast<u64>(i));
    Candidate candidate;
    if (!builder.draw(i * sketches / draws, candidate, rng)) continue;
    Result<Program> program = builder.build(candidate, &rng);
    Arena arena;
    if (!program) continue;
    Result<LoweredGpuProgram> lowered = lower_gpu(arena, *program, lowering_options(target), gpu_limits(target));
    if (!lowered) continue;
    Result<Kernel> kernel = device_source(*lowered, target, "k");
    EXPECT_TRUE(kernel) << use;
    if (kernel) out.push_back(*kernel);
  }
  return out;
}

}  // namespace tw::test

// Programs for processors as the search draws them, lowered: for tests of what becomes of them.
#pragma once
#include <gtest/gtest.h>

#include <string>

#include "backends/backend.h"
#include "dsl/base/rng.h"
#include "sampler/search/trial.h"
#include "sampler/space/candidate.h"

namespace tw::test {

// This machine, as if it had vectors of so many bits.
inline Target target_of(int bits, int threads) {
  Target target = host_target();
  target.vector_bits = bits;
  target.vector_registers = bits == 512 ? 32 : 16;
  target.threads = threads;
  return target;
}

struct DrawCounts {
  int built = 0, lowered = 0;
  std::string reasons;  // why the others were not lowered
};

// Calls use(program, lowered) with what is drawn and can be lowered.
template <class Use>
void draw_lowered(const OwnedProgram& base, const Target& target, int draws, DrawCounts& counts, Use use) {
  rules::Library library = rules::Library::built_in();
  std::string errors;
  CandidateSpace space = make_candidate_space(base.program, *library.find_set("cpu"), library, target, errors);
  ASSERT_EQ(errors, "");
  CandidateBuilder builder(space);
  for (int i = 0; i < draws; ++i) {
    Candidate candidate;
    Rng rng(5, static_cast<u64>(i));
    if (!builder.draw(i % static_cast<int>(space.space.sketches.size()), candidate, rng)) continue;
    Result<Program> program = builder.build(candidate, &rng);
    if (!program) continue;
    ++counts.built;
    Arena arena;
    Result<LoweredProgram> lowered = lower(arena, *program, lowering_options(target));
    if (!lowered) {
      counts.reasons += to_string(lowered.rejected()) + "\n";
      continue;
    }
    ++counts.lowered;
    use(*program, *lowered);
  }
}

}  // namespace tw::test

// Checks that draws of the built-in rule sets compute what the program does; spaces as text.
#pragma once
#include <gtest/gtest.h>

#include "backends/device_form.h"
#include "dsl/base/text.h"
#include "dsl/text/workload.h"
#include "sampler/space/space.h"
#include "tests/unit/operator_kit.h"

namespace tw {

struct Drawn {
  std::string reasons, unlowered;  // of rejects, in schedules and in lowering
  int draws = 0, rejected = 0, lowered = 0;
};

// Sets for devices are lowered to kernels, which the interpreter runs.
inline Result<LoweredProgram> lowered_for(std::string_view set, Arena& arena, const Program& program) {
  LoweringOptions options{.max_instructions = 20000};
  if (set != "opencl") return lower(arena, program, options);
  TW_TRY(LoweredGpuProgram kernels, lower_gpu(arena, program, options, {}));
  return as_interpreted(arena, kernels);
}

// Draws of every sketch compute what the operator computes.
inline void check_space(const OwnedProgram& made, const std::string& what, const char* set, int threads, Drawn& drawn) {
  static const rules::Library library = rules::Library::built_in();
  rules::TargetFacts target{
      .vector_bits = 256, .vector_registers = 16, .threads = threads, .group_threads = 256, .shared_bytes = 32 << 10};
  std::string errors;
  Space space = build_space(made.program, *library.find_set(set), library, target, errors);
  ASSERT_EQ(errors, "") << what;
  ASSERT_FALSE(space.sketches.empty()) << what;
  OutputValues expected = outputs_of(made.program, 1);
  for (std::size_t s = 0; s < space.sketches.size(); ++s) {
    const Sketch& sketch = space.sketches[s];
    u64 seeds = space.sketches.size() > 8 ? 1 : 2;
    for (u64 seed = 0; seed < seeds; ++seed) {
      Arena arena;
      State state(arena, made.program);
      Rng rng(seed, s);
      std::vector<Decision> decisions(sketch.trace.sample_count());
      ASSERT_TRUE(sketch.prior->draw(decisions, rng)) << what;
      Status status = replay(sketch.trace, state, decisions, ReplayMode::Adapt, &rng);
      ++drawn.draws;
      if (!status) {
        ++drawn.rejected;
        drawn.reasons += cat(what, ": ", to_string(status.rejected()), "\n");
        continue;
      }
      EXPECT_TRUE(near(outputs_of(state.program(), 1), expected))
          << what << "\n"
          << sketch.trace.with_decisions(decisions).print() << print(state.program());
      Result<LoweredProgram> lowered = lowered_for(set, arena, state.program());
      if (!lowered) {
        drawn.unlowered += cat(what, ": ", to_string(lowered.rejected()), "\n");
        continue;
      }
      ++drawn.lowered;
      EXPECT_TRUE(near(outputs_of(*lowered, 1), expected)) << what << " lowered\n"
                                                           << sketch.trace.with_decisions(decisions).print();
    }
  }
}

// The space of a convolution for AVX-512, as text: all its sketches.
inline std::string space_text(const OwnedProgram& made) {
  static const rules::Library library = rules::Library::built_in();
  std::string errors, text;
  Space space = build_space(made.program, *library.find_set("cpu"), library,
                            {.vector_bits = 512, .vector_registers = 32, .threads = 1}, errors);
  EXPECT_EQ(errors, "");
  for (const Sketch& sketch : space.sketches) text += sketch.trace.print(0);
  return text;
}

inline OwnedProgram program_of(const char* text, const std::string& name) {
  Source source{"sums.tw", text};
  Diagnostics diagnostics(source);
  std::optional<OwnedProgram> program = instantiate(parse_workloads(source, diagnostics), name, {}, {}, diagnostics);
  EXPECT_TRUE(program) << diagnostics.render();
  if (!program) std::abort();
  return std::move(*program);
}

}  // namespace tw

// Constants that register tiles read are packed in the order in which their loops read them, whatever the order of
// their dimensions: from memory, lines come ahead of time only where they follow each other.
#include <gtest/gtest.h>

#include "costmodel/footprint.h"
#include "sampler/search/trial.h"
#include "tests/unit/search_kit.h"

namespace tw {
namespace {

// The weights have all orders of output channels, input channels and window.
constexpr const char* kConvolutions = R"(
workload oihw() {
  input X: f32[10, 10, 48]
  const W: f32[64, 48, 3, 3]
  output Y[y: 8, x: 8, o: 64] = sum(u: 3, v: 3, c: 48) X[y + u, x + v, c] * W[o, c, u, v]
}
workload hwio() {
  input X: f32[10, 10, 48]
  const W: f32[3, 3, 48, 64]
  output Y[y: 8, x: 8, o: 64] = sum(u: 3, v: 3, c: 48) X[y + u, x + v, c] * W[u, v, c, o]
}
workload wohi() {
  input X: f32[10, 10, 48]
  const W: f32[3, 64, 3, 48]
  output Y[y: 8, x: 8, o: 64] = sum(u: 3, v: 3, c: 48) X[y + u, x + v, c] * W[v, o, u, c]
}
)";

// Of the loops of a sum, each that moves a packed operand moves it by no less than those inside of it.
void check_strides(const Program& program, int& checked) {
  FlatReader reader;
  Footprints footprints;
  const FlatProgram& flat = reader.read(program);
  for (const FlatStore& store : flat.stores) {
    for (const Use& use : footprints.of(flat, store)) {
      if (!flat.buffers[use.buffer].is_prepacked || store.is_init) continue;
      double outer = 0;
      for (u32 p = 0; p < store.depth; ++p) {
        if (!store.reduces[p] || !use.moved[p]) continue;
        EXPECT_TRUE(outer == 0 || use.stride[p] <= outer) << flat.loop_of(store, p).var->name;
        outer = use.stride[p], ++checked;
      }
    }
  }
}

TEST(PackedPanels, FollowTheLoops) {
  Source source{"workload.tw", kConvolutions};
  Diagnostics diagnostics(source);
  WorkloadModule module = parse_workloads(source, diagnostics);
  rules::Library library = rules::Library::built_in();
  for (const char* use : {"oihw", "hwio", "wohi"}) {
    SCOPED_TRACE(use);
    OwnedProgram program = *instantiate(module, use, {}, {}, diagnostics);
    std::string errors;
    CandidateSpace space =
        make_candidate_space(program.program, *library.find_set("cpu"), library, host_target(), errors);
    ASSERT_EQ(errors, "");
    CandidateBuilder builder(space);
    Rng rng(1);
    int checked = 0;
    for (int sketch = 0; sketch < std::ssize(space.space.sketches); ++sketch) {
      for (int n = 0; n < 30; ++n) {
        Candidate candidate;
        if (!builder.draw(sketch, candidate, rng)) continue;
        if (Result<Program> drawn = builder.build(candidate, &rng)) check_strides(*drawn, checked);
      }
    }
    EXPECT_GT(checked, 200);
  }
}

}  // namespace
}  // namespace tw

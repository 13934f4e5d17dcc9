// Replaying a trace makes no request to the heap once the memory of earlier replays is there to be used again.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "dsl/base/sanitizer.h"
#include "dsl/text/workload.h"
#include "runtime/store/trace_file.h"
#include "sampler/draw/prefix_replay.h"
#include "support/gemm_trace.h"
#include "support/parsed.h"
#include "support/support.h"

// A sanitizer has a heap of its own, and lists are not pooled under it.
#if !TW_SANITIZED
#include "support/heap_count.h"

namespace tw {
namespace {

// The instructions of a trace that make requests in the third replay, with how many.
std::string requests_of(const Program& program, const Trace& trace) {
  Arena arena;
  State state(arena, program);
  std::vector<Decision> decisions = trace.decisions();
  std::string out;
  out.reserve(1 << 14);
  for (int round = 0; round < 3; ++round) {
    arena.reset();
    state.restart(program);
    for (std::size_t i = 0; i < trace.instructions().size(); ++i) {
      long before = test::heap_requests();
      Status status = replay(trace, state, decisions, ReplayMode::Adapt, nullptr, i, i + 1);
      long made = test::heap_requests() - before;
      EXPECT_TRUE(status);
      // The places of an intrinsic's operands are computed from strides, which are vectors; at most one or two blocks
      // are tensorized.
      bool counts = std::string_view(trace.instructions()[i].kind->name) != "tensorize";
      if (round == 2 && made > 0 && counts)
        out += std::string(trace.instructions()[i].kind->name) + " " + std::to_string(made) + "; ";
    }
  }
  return out;
}

TEST(ReplayHeap, RequestsAreCounted) {
  long before = test::heap_requests();
  std::vector<int> list(1000);
  EXPECT_EQ(test::heap_requests(), before + 1) << list.size();
}

TEST(ReplayHeap, AGemm) {
  Diagnostics none(*operator_library().source);
  std::optional<OwnedProgram> made =
      instantiate(operator_library(), "matmul", {{"M", i64{1024}}, {"N", i64{1024}}, {"K", i64{1024}}}, {}, none);
  Trace trace = test::parsed_schedule(test::kGemmSchedule);
  EXPECT_EQ(requests_of(made->program, trace), "");

  // Candidates that share a prefix, as the search replays them.
  Arena arena;
  PrefixReplay replayer(arena, made->program);
  std::vector<Decision> decisions = trace.decisions();
  long before = 0;
  for (int i = 0; i < 12; ++i) {
    if (i == 4) before = test::heap_requests();
    decisions.back() = Decision::of(i % 4);
    EXPECT_TRUE(replayer.replay(trace, decisions, nullptr));
  }
  EXPECT_EQ(test::heap_requests(), before);
}

TEST(ReplayHeap, EveryTraceOfTheCorpus) {
  int traces = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TW_SOURCE_DIR "/tests/corpus")) {
    std::string name = entry.path().filename().string();
    TraceFile file = test::parsed_trace_file(test::read_file(entry.path().string()));
    EXPECT_EQ(requests_of(file.program.program, file.trace), "") << name;
    ++traces;
  }
  EXPECT_GE(traces, 70);
}

}  // namespace
}  // namespace tw

#else

TEST(ReplayHeap, NeedsAPlainBuild) { GTEST_SKIP() << "a sanitizer has a heap of its own"; }

#endif

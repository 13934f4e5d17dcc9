// What replaying a trace costs: a GEMM schedule of 15 instructions for a CPU, on one core.
//   replay_bench [COUNT]
// Prints, for replaying from the start and for replaying where only the last decision changed, the microseconds and the
// allocations from the heap per replay once warm; between them, which instructions allocate.
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "dsl/schedule/parse_schedule.h"
#include "dsl/text/workload.h"
#include "sampler/draw/prefix_replay.h"
#include "tests/support/gemm_trace.h"
#include "tests/support/heap_count.h"

namespace tw::bench {
namespace {

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The best of five runs of `count` replays: microseconds of one, allocations of one.
template <class Replay>
void measure(const char* what, int count, Replay replay) {
  double best = 1e9;
  long allocated = 0;
  for (int run = 0; run < 5; ++run) {
    long before = test::heap_requests();
    double begin = cpu_seconds();
    for (int i = 0; i < count; ++i) replay(i);
    best = std::min(best, cpu_seconds() - begin);
    allocated = test::heap_requests() - before;
  }
  std::printf("%-32s %6.2f us  %.2f allocations\n", what, best / count * 1e6, static_cast<double>(allocated) / count);
}

int run(int count) {
  Diagnostics none(*operator_library().source);
  std::optional<OwnedProgram> made =
      instantiate(operator_library(), "matmul", {{"M", i64{1024}}, {"N", i64{1024}}, {"K", i64{1024}}}, {}, none);
  Source source{"schedule", test::kGemmSchedule};
  Diagnostics diagnostics(source);
  std::optional<Trace> trace = parse_schedule(source, diagnostics);
  if (!trace) return std::fputs(diagnostics.render().c_str(), stderr), 1;
  std::vector<Decision> decisions = trace->decisions();
  Arena arena;
  State state(arena, made->program);
  std::printf("%zu instructions\n", trace->instructions().size());
  measure("from the start", count, [&](int) {
    arena.reset();
    state.restart(made->program);
    TW_CHECK(replay(*trace, state, decisions, ReplayMode::Adapt, nullptr), "the schedule is rejected");
  });
  for (std::size_t i = 0; i < trace->instructions().size(); ++i) {
    arena.reset();
    state.restart(made->program);
    TW_CHECK(replay(*trace, state, decisions, ReplayMode::Adapt, nullptr, 0, i), "the schedule is rejected");
    long before = test::heap_requests();
    TW_CHECK(replay(*trace, state, decisions, ReplayMode::Adapt, nullptr, i, i + 1), "the schedule is rejected");
    long made = test::heap_requests() - before;
    if (made > 0) std::printf("  %-30s %ld allocations\n", trace->instructions()[i].kind->name, made);
  }
  Arena shared;
  PrefixReplay replayer(shared, made->program);
  measure("only the last decision changed", count, [&](int i) {
    decisions.back() = Decision::of(i % 4);
    TW_CHECK(replayer.replay(*trace, decisions, nullptr), "the schedule is rejected");
  });
  return 0;
}

}  // namespace
}  // namespace tw::bench

int main(int argc, char** argv) { return tw::bench::run(argc > 1 ? std::max(1, std::atoi(argv[1])) : 20000); }

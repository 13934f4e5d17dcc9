// What replaying a trace costs: a GEMM schedule of 15 instructions for a CPU, on one core.
//   replay_bench [COUNT]
// Prints, for replaying from the start and for replaying where only the last decision changed, the microseconds and the allocations from the
// heap per replay once warm; between them, which instructions allocate.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <new>

#include "dsl/schedule/parse_schedule.h"
#include "dsl/text/workload.h"
#include "sampler/draw/prefix_replay.h"

namespace {
long allocations = 0;
}  // namespace

void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* data = std::malloc(bytes)) return data;
  throw std::bad_alloc();
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }

namespace tw::bench {
namespace {

constexpr const char* kSchedule = R"(c = get_block("C")
i, j, k = get_loops(c)
i0, i1, i2 = sample_perfect_tile(i, 3, max_innermost = 16) @ [16, 8, 8]
j0, j1, j2 = sample_perfect_tile(j, 3, max_innermost = 64) @ [4, 4, 64]
k0, k1 = sample_perfect_tile(k, 2, max_innermost = 16) @ [256, 4]
i_0, i_1, i_2 = split(i, [i0, i1, i2])
j_0, j_1, j_2 = split(j, [j0, j1, j2])
k_0, k_1 = split(k, [k0, k1])
reorder([i_0, j_0, i_1, j_1, k_0, k_1, i_2, j_2])
f = fuse([i_0, j_0])
parallel(f)
vectorize(j_2)
c0 = decompose_reduction(c, k_0)
u = sample_categorical([0, 16, 64, 512]) @ 1
annotate(c, "unroll_max_step", u)
)";

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
    long before = allocations;
    double begin = cpu_seconds();
    for (int i = 0; i < count; ++i) replay(i);
    best = std::min(best, cpu_seconds() - begin);
    allocated = allocations - before;
  }
  std::printf("%-32s %6.2f us  %.2f allocations\n", what, best / count * 1e6, static_cast<double>(allocated) / count);
}

int run(int count) {
  Diagnostics none(*operator_library().source);
  std::optional<OwnedProgram> made =
      instantiate(operator_library(), "matmul", {{"M", i64{1024}}, {"N", i64{1024}}, {"K", i64{1024}}}, {}, none);
  Source source{"schedule", kSchedule};
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
    long before = allocations;
    TW_CHECK(replay(*trace, state, decisions, ReplayMode::Adapt, nullptr, i, i + 1), "the schedule is rejected");
    if (allocations > before) std::printf("  %-30s %ld allocations\n", std::string(trace->instructions()[i].kind->name).c_str(), allocations - before);
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

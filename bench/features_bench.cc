// How long features and drafts take: microseconds per scheduled program, with packing and an epilogue, as the search
// asks for them.
//   features_bench [ROUNDS]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "costmodel/draft_model.h"
#include "costmodel/features.h"
#include "dsl/base/clock.h"
#include "tests/support/scheduled.h"

namespace tw {
namespace {

// The fastest of many short runs: the machine may be busy with other things.
template <class Work>
double microseconds(int rounds, Work work) {
  constexpr int kRun = 50;
  double best = 1e9;
  for (int round = 0; round < rounds; ++round) {
    double start = seconds_now();
    for (int i = 0; i < kRun; ++i) work();
    best = std::min(best, (seconds_now() - start) / kRun);
  }
  return best * 1e6;
}

void measure(const char* name, const test::Scheduled& scheduled, int rounds) {
  const Program& program = scheduled.program();
  FeatureExtractor extractor({});
  DraftModel model({});
  FlatReader reader;
  std::vector<float> rows;
  double sum = 0;
  double reading = microseconds(rounds, [&] { sum += static_cast<double>(reader.read(program).stores.size()); });
  double extracting = microseconds(rounds, [&] { extractor.extract(program, rows); });
  double drafting = microseconds(rounds, [&] { sum += model.seconds(program); });
  std::printf("%-28s %2zu loops %2zu accesses %2zu rows   read %5.1f us   features %5.1f us   draft %5.1f us\n", name,
              reader.read(program).loops.size(), reader.read(program).accesses.size(),
              rows.size() / static_cast<std::size_t>(feature_columns()), reading, extracting, drafting);
  if (sum < 0) std::abort();
}

const char* const kConv = R"(b = get_block("Y")
n, y, x, co, ky, kx, ci = get_loops(b)
x0, xr = split(x, [_, 4])
c0, cv = split(co, [_, 16])
k0, k1 = split(ci, [_, 4])
reorder([n, c0, y, x0, ky, kx, k0, k1, xr, cv])
e = get_block("relu")
reverse_compute_at(e, x0)
p = get_block("P")
compute_at(p, y)
w = cache_read(b, 1, "global")
transform_layout(w, 0, "write", (a, b, c, d) -> (d // 16, a, b, c, d % 16), 0)
annotate(w, "prepack", 1)
promote(b, 0, ky)
unroll(k1)
unroll(xr)
vectorize(cv)
)";

}  // namespace
}  // namespace tw

int main(int argc, char** argv) {
  using tw::test::Scheduled;
  int rounds = argc > 1 ? std::atoi(argv[1]) : 200;
  tw::measure("dense, program order", Scheduled("dense(M = 128, N = 3072, K = 768)", {}, ""), rounds);
  const char* epilogue = R"(f = get_block("bias")
compute_inline(f)
e = get_block("gelu")
reverse_compute_at(e, i0)
)";
  tw::measure("dense, tile, packed", Scheduled("dense(M = 128, N = 3072, K = 768)", {}, tw::test::dense_schedule({})),
              rounds);
  tw::measure("dense + bias + gelu, tile",
              Scheduled("dense(M = 128, N = 3072, K = 768)", {"bias", "gelu"}, tw::test::dense_schedule({}) + epilogue),
              rounds);
  tw::measure("conv2d + relu, tile, packed",
              Scheduled("conv2d(N = 2, H = 56, W = 56, CI = 64, CO = 64, K = 3, padding = 1)", {"relu"}, tw::kConv),
              rounds);
  return 0;
}

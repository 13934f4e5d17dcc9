// How long the space of one operator takes to build, for every operator of the library and the rule sets that tuning
// uses.
//   space_bench [COUNT]
// Prints for each set the milliseconds of its slowest operator, the fastest of COUNT runs (default 3), and the number
// of its sketches.
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <vector>

#include "backends/target.h"
#include "dsl/text/workload.h"
#include "sampler/space/space.h"

namespace tw::bench {
namespace {

// Shapes as they are tuned.
constexpr const char* kUses[] = {
    "dense(M = 128, N = 3072, K = 768)",
    "matmul(M = 1024, N = 1024, K = 1024)",
    "batch_matmul(B = 12, M = 128, N = 128, K = 64)",
    "transpose_batch_matmul(B = 1, S = 128, H = 12, D = 64)",
    "conv1d(N = 1, L = 256, CI = 64, CO = 128, K = 3, stride = 2, padding = 1)",
    "conv2d(N = 1, H = 56, W = 56, CI = 64, CO = 64, K = 3, padding = 1)",
    "conv3d(N = 1, D = 16, H = 56, W = 56, CI = 64, CO = 64, K = 3, padding = 1)",
    "depthwise_conv2d(N = 1, H = 112, W = 112, C = 32, K = 3, padding = 1)",
    "conv2d_transposed(N = 1, H = 4, W = 4, CI = 512, CO = 256, K = 4, stride = 2, padding = 1)",
    "capsule_conv2d(N = 1, H = 16, W = 16, CI = 32, CO = 32, K = 3, stride = 2, padding = 1)",
    "conv2d_bn_relu(N = 1, H = 56, W = 56, CI = 64, CO = 64, K = 3, padding = 1)",
    "max_pool2d(N = 1, H = 112, W = 112, C = 64, K = 3, stride = 2, padding = 1)",
    "avg_pool2d(N = 1, H = 112, W = 112, C = 64, K = 3, stride = 2, padding = 1)",
    "softmax(M = 256, N = 256)",
    "norm(B = 1, M = 256, N = 256)",
    "layernorm(M = 256, N = 768)",
    "rmsnorm(M = 256, N = 768)"};
struct Row {
  const char* set;
  const char* target;
};
constexpr Row kRows[] = {{"cpu", "cpu -mcpu=znver3 -threads=2"},
                         {"reference-cpu", "cpu -mcpu=znver3 -threads=2"},
                         {"opencl", "opencl -device=0"},
                         {"cuda", "cuda -arch=sm_80"},
                         {"reference-cuda", "cuda -arch=sm_80"},
                         {"reference-cuda-tensorcore", "cuda -arch=sm_80"},
                         {"reference-hexagon", "cpu -triple=hexagon-unknown-elf"}};

double cpu_milliseconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
}

OwnedProgram program_of(const char* text) {
  Source source{"use", text};
  Diagnostics diagnostics(source), inner(*operator_library().source);
  std::optional<WorkloadUse> use = parse_use(source, diagnostics);
  std::optional<OwnedProgram> made =
      use ? instantiate(operator_library(), use->workload, use->arguments, {}, inner) : std::nullopt;
  if (!made) std::fputs((diagnostics.render() + inner.render()).c_str(), stderr);
  TW_CHECK(made, "a use that cannot be made");
  return *made;
}

int run(int count) {
  const rules::Library library = rules::Library::built_in();
  for (const Row& row : kRows) {
    Source source{"target", row.target};
    Diagnostics diagnostics(source);
    rules::TargetFacts facts = facts_of(*parse_target(row.target, 0, diagnostics));
    double slowest = 0;
    std::string line;
    for (const char* use : kUses) {
      OwnedProgram made = program_of(use);
      double best = 1e9;
      std::size_t sketches = 0;
      for (int i = 0; i < count; ++i) {
        std::string errors;
        double begin = cpu_milliseconds();
        sketches = build_space(made.program, *library.find_set(row.set), library, facts, errors).sketches.size();
        best = std::min(best, cpu_milliseconds() - begin);
        TW_CHECK(errors.empty(), "a built-in rule has an error");
      }
      if (best <= slowest) continue;
      slowest = best;
      line = use + std::string(": ") + std::to_string(sketches) + " sketches";
    }
    std::printf("%-26s %7.2f ms  %s\n", row.set, slowest, line.c_str());
  }
  return 0;
}

}  // namespace
}  // namespace tw::bench

int main(int argc, char** argv) { return tw::bench::run(argc > 1 ? std::max(1, std::atoi(argv[1])) : 3); }

// What the groups of a kernel have to write, and that the gate finds what those which ran have left out: of kernels as
// the search draws them (TW_CASES of each workload), run in part, with a store that is missing for one element, a
// vector of them or a row.
#include "dsl/passes/group_writes.h"

#include <gtest/gtest.h>

#include <map>
#include <regex>

#include "backends/interpreter.h"
#include "dsl/base/text.h"
#include "runtime/emulation/emulation.h"
#include "sampler/search/emulation_gate.h"
#include "support/device_schedules.h"
#include "support/drawn_kernels.h"
#include "support/scheduled.h"
#include "support/support.h"

namespace tw {
namespace {

// Groups of 2 x 2 work-items with tiles of 2 x 4: 5 x 3 groups, the last ones with a row or a column less.
TEST(GroupWrites, NumbersAreThoseOfTheGroups) {
  test::Scheduled scheduled("matmul(M = 18, N = 23, K = 12)", {}, test::gpu_gemm_schedule({}));
  Arena arena;
  std::optional<Program> numbers = group_writes(arena, scheduled.program());
  ASSERT_TRUE(numbers);
  ASSERT_EQ(numbers->params.size(), 1u);
  std::vector<HostArray> arrays{HostArray::like(numbers->params[0].buffer)};
  ASSERT_EQ(interpret(*numbers, arrays), "");
  for (i64 i = 0; i < 18; ++i) {
    for (i64 j = 0; j < 23; ++j) EXPECT_EQ(arrays[0].get(i * 23 + j), i / 4 * 3 + j / 8) << i << ", " << j;
  }
}

// A program that was scheduled for a processor runs its parallel loops over groups.
TEST(GroupWrites, ParallelLoopsRunOverGroups) {
  test::Scheduled scheduled("softmax(M = 7, N = 16)", {}, "y = get_block(\"Y\")\ni, j = get_loops(y)\nparallel(i)\n");
  Arena arena;
  std::optional<Program> numbers = group_writes(arena, scheduled.program());
  ASSERT_TRUE(numbers);
  std::vector<HostArray> arrays{HostArray::like(numbers->params[0].buffer)};
  ASSERT_EQ(interpret(*numbers, arrays), "");
  for (i64 i = 0; i < 7 * 16; ++i) EXPECT_EQ(arrays[0].get(i), i / 16);
}

struct Span {
  i64 first, last;
};

// Stores to `output` that touch an element of the span do nothing. `bytes`: of an element.
std::string without_stores(const std::string& code, const std::string& output, i64 bytes, const Span& span) {
  const std::regex scalar(cat("^\\s*", output, "\\[(.*?)\\] = .*;$")),
      vector(cat("^\\s*\\*\\((\\w+)\\*\\)\\(", output, " \\+ (.*?)\\) = .*;$"));
  const std::map<std::string, i64> sizes{{"short", 2}, {"int", 4},    {"int2", 8},
                                         {"int4", 16}, {"float2", 8}, {"float4", 16}};
  std::string out;
  int changed = 0;
  for (std::size_t begin = 0; begin < code.size();) {
    std::size_t end = std::min(code.find('\n', begin), code.size());
    std::string line = code.substr(begin, end - begin), index;
    i64 lanes = 1;
    std::smatch match;
    if (std::regex_match(line, match, scalar)) {
      index = match[1];
    } else if (std::regex_match(line, match, vector)) {
      EXPECT_TRUE(sizes.count(match[1])) << line;
      lanes = sizes.count(match[1]) ? sizes.at(match[1]) / bytes : 1, index = match[2];
    }
    changed += !index.empty();
    out += index.empty() ? line
                         : cat("if ((", index, ") > ", span.last, " || (", index, ") + ", lanes, " <= ", span.first,
                               ") {", line, "}");
    out += '\n', begin = end + 1;
  }
  EXPECT_GT(changed, 0) << "no store to " << output << " in\n" << code;
  return out;
}

void rename(Kernel& kernel, const std::string& name) {
  kernel.code = std::regex_replace(kernel.code, std::regex("\\bk_(run|prepack)_"), cat(name, "_$1_"));
  for (auto* launches : {&kernel.manifest.run_launches, &kernel.manifest.prepack_launches}) {
    for (KernelLaunch& launch : *launches) launch.name = name + launch.name.substr(1);
  }
  kernel.manifest.symbol = name;
}

// A sum in parts: groups of the last launch read parts that nobody looks at, because only one of them runs.
TEST(LeftOutForLater, IsFoundInScratchMemory) {
  std::string error;
  ASSERT_NE(emulation_compiler(error), "") << error << ": these tests were compiled, so there is a compiler";
  int tried = 0;
  auto cases = static_cast<int>(test::from_environment("TW_CASES", 2));
  for (const char* use :
       {"matmul(M = 32, N = 64, K = 512)", "norm(B = 40, M = 32, N = 32)", "softmax(M = 8, N = 4096)"}) {
    SCOPED_TRACE(use);
    test::DrawnKernels drawn = test::drawn_kernels(use, "cuda", test::cuda_target(), 24);
    test::Scheduled plain(use, {}, "");
    EmulationGate gate(plain.program(), {.runs = 1, .full_points = 0, .max_groups = 1});
    int found = 0;
    for (std::size_t i = 0; i < drawn.kernels.size() && found < cases; ++i) {
      const Kernel& right = drawn.kernels[i];
      const std::vector<KernelLaunch>& launches = right.manifest.run_launches;
      if (launches.size() < 2 || launches.back().group_count() < 2) continue;
      Arena arena;
      std::vector<ScratchWrites> writes = scratch_writes(arena, drawn.scheduled[i].program);
      ASSERT_EQ(writes.size() + 1, launches.size());
      ASSERT_TRUE(writes[0].numbers);
      const ScratchWrites::Place& place = writes[0].places.at(0);
      Kernel faulty = right;
      faulty.code = without_stores(right.code, std::string(place.name), place.element_bytes, {0, 0});
      rename(faulty, "fault");
      const Program& scheduled = drawn.scheduled[i].program;
      const ScheduledKernel both[] = {{right, scheduled}, {faulty, scheduled}};
      std::vector<EmulationVerdict> verdicts = gate.check(both);
      EXPECT_EQ(verdicts[0].kind, EmulationVerdict::Right) << verdicts[0].message;
      EXPECT_EQ(verdicts[1].kind, EmulationVerdict::Wrong) << faulty.code;
      bool is_said = verdicts[1].message.find("which are for a later kernel; the first one is 0") != std::string::npos;
      EXPECT_TRUE(is_said || verdicts[1].report.status != EmulationStatus::Ok) << verdicts[1].message;
      ++found, tried += is_said;
    }
  }
  EXPECT_GE(tried, 2);
}

class LeftOut : public ::testing::TestWithParam<const char*> {};

TEST_P(LeftOut, IsFoundInKernelsThatRunInPart) {
  std::string error;
  ASSERT_NE(emulation_compiler(error), "") << error << ": these tests were compiled, so there is a compiler";
  std::string set = GetParam(), use = set.substr(set.find(' ') + 1);
  set = set.substr(0, set.find(' '));
  constexpr i64 kFew = 2;  // groups that run
  EmulationGateOptions in_part{.runs = 1, .full_points = 0, .max_groups = kFew};
  test::DrawnKernels drawn = test::drawn_kernels(use, set, test::cuda_target(), 16);
  test::Scheduled plain(use, {}, "");
  EmulationGate gate(plain.program(), in_part);
  int in_parts = 0;
  auto cases = static_cast<int>(test::from_environment("TW_CASES", 2));
  for (std::size_t i = 0; i < drawn.kernels.size() && in_parts < cases; ++i) {
    if (drawn.kernels[i].manifest.run_launches.back().group_count() <= kFew) continue;
    const Kernel& right = drawn.kernels[i];
    const KernelArgument& output = right.manifest.run.back();
    ASSERT_EQ(output.role, ArgumentRole::Output);
    EmulationReport report;
    const Kernel* one = &right;
    std::unique_ptr<EmulatedKernels> compiled = EmulatedKernels::compile({&one, 1}, report);
    ASSERT_TRUE(compiled) << report.message;
    NamedArrays arrays;
    for (const KernelArgument& argument : right.manifest.run)
      arrays[argument.name] = HostArray::zeros(argument.dtype, argument.shape);
    for (const KernelArgument& argument : right.manifest.prepack)
      arrays[argument.name] = HostArray::zeros(argument.dtype, argument.shape);
    EmulationWrites writes;
    report = compiled->run(0, arrays, {.max_groups = 1, .chain_seconds = 20}, &writes);
    ASSERT_EQ(report.status, EmulationStatus::Ok) << report.message;
    // The last element of the last group, the vector and the row around it.
    auto last = static_cast<i64>(writes.outputs.at(0).elements.rfind(static_cast<char>(WrittenBy::LastLaunch)));
    ASSERT_GE(last, 0);
    i64 row = output.shape.back();
    std::vector<Kernel> faulty;
    for (Span span : {Span{last, last}, Span{last / 4 * 4, last}, Span{last / row * row, last}}) {
      Kernel kernel = right;
      kernel.code = without_stores(right.code, output.name, bytes_of(output.dtype), span);
      rename(kernel, cat("fault", faulty.size()));
      faulty.push_back(kernel);
    }
    const Program& scheduled = drawn.scheduled[i].program;
    std::vector<ScheduledKernel> all{{right, scheduled}};
    for (const Kernel& kernel : faulty) all.push_back({kernel, scheduled});
    std::vector<EmulationVerdict> verdicts = gate.check(all);
    EXPECT_TRUE(verdicts[0].kind == EmulationVerdict::Right ||
                verdicts[0].message.ends_with("too large for its values to be compared"))
        << verdicts[0].message;
    in_parts += !verdicts[0].report.is_complete;
    for (std::size_t f = 1; f < verdicts.size(); ++f) {
      EXPECT_EQ(verdicts[f].kind, EmulationVerdict::Wrong) << "fault " << f << "\n" << faulty[f - 1].code;
      // Or a sum in memory is read before anything is written.
      if (verdicts[f].report.status != EmulationStatus::Ok) continue;
      const char* wanted = verdicts[f].report.is_complete ? "nothing writes " : "does not write ";
      EXPECT_NE(verdicts[f].message.find(wanted), std::string::npos) << verdicts[f].message;
    }
  }
  EXPECT_GT(in_parts, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Each, LeftOut,
    ::testing::Values("cuda matmul(M = 72, N = 96, K = 40)", "cuda dense(M = 70, N = 130, K = 33, T = f16)",
                      "cuda batch_matmul(B = 3, M = 40, N = 72, K = 32, T = bf16)",
                      "cuda conv2d(N = 2, H = 14, W = 14, CI = 16, CO = 40, K = 3, padding = 1, T = f16)",
                      "cuda conv2d(N = 2, H = 9, W = 11, CI = 8, CO = 24, K = 3)",
                      "cuda depthwise_conv2d(N = 2, H = 20, W = 20, C = 32, K = 3, padding = 1)",
                      "cuda conv2d_transposed(N = 2, H = 7, W = 7, CI = 8, CO = 16, K = 3, padding = 1)",
                      "cuda softmax(M = 37, N = 130, T = f16)", "cuda layernorm(M = 37, N = 96)",
                      "cuda rmsnorm(M = 37, N = 61, T = bf16)", "cuda norm(B = 40, M = 8, N = 8)",
                      "cuda avg_pool2d(N = 2, H = 20, W = 20, C = 16, K = 3, T = f16)",
                      "reference-cuda matmul(M = 72, N = 96, K = 40)"));

}  // namespace
}  // namespace tw

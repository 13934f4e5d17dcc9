// Workloads of which a sample of the results is known: through the real worker, what is right passes, and planted
// faults are found.
#include "sampler/search/sampled_reference.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "dsl/text/workload.h"
#include "sampler/search/trial.h"
#include "support/planted_faults.h"
#include "support/support.h"

namespace tw {
namespace {

constexpr u64 kSeed = 7;

struct Case {
  const char* workload;
  std::vector<std::pair<const char*, i64>> extents;
  std::vector<std::string> epilogues = {};
  DType type = DType::F32;
};

// Of more elements than a sample has.
const std::vector<Case>& cases() {
  static const std::vector<Case> all{
      {"matmul", {{"M", 417}, {"N", 333}, {"K", 40}}},
      {"matmul", {{"M", 417}, {"N", 333}, {"K", 40}}, {}, DType::F16},
      {"matmul", {{"M", 417}, {"N", 333}, {"K", 40}}, {}, DType::I8},
      {"dense", {{"M", 417}, {"N", 333}, {"K", 40}}, {"bias", "gelu"}},
      {"conv2d",
       {{"N", 3}, {"H", 30}, {"W", 30}, {"CI", 8}, {"CO", 50}, {"K", 3}, {"padding", 1}},
       {"bn", "add", "relu"}},
      {"softmax", {{"M", 417}, {"N", 100}}},
      {"layernorm", {{"M", 417}, {"N", 100}}, {}, DType::BF16},
  };
  return all;
}

OwnedProgram program_of(const Case& c) {
  WorkloadArguments arguments;
  for (auto [name, value] : c.extents) arguments.push_back({name, value});
  arguments.push_back({"T", c.type});
  Diagnostics diagnostics(*operator_library().source);
  std::optional<OwnedProgram> made = instantiate(operator_library(), c.workload, arguments, c.epilogues, diagnostics);
  EXPECT_TRUE(made) << c.workload << diagnostics.render();
  return *made;
}

class SampledReferenceTest : public testing::Test {
 protected:
  void SetUp() override {
    WorkerStart started = start_worker();
    ASSERT_TRUE(started.measurer) << started.error;
    measurer_ = std::move(started.measurer);
  }
  void each_case(const std::function<void(const Program&)>& visit) {
    for (const Case& c : cases()) {
      SCOPED_TRACE(cat(c.workload, c.epilogues.empty() ? "" : " with an epilogue", " ", name_of(c.type)));
      OwnedProgram owned = program_of(c);
      std::optional<SampledReference> sample = sample_reference(owned.program, kSeed, {});
      ASSERT_TRUE(sample);
      TaskStart start = measurer_->begin_sampled_task(*sample, tolerance_of(owned.program), kSeed);
      ASSERT_GE(start.task, 0) << start.error;
      task_ = start.task;
      visit(owned.program);
      measurer_->end_task(task_);
    }
  }
  MeasureResult check(const Program& program) {
    BuiltKernel built = build_kernel(program, host_target(), *compiler_);
    EXPECT_TRUE(built.kernel) << built.problem;
    return measurer_->measure(task_, *built.kernel, {.time = false});
  }
  // With one of these messages.
  void expect_found(const Program& program, const char* what, std::initializer_list<std::string_view> messages = {""}) {
    MeasureResult result = check(program);
    EXPECT_EQ(result.status, MeasureStatus::WrongResult) << what;
    bool is_said = std::any_of(messages.begin(), messages.end(), [&](std::string_view message) {
      return result.message.find(message) != std::string::npos;
    });
    EXPECT_TRUE(is_said) << what << ": " << result.message;
  }

  std::unique_ptr<Measurer> measurer_;
  Result<LlvmCompiler> compiler_ = LlvmCompiler::create(codegen_target(host_target()));
  int task_ = -1;
};

const Expr* last(const Build& build, const Program& program, const std::vector<const Expr*>& at, std::size_t d) {
  for (const Param& param : program.params) {
    if (param.role == Role::Output) return build.binary(BinaryOp::Eq, at[d], build.integer(param.buffer->shape[d] - 1));
  }
  return nullptr;
}

TEST_F(SampledReferenceTest, ProgramsAsTheyAreWrittenAreRight) {
  each_case([&](const Program& program) {
    MeasureResult result = check(program);
    EXPECT_EQ(result.status, MeasureStatus::Ok) << result.message;
  });
}

TEST_F(SampledReferenceTest, FaultsThatAreEverywhereOrAtTheEndOfADimensionAreFound) {
  each_case([&](const Program& program) {
    Arena arena;
    auto everywhere = [](const Build& build, const std::vector<const Expr*>&) { return build.number(1, DType::Bool); };
    expect_found(test::with_fault(arena, program, everywhere, 0), "zeros");
    for (std::size_t d = 0; d < 2; ++d) {
      auto at_end = [&](const Build& build, const std::vector<const Expr*>& at) {
        return last(build, program, at, d == 0 ? 0 : at.size() - 1);
      };
      expect_found(test::with_fault(arena, program, at_end, 0),
                   d == 0 ? "a last row of zeros" : "a last column of zeros");
    }
  });
}

// Of halves: where it is more than half a rounding, as result_check_test has it.
TEST_F(SampledReferenceTest, ATermThatIsMissingIsFound) {
  each_case([&](const Program& program) {
    Arena arena;
    for (bool is_last : {false, true})
      expect_found(test::without_a_term(arena, program, is_last), is_last ? "the last one" : "one step");
  });
}

// Whether the sample has it or not.
TEST_F(SampledReferenceTest, OneElementThatIsNotWrittenIsFound) {
  each_case([&](const Program& program) {
    Arena arena;
    auto one = [&](const Build& build, const std::vector<const Expr*>& at) {
      const Expr* all = nullptr;
      for (std::size_t d = 0; d < at.size(); ++d)
        all = build.both(all, build.binary(BinaryOp::Eq, at[d], build.integer(static_cast<i64>(d) + 1)));
      return all;
    };
    expect_found(test::with_fault(arena, program, one), "an element",
                 {"] was not written, or is no number", "(of a sample)"});
  });
}

TEST_F(SampledReferenceTest, NoTwoSamplesAreAtTheSamePlaces) {
  OwnedProgram owned = program_of(cases()[0]);
  std::optional<SampledReference> one = sample_reference(owned.program, kSeed, {}),
                                  other = sample_reference(owned.program, kSeed, {});
  ASSERT_TRUE(one && other);
  EXPECT_NE(one->samples[0][0].positions, other->samples[0][0].positions);
  EXPECT_NE(one->samples[0][0].positions, one->samples[1][0].positions);
  EXPECT_EQ(one->arguments.size(), 3u);
  EXPECT_EQ(one->samples[0][0].count, 417 * 333);
}

TEST_F(SampledReferenceTest, ItEndsWhereNobodyWantsItAnyMore) {
  OwnedProgram owned = program_of(cases()[0]);
  EXPECT_FALSE(sample_reference(owned.program, kSeed, [] { return true; }));
  TaskStart start = begin_judged_task(*measurer_, owned.program, host_target(), *compiler_, kSeed, [] { return true; });
  EXPECT_TRUE(start.was_stopped);
  EXPECT_LT(start.task, 0);
}

// Each element of this takes more steps than there may be.
TEST_F(SampledReferenceTest, ASingleLongElementHearsTheStop) {
  Source source{"long.tw",
                "workload long_sum() {\n  input A: f32[4096]\n  input B: f32[4096]\n  input C: f32[64]\n"
                "  output Y[i: 4] = sum(a: 4096, b: 4096, c: 64) A[a] * B[b] * C[c]\n}\n"};
  Diagnostics diagnostics(source);
  WorkloadModule module = parse_workloads(source, diagnostics);
  std::optional<OwnedProgram> owned = instantiate(module, "long_sum", {}, {}, diagnostics);
  ASSERT_TRUE(owned) << diagnostics.render();
  double begin = seconds_now();
  EXPECT_FALSE(sample_reference(owned->program, kSeed, [&] { return seconds_now() - begin > 0.2; }));
  EXPECT_LT(seconds_now() - begin, 1.2);
}

}  // namespace
}  // namespace tw

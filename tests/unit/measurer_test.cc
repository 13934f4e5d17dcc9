// Real machine code through the real worker: honest kernels, faulty ones, and cheats.
#include "runtime/measure/measurer.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "dsl/base/sanitizer.h"
#include "dsl/base/text.h"
#include "runtime/measure/elements.h"
#include "runtime/measure/fma_probe.h"
#include "sampler/search/trial.h"
#include "support/parsed.h"
#include "support/processes.h"
#include "support/scheduled.h"
#include "tests/unit/test_kernels.h"

namespace tw {
namespace {

using test::matmul_kernel;
using test::vector_kernel;

std::string show(const MeasureResult& result) {
  return cat(name_of(result.status), ": ", result.message, " (", result.seconds * 1e6, " us, ratio ", result.ratio,
             ", pairs ", result.pairs, ", disturbed ", result.disturbed, ", max error ", result.max_error, ", spent ",
             result.spent_seconds * 1e3, " ms)");
}

// Correct, whatever the noise of the machine.
bool is_measured(const MeasureResult& result) {
  return result.status == MeasureStatus::Ok || result.status == MeasureStatus::Noisy;
}

class MeasurerTest : public testing::Test {
 protected:
  void SetUp() override {
    WorkerStart started = start_worker();
    ASSERT_TRUE(started.measurer) << started.error;
    measurer_ = std::move(started.measurer);
  }

  int begin(const Kernel& reference, Tolerance tolerance) {
    TaskStart started = measurer_->begin_task(reference, tolerance, 7);
    EXPECT_GE(started.task, 0) << started.error;
    return started.task;
  }
  // With the reference and the bound of every task.
  int begin(const Program& program) {
    Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(host_target()));
    BuiltKernel reference = build_reference(program, host_target(), *compiler);
    EXPECT_TRUE(reference.kernel) << reference.problem;
    return begin(*reference.kernel, tolerance_of(program));
  }
  int begin_matmul() {
    return begin(
        test::Scheduled(cat("matmul(M = ", test::kSide, ", N = ", test::kSide, ", K = ", test::kSide, ")"), {}, "")
            .program());
  }
  int begin_vector() {
    return begin(test::parsed("program add_one(X: input f32[1003], Y: output f32[1003]) {\n"
                              "  for i in 1003 { block Y(i: S 1003 = i) { Y[i] = X[i] + 1.0 } }\n}\n")
                     .program);
  }

  std::unique_ptr<Measurer> measurer_;
};

// Random data are drawn from [-8, 8), and the table has two rows.
TEST_F(MeasurerTest, IndicesOfATaskLieInItsTables) {
  const Program& program = test::parsed(
                               "program look_up(I: input i64[64], Table: const f32[2, 16], Y: output f32[64, 16]) {\n"
                               "  for i in 64 { for j in 16 { block Y(i: S 64 = i, j: S 16 = j) {\n"
                               "    Y[i, j] = Table[if I[i] < 0 then I[i] + 2 else I[i], j] } } }\n}\n")
                               .program;
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(host_target()));
  BuiltKernel reference = build_reference(program, host_target(), *compiler);
  ASSERT_TRUE(reference.kernel) << reference.problem;
  MeasureResult result = measurer_->measure(begin(program), *reference.kernel, {.time = false});
  EXPECT_EQ(result.status, MeasureStatus::Ok) << show(result);
}

TEST_F(MeasurerTest, HonestKernelAlone) {
  MeasureResult result = measurer_->measure(begin_matmul(), matmul_kernel("honest", "matmul"), {});
  EXPECT_TRUE(is_measured(result)) << show(result);
  // 2 * 64^3 operations take at least a microsecond and, on any machine that runs this, not a
  // second.
  EXPECT_GT(result.seconds, 1e-6);
  EXPECT_LT(result.seconds, 1);
  EXPECT_GT(result.max_error, 0);
  EXPECT_LT(result.max_error, 1e-4);
}

TEST_F(MeasurerTest, SlowerThanTheIncumbent) {
  Kernel incumbent = matmul_kernel("honest", "matmul");
  MeasureOptions options;
  options.incumbent = &incumbent;
  int task = begin_matmul();
  MeasureResult slow = measurer_->measure(task, matmul_kernel("honest", "matmul_slow"), options);
  EXPECT_TRUE(is_measured(slow)) << show(slow);
  EXPECT_GT(slow.ratio, 2) << show(slow);
  EXPECT_LT(slow.ratio, 4) << show(slow);
  // That is clear after a few pairs, and of the incumbent itself it never is.
  EXPECT_TRUE(slow.is_slower) << show(slow);
  EXPECT_LE(slow.pairs, 8) << show(slow);
  EXPECT_GT(slow.parts.timing, 0);
  EXPECT_LT(slow.parts.timing + slow.parts.run + slow.parts.compare + slow.parts.start + slow.parts.buffers,
            slow.spent_seconds);
  MeasureResult same = measurer_->measure(task, incumbent, options);
  EXPECT_TRUE(is_measured(same)) << show(same);
  EXPECT_FALSE(same.is_slower) << show(same);
  EXPECT_GT(same.pairs, 8) << show(same);
  EXPECT_GT(same.ratio, 0.7) << show(same);
  EXPECT_LT(same.ratio, 1.4) << show(same);
}

TEST_F(MeasurerTest, PrepackedConstant) {
  MeasureResult result = measurer_->measure(begin_matmul(), test::packed_matmul(), {});
  EXPECT_TRUE(is_measured(result)) << show(result);
  EXPECT_GT(result.prepack_seconds, 0);
  Kernel incumbent = test::packed_matmul();
  MeasureOptions options;
  options.incumbent = &incumbent;
  result = measurer_->measure(begin_matmul(), matmul_kernel("honest", "matmul"), options);
  EXPECT_TRUE(is_measured(result)) << show(result);
}

// Its operands are packed once; the children of later measurements find them.
TEST_F(MeasurerTest, PackedOperandsOfTheIncumbentAreKept) {
  int task = begin_matmul();
  Kernel incumbent = test::packed_matmul("honest", "matmul_packed_once");
  MeasureOptions options;
  options.incumbent = &incumbent;
  for (const char* candidate : {"matmul", "matmul_slow", "matmul"}) {
    MeasureResult result = measurer_->measure(task, matmul_kernel("honest", candidate), options);
    EXPECT_TRUE(is_measured(result)) << show(result);
    EXPECT_GT(result.ratio, 0);
  }
  Kernel next = test::parallel_matmul();
  options.incumbent = &next;
  for (int threads : {1, 2}) {  // its scratch grows with them
    options.threads = threads;
    MeasureResult result = measurer_->measure(task, matmul_kernel("honest", "matmul"), options);
    EXPECT_TRUE(is_measured(result)) << show(result);
  }
}

TEST_F(MeasurerTest, AFasterOneIsTimedAgain) {
  int task = begin_matmul();
  Kernel incumbent = matmul_kernel("honest", "matmul_slow");
  MeasureOptions options;
  options.incumbent = &incumbent;
  options.pairs = options.max_pairs = 3;
  auto measure = [&] { return measurer_->measure(task, matmul_kernel("honest", "matmul"), options); };
  MeasureResult once = measure();
  double shortest = once.parts.timing;  // others may have held one up
  for (int i = 0; i < 4; ++i) shortest = std::min(shortest, measure().parts.timing);
  options.confirmation = {.below = 0.998, .pairs = 40, .max_pairs = 40};
  MeasureResult twice = measure();
  for (const MeasureResult& faster : {once, twice}) {
    EXPECT_TRUE(is_measured(faster)) << show(faster);
    EXPECT_LT(faster.ratio, 0.7) << show(faster);
  }
  EXPECT_LT(4 * shortest, twice.parts.timing) << "3 pairs, and 43";
}

// The second kernel gets the buffers of the first, without what is in them.
TEST_F(MeasurerTest, BuffersOfTheKernelBeforeAreUsedAgainAndPoisoned) {
  int task = begin_matmul();
  for (int i = 0; i < 2; ++i) {
    MeasureResult honest = measurer_->measure(task, test::packed_matmul(), {});
    EXPECT_TRUE(is_measured(honest)) << show(honest);
    MeasureResult cheat = measurer_->measure(task, test::packed_matmul("cheats", "packed_before"), {});
    EXPECT_EQ(cheat.status, MeasureStatus::WrongResult) << show(cheat);
  }
}

TEST_F(MeasurerTest, ParallelWithScratchOfEachWorker) {
  int task = begin_matmul();
  for (int threads : {1, 2, 3}) {
    MeasureOptions options;
    options.threads = threads;
    MeasureResult result = measurer_->measure(task, test::parallel_matmul(), options);
    EXPECT_TRUE(is_measured(result)) << threads << " threads: " << show(result);
  }
}

TEST_F(MeasurerTest, OnlyChecked) {
  MeasureOptions options;
  options.time = false;
  MeasureResult result = measurer_->measure(begin_matmul(), matmul_kernel("honest", "matmul"), options);
  EXPECT_EQ(result.status, MeasureStatus::Ok) << show(result);
  EXPECT_EQ(result.seconds, 0);
}

// A call that takes long is made once, and its result is compared.
TEST_F(MeasurerTest, OnlyOneCallIfItTakesLong) {
  MeasureOptions options;
  options.single_call_seconds = 1e-9;
  int task = begin_matmul();
  MeasureResult result = measurer_->measure(task, matmul_kernel("honest", "matmul"), options);
  EXPECT_EQ(result.status, MeasureStatus::Ok) << show(result);
  EXPECT_EQ(result.pairs, 1);
  EXPECT_GT(result.seconds, 1e-6);
  EXPECT_EQ(result.seconds, result.median_seconds);
  EXPECT_GT(result.max_error, 0);
  MeasureResult wrong = measurer_->measure(task, matmul_kernel("cheats", "half_precision"), options);
  EXPECT_EQ(wrong.status, MeasureStatus::WrongResult) << show(wrong);
  options.single_call_seconds = 100;
  MeasureResult usual = measurer_->measure(task, matmul_kernel("honest", "matmul"), options);
  EXPECT_TRUE(is_measured(usual)) << show(usual);
  EXPECT_GT(usual.pairs, 1);
}

// The second check after timing has new data for both calls, also where the first of them waits for a busy machine.
TEST_F(MeasurerTest, AStallInTheSecondCheckMakesNoResultWrong) {
  MeasureOptions options;
  options.single_call_seconds = 2e-3;
  Kernel kernel = vector_kernel("honest", "stalls_once");
  kernel.manifest.scratch_shared_bytes = 64;
  MeasureResult result = measurer_->measure(begin_vector(), kernel, options);
  EXPECT_TRUE(is_measured(result)) << show(result);
  EXPECT_GT(result.pairs, 1) << "the first call was quick";
}

TEST_F(MeasurerTest, Relocations) {
  int task = begin(vector_kernel("honest", "relocations"), {});
  MeasureResult result = measurer_->measure(task, vector_kernel("honest", "relocations"), {});
  EXPECT_TRUE(is_measured(result)) << show(result);
}

TEST_F(MeasurerTest, HonestKernelsAreNotRejected) {
  Kernel incumbent = matmul_kernel("honest", "matmul");
  MeasureOptions options;
  options.incumbent = &incumbent;
  int task = begin_matmul();
  for (int i = 0; i < 50; ++i) {
    MeasureResult result = measurer_->measure(task, incumbent, options);
    ASSERT_TRUE(is_measured(result)) << "repetition " << i << ": " << show(result);
  }
}

// What the child keeps of each pair comes from memory that it has: none can be asked for while kernels are timed.
TEST_F(MeasurerTest, ManySamplesAskForNoMemory) {
  MeasureOptions options{.sample_seconds = 1e-5, .first_pairs = 4000, .max_pairs = 4000, .budget_seconds = 20};
  MeasureResult result = measurer_->measure(begin_vector(), vector_kernel("honest", "add_one"), options);
  EXPECT_TRUE(is_measured(result)) << show(result);
  EXPECT_GT(result.pairs, 1000) << show(result);
}

TEST_F(MeasurerTest, FailingReference) {
  TaskStart started = measurer_->begin_task(vector_kernel("faulty", "division_by_zero"), {}, 1);
  EXPECT_EQ(started.task, -1);
  EXPECT_EQ(started.status, MeasureStatus::Crash);
  EXPECT_NE(started.error.find("the reference failed: crash: SIGFPE"), std::string::npos) << started.error;
}

// The status says why a task has not begun; the words are for people.
TEST_F(MeasurerTest, TasksWithoutMemoryOrAnEntryPoint) {
  Kernel reference = vector_kernel("honest", "add_one");
  EXPECT_EQ(measurer_->begin_task(reference, {}, 1).status, MeasureStatus::Ok);
  reference.manifest.run[0].bytes = i64{1} << 60;
  EXPECT_EQ(measurer_->begin_task(reference, {}, 1).status, MeasureStatus::OutOfMemory);
  TaskStart started = measurer_->begin_task(vector_kernel("honest", "memory"), {}, 1);
  EXPECT_EQ(started.status, MeasureStatus::BuildError);
  EXPECT_NE(started.error.find("memory"), std::string::npos) << started.error;
}

TEST_F(MeasurerTest, MismatchedArguments) {
  int task = begin_vector();
  Kernel kernel = vector_kernel("honest", "add_one");
  kernel.manifest.run[0].name = "Z";
  MeasureResult result = measurer_->measure(task, kernel, {});
  EXPECT_EQ(result.status, MeasureStatus::BuildError);
  EXPECT_EQ(result.message, "argument `Z` with 4012 bytes is not an input of the reference");
}

TEST_F(MeasurerTest, UnknownFunction) {
  MeasureResult result = measurer_->measure(begin_vector(), vector_kernel("unknown", "unknown_function"), {});
  EXPECT_EQ(result.status, MeasureStatus::BuildError);
  EXPECT_EQ(result.message, "symbol `not_in_the_table` is not among the functions that a kernel may call");
}

struct Expected {
  friend void PrintTo(const Expected& expected, std::ostream* out) { *out << expected.symbol; }
  const char* symbol;
  MeasureStatus status;
  const char* message;  // part of it
};

class FaultTest : public MeasurerTest, public testing::WithParamInterface<Expected> {};
TEST_P(FaultTest, IsRecorded) {
  MeasureOptions options;
  options.timeout_seconds = 0.5;
  int task = begin_vector();
  MeasureResult result = measurer_->measure(task, vector_kernel("faulty", GetParam().symbol), options);
  EXPECT_EQ(result.status, GetParam().status) << show(result);
  EXPECT_NE(result.message.find(GetParam().message), std::string::npos) << show(result);
  // And the worker goes on.
  MeasureResult next = measurer_->measure(task, vector_kernel("honest", "add_one"), {});
  EXPECT_TRUE(is_measured(next)) << show(next);
}
INSTANTIATE_TEST_SUITE_P(
    Faults, FaultTest,
    testing::ValuesIn(std::vector<Expected>{
        {"division_by_zero", MeasureStatus::Crash, "SIGFPE (division by zero or overflow) at offset 0x"},
        {"null_pointer", MeasureStatus::Crash,
         "SIGSEGV: read from address 0x10, which is in none of its buffers, in run"},
        {"illegal_instruction", MeasureStatus::Crash, "SIGILL at offset 0x"},
        {"endless", MeasureStatus::Timeout, "did not return within 0.5 s"},
        {"returns_three", MeasureStatus::WrongResult, "returned 3 instead of 0"},
        {"writes_one_beyond", MeasureStatus::OutOfBounds, "wrote beside `Y`"},
        {"writes_one_before", MeasureStatus::OutOfBounds, "`Y`"},
        {"writes_page_beyond", MeasureStatus::OutOfBounds, "wrote to `Y`, 4096 bytes after its end, in run"},
        {"reads_page_before", MeasureStatus::OutOfBounds, "read from `X`, 4096 bytes before its start, in run"},
        {"wrong_number", MeasureStatus::WrongResult, "output `Y`: 1 of 1003 elements are wrong; [17] is "},
        {"not_a_number", MeasureStatus::WrongResult, "[1002] is nan, expected "},
        {"eats_memory", MeasureStatus::Forbidden, "made the system call mmap in run"},
        {"eats_stack", MeasureStatus::OutOfMemory, "overflowed its stack in run"},
        {"opens_file", MeasureStatus::Forbidden, "made the system call open in run"},
        {"kills_parent", MeasureStatus::Forbidden, "made the system call getppid in run"},
        {"exits", MeasureStatus::Forbidden, "ended its process with status 0 in run"},
    }),
    [](const auto& info) { return std::string(info.param.symbol); });

// Each with an incumbent, as in a search, so that the incumbent's results lie in the outputs too.
class CheatTest : public MeasurerTest, public testing::WithParamInterface<Expected> {};
TEST_P(CheatTest, IsRejected) {
  if (TW_SANITIZED && GetParam().symbol == std::string_view("clock_tamper"))
    GTEST_SKIP() << "the stack of a sanitized worker is another one: the cheat finds no clock to change";
  Kernel incumbent = matmul_kernel("honest", "matmul");
  MeasureOptions options;
  options.incumbent = &incumbent;
  MeasureResult result = measurer_->measure(begin_matmul(), matmul_kernel("cheats", GetParam().symbol), options);
  EXPECT_EQ(result.status, GetParam().status) << show(result);
  EXPECT_NE(result.message.find(GetParam().message), std::string::npos) << show(result);
}
INSTANTIATE_TEST_SUITE_P(
    Cheats, CheatTest,
    testing::ValuesIn(std::vector<Expected>{
        {"no_write", MeasureStatus::WrongResult, "output `C`: 4096 of 4096 elements are wrong"},
        {"constant", MeasureStatus::WrongResult, "elements are wrong; [0, 0] is 0, expected "},
        {"stale_output", MeasureStatus::WrongResult, "in a second check after timing"},
        {"pointer_cache", MeasureStatus::WrongResult, "in a second check after timing"},
        {"static_cache", MeasureStatus::Cheat, "wrote to its own code or data, in run; kernels must not keep state"},
        {"writes_input", MeasureStatus::Cheat, "wrote to `A` at byte 12, which is read-only, in run"},
        {"writes_beyond", MeasureStatus::OutOfBounds, "wrote to `C`, 4095 bytes after its end"},
        {"writes_before", MeasureStatus::OutOfBounds, "wrote to `C`, 4096 bytes before its start"},
        {"reads_uninitialised", MeasureStatus::WrongResult, "elements are wrong"},
        {"background_thread", MeasureStatus::Forbidden, "made the system call clone in run"},
        {"half_precision", MeasureStatus::WrongResult, "elements are wrong"},
        {"not_a_number", MeasureStatus::WrongResult, "[0, 0] is nan"},
        {"content_cache", MeasureStatus::Cheat, "with new data"},
        {"wrong_later", MeasureStatus::WrongResult, "after timing"},
        // Found by the clock, or, if the machine is so busy that the clock proves nothing, by its
        // time with new data.
        {"clock_tamper", MeasureStatus::Cheat, " s "},
    }),
    [](const auto& info) { return std::string(info.param.symbol); });

// The same against a sample of 256 of the 4,096 results, but for `wrong_later`, which is wrong in one place.
class SampledCheatTest : public CheatTest {};
TEST_P(SampledCheatTest, IsRejected) {
  SampledReference reference;
  Kernel honest = matmul_kernel("honest", "matmul");
  reference.arguments = honest.manifest.run;
  for (int set = 0; set < kSets; ++set) {
    std::vector<float> a(test::kSide * test::kSide), b(a);
    fill_input(7, "A", set, DType::F32, test::kSide * test::kSide, reinterpret_cast<char*>(a.data()));
    fill_input(7, "B", set, DType::F32, test::kSide * test::kSide, reinterpret_cast<char*>(b.data()));
    OutputSample& sample = reference.samples[static_cast<std::size_t>(set)].emplace_back(
        OutputSample{.name = "C", .count = test::kSide * test::kSide});
    for (i64 position = 3 + set; position < sample.count; position += 16) {
      double sum = 0;
      for (i64 k = 0; k < test::kSide; ++k) {
        auto row = static_cast<std::size_t>(position / test::kSide * test::kSide + k),
             column = static_cast<std::size_t>(k * test::kSide + position % test::kSide);
        sum += static_cast<double>(a[row]) * b[column];
      }
      sample.positions.push_back(position);
      sample.expected.push_back(sum);
    }
  }
  TaskStart started = measurer_->begin_sampled_task(reference, {1e-5, 1e-5}, 7);
  ASSERT_GE(started.task, 0) << started.error;
  MeasureResult right = measurer_->measure(started.task, honest, {});
  EXPECT_TRUE(is_measured(right)) << show(right);
  MeasureOptions options;
  options.incumbent = &honest;
  MeasureResult result = measurer_->measure(started.task, matmul_kernel("cheats", GetParam().symbol), options);
  EXPECT_EQ(result.status, GetParam().status) << show(result);
  EXPECT_NE(result.message.find(GetParam().message), std::string::npos) << show(result);
}
INSTANTIATE_TEST_SUITE_P(
    Cheats, SampledCheatTest,
    testing::ValuesIn(std::vector<Expected>{
        {"no_write", MeasureStatus::WrongResult, "output `C`: [0, 0] was not written, or is no number"},
        {"constant", MeasureStatus::WrongResult, "256 of 256 elements are wrong; [0, "},
        {"stale_output", MeasureStatus::WrongResult, "(of a sample), in a second check after timing"},
        {"pointer_cache", MeasureStatus::WrongResult, "in a second check after timing"},
        {"writes_input", MeasureStatus::Cheat, "wrote to `A` at byte 12, which is read-only, in run"},
        {"writes_beyond", MeasureStatus::OutOfBounds, "wrote to `C`, 4095 bytes after its end"},
        {"half_precision", MeasureStatus::WrongResult, "elements are wrong"},
        {"not_a_number", MeasureStatus::WrongResult, "[0, 0] was not written, or is no number"},
    }),
    [](const auto& info) { return std::string(info.param.symbol); });

// All of C fits into the slack that new data get, so that the other checks pass. The same kernel without the cheat is
// as fast as an honest one can be, and is not refused.
TEST_F(MeasurerTest, FasterThanTheMachine) {
  if (measure_fma_peak(1e-3) == 0) GTEST_SKIP() << "this CPU has no FMA instructions that the probe knows";
  MeasureOptions options;
  options.least_flops = 2.0 * test::kSide * test::kSide * test::kSide;
  int task = begin_matmul();
  MeasureResult cheat = measurer_->measure(task, matmul_kernel("cheats", "fast_content_cache"), options);
  EXPECT_EQ(cheat.status, MeasureStatus::TooFast) << show(cheat);
  EXPECT_NE(cheat.message.find("at the peak of this machine, "), std::string::npos) << show(cheat);
  for (int i = 0; i < 20; ++i) {
    MeasureResult honest = measurer_->measure(task, matmul_kernel("cheats", "fast_matmul"), options);
    ASSERT_TRUE(is_measured(honest)) << "repetition " << i << ": " << show(honest);
  }
}

TEST_F(MeasurerTest, KilledWorkerIsReplaced) {
  int task = begin_matmul();
  std::vector<pid_t> workers = test::children_of(getpid());
  ASSERT_EQ(workers.size(), 1u);
  kill(workers[0], SIGKILL);
  MeasureResult lost = measurer_->measure(task, matmul_kernel("honest", "matmul"), {});
  EXPECT_EQ(lost.status, MeasureStatus::WorkerLost) << show(lost);
  MeasureResult next = measurer_->measure(task, matmul_kernel("honest", "matmul"), {});
  EXPECT_TRUE(is_measured(next)) << show(next);
  ASSERT_EQ(test::children_of(getpid()).size(), 1u);
  EXPECT_NE(test::children_of(getpid())[0], workers[0]);
}

// The worker dies while its child runs: the caller hears of it at once, and the child dies too.
TEST_F(MeasurerTest, KilledWorkerTakesItsChildAlong) {
  int task = begin_vector();
  pid_t worker = test::children_of(getpid()).at(0), child = 0;
  std::thread killer([&] {
    while (test::children_of(worker).empty()) usleep(1000);
    child = test::children_of(worker).at(0);
    kill(worker, SIGKILL);
  });
  MeasureOptions options;
  options.timeout_seconds = 100;
  MeasureResult lost = measurer_->measure(task, vector_kernel("faulty", "endless"), options);
  killer.join();
  EXPECT_EQ(lost.status, MeasureStatus::WorkerLost) << show(lost);
  // Reaped by whoever inherits it.
  EXPECT_TRUE(test::wait_until([&] { return !test::is_alive(child); }));
}

// Neither waits for the limit of what runs, which is minutes.
TEST_F(MeasurerTest, WhatNobodyWantsAnyMoreEnds) {
  int task = begin_vector(), asked = 0;
  measurer_->stop_when([&] { return ++asked > 2; });
  TaskStart started = measurer_->begin_task(vector_kernel("faulty", "endless"), {}, 1);
  EXPECT_TRUE(started.was_stopped) << started.error;
  EXPECT_EQ(started.task, -1);
  asked = 0;
  MeasureOptions options;
  options.timeout_seconds = 100;
  MeasureResult result = measurer_->measure(task, vector_kernel("faulty", "endless"), options);
  EXPECT_TRUE(result.was_stopped) << show(result);
  // What takes no longer than half a second is measured to its end.
  measurer_->stop_when({});
  ASSERT_TRUE(is_measured(measurer_->measure(task, vector_kernel("honest", "add_one"), {})));
  measurer_->stop_when([] { return true; });
  options = {};
  options.time = false;
  result = measurer_->measure(task, vector_kernel("honest", "add_one"), options);
  EXPECT_TRUE(is_measured(result)) << show(result);
  EXPECT_FALSE(result.was_stopped);
}

TEST_F(MeasurerTest, LongCallsAreTimedByTheirChecks) {
  MeasureOptions options;
  options.checked_call_seconds = 1e-9;
  int task = begin_matmul();
  MeasureResult result = measurer_->measure(task, matmul_kernel("honest", "matmul_slow"), options);
  EXPECT_EQ(result.status, MeasureStatus::Ok) << show(result);
  EXPECT_EQ(result.pairs, 2);
  EXPECT_GT(result.seconds, 1e-6);
  EXPECT_GE(result.median_seconds, result.seconds);
  EXPECT_EQ(result.ratio, 0);
  Kernel fast = matmul_kernel("honest", "matmul");
  ASSERT_TRUE(is_measured(measurer_->measure(task, fast, {.incumbent = &fast})));  // its time is known now
  options.incumbent = &fast;
  MeasureResult slow = measurer_->measure(task, matmul_kernel("honest", "matmul_slow"), options);
  EXPECT_EQ(slow.status, MeasureStatus::Ok) << show(slow);
  EXPECT_EQ(slow.pairs, 2);
  EXPECT_GT(slow.ratio, 1);
  options.incumbent = nullptr;
  MeasureResult wrong = measurer_->measure(task, matmul_kernel("cheats", "half_precision"), options);
  EXPECT_EQ(wrong.status, MeasureStatus::WrongResult) << show(wrong);
  options.checked_call_seconds = 100;
  MeasureResult usual = measurer_->measure(task, matmul_kernel("honest", "matmul"), options);
  EXPECT_TRUE(is_measured(usual)) << show(usual);
  EXPECT_GT(usual.pairs, 2);
}

// A control group of memory for processes of ours, where the system lets us make one.
class MemoryGroup {
 public:
  explicit MemoryGroup(i64 bytes) {
    for (auto [root, limit] :
         {std::pair("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), std::pair("/sys/fs/cgroup", "memory.max")}) {
      folder_ = cat(root, "/tracewright-test-", getpid());
      if (mkdir(folder_.c_str(), 0755) != 0) continue;
      is_there_ = write(limit, bytes);
      if (is_there_) return;
      rmdir(folder_.c_str());
    }
  }
  MemoryGroup(const MemoryGroup&) = delete;
  MemoryGroup& operator=(const MemoryGroup&) = delete;
  ~MemoryGroup() {
    if (is_there_) test::wait_until([&] { return rmdir(folder_.c_str()) == 0; });
  }
  bool is_there() const { return is_there_; }
  bool add(pid_t process) const { return write("cgroup.procs", process); }

 private:
  bool write(const char* name, i64 number) const {
    std::ofstream file(cat(folder_, "/", name));
    return static_cast<bool>(file << number << std::flush);
  }
  std::string folder_;
  bool is_there_ = false;
};

// A worker that the system kills for memory is not started again for the same data, as one is that somebody has killed.
TEST_F(MeasurerTest, WhatIsKilledForMemoryIsNotTriedAgain) {
  begin_vector();
  MemoryGroup group(80 << 20);
  if (!group.is_there() || !group.add(test::children_of(getpid()).at(0)))
    GTEST_SKIP() << "no control group for memory can be made here";
  Kernel reference = vector_kernel("honest", "add_one");
  reference.manifest.run[0].bytes = 256 << 20;
  TaskStart started = measurer_->begin_task(reference, {}, 1);
  EXPECT_EQ(started.status, MeasureStatus::OutOfMemory);
  EXPECT_EQ(started.error, "the system killed the worker for want of memory while it ran the reference");
  EXPECT_TRUE(test::children_of(getpid()).empty());
  begin_vector();  // in a new worker
}

// More data than is allowed is refused by the worker, which goes on.
TEST(MeasurerMemory, IsLimited) {
  WorkerOptions options;
  options.data_bytes = 1 << 20;
  WorkerStart started = start_worker(options);
  ASSERT_TRUE(started.measurer) << started.error;
  Kernel reference = vector_kernel("honest", "add_one");
  reference.manifest.run[0].bytes = 1 << 20;
  TaskStart large = started.measurer->begin_task(reference, {}, 1);
  EXPECT_EQ(large.status, MeasureStatus::OutOfMemory);
  EXPECT_EQ(large.error, "there is no memory for `X` with 1048576 bytes");
  // What was taken is given back.
  for (int i = 0; i < 20; ++i) {
    TaskStart small = started.measurer->begin_task(vector_kernel("honest", "add_one"), {1e-5, 1e-5}, 1);
    ASSERT_GE(small.task, 0) << small.error;
    EXPECT_TRUE(is_measured(started.measurer->measure(small.task, vector_kernel("honest", "add_one"), {})));
    started.measurer->end_task(small.task);
  }
}

TEST_F(MeasurerTest, NothingIsLeftBehind) {
  begin_matmul();
  measurer_.reset();
  EXPECT_TRUE(test::children_of(getpid()).empty());
}

// The variable is for emulators, which have no seccomp. Elsewhere kernels are confined all the same.
TEST(StartWorker, AVariableDoesNotTakeSeccompAway) {
  test::TemporaryDirectory folder;
  WorkerOptions options;
  std::string error;
  const std::string worker = worker_path(options, error);
  ASSERT_EQ(error, "");
  options.executable = folder.path() + "/worker";
  test::write_file(options.executable, cat("#!/bin/sh\nexport TRACEWRIGHT_WITHOUT_SECCOMP=1\nexec '", worker, "'\n"));
  std::filesystem::permissions(options.executable, std::filesystem::perms::owner_all);
  WorkerStart started = start_worker(options);
  ASSERT_TRUE(started.measurer) << started.error;
  TaskStart task = started.measurer->begin_task(vector_kernel("honest", "add_one"), {}, 7);
  ASSERT_GE(task.task, 0) << task.error;
  MeasureResult result = started.measurer->measure(task.task, vector_kernel("faulty", "kills_parent"), {});
  EXPECT_EQ(result.status, MeasureStatus::Forbidden) << show(result);
  EXPECT_NE(result.message.find("made the system call getppid"), std::string::npos) << show(result);
}

TEST(StartWorker, SaysWhereItLooked) {
  WorkerOptions options;
  options.executable = "/nowhere/worker";
  WorkerStart started = start_worker(options);
  EXPECT_FALSE(started.measurer);
  EXPECT_EQ(started.error, "the worker was not found at /nowhere/worker (set TRACEWRIGHT_WORKER to its path)");
}

}  // namespace
}  // namespace tw

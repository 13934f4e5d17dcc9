// Messages between tuner and worker: what is written is read, and no damage is taken for a message
// or crashes the reader.
#include "runtime/measure/worker_protocol.h"

#include <gtest/gtest.h>

#include "dsl/base/rng.h"
#include "tests/unit/test_kernels.h"

namespace tw {
namespace {

MeasureMessage message() {
  MeasureMessage out;
  out.task = 7;
  out.candidate = test::packed_matmul();
  out.options.threads = 2;
  out.options.precision = 0.125;
  out.has_incumbent = true;
  out.new_incumbent = {test::parallel_matmul()};
  out.incumbent_seconds = 1e-3;
  return out;
}

TEST(WorkerProtocol, ReadsWhatWasWritten) {
  MeasureMessage wrote = message(), read;
  ASSERT_TRUE(decode(encode(wrote), read));
  EXPECT_EQ(read.task, 7);
  EXPECT_EQ(read.candidate.code, wrote.candidate.code);
  EXPECT_EQ(read.candidate.manifest.symbol, "matmul_packed");
  ASSERT_EQ(read.candidate.manifest.prepack.size(), 2u);
  EXPECT_EQ(read.candidate.manifest.prepack[1].name, "B.packed");
  EXPECT_EQ(read.candidate.manifest.prepack[1].role, ArgumentRole::Packed);
  EXPECT_EQ(read.candidate.manifest.prepack[1].shape, (std::vector<i64>{64, 64}));
  EXPECT_EQ(read.options.precision, 0.125);
  ASSERT_EQ(read.new_incumbent.size(), 1u);
  EXPECT_TRUE(read.new_incumbent[0].manifest.parallel);
  EXPECT_EQ(encode(read), encode(wrote));
}

TEST(WorkerProtocol, ResultsKeepTheirText) {
  MeasureResult wrote, read;
  wrote.status = MeasureStatus::OutOfBounds;
  wrote.message = "wrote beside `C`";
  wrote.seconds = 0.25;
  ASSERT_TRUE(decode(encode(wrote), read));
  EXPECT_EQ(read.status, MeasureStatus::OutOfBounds);
  EXPECT_EQ(read.message, wrote.message);
  EXPECT_EQ(read.seconds, 0.25);
}

TEST(WorkerProtocol, TasksThatCannotBeginSayWhy) {
  TaskStart wrote{.status = MeasureStatus::OutOfMemory, .error = "there is no more"}, read;
  ASSERT_TRUE(decode(encode(wrote), read));
  EXPECT_EQ(read.task, -1);
  EXPECT_EQ(read.status, MeasureStatus::OutOfMemory);
  EXPECT_EQ(read.error, wrote.error);
  wrote.status = static_cast<MeasureStatus>(kMeasureStatuses);
  EXPECT_FALSE(decode(encode(wrote), read));
}

TEST(WorkerProtocol, SamplesAreReadAndMustFit) {
  BeginTaskMessage wrote, read;
  wrote.samples[0] = {{"C", 10, {3, 9, 0}, {1, 2, 3}, {}}};
  wrote.samples[1] = {{"C", 10, {4}, {1}, {0.5}}, {"D", 1, {}, {}, {}}};
  std::string bytes = encode(wrote);
  ASSERT_TRUE(decode(bytes, read));
  EXPECT_EQ(read.samples[0][0].positions, wrote.samples[0][0].positions);
  EXPECT_EQ(read.samples[1][0].variances, wrote.samples[1][0].variances);
  EXPECT_EQ(encode(read), bytes);
  for (std::size_t size = 0; size < bytes.size(); ++size)
    EXPECT_FALSE(decode(std::string_view(bytes).substr(0, size), read)) << size;
  using Change = void (*)(OutputSample&);
  for (Change change :
       {Change([](OutputSample& s) { s.positions[1] = 10; }), Change([](OutputSample& s) { s.positions[1] = -1; }),
        Change([](OutputSample& s) { s.expected.pop_back(); }),
        Change([](OutputSample& s) { s.variances.push_back(1); })}) {
    BeginTaskMessage bad = wrote;
    change(bad.samples[0][0]);
    EXPECT_FALSE(decode(encode(bad), read));
  }
}

TEST(WorkerProtocol, RefusesEveryShorterMessage) {
  MeasureMessage wrote = message();
  wrote.candidate.code = "code";
  wrote.new_incumbent[0].code = "more";
  std::string bytes = encode(wrote);
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    MeasureMessage read;
    ASSERT_FALSE(decode(std::string_view(bytes).substr(0, size), read)) << size;
  }
  MeasureMessage read;
  EXPECT_FALSE(decode(bytes + "x", read));
}

TEST(WorkerProtocol, SurvivesDamage) {
  MeasureMessage wrote = message();
  wrote.candidate.code = "code";
  wrote.new_incumbent[0].code = "more";
  const std::string whole = encode(wrote);
  Rng rng(1);
  int refused = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string bytes = whole;
    bytes[static_cast<std::size_t>(rng.below(static_cast<i64>(bytes.size())))] = static_cast<char>(rng.next());
    MeasureMessage read;
    refused += !decode(bytes, read);
  }
  EXPECT_GT(refused, 1000);
  EXPECT_LT(refused, 20000);
}

}  // namespace
}  // namespace tw

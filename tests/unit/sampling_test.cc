// What a measurement says about a kernel, from its samples.
#include "runtime/worker/sampling.h"

#include <gtest/gtest.h>

namespace tw {
namespace {

std::vector<Sample> pairs(const std::vector<std::pair<i64, i64>>& incumbent_and_candidate, bool disturbed) {
  std::vector<Sample> samples;
  for (auto [incumbent, candidate] : incumbent_and_candidate) {
    auto pair = static_cast<std::int16_t>(samples.size() / 2);
    samples.push_back({incumbent, 1, pair, SampleKind::Incumbent, disturbed});
    samples.push_back({candidate, 1, pair, SampleKind::Candidate, disturbed});
  }
  return samples;
}

TEST(Samples, AQuietRatioScalesTheTimeOfTheIncumbent) {
  MeasureResult result;
  evaluate_samples(pairs({{1000, 500}, {1000, 500}, {2000, 1000}}, false), {}, true, 800e-9, result);
  EXPECT_EQ(result.status, MeasureStatus::Ok);
  EXPECT_DOUBLE_EQ(result.ratio, 0.5);
  EXPECT_DOUBLE_EQ(result.seconds, 400e-9);
}

// The incumbent has two threads, one of which shared its core now and then: 14.9 us are not 8.85.
TEST(Samples, OnABusyMachineTheSmallestTimesAreCompared) {
  MeasureResult result;
  evaluate_samples(pairs({{12600, 14900}, {7600, 14950}, {12700, 15000}, {12800, 15000}}, false), {}, true, 7480e-9, result);
  EXPECT_NEAR(result.ratio, 14900.0 / 7600, 1e-9);
  EXPECT_NEAR(result.seconds, 14900.0 / 7600 * 7480e-9, 1e-12);
  // The machine as a whole at half its speed.
  evaluate_samples(pairs({{12600, 14900}, {12650, 14950}, {12700, 15000}}, false), {}, true, 7480e-9, result);
  EXPECT_NEAR(result.seconds, 14950.0 / 12650 * 7480e-9, 1e-12);
}

// The incumbent was interrupted in each pair: the ratio makes the candidate five times as fast as anybody saw it.
TEST(Samples, ADisturbedRatioMakesNoKernelFasterThanItWasSeen) {
  MeasureResult result;
  evaluate_samples(pairs({{9000, 1500}, {8000, 1600}, {1000, 1400}}, true), {}, true, 1000e-9, result);
  EXPECT_EQ(result.status, MeasureStatus::Noisy);
  EXPECT_DOUBLE_EQ(result.seconds, 1400e-9);
}

}  // namespace
}  // namespace tw

// SlowerTest: after how many pairs a candidate is known to be slower than the incumbent. A sequential test by betting:
// each pair multiplies a wealth that begins at 1, and a candidate that is as fast as the incumbent, or faster, wins
// nothing on average, whatever came before. So the probability that its wealth ever reaches 1 / error is at most
// `error` (Ville's inequality), however often one looks. Two bet, half of the wealth each: one on kernels that are far
// slower, which ends after three pairs, one on those that are slower by little more than the noise.
//
// What is assumed of noise: the pairs of two equally fast kernels lie above 1, above 1, 2, 4 and 8 times the noise
// beyond 1, and above 1.3 at most as often as kBands says. `noise` is the median distance of two neighbouring samples
// of one kernel, so outliers and slow drift do not move it.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "dsl/base/quantile.h"

namespace tw {

class SlowerTest {
 public:
  // `noise` 0 = not known.
  SlowerTest(double error, double noise)
      : error_(error), noise_(noise > 0 ? std::max(noise, kLeastNoise) : kUnknownNoise) {}

  // One more pair: the candidate's time by the incumbent's.
  void add(double ratio) {
    for (std::size_t i = 0; i < kBettors; ++i) wealth_[i] *= kBands[band_of(ratio)].factors[i];
  }
  bool is_slower() const { return (wealth_[0] + wealth_[1]) / kBettors * error_ >= 1; }

  struct Band {
    double above;                   // in units of the noise
    double share;                   // of pairs in this band and not the next, at most, if there is no difference
    std::array<double, 2> factors;  // of the two bets
  };
  static constexpr std::size_t kBettors = 2;
  // Of each bettor the sum of share * factor is at most 1, and factors rise: a faster kernel wins less. The last band
  // begins at 1.3, too.
  static constexpr std::array<Band, 7> kBands = {{{-1e300, 0.5, {0.15, 0.2}},
                                                  {0, 0.23, {0.25, 0.5}},
                                                  {1, 0.12, {0.4, 1.8}},
                                                  {2, 0.07, {1, 3.75}},
                                                  {4, 0.02, {4, 3.75}},
                                                  {8, 0.025, {8, 3.75}},
                                                  {8, 0.035, {13, 3.75}}}};
  static constexpr double kLastRatio = 1.3;

 private:
  static constexpr double kLeastNoise = 0.002, kUnknownNoise = 0.02;

  std::size_t band_of(double ratio) const {
    double distance = (ratio - 1) / noise_;
    std::size_t band = 0;
    while (band + 1 < kBands.size() && distance > kBands[band + 1].above) ++band;
    return band == kBands.size() - 1 && ratio <= kLastRatio ? band - 1 : band;
  }

  double error_, noise_;
  std::array<double, kBettors> wealth_ = {1, 1};
};

// The noise of a kernel's samples, taken one after the other: 0 where there are fewer than three.
inline double noise_of(const std::vector<double>& times) {
  if (times.size() < 3) return 0;
  std::vector<double> distances;
  for (std::size_t i = 1; i < times.size(); ++i) distances.push_back(std::fabs(std::log(times[i] / times[i - 1])));
  return median(std::move(distances));
}

// The noise of a task, from that of its last measurements: rather too large than too small. 0 as long as there are few.
class NoiseHistory {
 public:
  void add(double noise) {
    if (noise <= 0) return;
    if (last_.size() == kKept) last_.erase(last_.begin());
    last_.push_back(noise);
  }
  double noise() const { return last_.size() < kEnough ? 0 : quantile(last_, 0.75); }

 private:
  static constexpr std::size_t kKept = 32, kEnough = 4;
  std::vector<double> last_;
};

}  // namespace tw

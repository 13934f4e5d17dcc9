// Elements of buffers by type: random data, and the comparison of a result with the reference. Runs
// in the worker, never in the child that ran the kernel. All that is run to be compared or timed
// (both workers, the emulator, `bench`) draws its data here.
#pragma once
#include <cmath>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backends/kernel.h"
#include "dsl/base/arena.h"
#include "runtime/measure/measurer.h"

namespace tw {

// `count` random elements for an input, which depend on `seed`, its name and the number of the data
// set, on every machine in the same way: floats from a normal distribution around 0 with variance
// 1/3, cut at 4 (6.9 standard deviations), the narrow ones truncated; signed integers from [-8, 8),
// unsigned ones from [0, 8), bool 0 or 1, all uniform.
// Normal, because what bits toggle in a device's multipliers decides how fast it may run: zeros, for
// one, are 13 % faster. Variance 1/3, that of uniform numbers in [-1, 1), because exp
// stays far from where halves overflow (65504): no element is larger than exp(4) = 55.
// `indices`: integers are brought into this range.
// Returns false if `stop`, which it asks every few milliseconds, was true.
bool fill_input(u64 seed, std::string_view name, int set, DType type, i64 count, char* data, IndexRange indices = {},
                const std::function<bool()>& stop = {});

struct Elements {
  const char* data = nullptr;
  DType type = DType::F32;
  i64 count = 0;
};

// An element is right within tolerance.absolute + tolerance.relative * |expected| + kDeviations * sqrt(its
// variance), all elements together if the length of the vector of errors is at most 1 + 1 / sqrt(count)
// times the root of the sum of the variances. Rounding to nearest stays below 1 in both.
inline constexpr double kDeviations = 2;
// The most that Comparison::distance may be.
inline double most_distance(i64 count) { return 1 + 1 / std::sqrt(static_cast<double>(count)); }

struct Comparison {
  i64 wrong = 0;                    // elements outside the tolerance
  i64 first = -1;                   // index of the first of them
  double actual = 0, expected = 0;  // there
  double max_error = 0;             // largest |actual - expected| of all elements; infinite if one is NaN
  // Length of the vector of errors by that of the errors that are allowed for; 0 without variances.
  double distance = 0;
  bool is_too_far = false;  // in all, even if no element is wrong alone
  bool is_right() const { return wrong == 0 && !is_too_far; }
};
// Same count, any types; compared as doubles (integers beyond 2^53 are therefore compared rounded).
// `variances`: one for each element, or null. Where one is no finite number, nothing is known of the element and
// only its being finite is compared; an integer has to be the same.
Comparison compare(const Elements& actual, const Elements& expected, Tolerance tolerance,
                   const double* variances = nullptr);
// The elements at `positions`, one behind the other.
std::string gather(const Elements& all, std::span<const i64> positions);
// Whether bytes are the same as before, far faster than comparing them with a reference. XXH3.
u64 hash_of(std::string_view bytes, u64 seed);
// The first element whose bytes are all `byte`, and the first that is no number; -1: there is none.
i64 find_filled(const Elements& all, u8 byte);
i64 find_not_a_number(const Elements& all);
// The place of an element of a dense tensor: [3, 7] of element 3 * columns + 7.
std::vector<i64> position_of(const std::vector<i64>& shape, i64 index);
std::string position_text(const std::vector<i64>& shape, i64 index);
// What is wrong with an output, in half a sentence; `position` is that of the first wrong element.
std::string difference_text(const Comparison& found, i64 count, const std::string& position);

}  // namespace tw

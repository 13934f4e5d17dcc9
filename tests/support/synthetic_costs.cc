#include "tests/support/synthetic_costs.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "dsl/base/rng.h"

namespace tw {
namespace {

constexpr int told = 40;  // columns that say something; the rest is constant or a mix of these
constexpr int rows_of_kind[] = {1, 1, 1, 4};

struct Tiling {
  double m, n, k;     // extents of the matrix product
  double tm, tn, tk;  // cache tile
  double rm, rn;      // register tile, rn in vectors of 8
  bool vectorised, parallel, packed;
  double unroll;
};

double slog(double x) { return std::log2(std::abs(x) + 1); }

Tiling draw_tiling(double m, double n, double k, Rng& rng) {
  const auto power = [&](int low, int high) { return std::exp2(low + rng.below(high - low + 1)); };
  Tiling t{.m = m, .n = n, .k = k};
  t.tm = std::min(m, power(2, 8));
  t.tn = std::min(n, power(3, 9));
  t.tk = std::min(k, power(2, 9));
  t.rm = static_cast<double>(1 + rng.below(12));
  t.rn = static_cast<double>(1 + rng.below(3));
  t.vectorised = rng.below(10) < 8;
  t.parallel = rng.below(10) < 8;
  t.packed = rng.below(2) == 0;
  t.unroll = power(0, 6);
  return t;
}

double registers(const Tiling& t) { return t.rm * t.rn + t.rn + 1; }

bool fails(const Tiling& t) { return t.tm * t.tn >= 65536 || t.rm * t.rn >= 32; }

// Seconds on the imaginary machine: work over throughput, cache misses over bandwidth, loop
// overhead, idle cores.
double time_of(const Tiling& t) {
  const double work = t.m * t.n * t.k;
  double per_cycle = t.vectorised ? 16 : 2;
  per_cycle *= std::min(1.0, t.rm * t.rn / 10);                       // too few independent sums
  if (registers(t) > 16) per_cycle /= 1 + 0.4 * (registers(t) - 16);  // spills
  const double tail_m = std::ceil(t.tm / t.rm) * t.rm / t.tm;
  const double tail_n = std::ceil(t.tn / (8 * t.rn)) * 8 * t.rn / t.tn;
  const double compute = work / per_cycle * tail_m * tail_n;
  const double l1 = 4 * t.tk * (t.rm + 8 * t.rn), l2 = 4 * t.tk * t.tn;
  double bytes = 4 * work * (1 / t.tm + 1 / t.tn + 1 / t.tk) * (l2 > 262144 ? 4 : 1) * (l1 > 32768 ? 3 : 1);
  if (!t.packed) bytes *= 1.8;
  const double overhead = work / (t.rm * t.rn * 8 * t.unroll) * 0.3 + (t.unroll > 32 ? compute * 0.15 : 0);
  const double tasks = std::ceil(t.m / t.tm) * std::ceil(t.n / t.tn);
  const double speedup = t.parallel ? tasks / std::ceil(tasks / 2) : 1;
  return (compute + bytes / 8 + overhead) / speedup / 3e9 + (t.packed ? (t.m + t.n) * t.k * 4 / 2e10 : 0);
}

// The row of one store: kind 0 = the product, 1 = initial values, 2 = write back, 3 = packing.
std::array<double, told> describe(const Tiling& t, int kind) {
  std::array<double, told> f{};
  f[kind] = 1;
  const double volume = kind == 0 ? t.m * t.n * t.k : kind == 3 ? t.n * t.k / 4 : t.m * t.n;
  f[4] = slog(volume);
  f[5] = slog(kind == 0 ? 2 * volume : 0);
  f[6] = t.vectorised;
  f[7] = slog(t.vectorised ? 8 * t.rn : 0);
  f[8] = t.parallel;
  f[9] = slog(t.parallel ? std::ceil(t.m / t.tm) * std::ceil(t.n / t.tn) : 0);
  f[10] = slog(t.unroll);
  if (kind == 3) return f;
  f[11] = slog(t.tm * t.tk * 4);
  f[12] = slog(t.tk * t.tn * 4);
  f[13] = slog(t.tm * t.tn * 4);
  f[14] = slog(t.rm * t.rn * 32);
  f[15] = slog(4 * t.tk * (t.rm + 8 * t.rn));
  if (kind != 0) return f;
  f[16] = slog(t.m / t.tm);
  f[17] = slog(t.n / t.tn);
  f[18] = slog(t.k / t.tk);
  f[19] = slog(t.tm / t.rm);
  f[20] = slog(t.tn / (8 * t.rn));
  f[21] = slog(volume * 4 / t.tm);
  f[22] = slog(volume * 4 / t.tn);
  f[23] = slog(volume * 4 / t.tk);
  f[24] = t.packed;
  f[25] = slog(t.packed ? 1 : t.n);  // stride
  f[26] = slog(t.rm);
  f[27] = slog(t.rn);
  return f;
}

void append_row(const std::array<double, told>& f, int columns, std::vector<float>& out) {
  for (int c = 0; c < columns; ++c) {
    if (c < told)
      out.push_back(static_cast<float>(f[c]));
    else if (c % 4 == 0)
      out.push_back(1);
    else
      out.push_back(static_cast<float>(f[c * 7 % told] + f[c * 13 % told]));
  }
}

double normal(Rng& rng) {
  double sum = -6;
  for (int i = 0; i < 12; ++i) sum += rng.uniform();
  return sum;
}

}  // namespace

Dataset synthetic_costs(const SyntheticOptions& options, u64 seed) {
  TW_CHECK(options.columns >= told);
  Dataset data;
  data.features.columns = options.columns;
  for (int g = 0; g < options.groups; ++g) {
    const int number = options.first_group + g;
    Rng extents(77, number);
    const double m = 32.0 * (1 + extents.below(32)), n = 64.0 * (1 + extents.below(16)),
                 k = 64.0 * (1 + extents.below(16));
    for (int i = 0; i < options.per_group; ++i) {
      Rng rng(seed, number, i);
      const Tiling tiling = draw_tiling(m, n, k, rng);
      std::vector<float> rows;
      for (int kind = 0; kind < (tiling.packed ? 4 : 3); ++kind) {
        for (int r = 0; r < rows_of_kind[kind]; ++r) append_row(describe(tiling, kind), options.columns, rows);
      }
      data.features.add(rows);
      const double seconds = time_of(tiling) * std::exp(options.noise * normal(rng));
      data.seconds.push_back(fails(tiling) ? std::numeric_limits<double>::infinity() : seconds);
      data.group.push_back(number);
    }
  }
  return data;
}

Dataset subset(const Dataset& data, const std::vector<int>& places) {
  Dataset out;
  out.features.columns = data.features.columns;
  for (int place : places) out.add(data, place);
  return out;
}

Split hold_out(const Dataset& data, int n) {
  std::vector<int> learn, held_out;
  for (int i = 0; i < data.size(); ++i) (i % n == 0 ? held_out : learn).push_back(i);
  return {subset(data, learn), subset(data, held_out)};
}

}  // namespace tw

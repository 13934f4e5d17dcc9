#include "sampler/draw/tiles.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tw {

List<PrimePower> factorize(i64 n) {
  List<PrimePower> powers;
  for (i64 prime = 2; prime * prime <= n; ++prime) {
    int exponent = 0;
    for (; n % prime == 0; n /= prime) ++exponent;
    if (exponent) powers.push_back({prime, exponent});
  }
  if (n > 1) powers.push_back({n, 1});
  return powers;
}

namespace {

// Splits `exponent` stars into n parts, every composition equally likely: n - 1 bars at distinct places among exponent
// + n - 1.
void draw_composition(int exponent, int n, Rng& rng, int* parts) {
  int places = exponent + n - 1;
  List<int> bars;
  while (static_cast<int>(bars.size()) < n - 1) {
    int place = static_cast<int>(rng.below(places));
    if (std::find(bars.begin(), bars.end(), place) == bars.end()) bars.push_back(place);
  }
  std::sort(bars.begin(), bars.end());
  int previous = -1;
  for (int i = 0; i < n - 1; ++i) {
    parts[i] = bars[i] - previous - 1;
    previous = bars[i];
  }
  parts[n - 1] = places - previous - 1;
}

}  // namespace

void draw_perfect_tile(i64 extent, int n, i64 max_innermost, Rng& rng, i64* factors) {
  List<PrimePower> powers = factorize(extent);
  do {
    std::fill(factors, factors + n, 1);
    for (const PrimePower& power : powers) {
      int parts[16];
      draw_composition(power.exponent, n, rng, parts);
      for (int i = 0; i < n; ++i) {
        for (int k = 0; k < parts[i]; ++k) factors[i] *= power.prime;
      }
    }
  } while (n > 1 && max_innermost >= 1 && factors[n - 1] > max_innermost);
}

bool fit_perfect_tile(i64 extent, int n, i64* factors) {
  bool fits = true;
  i64 rest = extent;
  for (int i = n - 1; i > 0; --i) {
    if (factors[i] < 1 || rest % factors[i] != 0) {
      factors[i] = rest;
      fits = false;
    }
    rest /= factors[i];
  }
  fits &= factors[0] == rest;
  factors[0] = rest;
  return fits;
}

void draw_tile(i64 extent, int n, i64 max_innermost, Rng& rng, i64* factors) {
  if (rng.below(2) == 0) {
    draw_perfect_tile(extent, n, max_innermost, rng, factors);
  } else {
    double range = std::log(static_cast<double>(extent) + 0.999);
    for (int i = 0; i < n; ++i) factors[i] = static_cast<i64>(std::exp(rng.uniform() * range));
  }
  fit_tile(extent, n, max_innermost, factors);
}

bool fit_tile(i64 extent, int n, i64 max_innermost, i64* factors) {
  bool fits = true;
  i64 rest = extent;
  for (int i = n - 1; i > 0; --i) {
    i64 most = i == n - 1 && max_innermost > 0 ? std::min(rest, max_innermost) : rest;
    i64 legal = std::clamp<i64>(factors[i], 1, most);
    fits &= legal == factors[i];
    factors[i] = legal;
    rest = (rest + legal - 1) / legal;
  }
  fits &= factors[0] == rest;
  factors[0] = rest;
  return fits;
}

void draw_partitioned_tile(i64 extent, int n, int position, i64 inner, Rng& rng, i64* factors) {
  std::fill(factors, factors + n, 1);
  for (const PrimePower& power : factorize(extent)) {
    int needed = 0, parts[16];
    for (i64 rest = inner; rest % power.prime == 0; rest /= power.prime) ++needed;
    do {
      draw_composition(power.exponent, n, rng, parts);
    } while (std::accumulate(parts + position, parts + n, 0) < needed);
    for (int i = 0; i < n; ++i) {
      for (int k = 0; k < parts[i]; ++k) factors[i] *= power.prime;
    }
  }
}

}  // namespace tw

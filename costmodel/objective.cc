#include "costmodel/objective.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "dsl/base/rng.h"
#include "dsl/base/text.h"

namespace tw {
namespace {

constexpr std::array<std::string_view, 3> names = {"usual", "rank", "regression"};
constexpr std::size_t block_size = 64;  // candidates that are compared with each other

void clear(std::size_t candidates, Slopes& out) {
  out.gradient.assign(candidates, 0.0f);
  out.curvature.assign(candidates, 0.0f);
  out.loss = 0;
}

// All pairs of a block.
void add_pairs(const Learned& data, std::span<const float> scores, std::span<const int> block, Slopes& out) {
  const float share = 1.0f / static_cast<float>(std::max<std::size_t>(1, block.size() - 1));
  for (std::size_t i = 0; i < block.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      if (data.speed[block[i]] == data.speed[block[j]]) continue;
      const bool is_faster = data.speed[block[i]] > data.speed[block[j]];
      const int fast = block[is_faster ? i : j], slow = block[is_faster ? j : i];
      const float weight = (data.speed[fast] + 0.1f) * share;
      const float wrong = 1 / (1 + std::exp(scores[fast] - scores[slow]));
      out.gradient[fast] -= weight * wrong;
      out.gradient[slow] += weight * wrong;
      out.curvature[fast] += weight * wrong * (1 - wrong);
      out.curvature[slow] += weight * wrong * (1 - wrong);
      out.loss += weight * -std::log(std::max(1 - wrong, 1e-30f));
    }
  }
}

}  // namespace

std::vector<std::string> objective_names() { return {std::begin(names), std::end(names)}; }

std::optional<Objective> parse_objective(std::string_view name) {
  const auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end()) return std::nullopt;
  return static_cast<Objective>(at - names.begin());
}

std::string name_of(Objective objective) { return std::string(names[static_cast<std::size_t>(objective)]); }

void squared_slopes(const Learned& data, std::span<const float> scores, float slow_weight, Slopes& out) {
  clear(scores.size(), out);
  for (int c : data.places) {
    const float error = scores[c] - data.speed[c], weight = slow_weight + (1 - slow_weight) * data.speed[c];
    out.gradient[c] = weight * error;
    out.curvature[c] = weight;
    out.loss += weight * error * error / static_cast<double>(data.places.size());
  }
}

void pairwise_slopes(const Learned& data, std::span<const float> scores, u64 seed, int pass, Slopes& out) {
  clear(scores.size(), out);
  std::vector<int> order(data.places.begin(), data.places.end());
  Rng rng(seed, static_cast<u64>(pass));
  for (i64 i = static_cast<i64>(order.size()); i > 1; --i) std::swap(order[i - 1], order[rng.below(i)]);
  std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return data.group[a] < data.group[b]; });
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && data.group[order[end]] == data.group[order[begin]]) ++end;
    const std::size_t count = end - begin, blocks = (count + block_size - 1) / block_size;
    for (std::size_t b = 0; b < blocks; ++b) {
      const std::size_t from = begin + count * b / blocks, to = begin + count * (b + 1) / blocks;
      add_pairs(data, scores, {order.data() + from, to - from}, out);
    }
  }
  if (!order.empty()) out.loss /= static_cast<double>(order.size());
}

}  // namespace tw

#include "costmodel/accuracy.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <numeric>
#include <optional>

namespace tw {
namespace {

struct Entry {
  float score;
  double seconds;
};

// Best score first; of equal scores the slower first.
bool scored_before(const Entry& a, const Entry& b) {
  return a.score != b.score ? a.score > b.score : a.seconds > b.seconds;
}

// `entries` in the order of scored_before.
double speed_of_best(const std::vector<Entry>& entries, double fastest, std::size_t k) {
  double found = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < std::min(k, entries.size()); ++i) found = std::min(found, entries[i].seconds);
  return fastest / found;
}

// The share of pairs in the right order, of those whose slower one takes at least `ratio` times as long; nullopt if
// there is no such pair.
std::optional<double> pairs_in_order(const std::vector<Entry>& entries, double ratio) {
  double right = 0, all = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    for (std::size_t j = i + 1; j < entries.size(); ++j) {
      const auto [low, high] = std::minmax(entries[i].seconds, entries[j].seconds);
      if (low == high || high < ratio * low) continue;
      all += 1;
      if (entries[i].score == entries[j].score)
        right += 0.5;
      else if (entries[i].seconds < entries[j].seconds)
        right += 1;
    }
  }
  return all > 0 ? std::optional(right / all) : std::nullopt;
}

// Ranks of values, the lowest first; equal ones get the mean of theirs.
std::vector<double> ranks_of(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t begin = 0, end = 0; begin < order.size(); begin = end) {
    while (end < order.size() && values[order[end]] == values[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i) ranks[order[i]] = static_cast<double>(begin + end - 1) / 2;
  }
  return ranks;
}

// 0 if all scores are equal.
double rank_correlation(const std::vector<Entry>& entries) {
  std::vector<double> slowness, seconds;
  for (const Entry& entry : entries)
    slowness.push_back(-static_cast<double>(entry.score)), seconds.push_back(entry.seconds);
  std::vector<double> a = ranks_of(slowness), b = ranks_of(seconds);
  double mean = static_cast<double>(entries.size() - 1) / 2, both = 0, of_a = 0, of_b = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    both += (a[i] - mean) * (b[i] - mean);
    of_a += (a[i] - mean) * (a[i] - mean), of_b += (b[i] - mean) * (b[i] - mean);
  }
  return of_a > 0 && of_b > 0 ? both / std::sqrt(of_a * of_b) : 0;
}

double recall_at(const std::vector<Entry>& entries, std::size_t k) {
  std::vector<double> sorted;
  for (const Entry& entry : entries) sorted.push_back(entry.seconds);
  std::sort(sorted.begin(), sorted.end());
  const double limit = sorted[k - 1];
  const auto found =
      std::count_if(entries.begin(), entries.begin() + k, [&](const Entry& e) { return e.seconds <= limit; });
  return static_cast<double>(found) / k;
}

}  // namespace

Accuracy accuracy(std::span<const float> scores, std::span<const double> seconds, std::span<const i32> group, int k) {
  TW_CHECK(scores.size() == seconds.size() && scores.size() == group.size() && k > 0);
  std::map<i32, std::vector<Entry>> groups;
  for (std::size_t i = 0; i < scores.size(); ++i) groups[group[i]].push_back({scores[i], seconds[i]});

  Accuracy sum{.k = k};
  for (auto& [number, entries] : groups) {
    const auto [low, high] = std::minmax_element(entries.begin(), entries.end(),
                                                 [](const Entry& a, const Entry& b) { return a.seconds < b.seconds; });
    const double fastest = low->seconds;
    if (fastest == high->seconds) continue;
    std::sort(entries.begin(), entries.end(), scored_before);
    sum.groups += 1;
    sum.top1 += speed_of_best(entries, fastest, 1);
    sum.top5 += speed_of_best(entries, fastest, 5);
    sum.pairwise += *pairs_in_order(entries, 1);
    if (auto clear = pairs_in_order(entries, Accuracy::kClear)) sum.clear_pairs += *clear, sum.clear_groups += 1;
    sum.rank += rank_correlation(entries);
    sum.recall += recall_at(entries, std::min<std::size_t>(k, entries.size() / 2));
  }
  if (sum.groups == 0) return sum;
  sum.clear_pairs /= std::max(1, sum.clear_groups);
  for (double* share : {&sum.top1, &sum.top5, &sum.pairwise, &sum.rank, &sum.recall}) *share /= sum.groups;
  return sum;
}

std::string to_string(const Accuracy& a) {
  char line[128];
  std::snprintf(line, sizeof line, "top-1 %.3f, top-5 %.3f, pairs %.3f, recall@%d %.2f (%d %s)", a.top1, a.top5,
                a.pairwise, a.k, a.recall, a.groups, a.groups == 1 ? "task" : "tasks");
  return line;
}

}  // namespace tw

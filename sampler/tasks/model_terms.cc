#include "sampler/tasks/model_terms.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "costmodel/accuracy.h"
#include "dsl/base/quantile.h"

namespace tw {
namespace {

struct TermRow {
  const char* name;
  double (*of)(const KernelEstimate& kernel);  // of the whole kernel, in any unit
};
double of_blocks(const KernelEstimate& kernel, double cycles) { return cycles * static_cast<double>(kernel.blocks()); }
constexpr TermRow kTerms[] = {
    {"arithmetic", [](const KernelEstimate& k) { return of_blocks(k, k.fma); }},
    {"issue", [](const KernelEstimate& k) { return of_blocks(k, k.issue); }},
    {"shared memory and L1", [](const KernelEstimate& k) { return of_blocks(k, k.shared); }},
    {"waiting of blocks", [](const KernelEstimate& k) { return of_blocks(k, k.wait); }},
    {"waiting of warps", [](const KernelEstimate& k) { return of_blocks(k, k.warp_wait); }},
    {"L2", [](const KernelEstimate& k) { return k.l2_bytes; }},
    {"memory", [](const KernelEstimate& k) { return k.dram_bytes; }},
};

double correlation(const std::vector<float>& a, const std::vector<double>& b) {
  std::vector<double> inverse;  // accuracy() ranks by speed
  for (double value : b) inverse.push_back(1 / value);
  return accuracy(a, inverse, std::vector<i32>(a.size(), 0)).rank;
}

RuleTerms terms_of(const ModelData& data, const std::vector<std::size_t>& programs) {
  RuleTerms out{.programs = static_cast<int>(programs.size())};
  std::vector<double> ratios, seconds;
  std::vector<float> scores;
  auto predicted = [&](std::size_t i) { return std::exp(-static_cast<double>(data.draft[i])); };
  for (std::size_t i : programs) {
    ratios.push_back(data.data.seconds[i] / predicted(i));
    seconds.push_back(data.data.seconds[i]);
    scores.push_back(data.draft[i]);
  }
  out.rank = accuracy(scores, seconds, std::vector<i32>(programs.size(), 0)).rank;
  out.ratio = median(ratios);
  for (const TermRow& term : kTerms) {
    std::vector<float> shares;
    for (std::size_t i : programs) {
      double sum = 0;
      for (const KernelEstimate& kernel : data.estimates[i]) sum += term.of(kernel);
      shares.push_back(static_cast<float>(std::log(std::max(sum, 1e-30) / predicted(i))));
    }
    out.terms.push_back({term.name, correlation(shares, ratios)});
  }
  std::ranges::stable_sort(out.terms, std::greater(), [](const auto& term) { return std::abs(term.correlation); });
  return out;
}

}  // namespace

std::vector<RuleTerms> model_terms(const ModelData& data) {
  std::map<std::pair<i32, std::string>, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < data.draft.size(); ++i) {
    if (!data.estimates[i].empty() && std::isfinite(data.data.seconds[i]))
      groups[{data.data.group[i], data.rules[i]}].push_back(i);
  }
  std::vector<RuleTerms> out;
  for (const auto& [group, programs] : groups) {
    if (programs.size() < static_cast<std::size_t>(kFewestPrograms)) continue;
    out.push_back(terms_of(data, programs));
    out.back().task = data.tasks[static_cast<std::size_t>(group.first)].name;
    out.back().rule = group.second;
  }
  return out;
}

}  // namespace tw

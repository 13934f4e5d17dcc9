// build_neighbours: many candidates are built by several threads.
#pragma once
#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "sampler/space/candidate.h"
#include "sampler/space/parallel_for.h"

namespace tw {

// Calls build(i, builder) for each i in [0, count). Candidates whose decisions begin alike are built one behind the
// other by one thread, so that its builder has the least to replay. `candidate_of(i)`: a const Candidate&.
template <class CandidateOf, class Build>
void build_neighbours(int count, const std::vector<std::unique_ptr<CandidateBuilder>>& builders,
                      const CandidateOf& candidate_of, const Build& build) {
  constexpr int kRun = 32;  // neighbours that one thread builds
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::stable_sort(order, has_earlier_decisions, [&](int i) -> const Candidate& { return candidate_of(i); });
  parallel_for((count + kRun - 1) / kRun, static_cast<int>(builders.size()), [&](int run, int thread) {
    for (int i = run * kRun; i < std::min(count, (run + 1) * kRun); ++i) build(order[i], *builders[thread]);
  });
}

}  // namespace tw

#include "sampler/strategies/chains.h"

#include <algorithm>

namespace tw {

void Chains::begin_round(Proposer& proposer, const Round& round, int count) {
  scores_.clear();
  auto wanted = static_cast<std::size_t>(count);
  if (candidates_.empty()) {
    std::size_t measured = std::min(round.elites.size(), wanted / 2);
    candidates_.assign(round.elites.begin(), round.elites.begin() + static_cast<std::ptrdiff_t>(measured));
  }
  constexpr u64 kAttempts = 4;  // draws may be rejected, or repeat in a small space
  for (u64 attempt = 0; attempt < kAttempts && candidates_.size() < wanted && !proposer.must_stop(); ++attempt) {
    int missing = static_cast<int>(wanted - candidates_.size());
    for (Candidate& drawn : proposer.draws(missing, 1 + attempt)) candidates_.push_back(std::move(drawn));
  }
  if (proposer.must_stop()) return;
  score(proposer, candidates_);
  proposer.offer(candidates_);
}

void Chains::begin_anew(Proposer& proposer, const Round& round, int count) {
  constexpr u64 kAttempts = 8, kFirstDraw = 2000000;  // label, behind those of all steps
  constexpr int kLeast = 64;
  std::vector<Candidate> drawn;
  for (u64 attempt = 0; attempt < kAttempts && proposer.pool_size() == 0; ++attempt) {
    drawn = proposer.draws(std::max(kLeast, count), kFirstDraw + attempt);
    if (proposer.must_stop()) return;
    score(proposer, drawn);
    proposer.offer(drawn);
  }
  if (proposer.pool_size() == 0) return;
  std::ranges::stable_partition(drawn, [&](const Candidate& one) { return !round.measured.contains(one.program); });
  drawn.resize(std::min(drawn.size(), static_cast<std::size_t>(count)));
  candidates_ = std::move(drawn);
}

std::vector<Candidate> Chains::step(Proposer& proposer, const Round& round, u64 label, const Change& change,
                                    const Chance& chance) {
  std::vector<std::optional<Candidate>> proposed =
      proposer.build_each(static_cast<int>(candidates_.size()), label, [&](int chain, Candidate& candidate, Rng& rng) {
        candidate = candidates_[chain];
        return change(candidate, rng);
      });
  std::vector<Candidate> built;
  if (proposer.must_stop()) return built;
  for (const auto& one : proposed) {
    if (one) built.push_back(*one);
  }
  score(proposer, built);
  proposer.offer(built);
  std::size_t next = 0;
  for (std::size_t chain = 0; chain < candidates_.size(); ++chain) {
    if (!proposed[chain]) continue;
    const Candidate& candidate = built[next++];
    Rng rng = round.rng.fork(mix64(label) ^ chain);
    if (rng.uniform() < chance(candidates_[chain], candidate)) candidates_[chain] = candidate;
  }
  return built;
}

void Chains::score(Proposer& proposer, std::vector<Candidate>& candidates) {
  std::vector<Candidate> unknown;
  HashSet met;
  for (const Candidate& candidate : candidates) {
    if (!scores_.contains(candidate.program) && met.insert(candidate.program).second) unknown.push_back(candidate);
  }
  proposer.score(unknown);
  for (const Candidate& candidate : unknown) scores_[candidate.program] = candidate.score;
  for (Candidate& candidate : candidates) candidate.score = scores_.at(candidate.program);
}

}  // namespace tw

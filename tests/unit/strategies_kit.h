// Rounds of a strategy on small spaces, with times that follow from the program alone.
#pragma once
#include <algorithm>
#include <bit>
#include <limits>

#include "dsl/schedule/parse_schedule.h"
#include "sampler/strategies/search_choice.h"
#include "tests/unit/search_kit.h"

namespace tw {

// Scores in [0, 1) that follow from the features, with deviations that do, too.
class HashModel : public CostModel {
 public:
  const char* name() const override { return "hash"; }
  std::vector<float> predict(const FeatureBatch& batch) const override {
    std::vector<float> scores;
    for (const Prediction& prediction : predict_with_deviation(batch)) scores.push_back(prediction.mean);
    return scores;
  }
  std::vector<Prediction> predict_with_deviation(const FeatureBatch& batch) const override {
    std::vector<Prediction> out;
    for (int i = 0; i < batch.size(); ++i) {
      u64 hash = 1;
      const float* end = batch.row(batch.first_row[i + 1]);
      for (const float* value = batch.row(batch.first_row[i]); value != end; ++value)
        hash = mix64(hash ^ std::bit_cast<u32>(*value));
      float mean = static_cast<float>(hash >> 40) * 0x1.0p-24f;
      out.push_back({is_flat ? 0.5f : mean, static_cast<float>(mix64(hash) >> 40) * 0x1.0p-24f});
    }
    return out;
  }
  TrainReport update(const Dataset&, Effort) override { return {}; }
  std::string save() const override { return ""; }
  Status load(std::string_view) override { return Unit{}; }

  bool is_flat = false;  // all means are equal
};

// A space, and what a run knows of it.
class Rounds {
 public:
  Rounds(CandidateSpace space, const SearchChoice& choice, u64 seed = 1, int threads = 1)
      : space(std::move(space)), choice_(choice), plan_(plan_of(choice)), seed_(seed) {
    options_.threads = threads;
    options_.keep_features = true;
    restart();
  }
  // As a run that is continued: what was measured is known, nothing else.
  void restart() {
    strategy = plan_.new_strategy();
    known_.forget();
  }

  std::vector<Candidate> next(int count) {
    std::vector<Candidate> elites = fastest();
    Rng rng(seed_, static_cast<u64>(round_++));
    Round round{space, elites, measured, times, model, plan_.acquisition, count, rng, known_, stats, options_};
    std::vector<Candidate> batch = strategy->propose(round);
    pooled = batch;
    if (plan_.kind->has_scores) batch = select_batch(std::move(batch), round, plan_.selection);
    return batch;
  }
  // Every seventh fails; the others take 1 to 1000 us.
  void measure(const std::vector<Candidate>& batch) {
    for (const Candidate& candidate : batch) {
      EXPECT_TRUE(measured.insert(candidate.program).second) << "proposed twice";
      u64 hash = mix64(candidate.program.low);
      times[candidate.program] = hash % 7 == 0 ? std::numeric_limits<double>::infinity() : 1e-6 * (1 + hash % 1000);
      tried.push_back(candidate);
    }
  }
  std::vector<Candidate> fastest() const {
    std::vector<Candidate> out;
    for (const Candidate& candidate : tried) {
      if (times.at(candidate.program) < 1) out.push_back(candidate);
    }
    std::ranges::stable_sort(out, {}, [&](const Candidate& candidate) { return times.at(candidate.program); });
    return out;
  }

  CandidateSpace space;
  std::unique_ptr<Strategy> strategy;
  const CostModel* model = nullptr;
  std::vector<Candidate> pooled;  // what the last round's selection had to choose from
  HashSet measured;
  MeasuredTimes times;
  std::vector<Candidate> tried;
  SearchStats stats;

 private:
  SearchChoice choice_;
  SearchPlan plan_;
  u64 seed_;
  i64 round_ = 0;
  KnownCandidates known_;
  RoundOptions options_;
};

// A tile of a loop whose extent another tile decides, an order, weights and a condition.
inline constexpr const char* kOpenExtents = R"(b = get_block("C")
i, j, k = get_loops(b)
x, y = sample_perfect_tile(i, 2, 64)
i0, i1 = split(i, [x, y])
p, q = sample_perfect_tile(i1, 2, 4)
i10, i11 = split(i1, [p, q])
v = sample_categorical([2, 4, 8], [1, 2, 5])
u = sample_categorical([1, 2, 4])
require(u * v <= 16)
j0, j1 = split(j, [_, v])
o0, o1 = sample_permutation([i10, j0])
reorder([o0, o1])
unroll(i11)
)";

// A space of a workload under a rule set, and a schedule by hand if there is one.
inline CandidateSpace space_of(const std::string& workload, const WorkloadArguments& arguments,
                               const std::string& rule_set, const char* by_hand = nullptr, int threads = 1) {
  static const rules::Library library = rules::Library::built_in();
  TuneTask task = task_of(workload, arguments);
  task.target.threads = threads;
  static std::vector<OwnedProgram> programs;  // spaces refer to them
  programs.push_back(task.program);
  std::string errors;
  CandidateSpace space =
      make_candidate_space(task.program.program, *library.find_set(rule_set), library, task.target, errors);
  EXPECT_EQ(errors, "");
  if (!by_hand) return space;
  Source source{"by hand", by_hand};
  Diagnostics diagnostics(source);
  std::optional<Trace> trace = parse_schedule(source, diagnostics);
  EXPECT_TRUE(trace) << diagnostics.render();
  add_template(space.space, *trace);
  return space;
}

inline CandidateSpace small_space(const std::string& name) {
  if (name == "softmax") return space_of("softmax", {{"M", i64{8}}, {"N", i64{64}}}, "cpu");
  if (name == "open")
    return space_of("matmul", {{"M", i64{24}}, {"N", i64{32}}, {"K", i64{8}}}, "untuned", kOpenExtents);
  return space_of("dense", {{"M", i64{96}}, {"N", i64{192}}, {"K", i64{120}}}, "cpu", nullptr, 2);
}

}  // namespace tw

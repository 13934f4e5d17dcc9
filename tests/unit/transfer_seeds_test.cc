// Transfer seeds: what is carried over, that it is legal, and that a search is faster with it.
#include "sampler/search/transfer_seeds.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "dsl/base/text.h"
#include "sampler/space/other_sketches.h"
#include "sampler/tasks/load_list.h"
#include "tests/support/parsed.h"
#include "tests/unit/search_kit.h"

namespace tw {
namespace {

// For a processor that is said, so that candidates and code are the same on every machine.
TuneTask product(i64 m, i64 n, i64 k, const std::vector<std::string>& epilogues = {}) {
  TuneTask task = task_of("matmul", {{"M", m}, {"N", n}, {"K", k}}, epilogues);
  task.target = test::parsed_target("cpu -mcpu=skylake-avx512 -threads=1");
  return task;
}

// Code of one length counts as the fastest: the same decisions are good for all shapes that they divide, and neither
// the draft model nor the untuned program knows which.
MeasureResult by_length(const Kernel& kernel) {
  MeasureResult result = time_of(kernel);
  double octaves = std::abs(std::log2(static_cast<double>(kernel.code.size()) / 6000));
  result.seconds = result.min_seconds = result.median_seconds = 1e-6 * (1 + octaves);
  return result;
}

// The length of the code follows from what is drawn.
constexpr const char* kLengths = R"tw(
rule lengths(b: block)
  doc "unrolled tiles"
  when is_reduction(b) and len(spatial_loops(b)) == 2 and len(reduction_loops(b)) == 1
{
  i, j = spatial_loops(b); k = reduction_loops(b)[0]
  rows = sample_categorical([1, 2, 3, 4, 5, 6, 8, 10, 12, 15])
  steps = sample_categorical([1, 2, 3, 4, 5, 6, 8, 10, 12, 15])
  width = sample_categorical([8, 16, 32, 64])
  i0, i1 = split(i, [_, rows]); k0, k1 = split(k, [_, steps]); j0, j1 = split(j, [_, width])
  reorder([i0, j0, k0, k1, i1, j1]); unroll(k1); unroll(i1); vectorize(j1)
}
rules lengths { lengths }
)tw";

class TransferSeeds : public Search {
 protected:
  TransferSeeds() {
    tasks_.clear();
    tasks_.push_back(product(48, 64, 64));
  }
  static TuneOptions with(const std::string& transfer, u64 seed = 1, i64 trials = 64) {
    TuneOptions made = options(seed, 1, trials);
    made.search.transfer = transfer;
    return made;
  }
  // The records of the product that is tuned second, in order.
  std::vector<Record> tuned_second(const std::string& name, const std::string& transfer, u64 seed, TuneTask second,
                                   i64 trials = 64) {
    Database both = database(name);
    FakeMeasurer measurer(by_length);
    Watcher watcher;
    run(with(transfer, seed), both, &measurer, watcher);
    i64 before = *both.latest_record();
    tasks_.clear();
    tasks_.push_back(std::move(second));
    run(with(transfer, seed, trials), both, &measurer, watcher);
    messages_ = watcher.messages;
    tasks_.clear();
    tasks_.push_back(product(48, 64, 64));
    std::vector<Record> list;
    EXPECT_TRUE(both.visit({.after = before}, [&](Record& record) { list.push_back(record); }));
    return list;
  }
  bool is_told_of_transfer_seeds() const {
    return std::ranges::any_of(messages_,
                               [](const std::string& text) { return text.find("of other shapes") != text.npos; });
  }
  std::vector<std::string> messages_;
};

double best_of(const std::vector<Record>& records) {
  double best = 1;
  for (const Record& record : records) best = std::min(best, record.ok() ? record.seconds : 1);
  return best;
}

// The trials until a time is reached.
int trials_until(const std::vector<Record>& records, double seconds) {
  int count = 0;
  for (const Record& record : records) {
    count += record.is_trial();
    if (record.ok() && record.seconds <= seconds) break;
  }
  return count;
}

TEST_F(TransferSeeds, ASecondShapeIsTunedInFewerTrials) {
  rules::Library lengths = library_with(kLengths);
  // The trials of the second shape.
  auto tuned = [&](const std::string& transfer, u64 seed) {
    Database both = database(cat(transfer, seed));
    FakeMeasurer measurer(by_length);
    Watcher watcher;
    TuneOptions how = with(transfer, seed, 24);
    how.rules = "lengths";
    i64 before = 0;
    for (TuneTask& task : std::array{product(120, 128, 120), product(240, 256, 120)}) {
      before = *both.latest_record();
      tasks_.clear();
      tasks_.push_back(std::move(task));
      run(how, both, &measurer, watcher, lengths);
    }
    std::vector<Record> list;
    EXPECT_TRUE(both.visit({.after = before}, [&](Record& record) { list.push_back(record); }));
    return list;
  };
  int with_seeds = 0, without = 0;
  for (u64 seed = 1; seed <= 2; ++seed) {
    std::vector<Record> seeded = tuned("shipped", seed), plain = tuned("none", seed);
    double wanted = std::min(best_of(seeded), best_of(plain)) / 0.95;
    with_seeds += trials_until(seeded, wanted);
    without += trials_until(plain, wanted);
  }
  EXPECT_LE(2 * with_seeds, without);
}

TEST_F(TransferSeeds, TheFirstBatchHasSeedsAndNoProgramComesTwice) {
  auto seeded = tuned_second("seeded", "shipped", 1, product(96, 128, 64), 24);
  EXPECT_TRUE(is_told_of_transfer_seeds());
  std::set<std::string> programs;
  for (const Record& record : seeded) EXPECT_TRUE(programs.insert(record.program).second) << record.trace;
  auto plain = tuned_second("plain", "none", 1, product(96, 128, 64), 24);
  EXPECT_FALSE(is_told_of_transfer_seeds());
  auto first_batch = [](const std::vector<Record>& records) {
    std::set<std::string> programs;
    for (const Record& record : records) {
      if (record.generation == 0) programs.insert(record.program);
    }
    return programs;
  };
  std::set<std::string> with_seeds = first_batch(seeded), without = first_batch(plain);
  std::vector<std::string> common;
  std::ranges::set_intersection(with_seeds, without, std::back_inserter(common));
  EXPECT_GE(with_seeds.size(), common.size() + 2) << "places of the first batch are theirs";
  EXPECT_LE(with_seeds.size(), common.size() + 5) << "but not all";
}

TEST_F(TransferSeeds, TheSeedAndTheRecordsDecideWhatIsMeasured) {
  auto once = tuned_second("once", "shipped", 3, product(96, 128, 64), 24);
  auto again = tuned_second("again", "shipped", 3, product(96, 128, 64), 24);
  ASSERT_EQ(once.size(), again.size());
  for (std::size_t i = 0; i < once.size(); ++i) EXPECT_EQ(once[i].trace, again[i].trace) << i;
}

// Shapes that share hardly a factor, some smaller than the tiles of the first, some with other integers to draw from.
TEST_F(TransferSeeds, WhatIsCarriedIsLegalInItsShape) {
  Database records = database("records");
  FakeMeasurer measurer(by_length);
  Watcher watcher;
  run(with("none"), records, &measurer, watcher);
  for (auto [m, n, k] :
       {std::array<i64, 3>{96, 128, 64}, {47, 61, 53}, {16, 16, 16}, {1024, 1024, 1024}, {3, 200, 7}}) {
    TuneTask task = product(m, n, k);
    TaskState state;
    name_task(state, task, library(), with("shipped"));
    ASSERT_TRUE(note_transfer_seeds({&state, 1}, records));
    EXPECT_GE(state.others.size(), 20u);
    open_space(state, library(), with("shipped"), watcher);
    EXPECT_GE(state.carried.size(), 4u) << m;
    for (const Candidate& candidate : state.carried) {
      Result<Trace> trace = full_trace(state.space, candidate);
      ASSERT_TRUE(trace) << to_string(trace.rejected());
      Candidate again = candidate;
      EXPECT_TRUE(CandidateBuilder(state.space).build(again, nullptr)) << "no decision is open";
      EXPECT_EQ(again.decisions, candidate.decisions);
    }
  }
}

// Another operator or another kind of target gives nothing; the own records are no seeds.
TEST_F(TransferSeeds, OnlyTheSameOperatorAndKindOfTarget) {
  Database records = database("records");
  FakeMeasurer measurer(by_length);
  Watcher watcher;
  run(with("none", 1, 16), records, &measurer, watcher);
  auto noted = [&](TuneTask task) {
    TaskState state;
    name_task(state, task, library(), with("shipped"));
    EXPECT_TRUE(note_transfer_seeds({&state, 1}, records));
    return state.others.size();
  };
  auto for_target = [](i64 k, const char* target) {
    TuneTask task = product(48, 64, k);
    Source text{"target", target};
    Diagnostics diagnostics(text);
    task.target = *parse_target(text.text, 0, diagnostics);
    return task;
  };
  EXPECT_EQ(noted(product(48, 64, 64)), 0u);
  EXPECT_GT(noted(product(48, 64, 65)), 0u);
  EXPECT_EQ(noted(task_of("dense", {{"M", i64{48}}, {"N", i64{64}}, {"K", i64{65}}})), 0u);
  EXPECT_GT(noted(for_target(64, "cpu -mcpu=znver3 -threads=2")), 0u);
  EXPECT_GT(noted(for_target(65, "cpu -mcpu=znver3 -threads=2")), 0u);
  EXPECT_EQ(noted(for_target(65, "opencl -device=0")), 0u);
}

TEST_F(TransferSeeds, ANewTargetStartsFromTheNearestOne) {
  Database records = database("records");
  FakeMeasurer measurer(by_length);
  Watcher watcher;
  auto best_of_threads = [&](int threads, u64 seed) {
    i64 before = *records.latest_record();
    tasks_[0].target.threads = threads;
    run(with("none", seed, 16), records, &measurer, watcher);
    Record best{.seconds = 1};
    EXPECT_TRUE(records.visit({.after = before}, [&](Record& record) {
      if (record.ok() && record.is_trial() && record.seconds < best.seconds) best = record;
    }));
    return best.trace;
  };
  std::string of_many = best_of_threads(16, 1), of_two = best_of_threads(2, 2);
  ASSERT_NE(of_many, of_two);
  for (auto [threads, wanted] : {std::pair{3, of_two}, std::pair{12, of_many}}) {
    TuneTask task = product(48, 64, 64);
    task.target.threads = threads;
    TaskState state;
    name_task(state, task, library(), with("shipped"));
    ASSERT_TRUE(note_transfer_seeds({&state, 1}, records));
    ASSERT_FALSE(state.others.empty());
    EXPECT_EQ(state.others[0], wanted) << threads;
  }
}

// Records of processors with other vectors, of GPUs of the same generation and of others: which one a new target takes.
TEST_F(TransferSeeds, TheNearestTargetHasTheSameVectorsOrTheSameInstructions) {
  int databases = 0;
  auto nearest = [&](const std::string& wanted, const std::vector<std::string>& known) {
    Database records = database(cat("records", ++databases));
    TuneTask task = product(48, 64, 64);
    TaskKey key = key_of(task);
    EXPECT_TRUE(records.add_workload(key.workload, workload_text(task.program.program)));
    for (std::size_t i = 0; i < known.size(); ++i) {
      Record record{.workload = key.workload, .target = known[i], .status = "ok", .seconds = 1e-3};
      record.program = to_hex(Hash128{1, i}), record.trace = known[i];
      EXPECT_TRUE(records.add_record(record));
    }
    task.target = test::parsed_target(wanted);
    TaskState state;
    name_task(state, task, library(), with("shipped"));
    EXPECT_TRUE(note_transfer_seeds({&state, 1}, records));
    return state.others.empty() ? std::string() : state.others[0];
  };
  std::vector<std::string> processors = {"cpu -mcpu=znver3 -threads=1", "cpu -mcpu=znver4 -threads=1",
                                         "cpu -mcpu=haswell -threads=1", "cpu -mcpu=znver4 -threads=64"};
  EXPECT_EQ(nearest("cpu -mcpu=skylake-avx512 -threads=1", processors), processors[1]);
  EXPECT_EQ(nearest("cpu -mcpu=znver2 -threads=1", processors), processors[0]);
  std::vector<std::string> devices = {"cuda -arch=sm_80", "cuda -arch=sm_90a", "cuda -arch=sm_120"};
  EXPECT_EQ(nearest("cuda -arch=sm_89", devices), devices[0]);
  EXPECT_EQ(nearest("cuda -arch=sm_90", devices), devices[1]);
  EXPECT_EQ(nearest("cuda -device=h200 -arch=sm_90a", devices), devices[1]);
  EXPECT_EQ(nearest("cuda -arch=sm_80", processors), "");
}

// With an epilogue the sketch has more instructions; the decisions for the product's own are kept.
TEST_F(TransferSeeds, AnEpilogueIsNoOtherOperator) {
  Database records = database("records");
  FakeMeasurer measurer(by_length);
  Watcher watcher;
  run(with("none"), records, &measurer, watcher);
  TuneTask task = product(48, 64, 64, {"bias", "relu"});
  TaskState state;
  name_task(state, task, library(), with("shipped"));
  ASSERT_TRUE(note_transfer_seeds({&state, 1}, records));
  std::vector<std::string> sources = state.others;
  ASSERT_GE(sources.size(), 20u);
  open_space(state, library(), with("shipped"), watcher);
  ASSERT_GE(state.carried.size(), 4u);
  auto line_of = [](const std::string& trace, const std::string& name) {
    std::size_t at = trace.find(cat("\n", name, " = "));
    return at == trace.npos ? std::string() : trace.substr(at, trace.find('\n', at + 1) - at);
  };
  Result<Trace> first = full_trace(state.space, state.carried[0]);
  ASSERT_TRUE(first);
  std::string text = cat("\n", first->print(0)), source = cat("\n", sources[0]);
  for (const char* name : {"r", "v", "u"}) {
    EXPECT_NE(line_of(source, name), "") << source;
    EXPECT_EQ(line_of(text, name), line_of(source, name)) << text << source;
  }
}

TEST(WorkloadForm, AnchorsEndWithTheLastReduction) {
  auto anchor = [](const char* op, const std::vector<std::string>& epilogues) {
    return anchor_of(
        workload_text(task_of(op, {{"M", i64{48}}, {"N", i64{64}}, {"K", i64{32}}}, epilogues).program.program));
  };
  EXPECT_EQ(anchor("matmul", {}), anchor("matmul", {"bias", "relu"}));
  EXPECT_EQ(anchor("matmul", {"relu"}), anchor("matmul", {"bias"}));
  EXPECT_NE(anchor("matmul", {}), anchor("dense", {}));
  EXPECT_TRUE(anchor("matmul", {}).starts_with("f32\n  for ")) << anchor("matmul", {});
  EXPECT_EQ(anchor_of("program p(A: input f32[4], B: output f32[4]) {\n  for i in 4 {\n  }\n}\n"), "");
}

TEST(WorkloadForm, LeavesOutNumbersAlone) {
  WorkloadForm form = form_of("program p(A_2: input f32[16, 13]) { A_2[i * 2 + 0x1] = max(A_2[3], -1.5) for i in 16 }");
  EXPECT_EQ(form.text, "program p(A_2: input f32[#, #]) { A_2[i * # + 0x1] = max(A_2[#], -1.5) for i in # }");
  EXPECT_EQ(form.numbers, (std::vector<i64>{16, 13, 2, 3, 16}));
}

}  // namespace
}  // namespace tw

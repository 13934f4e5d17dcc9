// What cost models learn from databases, and how good they are on what they have not seen.
#include "sampler/tasks/model_data.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "costmodel/evaluation.h"
#include "costmodel/make_model.h"
#include "costmodel/row_extractor.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "dsl/schedule/parse_schedule.h"
#include "sampler/space/candidate.h"
#include "tests/unit/search_kit.h"

namespace tw {
namespace {

constexpr double failed = std::numeric_limits<double>::infinity();

// Candidates of one row and two columns: the first is the time's logarithm, the second tells candidates apart.
Dataset tasks_of(int tasks, int candidates) {
  Dataset data;
  data.features.columns = 2;
  Rng rng(5);
  for (int task = 0; task < tasks; ++task) {
    for (int i = 0; i < candidates; ++i) {
      double logarithm = rng.uniform();
      data.features.add(std::vector<float>{static_cast<float>(logarithm), static_cast<float>(data.size())});
      data.seconds.push_back(std::exp(logarithm) * (task + 1));
      data.group.push_back(task);
    }
  }
  return data;
}

// Knows the times of what it was trained with, and nothing of the rest.
class Memory : public CostModel {
 public:
  const char* name() const override { return "memory"; }
  std::vector<float> predict(const FeatureBatch& batch) const override {
    std::vector<float> scores;
    for (int i = 0; i < batch.size(); ++i) {
      auto known = scores_.find(batch.row(batch.first_row[i])[1]);
      scores.push_back(known == scores_.end() ? 0 : known->second);
    }
    return scores;
  }
  TrainReport update(const Dataset& data, Effort) override {
    for (int i = 0; i < data.size(); ++i)
      scores_[data.features.row(data.features.first_row[i])[1]] = static_cast<float>(-data.seconds[i]);
    return {};
  }
  std::string save() const override { return ""; }
  Status load(std::string_view) override { return Unit{}; }

 private:
  std::map<float, float> scores_;
};

// The first feature is what it says.
class Truth : public Memory {
 public:
  std::vector<float> predict(const FeatureBatch& batch) const override {
    std::vector<float> scores;
    for (int i = 0; i < batch.size(); ++i) scores.push_back(-batch.row(batch.first_row[i])[0]);
    return scores;
  }
};

TEST(Evaluation, EachCandidateIsHeldOutOnce) {
  Dataset data = tasks_of(7, 20);
  std::vector<int> each = {0, 1, 2, 3, 4, 5, 6};
  std::vector<int> within = folds_of(data, 5, 1), unseen = folds_of(data, each, 5, 1);
  std::map<std::pair<i32, int>, int> counts;
  std::map<i32, std::set<int>> folds;
  for (int i = 0; i < data.size(); ++i) {
    ++counts[{data.group[i], within[i]}];
    folds[data.group[i]].insert(unseen[i]);
  }
  EXPECT_EQ(counts.size(), 7u * 5);
  for (const auto& [where, count] : counts) EXPECT_EQ(count, 4) << "of each task a fifth in each fold";
  std::set<int> used;
  for (const auto& [task, in] : folds) {
    EXPECT_EQ(in.size(), 1u) << "a task is held out as a whole";
    used.insert(in.begin(), in.end());
  }
  EXPECT_EQ(used.size(), 5u);
  EXPECT_NE(within, folds_of(data, 5, 2));
  EXPECT_EQ(within, folds_of(data, 5, 1));
}

// So a workload that two machines measured is not learned from one and asked of the other.
TEST(Evaluation, GroupsOfOneKindAreHeldOutTogether) {
  Dataset data = tasks_of(7, 20);
  const std::vector<int> kinds = {0, 1, 2, 0, 2, 3, 0};
  std::vector<int> fold = folds_of(data, kinds, 3, 1);
  std::map<int, std::set<int>> folds;
  for (int i = 0; i < data.size(); ++i) folds[kinds[data.group[i]]].insert(fold[i]);
  ASSERT_EQ(folds.size(), 4u);
  std::set<int> used;
  for (const auto& [kind, in] : folds) {
    EXPECT_EQ(in.size(), 1u);
    used.insert(in.begin(), in.end());
  }
  EXPECT_EQ(used.size(), 3u);
}

TEST(Evaluation, AModelIsAskedOnlyAboutWhatItHasNotLearned) {
  Dataset data = tasks_of(6, 30);
  const std::vector<int> kinds = {0, 1, 2, 0, 1, 2};
  for (bool is_within : {true, false}) {
    std::vector<int> fold = is_within ? folds_of(data, 3, 1) : folds_of(data, kinds, 3, 1);
    Evaluation memory = evaluate([] { return std::make_unique<Memory>(); }, data, fold, Effort::Full);
    EXPECT_DOUBLE_EQ(memory.accuracy.pairwise, 0.5) << is_within;
    Evaluation truth = evaluate([] { return std::make_unique<Truth>(); }, data, fold, Effort::Full);
    EXPECT_EQ(truth.accuracy.pairwise, 1) << is_within;
    EXPECT_EQ(truth.accuracy.top1, 1);
  }
}

TEST(Evaluation, ScoresWithoutTrainingAreHeldOutTheSameWay) {
  Dataset data = tasks_of(4, 20);
  std::vector<int> fold = folds_of(data, 4, 1);
  std::vector<float> scores(data.size());
  for (int i = 0; i < data.size(); ++i) scores[i] = static_cast<float>(-data.seconds[i]);
  EXPECT_EQ(evaluate(scores, data, fold).accuracy.pairwise, 1);
  EXPECT_EQ(evaluate(scores, data, fold).accuracy.groups, 16);
  EXPECT_EQ(evaluate(scores, data, fold).accuracy.k, 10);
  EXPECT_EQ(evaluate(scores, data, fold, 3).accuracy.k, 3);
}

// Which scores all candidates alike, and says so.
TEST(Evaluation, WhatLearnedNothingIsSaid) {
  Dataset data = tasks_of(2, 6);
  std::vector<int> fold = folds_of(data, 3, 1);
  Evaluation few = evaluate([] { return std::make_unique<Memory>(); }, data, fold, Effort::Full);
  EXPECT_EQ(few.untaught, 8) << "of 12, a third is held out";
  auto tree = [] { return make_model("tree", 2, 1).model; };
  EXPECT_EQ(evaluate(tree, data, fold, Effort::Full).untaught, 0);
}

// ---- out of databases

class ModelDataOfATune : public Search {
 protected:
  void expect_features_of_the_search(Database& stored, FeatureKind kind);
};

TEST_F(ModelDataOfATune, HasTheFeaturesAndTimesOfItsTrials) {
  Database stored = database("a.db");
  int call = 0;
  FakeMeasurer measurer([&](const Kernel& kernel) {
    return ++call % 7 == 0 ? failure(MeasureStatus::Crash, "planted") : time_of(kernel);
  });
  Watcher watcher;
  run(options(), stored, &measurer, watcher);

  for (FeatureKind kind : kFeatureKinds) expect_features_of_the_search(stored, kind);
}

void ModelDataOfATune::expect_features_of_the_search(Database& stored, FeatureKind kind) {
  SCOPED_TRACE(name_of(kind));
  ModelData data{.features = kind};
  ASSERT_TRUE(add_model_data(data, stored));
  EXPECT_EQ(data.data.features.columns, columns_of(kind));
  ASSERT_EQ(data.tasks.size(), 2u);
  EXPECT_EQ(data.tasks[0].name, "dense");
  std::vector<Record> list = trials(stored);
  std::erase_if(list, [](const Record& record) { return record.trace.empty(); });
  ASSERT_EQ(data.data.size(), static_cast<int>(list.size()));
  ASSERT_EQ(data.draft.size(), list.size());
  EXPECT_GT(data.tasks[0].failed, 0);

  // The same as what the search had, which built them of sketches and decisions.
  std::string errors;
  CandidateSpace space =
      make_candidate_space(tasks_[0].program.program, *library().find_set("cpu"), library(), tasks_[0].target, errors);
  space.features = kind;
  CandidateBuilder builder(space);
  int compared = 0;
  for (int i = 0, place = 0; i < data.data.size(); ++i) {
    if (data.data.group[i] != 0) continue;
    while (list[place].task != "dense") ++place;
    const Record& record = list[place++];
    EXPECT_EQ(data.data.seconds[i], record.ok() ? record.seconds : failed);
    Source source{"record", record.trace};
    Diagnostics diagnostics(source);
    std::optional<Candidate> candidate = find_candidate(space, *parse_schedule(source, diagnostics));
    ASSERT_TRUE(candidate);
    std::vector<float> rows;
    ASSERT_TRUE(builder.build(*candidate, nullptr, &rows));
    const FeatureBatch& features = data.data.features;
    EXPECT_EQ(rows, std::vector<float>(features.row(features.first_row[i]), features.row(features.first_row[i + 1])));
    EXPECT_FLOAT_EQ(data.draft[i], static_cast<float>(-std::log(candidate->draft)));
    ++compared;
  }
  EXPECT_GT(compared, 20);
}

TEST_F(ModelDataOfATune, TasksOfOneWorkloadOrOperatorAreOfOneKind) {
  tasks_ = {task_of("dense", {{"M", i64{32}}, {"N", i64{64}}, {"K", i64{32}}}),
            task_of("dense", {{"M", i64{32}}, {"N", i64{64}}, {"K", i64{64}}}),
            task_of("matmul", {{"M", i64{32}}, {"N", i64{64}}, {"K", i64{32}}})};
  for (std::size_t i = 0; i < tasks_.size(); ++i) tasks_[i].name = cat("task", i);
  Database stored = database("a.db");
  FakeMeasurer measurer;
  Watcher watcher;
  run(options(1, 1, 8), stored, &measurer, watcher);
  Database second = database("b.db");
  for (const WorkloadText& workload : *stored.workloads())
    ASSERT_TRUE(second.add_workload(workload.hash, workload.text));
  for (Record record : trials(stored)) {
    record.host = "another machine";
    ASSERT_TRUE(second.add_record(record));
  }
  ModelData data;
  for (Database* of_two_machines : {&stored, &second}) ASSERT_TRUE(add_model_data(data, *of_two_machines));
  ASSERT_EQ(data.tasks.size(), 6u);
  std::vector<int> tasks = kinds_of(data, Holdout::Tasks), operators = kinds_of(data, Holdout::Operators);
  for (std::size_t i = 0; i < 6; ++i) {
    for (std::size_t j = 0; j < 6; ++j) {
      EXPECT_EQ(tasks[i] == tasks[j], data.tasks[i].name == data.tasks[j].name) << i << " " << j;
      EXPECT_EQ(operators[i] == operators[j], data.tasks[i].op == data.tasks[j].op) << i << " " << j;
    }
  }
  EXPECT_EQ(std::set<int>(operators.begin(), operators.end()).size(), 2u);
}

TEST_F(ModelDataOfATune, TakesOneMachineOfEachTaskAndLeavesOutWhatItCannotReplay) {
  Database stored = database("a.db");
  FakeMeasurer measurer;
  Watcher watcher;
  run(options(), stored, &measurer, watcher);
  ModelData before;
  ASSERT_TRUE(add_model_data(before, stored));

  Record other = trials(stored).back();
  ASSERT_FALSE(other.trace.empty());
  Record broken = other;
  other.host = "another machine", other.seconds = 1e-9;
  ASSERT_TRUE(stored.add_record(other));
  broken.trace = "split(no_such_loop, [2])", broken.program = std::string(32, '7');
  ASSERT_TRUE(stored.add_record(broken));

  ModelData after;
  ASSERT_TRUE(add_model_data(after, stored));
  EXPECT_EQ(after.data.seconds, before.data.seconds);
  EXPECT_EQ(after.left_out, before.left_out + 1);
  EXPECT_NE(after.first_left_out, "");
}

// The search extracts what its model wants. Models whose library is not there are passed over.
TEST_F(ModelDataOfATune, ASearchGivesEveryModelItsOwnRows) {
  for (std::string name : {"mlp-reference", "treegru", "tlp", "xgboost-relation", "xgboost-knobs"}) {
    if (!make_model(name, model_columns(name), 1).model) continue;
    Database stored = database(name + ".db");
    FakeMeasurer measurer;
    Watcher watcher;
    TuneOptions how = options();
    how.cost_model = name;
    how.keep_model = true;
    TuneResult result = run(how, stored, &measurer, watcher);
    EXPECT_EQ(result.error, "");
    EXPECT_EQ(result.measured, kTrials + kSoftmaxSpace) << name;
    EXPECT_GT(result.most_learned, 20);
    EXPECT_TRUE(make_model(name, model_columns(name), 1).model->load(result.model_bytes)) << name;
    for (const std::string& message : watcher.messages) EXPECT_EQ(message.find("cost model"), std::string::npos);
  }
}

TEST_F(ModelDataOfATune, DatabasesAddUp) {
  Database first = database("a.db"), second = database("b.db");
  FakeMeasurer measurer;
  Watcher watcher;
  run(options(1), first, &measurer, watcher);
  run(options(2), second, &measurer, watcher);
  ModelData data;
  ASSERT_TRUE(add_model_data(data, first));
  int one = data.data.size();
  ASSERT_TRUE(add_model_data(data, second));
  EXPECT_GT(data.data.size(), one + 10);
  EXPECT_EQ(data.tasks.size(), 3u) << "times of two databases are not compared, and all of softmax was there before";
  EXPECT_EQ(data.data.group.back(), 2);
}

// A copy would be learned from while the other one is held out.
TEST_F(ModelDataOfATune, ARecordOfTwoDatabasesIsTakenOnce) {
  Database first = database("a.db"), both = database("b.db");
  FakeMeasurer measurer;
  Watcher watcher;
  run(options(1, 1, 12), first, &measurer, watcher);
  for (const WorkloadText& workload : *first.workloads()) ASSERT_TRUE(both.add_workload(workload.hash, workload.text));
  ASSERT_TRUE(both.add_records(trials(first)));
  run(options(2, 1, 24), both, &measurer, watcher);
  ModelData once, twice;
  ASSERT_TRUE(add_model_data(once, both));
  ASSERT_TRUE(add_model_data(twice, first));
  const int copies = twice.data.size();
  ASSERT_TRUE(add_model_data(twice, both));
  EXPECT_EQ(once.repeated, 0);
  EXPECT_EQ(twice.repeated, copies);
  EXPECT_EQ(twice.data.size(), once.data.size());
}

}  // namespace
}  // namespace tw

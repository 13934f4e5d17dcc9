#include "tests/support/cost_model_checks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>

#include "costmodel/random_model.h"
#include "dsl/base/text.h"

namespace tw {
namespace {

constexpr int columns = 64;

Dataset small_data() { return synthetic_costs({.groups = 2, .per_group = 60, .columns = columns}, 11); }

// A trained model and what it was trained on.
struct Trained {
  std::unique_ptr<CostModel> model;
  Dataset data;
};
Trained trained(const ModelMaker& make, u64 seed) {
  Trained out{make(columns, seed), small_data()};
  EXPECT_EQ(out.model->update(out.data, Effort::Round).problem, "");
  return out;
}

}  // namespace

Accuracy accuracy_on(const CostModel& model, const Dataset& data) {
  return accuracy(model.predict(data.features), data.seconds, data.group);
}

void check_learns(const ModelMaker& make, Effort effort, double pairwise) {
  const Split split = hold_out(synthetic_costs({.groups = 4, .per_group = 400}, 3), 4);
  const auto model = make(split.learn.features.columns, 1);
  const TrainReport report = model->update(split.learn, effort);
  EXPECT_EQ(report.problem, "");
  EXPECT_EQ(report.candidates, 1200);
  EXPECT_GT(report.passes, 0);

  const Accuracy known = accuracy_on(*model, split.held_out);
  const Accuracy chance = accuracy_on(RandomModel(split.learn.features.columns, 1), split.held_out);
  EXPECT_EQ(known.groups, 4);
  EXPECT_GE(known.pairwise, pairwise) << to_string(known);
  EXPECT_GE(known.top5, 0.9) << to_string(known);
  EXPECT_GE(known.recall, 0.5) << to_string(known);
  EXPECT_LE(chance.pairwise, 0.6) << to_string(chance);
  EXPECT_GT(known.top1, chance.top1 + 0.2);

  const Dataset unseen = synthetic_costs({.groups = 4, .first_group = 20, .per_group = 100}, 4);
  const Accuracy transfer = accuracy_on(*model, unseen);
  EXPECT_GE(transfer.pairwise, 0.75) << to_string(transfer);
}

void check_learns_speed(const ModelMaker& make, Effort effort, double share) {
  const Dataset all = synthetic_costs({.groups = 4, .per_group = 400}, 3);
  const std::vector<float> speed = relative_speed(all.seconds, all.group);
  const Split split = hold_out(all, 4);
  const auto model = make(split.learn.features.columns, 1);
  model->update(split.learn, effort);
  const std::vector<float> scores = model->predict(all.features);
  const double mean = std::accumulate(speed.begin(), speed.end(), 0.0) / all.size();
  double squares = 0, spread = 0;
  for (int c = 0; c < all.size(); c += 4) {  // held out
    squares += (scores[c] - speed[c]) * (scores[c] - speed[c]);
    spread += (mean - speed[c]) * (mean - speed[c]);
  }
  EXPECT_LE(squares, share * spread) << squares / spread;
}

void check_ranks_failed_last(const ModelMaker& make, Effort effort, double share) {
  const Split split = hold_out(synthetic_costs({.groups = 2, .per_group = 400}, 5), 4);
  const auto model = make(split.learn.features.columns, 1);
  model->update(split.learn, effort);
  const std::vector<float> scores = model->predict(split.held_out.features);
  double right = 0, all = 0;
  for (int failed = 0; failed < split.held_out.size(); ++failed) {
    if (std::isfinite(split.held_out.seconds[failed])) continue;
    for (int ran = 0; ran < split.held_out.size(); ++ran) {
      if (!std::isfinite(split.held_out.seconds[ran])) continue;
      if (split.held_out.group[ran] != split.held_out.group[failed]) continue;
      all += 1;
      right += scores[failed] < scores[ran];
    }
  }
  ASSERT_GT(all, 500);
  EXPECT_GE(right / all, share);
}

void check_repeats_itself(const ModelMaker& make) {
  const Trained first = trained(make, 1), again = trained(make, 1), other = trained(make, 2);
  EXPECT_EQ(first.model->predict(first.data.features), again.model->predict(first.data.features));
  EXPECT_EQ(first.model->save(), again.model->save());
  EXPECT_NE(first.model->predict(first.data.features), other.model->predict(first.data.features));
}

void check_saves_and_loads(const ModelMaker& make) {
  const Trained original = trained(make, 1);
  const auto loaded = make(columns, 99);
  ASSERT_TRUE(loaded->load(original.model->save()));
  EXPECT_EQ(loaded->predict(original.data.features), original.model->predict(original.data.features));

  const Dataset more = synthetic_costs({.groups = 2, .per_group = 90, .columns = columns}, 12);
  original.model->update(more, Effort::Round);
  loaded->update(more, Effort::Round);
  EXPECT_EQ(loaded->predict(more.features), original.model->predict(more.features));
  EXPECT_EQ(loaded->save(), original.model->save());
}

void check_rejects_foreign_bytes(const ModelMaker& make) {
  const Trained original = trained(make, 1);
  const std::string bytes = original.model->save();
  const std::vector<float> before = original.model->predict(original.data.features);
  constexpr std::string_view kMagic = "tracewright model";
  std::string other_format = bytes;
  other_format[kMagic.size()] = 1;
  std::string other_number = bytes;
  other_number[bytes.size() / 2] ^= 1;
  const char* damaged = "the saved model is damaged: its bytes are not those that were written";
  const std::pair<std::string, std::string> foreign[] = {
      {"", "these bytes are no saved cost model"},
      {"no model", "these bytes are no saved cost model"},
      {bytes.substr(0, 30), damaged},
      {bytes.substr(0, bytes.size() - 1), damaged},
      {bytes + "x", damaged},
      {other_number, damaged},
      {other_format, "the saved model has format 1, this program reads format 3; train it again"},
      {make(columns + 1, 1)->save(),
       cat("the saved model has ", columns + 1, " feature columns, this program has ", columns, "; train it again")},
      {RandomModel(columns, 1).save(), cat("the saved model is of another kind than ", original.model->name())}};
  for (const auto& [each, reason] : foreign) {
    const Status status = original.model->load(each);
    ASSERT_FALSE(status) << "accepted " << each.size() << " foreign bytes";
    EXPECT_EQ(to_string(status.rejected()), reason);
  }
  EXPECT_EQ(original.model->predict(original.data.features), before);
}

void check_corner_cases(const ModelMaker& make) {
  const auto model = make(columns, 1);
  Dataset data;
  data.features.columns = columns;
  EXPECT_EQ(model->update(data, Effort::Round).problem, "");
  EXPECT_TRUE(model->predict(data.features).empty());
  EXPECT_EQ(model->predict(small_data().features), std::vector<float>(120, 0.0f)) << "nothing was learned yet";

  const Dataset source = small_data();
  data = subset(source, {0, 1, 2, 3, 4, 5, 6, 7});
  data.features.add({});
  data.seconds.push_back(1e-3);
  data.group.push_back(7);  // alone in its group, and without rows
  for (int i = 0; i < 3; ++i) {
    data.features.add(source.features, i);
    data.seconds.push_back(std::numeric_limits<double>::infinity());
    data.group.push_back(8);
  }
  for (Effort effort : {Effort::Round, Effort::Full}) {
    EXPECT_EQ(model->update(data, effort).problem, "");
    for (float score : model->predict(data.features)) EXPECT_TRUE(std::isfinite(score));
  }
}

}  // namespace tw

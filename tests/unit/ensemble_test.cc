// Several models as one: means, deviations, resampling, and bytes.
#include "costmodel/ensemble.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "costmodel/make_model.h"
#include "costmodel/model_bytes.h"

namespace tw {
namespace {

// One number decides the score.
FeatureBatch line(int from, int to) {
  FeatureBatch batch{.columns = 2};
  for (int i = from; i < to; ++i) batch.add(std::vector<float>{static_cast<float>(i), 1});
  return batch;
}

Dataset measured(int count) {
  Dataset data{.features = line(0, count)};
  for (int i = 0; i < count; ++i) {
    data.seconds.push_back(1e-6 * (1 + (i * 7) % count));
    data.group.push_back(i % 2);
  }
  return data;
}

// Remembers what it learned from.
class Listening : public CostModel {
 public:
  explicit Listening(float score) : score_(score) {}
  const char* name() const override { return "listening"; }
  std::vector<float> predict(const FeatureBatch& batch) const override {
    return std::vector<float>(static_cast<std::size_t>(batch.size()), score_);
  }
  TrainReport update(const Dataset& data, Effort) override { return learned = data, TrainReport{}; }
  std::string save() const override { return std::to_string(score_); }
  Status load(std::string_view bytes) override {
    if (bytes == "wrong") return reject("wrong");
    score_ = std::stof(std::string(bytes));
    return ok();
  }
  Dataset learned;

 private:
  float score_;
};

TEST(Ensemble, PredictsMeanAndDeviation) {
  std::vector<std::unique_ptr<CostModel>> models;
  for (float score : {1.0f, 2.0f, 6.0f}) models.push_back(std::make_unique<Listening>(score));
  Ensemble ensemble(std::move(models), 1);
  std::vector<Prediction> predictions = ensemble.predict_with_deviation(line(0, 2));
  ASSERT_EQ(predictions.size(), 2u);
  EXPECT_FLOAT_EQ(predictions[1].mean, 3);
  EXPECT_NEAR(predictions[1].deviation, std::sqrt(14.0 / 3), 1e-5);
  EXPECT_EQ(ensemble.predict(line(0, 2)), std::vector<float>(2, 3.0f));
}

TEST(Ensemble, EachModelLearnsFromAResample) {
  std::vector<std::unique_ptr<CostModel>> models;
  std::vector<Listening*> heard;
  for (int i = 0; i < 4; ++i) {
    auto model = std::make_unique<Listening>(0.0f);
    heard.push_back(model.get());
    models.push_back(std::move(model));
  }
  Ensemble ensemble(std::move(models), 9);
  EXPECT_EQ(ensemble.update(measured(400), Effort::Full).candidates, 400);
  std::vector<Dataset> before;
  for (Listening* model : heard) {
    EXPECT_NEAR(model->learned.size(), 400, 80);
    std::set<float> different;
    for (int i = 0; i < model->learned.size(); ++i) {
      float x = model->learned.features.row(i)[0];
      different.insert(x);
      EXPECT_EQ(model->learned.group[i], static_cast<i32>(x) % 2);
      EXPECT_TRUE(i == 0 || model->learned.features.row(i - 1)[0] <= x) << "the order of measuring";
    }
    EXPECT_NEAR(static_cast<double>(different.size()), 400 * (1 - std::exp(-1.0)), 40);
    before.push_back(model->learned);
  }
  EXPECT_NE(before[0].features.values, before[1].features.values);
  // What is measured later changes nothing about the earlier ones.
  ensemble.update(measured(401), Effort::Round);
  for (std::size_t i = 0; i < heard.size(); ++i) {
    std::vector<float>& now = heard[i]->learned.features.values;
    ASSERT_GE(now.size(), before[i].features.values.size());
    EXPECT_TRUE(std::equal(before[i].features.values.begin(), before[i].features.values.end(), now.begin()));
  }
}

TEST(Ensemble, ModelsOfATrainedOneDifferWhereDataEnds) {
  MadeModel made = make_model("tree", 2, 3, {.models = 5}), one = make_model("tree", 2, 3);
  ASSERT_TRUE(made.model && one.model);
  Dataset data{.features = line(0, 64)};
  for (int i = 0; i < 64; ++i) data.seconds.push_back(1e-6 * (1 + std::abs(i - 40))), data.group.push_back(0);
  made.model->update(data, Effort::Full);
  double deviation = 0;
  for (const Prediction& prediction : made.model->predict_with_deviation(line(0, 64)))
    deviation += prediction.deviation;
  EXPECT_GT(deviation, 0);
  for (const Prediction& prediction : one.model->predict_with_deviation(line(0, 8))) EXPECT_EQ(prediction.deviation, 0);
  // Bytes, and back.
  MadeModel again = make_model("tree", 2, 4, {.models = 5});
  std::string bytes = made.model->save();
  ASSERT_TRUE(again.model->load(bytes));
  EXPECT_EQ(again.model->predict(line(0, 64)), made.model->predict(line(0, 64)));
  for (const std::string& wrong : {bytes.substr(0, bytes.size() - 3), bytes + "x", one.model->save(),
                                   make_model("tree", 2, 3, {.models = 4}).model->save()}) {
    EXPECT_FALSE(again.model->load(wrong));
    EXPECT_EQ(again.model->save(), bytes) << "it stays as it was";
  }
  // As a file: it says what it holds, and can be opened without more.
  std::optional<ModelHeader> header = model_header(bytes);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->kind, "tree");
  EXPECT_EQ(header->columns, 2);
  EXPECT_EQ(header->models, 5);
  EXPECT_EQ(model_header(one.model->save())->models, 1);
  MadeModel opened = open_model(bytes, 2);
  ASSERT_TRUE(opened.model) << opened.note;
  EXPECT_EQ(opened.model->save(), bytes);
  Status four = again.model->load(make_model("tree", 2, 3, {.models = 4}).model->save());
  EXPECT_EQ(to_string(four.rejected()), "the saved ensemble has 4 models, expected 5");
}

// Bytes that say that they hold more models than there can be are opened neither slowly nor at all.
TEST(Ensemble, OfTooManyModelsIsDamaged) {
  for (i64 models : {i64{-1}, i64{0}, i64{kMostModels} + 1, i64{1} << 60}) {
    ModelWriter out(kSeveralModels, 0, Objective::Usual);
    out.put(models);
    out.put_text(make_model("tree", 2, 1).model->save());
    EXPECT_FALSE(open_model(out.take(), 2).model) << models;
  }
  std::string cut = make_model("tree", 2, 1, {.models = 2}).model->save();
  for (std::size_t size = 0; size < cut.size(); ++size) EXPECT_FALSE(open_model(cut.substr(0, size), 2).model) << size;
}

}  // namespace
}  // namespace tw

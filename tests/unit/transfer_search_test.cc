// A search with a global model: what it proposes depends on the seed and the model alone, and who does not use one.
#include <algorithm>
#include <set>

#include "costmodel/model_bytes.h"
#include "dsl/base/text.h"
#include "tests/unit/search_kit.h"

namespace tw {
namespace {

class TransferSearch : public Search {
 protected:
  // What a run over these tasks has learned.
  std::string learned(Objective objective = Objective::Usual) {
    TuneOptions how = options(9);
    how.objective = objective;
    return kept(how, "learned" + name_of(objective));
  }
  // What the model of a run knows at the end.
  std::string kept(TuneOptions how, const std::string& name) {
    Database own = database(name);
    FakeMeasurer measurer;
    Watcher watcher;
    how.keep_model = true;
    TuneResult result = run(how, own, &measurer, watcher);
    messages_ = watcher.messages;
    EXPECT_FALSE(result.model_bytes.empty());
    return result.model_bytes;
  }
  std::vector<std::pair<std::string, std::string>> tuned(const TuneOptions& how, const std::string& name) {
    Database own = database(name);
    FakeMeasurer measurer;
    Watcher watcher;
    run(how, own, &measurer, watcher);
    messages_ = watcher.messages;
    return traces(own);
  }
  std::vector<std::string> messages_;
};

TEST_F(TransferSearch, SeedAndModelDecideWhatIsMeasured) {
  TuneOptions how = options(3);
  how.global_model = learned();
  auto one = tuned(how, "one");
  how.threads = 3;
  EXPECT_EQ(tuned(how, "again"), one) << "whatever the threads";
  how.search.transfer = "none";
  auto none = tuned(how, "none");
  how.global_model = "";
  how.search.transfer = "";
  EXPECT_EQ(tuned(how, "plain"), none);
  ASSERT_GT(one.size(), 8u);
  EXPECT_NE(std::vector(one.begin(), one.begin() + 8), std::vector(none.begin(), none.begin() + 8))
      << "the first batch goes by it";
}

// Scores of the order and of speeds are not to be added.
TEST_F(TransferSearch, LearnsWhatTheGlobalModelHasLearned) {
  auto is_of_model = [](const std::string& message) { return message.find("cost model") != std::string::npos; };
  for (Objective objective : {Objective::Rank, Objective::Regression}) {
    const std::string global_bytes = learned(objective);
    const Objective other = objective == Objective::Rank ? Objective::Regression : Objective::Rank;
    TuneOptions how = options(3, 1, 24);
    how.global_model = global_bytes;
    for (Objective asked : {Objective::Usual, objective}) {
      how.objective = asked;
      const std::string bytes = kept(how, cat("of", name_of(objective), name_of(asked)));
      ModelReader in(bytes);
      std::string_view global, local;
      ASSERT_TRUE(in.header("transfer", 0));
      ASSERT_TRUE(in.get_text(global) && in.get_text(local));
      EXPECT_EQ(global, global_bytes);
      EXPECT_EQ(model_header(local)->objective, objective);
      EXPECT_EQ(std::ranges::count_if(messages_, is_of_model), 0);
    }
    how.objective = other;
    EXPECT_EQ(model_header(kept(how, cat("against", name_of(objective))))->kind, "tree") << "it is not used";
    ASSERT_FALSE(messages_.empty());
    EXPECT_EQ(messages_[0], cat("the global cost model is not used: it has learned by ", name_of(objective),
                                ", and this run learns by ", name_of(other)));
  }
}

TEST_F(TransferSearch, GoesOnInTheSameWay) {
  TuneOptions how = options(3, 1, 24);
  how.global_model = learned();
  auto resumed = [&](const std::string& name) {
    Database own = database(name);
    FakeMeasurer measurer;
    for (i64 trials : {24, 40}) {
      Watcher watcher;
      how.trials = trials;
      run(how, own, &measurer, watcher);
    }
    return traces(own);
  };
  auto one = resumed("one");
  EXPECT_EQ(resumed("again"), one);
  std::set<std::pair<std::string, std::string>> different(one.begin(), one.end());
  EXPECT_EQ(different.size(), one.size()) << "nothing comes twice";
}

TEST_F(TransferSearch, WhoLearnsNothingOrPicksItselfHasNone) {
  std::string global = learned();
  for (auto [model, strategy] : {std::pair("random", "evolutionary"), {"tree", "reference"}, {"tree", "genetic"}}) {
    TuneOptions how = options(3, 1, 16);
    how.cost_model = model;
    how.search.strategy = strategy;
    auto without = tuned(how, cat("without", model, strategy));
    how.global_model = global;
    EXPECT_EQ(tuned(how, cat("with", model, strategy)), without) << model << " " << strategy;
  }
}

TEST_F(TransferSearch, AModelThatCannotBeReadIsSaidAndLeftAway) {
  TuneOptions how = options(3, 1, 16);
  auto without = tuned(how, "without");
  std::string whole = learned();
  for (const std::string& bytes : {std::string("no model"), whole.substr(0, whole.size() - 1)}) {
    how.global_model = bytes;
    EXPECT_EQ(tuned(how, cat("with", bytes.size())), without);
    ASSERT_EQ(messages_.size(), 1u);
    EXPECT_EQ(messages_[0].find("the global cost model is not used: "), 0u) << messages_[0];
  }
}

}  // namespace
}  // namespace tw

// The cost model that comes with tracewright: it belongs to the features of this version, and knows its own data.
#include <gtest/gtest.h>

#include <sstream>

#include "costmodel/accuracy.h"
#include "costmodel/features.h"
#include "costmodel/make_model.h"
#include "dsl/base/files.h"
#include "runtime/store/database_exchange.h"
#include "sampler/tasks/model_data.h"
#include "support/support.h"

namespace tw {
namespace {

// Of the file as it was made, on the data that it has learned from, less what rounding may do (README.md there).
constexpr double kPairs = 0.842;

constexpr const char* kWhatToDo =
    "costmodel/data/cpu_model.bin is not what this version's features need. Make it anew, and write its accuracy into "
    "costmodel/data/README.md:\n  tracewright model train --model mlp --output costmodel/data/cpu_model.bin";

std::string shared(const std::string& name) {
  std::optional<std::string> path = find_shared_file(name);
  EXPECT_TRUE(path) << name << " is not found";
  return path ? *path : "";
}

// Enough to tell whether the order is right.
std::string every_third_record(const std::string& text) {
  std::istringstream lines(text);
  std::string kept;
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    bool is_workload = line.find(R"("kind":"workload")") != std::string::npos;
    if (is_workload || number++ % 3 == 0) kept += line + "\n";
  }
  return kept;
}

ModelData own_records(const std::string& folder) {
  ModelData data;
  std::string error;
  std::optional<std::string> text = read_exchange_file(shared("cpu_records.jsonl.gz"), error);
  auto database = Database::open(folder + "/records.db", DatabaseMode::Write);
  EXPECT_TRUE(text && database) << error;
  std::istringstream lines(every_third_record(*text));
  EXPECT_TRUE(import_records(*database, lines));
  EXPECT_TRUE(add_model_data(data, *database));
  EXPECT_EQ(data.left_out, 0) << data.first_left_out;
  return data;
}

class ShippedModel : public testing::Test {
 protected:
  void SetUp() override {
    if (MadeModel made = make_model("mlp", feature_columns(), 0); !made.model) GTEST_SKIP() << made.note;
  }
};

TEST_F(ShippedModel, BelongsToTheFeaturesOfThisVersion) {
  MadeModel made = open_model(test::read_file(shared("cpu_model.bin")), feature_columns());
  EXPECT_TRUE(made.model) << made.note << "\n" << kWhatToDo;
}

// Features that mean something else than in training, with as many columns, show in the order.
TEST_F(ShippedModel, RanksItsOwnRecordsBetterThanTheDraftModel) {
  MadeModel made = open_model(test::read_file(shared("cpu_model.bin")), feature_columns());
  ASSERT_TRUE(made.model) << made.note << "\n" << kWhatToDo;
  test::TemporaryDirectory folder;
  ModelData data = own_records(folder.path());
  Accuracy model = accuracy(made.model->predict(data.data.features), data.data.seconds, data.data.group);
  Accuracy draft = accuracy(data.draft, data.data.seconds, data.data.group);
  std::printf("%s; the draft model: %s\n", to_string(model).c_str(), to_string(draft).c_str());  // for the data sheet
  EXPECT_GE(model.pairwise, kPairs) << to_string(model) << "\n" << kWhatToDo;
  EXPECT_GE(model.pairwise, draft.pairwise + 0.1) << kWhatToDo;
  EXPECT_GE(model.top1, draft.top1 + 0.03) << kWhatToDo;
}

}  // namespace
}  // namespace tw

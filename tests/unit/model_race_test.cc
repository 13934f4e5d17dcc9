// Models in turn, with stubs that say how long they took: who has a turn when, which times count, what becomes of a
// library that fails.
#include "runtime/peers/model_race.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "dsl/base/text.h"
#include "support/environment.h"
#include "support/model_stub.h"
#include "support/support.h"

namespace tw {
namespace {

using test::ModelStub;

class ModelRace : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directory(folder_.path() + "/tracewright-peer-wheel");
    test::write_file(folder_.path() + "/tracewright-peer-wheel/__main__.py", "");
  }
  // Starts the stub of a library and loads a model of one input and one output, both f32[2, 3].
  PeerResult<std::unique_ptr<ModelPeer>> start(const std::string& library, const ModelStub& stub) {
    stubs_.add(library, stub);
    options_.folder = folder_.path();
    PeerResult<std::unique_ptr<ModelPeer>> started = ModelPeer::start(library, options_);
    if (!started) return started;
    PeerResult<std::string> loaded = started.value->load("m.onnx", {input_}, {data_}, 1);
    return loaded ? std::move(started) : fail<std::unique_ptr<ModelPeer>>(loaded);
  }
  // All of these against one another, in five rounds that count.
  std::vector<Racer> race_of(const std::vector<std::pair<std::string, ModelStub>>& stubs) {
    std::vector<Racer> racers;
    for (const auto& [library, stub] : stubs) {
      peers_.push_back(start(library, stub));
      EXPECT_TRUE(peers_.back()) << peers_.back().message;
      racers.push_back({.peer = peers_.back().value.get()});
    }
    race(racers, {.seconds = 0, .turn_seconds = 0.01, .fewest_rounds = 5});
    return racers;
  }
  // The libraries in the order of their turns.
  std::vector<std::string> turns() const {
    std::vector<std::string> out;
    for (const std::string& line : split(stubs_.log(), '\n')) {
      if (line.ends_with(" turn")) out.push_back(line.substr(0, line.find(' ')));
    }
    return out;
  }

  test::TemporaryDirectory folder_;
  test::ModelStubs stubs_{folder_.path() + "/stubs"};
  test::Variable python_{"TRACEWRIGHT_PYTHON", stubs_.python()};
  KernelArgument input_{.name = "x", .dtype = DType::F32, .shape = {2, 3}};
  HostArray data_ = HostArray::zeros(DType::F32, {2, 3});
  PeerOptions options_;
  std::vector<PeerResult<std::unique_ptr<ModelPeer>>> peers_;
};

TEST_F(ModelRace, RatiosAreOfOneRoundAndTheFirstRoundDoesNotCount) {
  std::vector<Racer> racers = race_of({{"onnxruntime", {.turn = "echo \"ok ${n}000000 3\""}},  // 1 ms, 2 ms, ...
                                       {"openvino", {.turn = "echo 'ok 12000000 1'"}}});
  const std::vector<double> ratios = {6, 4, 3, 2.4, 2};
  ASSERT_EQ(racers[1].ratios.size(), ratios.size());
  for (std::size_t i = 0; i < ratios.size(); ++i) {
    EXPECT_NEAR(racers[1].ratios[i], ratios[i], 1e-9);
    EXPECT_NEAR(racers[0].times[i], 1e-3 * static_cast<double>(i + 2), 1e-12);
    EXPECT_EQ(racers[0].ratios[i], 1);
    EXPECT_NEAR(racers[1].times[i], 0.012, 1e-12);
  }
}

TEST_F(ModelRace, EachHasOneTurnInARoundAndOthersBeginTheNext) {
  std::vector<Racer> racers = race_of({{"onnxruntime", {}}, {"openvino", {}}, {"torch-eager", {}}});
  std::vector<std::string> found = turns();
  const std::vector<std::string> names = {"onnxruntime", "openvino", "torch-eager"};
  ASSERT_EQ(found.size(), 6 * names.size());
  for (std::size_t round = 0; round < 6; ++round) {
    for (std::size_t i = 0; i < names.size(); ++i)
      EXPECT_EQ(found[3 * round + i], names[((round == 0 ? 0 : round - 1) + i) % 3]) << round << " " << i;
  }
}

TEST_F(ModelRace, WhoFailsHasNoFurtherTurnAndTheOthersGoOn) {
  options_.sample_timeout = std::chrono::seconds(20);
  std::vector<Racer> racers = race_of({{"onnxruntime", {}},
                                       {"openvino", {.turn = "[ $n = 3 ] && exit 7; echo 'ok 1000 1'"}},
                                       {"torch-eager", {.turn = "echo 'ok 0 1'"}},
                                       {"torch-compile", {.turn = "echo hello"}}});
  EXPECT_EQ(racers[0].problem, "");
  EXPECT_EQ(racers[0].times.size(), 5u);
  EXPECT_EQ(racers[1].problem, "the openvino peer closed the line (exit code 7)");
  EXPECT_EQ(racers[1].times.size(), 1u);  // the second turn; the first one does not count
  EXPECT_EQ(racers[2].problem, "the torch-eager peer answered `0 1`");
  EXPECT_EQ(racers[3].problem, "the torch-compile peer answered `hello`");
  std::vector<std::string> found = turns();
  EXPECT_EQ(std::ranges::count(found, "openvino"), 3);
  EXPECT_EQ(std::ranges::count(found, "torch-eager"), 1);
  EXPECT_EQ(std::ranges::count(found, "onnxruntime"), 6);
}

TEST_F(ModelRace, WhoHangsIsEnded) {
  options_.sample_timeout = std::chrono::milliseconds(200);
  auto peer = start("onnxruntime", {.turn = "exec sleep 1000"});
  ASSERT_TRUE(peer) << peer.message;
  PeerResult<ModelTurn> turn = peer.value->turn(0.01);
  EXPECT_EQ(turn.status, PeerStatus::TimedOut);
  EXPECT_EQ(turn.message, "the onnxruntime peer gave no answer within 200 ms");
}

TEST_F(ModelRace, AStopEndsItAtTheNextTurn) {
  auto first = start("onnxruntime", {}), second = start("openvino", {});
  ASSERT_TRUE(first && second);
  std::vector<Racer> racers = {{.peer = first.value.get()}, {.peer = second.value.get()}};
  int asked = 0;
  race(racers, {.seconds = 1e6, .turn_seconds = 0.01, .fewest_rounds = 5, .stop = [&] { return ++asked > 5; }});
  EXPECT_EQ(turns().size(), 5u);
  EXPECT_EQ(racers[0].times.size(), 1u);
}

TEST_F(ModelRace, WhatALibrarySaysOnLoadingIsTakenAsItIs) {
  const std::pair<const char*, const char*> cases[] = {
      {"echo 'unsupported no such operator'", "no such operator"},
      {"echo 'error it is broken'", "it is broken"},
      {"echo 'error '", "the openvino peer answered `error `"},
      {"echo 'ok 1 2'", "the openvino peer answered `1 2`"},
      {R"(echo 'ok {"outputs":"1","detail":""}')", R"(the openvino peer answered `{"outputs":"1","detail":""}`)"},
      {R"(echo 'ok {"outputs":2,"detail":""}')", "it gives 2 outputs, the model has 1"},
      {"kill -SEGV $$", "the openvino peer closed the line (killed by signal 11, Segmentation fault)"}};
  for (const auto& [load, message] : cases) {
    auto peer = start("openvino", {.load = load});
    EXPECT_FALSE(peer) << load;
    EXPECT_EQ(peer.message, message);
  }
  auto peer = start("openvino", {});
  ASSERT_TRUE(peer) << peer.message;
  EXPECT_EQ(peer.value->version(), "Stub 1.0");
}

TEST_F(ModelRace, OutputsOfAnotherTypeOrShapeAreRefused) {
  data_.set(4, 1.5);
  auto peer = start("openvino", {});
  ASSERT_TRUE(peer) << peer.message;
  PeerResult<HostArray> same = peer.value->output(0, DType::F32, {2, 3});
  ASSERT_TRUE(same) << same.message;
  EXPECT_EQ(same.value.bytes, data_.bytes);
  EXPECT_EQ(peer.value->output(0, DType::F32, {3, 2}).message,
            R"(output 0 is {"dtype":"f32","shape":[2,3]}, not f32[3, 2])");
  EXPECT_FALSE(peer.value->output(0, DType::I32, {2, 3}));
}

// Libraries leave out the rows of -1 at the end of a result of NonMaxSuppression.
TEST_F(ModelRace, RowsThatASelectionLacksAreRowsOfMinusOne) {
  auto peer =
      start("openvino", {.output = R"(head -c 24 /dev/zero > "${rest#* }"; echo 'ok {"dtype":"i64","shape":[1,3]}')"});
  ASSERT_TRUE(peer) << peer.message;
  PeerResult<HostArray> output = peer.value->output(0, DType::I64, {2, 3});
  ASSERT_TRUE(output) << output.message;
  for (i64 i = 0; i < 6; ++i) EXPECT_EQ(output.value.get(i), i < 3 ? 0 : -1) << i;
  EXPECT_TRUE(peer.value->output(0, DType::I64, {1, 3}));
  for (const std::vector<i64>& shape : {std::vector<i64>{0, 3}, {2, 4}, {3, 1}, {3}})
    EXPECT_FALSE(peer.value->output(0, DType::I64, shape)) << join(shape, ", ");
  EXPECT_FALSE(peer.value->output(0, DType::I32, {2, 3}));
}

}  // namespace
}  // namespace tw

// NonMaxSuppression: it selects the boxes that a plain loop over the sorted boxes selects, and the rows behind them are
// -1. It is run by the interpreter, with fused nodes, and by kernels.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <optional>

#include "dsl/base/rng.h"
#include "graph/passes/passes.h"
#include "runtime/export/model_library.h"
#include "sampler/models/compile_model.h"
#include "support/run_groups.h"
#include "support/support.h"
#include "tests/unit/compiled_nodes.h"
#include "tests/unit/onnx_files.h"

namespace tw::graph {
namespace {

using Ints = std::vector<i64>;
using Numbers = std::vector<double>;
using Row = std::array<i64, 3>;  // batch, class, box
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// Thresholds without a value are no inputs of the node.
struct Selection {
  i64 batches = 1, classes = 1, boxes = 1;
  Numbers corners, scores;  // [batches, boxes, 4] and [batches, classes, boxes]
  i64 most = 1;
  std::optional<double> limit, least;
  bool is_centered = false;
  bool has_known_thresholds = true;

  i64 rows() const { return batches * classes * std::min(most, boxes); }
};

HostArray array_of(const Ints& shape, const Numbers& values, DType dtype = DType::F32) {
  HostArray array = HostArray::zeros(dtype, shape);
  for (std::size_t i = 0; i < values.size(); ++i) array.set(static_cast<i64>(i), values[i]);
  return array;
}

// The node with operands `boxes`, `scores`, `most`, `limit` and `least`.
struct File {
  std::string graph;
  ImportOptions options;
  std::vector<HostArray> inputs;

  void operand(const std::string& name, HostArray data, bool is_known) {
    graph += test::part(11, test::value_info(name, data.dtype, data.shape));
    if (is_known)
      options.constants[name] = std::move(data);
    else
      inputs.push_back(std::move(data));
  }
  std::variant<Graph, ImportProblems> imported(const std::string& output = test::untyped("y")) const {
    return test::import_bytes(test::model(graph + test::part(2, "g") + test::part(12, output), "", 11), options);
  }
};

File file_of(const Selection& s) {
  File file;
  std::vector<std::string> operands = {"boxes", "scores", "most", s.limit ? "limit" : "", s.least ? "least" : ""};
  std::string form = s.is_centered ? test::integer("center_point_box", 1) : "";
  file.graph = test::part(1, test::node("NonMaxSuppression", operands, {"y"}, form));
  file.operand("boxes", array_of({s.batches, s.boxes, 4}, s.corners), false);
  file.operand("scores", array_of({s.batches, s.classes, s.boxes}, s.scores), false);
  file.operand("most", array_of({}, {static_cast<double>(s.most)}, DType::I64), true);
  const Ints shape = s.has_known_thresholds ? Ints{} : Ints{1};
  if (s.limit) file.operand("limit", array_of(shape, {*s.limit}), s.has_known_thresholds);
  if (s.least) file.operand("least", array_of(shape, {*s.least}), s.has_known_thresholds);
  return file;
}

// ---- what is wanted

// What two boxes have in common, divided by their union; 0 where they have nothing in common.
double ratio_of(const Selection& s, i64 batch, i64 a, i64 b) {
  double common = 1, areas[2] = {1, 1};
  for (int d = 0; d < 2; ++d) {
    double low[2], high[2];
    for (int i = 0; i < 2; ++i) {
      const double* box = &s.corners[static_cast<std::size_t>((batch * s.boxes + (i == 0 ? a : b)) * 4)];
      low[i] = s.is_centered ? box[d] - box[d + 2] / 2 : std::min(box[d], box[d + 2]);
      high[i] = s.is_centered ? box[d] + box[d + 2] / 2 : std::max(box[d], box[d + 2]);
      areas[i] *= high[i] - low[i];
    }
    common *= std::max(0.0, std::min(high[0], high[1]) - std::max(low[0], low[1]));
  }
  return common > 0 ? common / (areas[0] + areas[1] - common) : 0;
}

std::vector<Row> selected(const Selection& s) {
  std::vector<Row> rows;
  for (i64 batch = 0; batch < s.batches; ++batch) {
    for (i64 of_class = 0; of_class < s.classes; ++of_class) {
      auto score = [&](i64 box) {
        return s.scores[static_cast<std::size_t>((batch * s.classes + of_class) * s.boxes + box)];
      };
      Ints order(static_cast<std::size_t>(s.boxes)), kept;
      std::iota(order.begin(), order.end(), 0);
      std::erase_if(order, [&](i64 box) { return s.least ? !(score(box) > *s.least) : std::isnan(score(box)); });
      std::ranges::stable_sort(order, [&](i64 a, i64 b) { return score(a) > score(b); });
      for (i64 box : order) {
        auto hides = [&](i64 other) { return ratio_of(s, batch, other, box) > s.limit.value_or(0); };
        if (std::ssize(kept) < s.most && std::ranges::none_of(kept, hides)) kept.push_back(box);
      }
      for (i64 box : kept) rows.push_back({batch, of_class, box});
    }
  }
  return rows;
}

std::vector<Row> rows_of(const HostArray& found) {
  EXPECT_EQ(found.dtype, DType::I64);
  std::vector<Row> rows;
  for (i64 i = 0; i + 3 <= found.elements(); i += 3)
    rows.push_back(
        {static_cast<i64>(found.get(i)), static_cast<i64>(found.get(i + 1)), static_cast<i64>(found.get(i + 2))});
  return rows;
}

void expect_rows(const Selection& s, std::vector<Row> wanted, const std::vector<HostArray>& found) {
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].shape, (Ints{s.rows(), 3}));
  ASSERT_LE(std::ssize(wanted), s.rows());
  wanted.resize(static_cast<std::size_t>(s.rows()), {-1, -1, -1});
  EXPECT_EQ(rows_of(found[0]), wanted);
}

// Runs each node and then each group of nodes by the interpreter; if `is_compiled`, kernels, too, which takes longer.
void expect(const Selection& s, const std::vector<Row>& wanted, bool is_compiled) {
  const File file = file_of(s);
  auto made = file.imported();
  auto* problems = std::get_if<ImportProblems>(&made);
  ASSERT_FALSE(problems) << problems->lines.at(0);
  const Graph& graph = std::get<Graph>(made);
  std::string error;
  auto found = evaluate(graph, file.inputs, error);
  ASSERT_TRUE(found) << error;
  expect_rows(s, wanted, *found);
  const Graph simple = simplified(graph);
  for (InPlace in_place : {InPlace::No, InPlace::Yes})
    expect_rows(s, wanted, tw::test::run_groups(simple, fuse(simple, in_place), file.inputs));
  if (!is_compiled) return;
  auto by_kernels = test::evaluate_compiled(graph, file.inputs, error);
  ASSERT_TRUE(by_kernels) << error;
  expect_rows(s, wanted, *by_kernels);
}

// Small whole numbers and fractions of 2, so that no ratio is rounded to another side of a limit; many are the same.
Selection random_selection(Rng rng, i64 most_boxes) {
  Selection s;
  s.batches = 1 + rng.below(2), s.classes = 1 + rng.below(3), s.boxes = 1 + rng.below(most_boxes);
  s.most = 1 + rng.below(s.boxes + 2);
  s.is_centered = rng.below(2) == 1;
  s.has_known_thresholds = rng.below(2) == 1;
  if (rng.below(4) > 0) s.limit = static_cast<double>(rng.below(5)) / 4;
  if (rng.below(3) > 0) s.least = static_cast<double>(rng.below(4) - 1) / 4;
  for (i64 i = 0; i < s.batches * s.boxes * 4; ++i) {
    bool is_extent = s.is_centered && i % 4 >= 2;
    s.corners.push_back(static_cast<double>(is_extent ? 2 * (rng.below(5) - 1) : rng.below(7)));
  }
  for (i64 i = 0; i < s.batches * s.classes * s.boxes; ++i) {
    const i64 kind = rng.below(30);
    s.scores.push_back(kind == 0   ? kNaN
                       : kind == 1 ? -kInfinity
                       : kind == 2 ? kInfinity
                                   : static_cast<double>(rng.below(9) - 3) / 4);
  }
  return s;
}

class NonMaxSuppression : public testing::Test {
 protected:
  void SetUp() override {
    if (onnx_operators().empty()) GTEST_SKIP() << "built without libonnx";
  }
};

TEST_F(NonMaxSuppression, RandomBoxesAreSelectedAsByALoop) {
  tw::test::Seeds seeds = tw::test::seeds_from_environment(150);
  std::size_t rows = 0, left_out = 0;
  for (i64 seed = seeds.first; seed < seeds.end && !HasFailure(); ++seed) {
    SCOPED_TRACE(cat("TW_SEED=", seed));
    const Selection s = random_selection(Rng(static_cast<u64>(seed)), 10);
    const std::vector<Row> wanted = selected(s);
    expect(s, wanted, seed % 25 == 0);
    rows += wanted.size(), left_out += static_cast<std::size_t>(s.rows()) - wanted.size();
  }
  if (seeds.is_one_case) return;
  EXPECT_GT(rows, 300u);
  EXPECT_GT(left_out, 300u);
}

// Fused, scheduled and written as a library.
TEST_F(NonMaxSuppression, ACompiledModelSelectsTheSame) {
  for (u64 seed : {1, 2, 3}) {
    SCOPED_TRACE(cat("seed ", seed));
    Selection s = random_selection(Rng(seed, 7), 40);
    s.most = std::min<i64>(s.most, 6);
    const File file = file_of(s);
    auto made = file.imported();
    ASSERT_TRUE(std::holds_alternative<Graph>(made));
    const Graph graph = simplified(std::get<Graph>(made));
    Target target = host_target();
    target.threads = 1 + static_cast<int>(seed % 2);
    std::string error;
    auto plan = compile_model(graph, model_tasks(graph, target), {.library = "net", .target = target}, error);
    ASSERT_TRUE(plan) << error;
    tw::test::TemporaryDirectory folder;
    ExportResult written = write_export(*plan, folder.path());
    ASSERT_EQ(written.error + written.note, "");
    std::optional<ModelLibrary> library = open_model(folder.path(), error);
    ASSERT_TRUE(library) << error;
    expect_rows(s, selected(s), run_model(*library, file.inputs, target.threads).outputs);
  }
}

// ---- by hand

// Boxes of one class in a line: each is 4 wide and 1 high, and begins at one of these places.
Selection in_line(const Numbers& places, const Numbers& scores, i64 most, double limit) {
  Selection s;
  s.boxes = std::ssize(places), s.scores = scores, s.most = most, s.limit = limit;
  for (double x : places) s.corners.insert(s.corners.end(), {0, x, 1, x + 4});
  return s;
}

TEST_F(NonMaxSuppression, OfEqualScoresTheFirstIsSelected) {
  expect(in_line({0, 1, 10, 11}, {1, 1, 2, 2}, 4, 0.5), {{0, 0, 2}, {0, 0, 0}}, true);
}

// The second is hidden by the first, and then does not hide the third.
TEST_F(NonMaxSuppression, AHiddenBoxHidesNone) {
  expect(in_line({0, 2, 4}, {3, 2, 1}, 3, 0.25), {{0, 0, 0}, {0, 0, 2}}, false);
}

TEST_F(NonMaxSuppression, OnlyMoreThanTheLimitIsHidden) {
  Selection s = in_line({0, 2}, {2, 1}, 2, 0.5);
  s.corners = {0, 0, 1, 4, 0, 0, 1, 2};  // half of the union is common
  expect(s, {{0, 0, 0}, {0, 0, 1}}, true);
  s.limit = 0.4375;
  expect(s, {{0, 0, 0}}, false);
  s.limit.reset();  // 0
  expect(s, {{0, 0, 0}}, false);
}

TEST_F(NonMaxSuppression, OnlyMoreThanTheLeastScoreIsSelected) {
  Selection s = in_line({0, 10, 20}, {0.5, 0.25, 0.75}, 3, 0.5);
  s.least = 0.5;
  expect(s, {{0, 0, 2}}, true);
  s.least = 1;
  expect(s, {}, false);
  s.least.reset();  // all of them
  s.scores = {-1, -kInfinity, kNaN};
  expect(s, {{0, 0, 0}, {0, 0, 1}}, true);
}

// Rows of later classes and batches follow those that are there.
TEST_F(NonMaxSuppression, RowsThatAreNotThereStandAtTheEnd) {
  Selection s;
  s.batches = 2, s.classes = 2, s.boxes = 2, s.most = 9, s.limit = 0.5, s.least = 0;
  s.corners = {0, 0, 1, 1, 5, 5, 6, 6, 0, 0, 1, 1, 0, 0, 1, 1};
  s.scores = {0, 1, 0, 0, 1, 2, 0, 3};
  expect(s, {{0, 0, 1}, {1, 0, 1}, {1, 1, 1}}, true);
}

TEST_F(NonMaxSuppression, BoxesWithoutAreaHideNoneAndAreNotHidden) {
  Selection s = in_line({0, 0, 0}, {3, 2, 1}, 3, 0);
  s.corners = {1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 2, 2};
  expect(s, {{0, 0, 0}, {0, 0, 1}, {0, 0, 2}}, true);
}

TEST_F(NonMaxSuppression, BoxesWithoutAPlaceHideNoneAndAreNotHidden) {
  for (std::size_t corner = 0; corner < 4; ++corner) {
    for (bool is_centered : {false, true}) {
      Selection s = in_line({0, 0, 0}, {1, 3, 2}, 3, 0);
      s.is_centered = is_centered;
      s.corners[4 + corner] = kNaN;
      expect(s, {{0, 0, 1}, {0, 0, 2}}, corner < 2);
    }
  }
}

// Even if rounding makes the ratio of a box and itself more than 1.
TEST_F(NonMaxSuppression, ALimitOfOneHidesNone) {
  Selection s = in_line({0.1, 0.1, 0.1}, {1, 2, 3}, 3, 1);
  for (double& corner : s.corners) corner = corner * 0.7 + 0.3;
  expect(s, {{0, 0, 2}, {0, 0, 1}, {0, 0, 0}}, true);
}

TEST_F(NonMaxSuppression, ASingleBox) {
  for (i64 most : {i64{1}, i64{5}, i64{1} << 40}) expect(in_line({3}, {0.5}, most, 0.5), {{0, 0, 0}}, most == 1);
}

// ---- what is refused

std::string problem(const std::function<void(Selection&)>& change, const std::string& output = test::untyped("y")) {
  Selection s = in_line({0, 1}, {1, 2}, 2, 0.5);
  change(s);
  auto made = file_of(s).imported(output);
  auto* problems = std::get_if<ImportProblems>(&made);
  return problems ? problems->lines.at(0) : "imported";
}

TEST_F(NonMaxSuppression, WhatIsRefusedSaysWhy) {
  const std::string node = "node `y` (NonMaxSuppression): ";
  for (i64 most : {0, -3})
    EXPECT_EQ(problem([&](Selection& s) { s.most = most; }),
              node + "its max_output_boxes_per_class is 0 or left out, so that it selects nothing and has no rows");
  EXPECT_EQ(problem([](Selection& s) { s.limit = 1.5; }), node + "its iou_threshold is 1.5, which is not from 0 to 1");
  EXPECT_EQ(problem([](Selection& s) { s.limit = kNaN; }), node + "its iou_threshold is nan, which is not from 0 to 1");
  EXPECT_EQ(problem([](Selection& s) { s.boxes = 3000, s.most = 2049; }),
            node + "it may select 2049 boxes of a class; at most 2048 are supported");
  EXPECT_EQ(problem([](Selection& s) { s.boxes = 3000, s.most = i64{1} << 40; }),
            node + "it may select 3000 boxes of a class; at most 2048 are supported");
  EXPECT_EQ(problem([](Selection& s) { s.boxes = 0, s.corners.clear(), s.scores.clear(); }),
            node + "tensors without elements are not supported here");
}

TEST_F(NonMaxSuppression, OperandsThatDoNotFitAreRefused) {
  const std::string why = "node `y` (NonMaxSuppression): ";
  auto with = [&](const std::string& attributes, const Ints& boxes, const Ints& scores, DType dtype, i64 numbers,
                  bool is_known) {
    File file;
    file.graph =
        test::part(1, test::node("NonMaxSuppression", {"boxes", "scores", "most", "limit"}, {"y"}, attributes));
    file.operand("boxes", array_of(boxes, {}, dtype), false);
    file.operand("scores", array_of(scores, {}, dtype), false);
    file.operand("most", array_of({numbers}, Numbers(static_cast<std::size_t>(numbers), 2), DType::I64), is_known);
    file.operand("limit", array_of({numbers}, {}), true);
    auto made = file.imported();
    auto* problems = std::get_if<ImportProblems>(&made);
    return problems ? problems->lines.at(0) : "imported";
  };
  const Ints boxes{1, 3, 4}, scores{1, 2, 3};
  EXPECT_EQ(with("", boxes, scores, DType::F32, 1, true), "imported");
  EXPECT_EQ(with("", boxes, scores, DType::F32, 1, false), why + "input 2 is no constant");
  EXPECT_EQ(with("", boxes, scores, DType::F32, 2, true), why + "its max_output_boxes_per_class is no number");
  EXPECT_EQ(with("", boxes, scores, DType::F64, 1, true), why + "its boxes and scores are to be f32");
  EXPECT_EQ(with(test::integer("center_point_box", 2), boxes, scores, DType::F32, 1, true),
            why + "its center_point_box is 2, not 0 or 1");
  for (const auto& [wrong_boxes, wrong_scores] : std::vector<std::pair<Ints, Ints>>{
           {{1, 3, 5}, scores}, {{2, 3, 4}, scores}, {{1, 2, 4}, scores}, {{3, 4}, scores}, {boxes, {1, 3}}})
    EXPECT_EQ(with("", wrong_boxes, wrong_scores, DType::F32, 1, true),
              why + "its operands are to be [batches, boxes, 4] and [batches, classes, boxes]");
  Selection s = in_line({0, 1}, {1, 2}, 2, 0.5);
  File file = file_of(s);
  file.options.constants["limit"] = array_of({2}, {0.5, 0.5});
  auto made = file.imported();
  auto* problems = std::get_if<ImportProblems>(&made);
  ASSERT_TRUE(problems);
  EXPECT_EQ(problems->lines.at(0), why + "its threshold, input 3, is not one number of type f32");
}

// Files may declare the number of rows that some data had.
TEST_F(NonMaxSuppression, TheNumberOfRowsThatAFileDeclaresMayBeAnother) {
  auto declared = [](const Ints& shape) {
    return problem([](Selection&) {}, test::value_info("y", DType::I64, shape));
  };
  for (const Ints& shape : {Ints{1, 3}, Ints{2, 3}, Ints{7, 3}}) EXPECT_EQ(declared(shape), "imported");
  EXPECT_EQ(declared({1, 4}), "output `y` is declared as i64[1, 4], but its nodes make i64[2, 3]");
  EXPECT_EQ(declared({6}), "output `y` is declared as i64[6], but its nodes make i64[2, 3]");
}

}  // namespace
}  // namespace tw::graph

// NonMaxSuppression: one step for each box of a class that may be selected, in all batches and classes at once.
#include <algorithm>
#include <limits>

#include "dsl/base/text.h"
#include "graph/onnx/node_import.h"

namespace tw::graph::onnx {
namespace {

constexpr i64 kMostSelected = 2048;  // boxes of a class: each becomes an operator of its own

// [batches, boxes, 4] and [batches, classes, boxes]?
bool fit_together(const std::vector<i64>& boxes, const std::vector<i64>& scores) {
  return boxes.size() == 3 && scores.size() == 3 && boxes[2] == 4 && boxes[0] == scores[0] && boxes[1] == scores[2];
}

// How many boxes of a class can be selected; 0 or too many are a problem of the node.
i64 most_selected(NodeImport& node, i64 boxes) {
  std::vector<i64> most = node.has_input(2) ? node.known_integers(2) : std::vector<i64>{0};
  if (node.has_failed()) return 0;
  if (most.size() != 1) return node.fail("its max_output_boxes_per_class is no number"), 0;
  if (most[0] < 1)
    return node.fail("its max_output_boxes_per_class is 0 or left out, so that it selects nothing and has no rows"), 0;
  i64 steps = std::min(most[0], boxes);
  if (steps > kMostSelected)
    node.fail(cat("it may select ", steps, " boxes of a class; at most ", kMostSelected, " are supported"));
  return steps;
}

// A threshold as a scalar.
ValueId threshold(NodeImport& node, std::size_t index, double otherwise) {
  if (!node.has_input(index)) return node.scalar(otherwise, DType::F32);
  ValueId given = node.input(index);
  if (node.dtype(given) != DType::F32 || std::ranges::any_of(node.shape(given), [](i64 extent) { return extent != 1; }))
    return node.fail(cat("its threshold, input ", index, ", is not one number of type f32")), given;
  return node.reshape(given, {});
}

ValueId overlap_threshold(NodeImport& node) {
  ValueId made = threshold(node, 3, 0);
  const HostArray* known = node.has_failed() ? nullptr : node.data(made);
  if (known && !(known->get(0) >= 0 && known->get(0) <= 1))
    node.fail(cat("its iou_threshold is ", known->get(0), ", which is not from 0 to 1"));
  return made;
}

void non_max_suppression(NodeImport& node) {
  ValueId boxes = node.input(0), scores = node.input(1);
  if (node.has_failed()) return;
  const std::vector<i64> shape = node.shape(scores);
  if (!fit_together(node.shape(boxes), shape))
    return node.fail("its operands are to be [batches, boxes, 4] and [batches, classes, boxes]");
  if (node.dtype(boxes) != DType::F32 || node.dtype(scores) != DType::F32)
    return node.fail("its boxes and scores are to be f32");
  if (node.is_empty(scores)) return node.fail(kNoElements);
  i64 centered = node.integer("center_point_box", 0);
  if (centered != 0 && centered != 1) return node.fail(cat("its center_point_box is ", centered, ", not 0 or 1"));
  const i64 steps = most_selected(node, shape[2]);
  ValueId limit = overlap_threshold(node), least = threshold(node, 4, -std::numeric_limits<double>::infinity());
  if (node.has_failed()) return;

  std::vector<ValueId> corners = node.add_several("box_corners", {{"centered", centered}}, {boxes});
  ValueId rest = node.add("box_scores", {{"bounded", i64{node.has_input(4)}}}, {scores, least});
  ValueId chosen = node.broadcast(node.scalar(-1, DType::I64), {shape[0], shape[1], steps});
  // The number of the step is data, so that one kernel serves all steps.
  for (i64 step = 0; step < steps && !node.has_failed(); ++step) {
    ValueId number = node.scalar(static_cast<double>(step), DType::I64);
    std::vector<ValueId> made =
        node.add_several("next_box", {}, {rest, corners.front(), corners.back(), limit, chosen, number});
    rest = made.front(), chosen = made.back();
  }
  ValueId rows = node.reshape(chosen, {shape[0] * shape[1], steps});
  node.result(0, node.add("box_rows", {{"classes", shape[1]}}, {rows}));
}

}  // namespace

void add_boxes(Converters& table) { table["NonMaxSuppression"] = non_max_suppression; }

}  // namespace tw::graph::onnx

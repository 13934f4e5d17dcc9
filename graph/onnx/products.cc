// Products of matrices.
#include <algorithm>
#include <numeric>

#include "graph/onnx/node_import.h"

namespace tw::graph::onnx {
namespace {

using Ints = std::vector<i64>;

void gemm(NodeImport& node) {
  ValueId a = node.input(0), b = node.input(1);
  if (node.rank(a) != 2 || node.rank(b) != 2) return node.fail("its operands are no matrices");
  if (node.integer("transA", 0) != 0) a = node.transpose(a, {1, 0});
  if (node.integer("transB", 0) != 0) b = node.transpose(b, {1, 0});
  ValueId made = product(node, a, b);
  auto times = [&](ValueId value, const char* attribute) {
    double factor = node.real(attribute, 1);
    if (factor == 1) return value;
    return node.add("multiply", {}, {value, node.number(factor, value)});
  };
  made = times(made, "alpha");
  if (node.has_input(2))
    made = node.add("add", {}, {made, node.broadcast(times(node.input(2), "beta"), node.shape(made))});
  node.result(0, made);
}

}  // namespace

// Vectors become matrices, batches are broadcast.
ValueId product(NodeImport& node, ValueId a, ValueId b) {
  Ints left = node.shape(a), right = node.shape(b);
  bool is_row = left.size() == 1, is_column = right.size() == 1;
  if (is_row) left.insert(left.begin(), 1);
  if (is_column) right.push_back(1);
  if (left.size() < 2 || right.size() < 2) return node.fail("products of scalars are not supported"), a;
  a = node.reshape(a, left), b = node.reshape(b, right);
  auto batch_of = [&](const Ints& shape) { return Ints(shape.begin(), shape.end() - 2); };
  Ints batch = common_shape({batch_of(left), batch_of(right)});
  auto spread = [&](ValueId value, const Ints& shape) {
    Ints wanted = batch;
    wanted.insert(wanted.end(), shape.end() - 2, shape.end());
    return node.broadcast(value, wanted);
  };
  ValueId made = node.add("matmul", {}, {spread(a, left), spread(b, right)});
  if (is_row || is_column) {
    Ints shape = node.shape(made);
    if (is_column && !shape.empty()) shape.pop_back();
    if (is_row && shape.size() > batch.size()) shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(batch.size()));
    made = node.reshape(made, shape);
  }
  return made;
}

void add_products(Converters& table) {
  table["MatMul"] = [](NodeImport& node) { node.result(0, product(node, node.input(0), node.input(1))); };
  table["Gemm"] = gemm;
}

}  // namespace tw::graph::onnx

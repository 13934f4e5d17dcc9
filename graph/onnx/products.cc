// Products of matrices.
#include <algorithm>
#include <cctype>
#include <functional>
#include <numeric>
#include <string>

#include "graph/onnx/node_import.h"

namespace tw::graph::onnx {
namespace {

using Ints = std::vector<i64>;

void gemm(NodeImport& node) {
  ValueId a = node.input(0), b = node.input(1);
  node.ignore({"beta", "broadcast"});  // beta without a third operand
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

struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

// "ij,jk->ik"; without an arrow the letters that stand once, in order.
Equation parse_equation(std::string text) {
  std::erase(text, ' ');
  std::size_t arrow = text.find("->");
  Equation out;
  std::string left = text.substr(0, arrow);
  for (std::size_t begin = 0; begin <= left.size();) {
    std::size_t end = std::min(left.find(',', begin), left.size());
    out.operands.push_back(left.substr(begin, end - begin));
    begin = end + 1;
  }
  if (arrow != text.npos) return out.result = text.substr(arrow + 2), out;
  for (char letter = 'A'; letter <= 'z'; ++letter) {
    if (std::ranges::count(left, letter) == 1) out.result += letter;
  }
  return out;
}

bool stand_once(const std::string& letters) {
  return std::ranges::all_of(letters, [&](char letter) {
    return std::isalpha(static_cast<unsigned char>(letter)) && std::ranges::count(letters, letter) == 1;
  });
}

// An operand with a dimension for each letter, 1 for those that it does not have; notes the extents of its own.
ValueId over_letters(NodeImport& node, ValueId x, const std::string& own, const std::string& letters, Ints& extents) {
  Ints order, shape(letters.size(), 1);
  for (std::size_t d = 0; d < letters.size(); ++d) {
    std::size_t at = own.find(letters[d]);
    if (at == own.npos) continue;
    order.push_back(static_cast<i64>(at));
    shape[d] = extents[d] = node.extent(x, static_cast<i64>(at));
  }
  return node.reshape(node.transpose(x, order), shape);
}

// All operands over all letters, multiplied, and a sum over those that the result does not have.
void einsum(NodeImport& node) {
  Equation equation = parse_equation(node.text("equation", ""));
  std::string letters = equation.result;
  bool is_simple = equation.operands.size() == node.inputs() && stand_once(letters);
  for (std::size_t n = 0; n < equation.operands.size() && is_simple; ++n) {
    const std::string& own = equation.operands[n];
    is_simple = stand_once(own) && node.rank(node.input(n)) == static_cast<i64>(own.size());
    for (char letter : own) {
      if (letters.find(letter) == letters.npos) letters += letter;
    }
  }
  if (!is_simple) return node.fail("ellipses and diagonals are not supported");
  Ints extents(letters.size(), 1), axes;
  std::vector<ValueId> operands;
  for (std::size_t n = 0; n < node.inputs(); ++n)
    operands.push_back(over_letters(node, node.input(n), equation.operands[n], letters, extents));
  ValueId all = node.broadcast(operands[0], extents);
  for (std::size_t n = 1; n < operands.size(); ++n)
    all = node.add("multiply", {}, {all, node.broadcast(operands[n], extents)});
  for (std::size_t d = equation.result.size(); d < letters.size(); ++d) axes.push_back(static_cast<i64>(d));
  node.result(0, axes.empty() ? all : node.add("reduce_sum", {{"axes", axes}}, {all}));
}

// Is a right operand one matrix for all rows of the left one? Of a constant, dimensions of extent 1 before the matrix
// do not count. Of other values they do: heads may share keys, and fusion finds attention if both products have a
// batch.
bool is_one_matrix(const NodeImport& node, ValueId b) {
  const Ints shape = node.shape(b);
  bool has_batch = std::any_of(shape.begin(), shape.end() - 2, [](i64 extent) { return extent != 1; });
  return shape.size() == 2 || (!has_batch && node.data(b));
}

// The left operand becomes one matrix of all rows of the batch, so the right one is not copied for each of its places.
ValueId product_of_joined_rows(NodeImport& node, ValueId a, ValueId b) {
  const Ints left = node.shape(a), right = node.shape(b);
  i64 rows = std::accumulate(left.begin(), left.end() - 1, i64{1}, std::multiplies<>());
  return node.add("matmul", {},
                  {node.reshape(a, {rows, left.back()}), node.reshape(b, {right.end()[-2], right.back()})});
}

ValueId product_of_batches(NodeImport& node, ValueId a, ValueId b, const Ints& batch) {
  auto spread = [&](ValueId value) {
    Ints wanted = node.shape(value);
    wanted.erase(wanted.begin(), wanted.end() - 2);
    wanted.insert(wanted.begin(), batch.begin(), batch.end());
    return node.broadcast(value, wanted);
  };
  return node.add("matmul", {}, {spread(a), spread(b)});
}

}  // namespace

// Vectors become matrices.
ValueId product(NodeImport& node, ValueId a, ValueId b) {
  Ints left = node.shape(a), right = node.shape(b);
  bool is_row = left.size() == 1, is_column = right.size() == 1;
  if (is_row) left.insert(left.begin(), 1);
  if (is_column) right.push_back(1);
  if (left.size() < 2 || right.size() < 2) return node.fail("products of scalars are not supported"), a;
  a = node.reshape(a, left), b = node.reshape(b, right);
  if (node.has_failed()) return a;
  auto batch_of = [](const Ints& shape) { return Ints(shape.begin(), shape.end() - 2); };
  const Ints batch = common_shape({batch_of(left), batch_of(right)});
  // Without elements there are no rows to count.
  bool has_rows = !node.is_empty(a) && is_one_matrix(node, b);
  ValueId made = has_rows ? product_of_joined_rows(node, a, b) : product_of_batches(node, a, b, batch);
  Ints shape = batch;
  if (!is_row) shape.push_back(left.end()[-2]);
  if (!is_column) shape.push_back(right.back());
  return node.reshape(made, shape);
}

void add_products(Converters& table) {
  table["MatMul"] = [](NodeImport& node) { node.result(0, product(node, node.input(0), node.input(1))); };
  table["Gemm"] = gemm;
  table["Einsum"] = einsum;
}

}  // namespace tw::graph::onnx

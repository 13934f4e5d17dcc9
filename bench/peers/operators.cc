#include "bench/peers/operators.h"

#include <algorithm>

namespace tw::peers {
namespace {

using Understood = std::variant<Operator, std::string>;

// The arguments of one operator; remembers the first one that is missing.
class Arguments {
 public:
  explicit Arguments(const Problem& problem) : problem_(problem) {}
  i64 operator()(const std::string& name) {
    auto it = problem_.args.find(name);
    if (it == problem_.args.end() && missing_.empty()) missing_ = name;
    return it == problem_.args.end() ? 1 : it->second;
  }
  i64 operator()(const std::string& name, i64 otherwise) const {
    auto it = problem_.args.find(name);
    return it == problem_.args.end() ? otherwise : it->second;
  }
  const std::string& missing() const { return missing_; }

 private:
  const Problem& problem_;
  std::string missing_;
};

Operator gemm(i64 batch, i64 m, i64 n, i64 k, bool constant_b) {
  Gemm shape{.inner = batch, .m = m, .n = n, .k = k, .constant_b = constant_b};
  shape.a = {batch * m * k, m * k, k, 1};
  shape.b = {batch * k * n, k * n, n, 1};
  shape.c = {batch * m * n, m * n, n, 1};
  return {shape, 2, batch * m * n, n, 2.0 * batch * m * n * k};
}

// Q[batch, seq, heads, dim], K[batch, seq, heads, dim] -> [batch, heads, seq, seq].
Operator attention_scores(i64 batch, i64 seq, i64 heads, i64 dim) {
  Gemm shape{.outer = batch, .inner = heads, .m = seq, .n = seq, .k = dim};
  shape.a = {seq * heads * dim, dim, heads * dim, 1};
  shape.b = {seq * heads * dim, dim, 1, heads * dim};
  shape.c = {heads * seq * seq, seq * seq, seq, 1};
  const i64 elements = batch * heads * seq * seq;
  return {shape, 2, elements, seq, 2.0 * elements * dim};
}

Operator convolution(Arguments& args, const std::vector<std::string>& axes, bool transposed, bool depthwise) {
  Convolution shape;
  shape.axes = static_cast<int>(axes.size());
  shape.transposed = transposed;
  shape.n = args("N", 1);
  shape.ci = depthwise ? args("C") : args("CI");
  shape.co = depthwise ? shape.ci : args("CO");
  shape.groups = depthwise ? shape.ci : args("groups", 1);
  i64 taps = 1, positions = 1, inputs = 1;
  for (int axis = 3 - shape.axes; axis < 3; ++axis) {
    const i64 in = shape.in[axis] = args(axes[axis - (3 - shape.axes)]);
    const i64 kernel = shape.kernel[axis] = args("K");
    const i64 stride = shape.stride[axis] = std::max<i64>(1, args("stride", 1));
    const i64 padding = shape.padding[axis] = args("padding", 0);
    const i64 dilation = shape.dilation[axis] = args("dilation", 1);
    const i64 reach = dilation * (kernel - 1) + 1;
    shape.out[axis] = transposed ? (in - 1) * stride - 2 * padding + reach : (in + 2 * padding - reach) / stride + 1;
    taps *= kernel;
    positions *= shape.out[axis];
    inputs *= in;
  }
  const i64 elements = shape.n * positions * shape.co;
  const i64 steps = transposed ? shape.n * inputs * shape.co : elements;
  return {shape, 2, elements, shape.co, 2.0 * steps * taps * (shape.ci / std::max<i64>(1, shape.groups))};
}

Operator row_wise(RowWise::Kind kind, i64 rows, i64 columns, i64 inputs) {
  const bool reduces = kind == RowWise::Kind::Norm;
  return {RowWise{kind, rows, columns}, inputs, reduces ? rows : rows * columns, reduces ? rows : columns, 0};
}

struct Entry {
  const char* op;
  Operator (*make)(Arguments& args);
};

const Entry kOperators[] = {
    {"dense", [](Arguments& a) { return gemm(1, a("M"), a("N"), a("K"), true); }},
    {"matmul", [](Arguments& a) { return gemm(1, a("M"), a("N"), a("K"), false); }},
    {"batch_matmul", [](Arguments& a) { return gemm(a("B"), a("M"), a("N"), a("K"), false); }},
    {"transpose_batch_matmul", [](Arguments& a) { return attention_scores(a("B"), a("S"), a("H"), a("D")); }},
    {"conv1d", [](Arguments& a) { return convolution(a, {"L"}, false, false); }},
    {"conv2d", [](Arguments& a) { return convolution(a, {"H", "W"}, false, false); }},
    {"conv3d", [](Arguments& a) { return convolution(a, {"D", "H", "W"}, false, false); }},
    {"group_conv2d", [](Arguments& a) { return convolution(a, {"H", "W"}, false, false); }},
    {"dilated_conv2d", [](Arguments& a) { return convolution(a, {"H", "W"}, false, false); }},
    {"depthwise_conv2d", [](Arguments& a) { return convolution(a, {"H", "W"}, false, true); }},
    {"conv2d_transposed", [](Arguments& a) { return convolution(a, {"H", "W"}, true, false); }},
    {"softmax", [](Arguments& a) { return row_wise(RowWise::Kind::Softmax, a("M"), a("N"), 1); }},
    {"layernorm", [](Arguments& a) { return row_wise(RowWise::Kind::LayerNorm, a("M"), a("N"), 3); }},
    {"rmsnorm", [](Arguments& a) { return row_wise(RowWise::Kind::RmsNorm, a("M"), a("N"), 2); }},
    {"fma", [](Arguments&) { return Operator{FmaProbe{}, 0, 0, 0, 0}; }},
    {"norm", [](Arguments& a) { return row_wise(RowWise::Kind::Norm, a("B"), a("M") * a("N"), 1); }},
};

}  // namespace

Understood understand(const Problem& problem) {
  for (const Entry& entry : kOperators) {
    if (problem.op != entry.op) continue;
    Arguments args(problem);
    Operator made = entry.make(args);
    if (!args.missing().empty()) return problem.op + " needs the argument " + args.missing();
    if (made.output_elements <= 0 && !std::holds_alternative<FmaProbe>(made.shape))
      return problem.op + " has an empty output";
    return made;
  }
  return "operator " + problem.op + " is not compared with libraries";
}

}  // namespace tw::peers

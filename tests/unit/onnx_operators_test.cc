// Operators of ONNX on small operands. What is wanted was computed by ONNX's own reference and by ONNX Runtime, which
// agree.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <regex>
#include <sstream>

#include "graph/import_onnx.h"
#include "tests/support/support.h"
#include "tests/unit/compiled_nodes.h"
#include "tests/unit/onnx_files.h"

namespace tw::graph {
namespace {

using test::integer, test::integers, test::real, test::text, test::texts;
using Ints = std::vector<i64>;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Operand {
  HostArray data;
  bool is_known = false;  // a constant of the graph
  bool is_left_out = false;
};

// Numbers from -0.75 to 0.75.
HostArray made(i64 k, const Ints& shape, double scale = 1) {
  HostArray data = HostArray::zeros(DType::F32, shape);
  for (i64 i = 0; i < data.elements(); ++i) data.set(i, scale * static_cast<double>((i * 7 + k * 5) % 13 - 6) / 8);
  return data;
}
Operand x(i64 k, const Ints& shape, double scale = 1) { return {made(k, shape, scale)}; }
Operand typed(DType dtype, const Ints& shape, const std::vector<double>& values) {
  HostArray data = HostArray::zeros(dtype, shape);
  for (std::size_t i = 0; i < values.size(); ++i) data.set(static_cast<i64>(i), values[i]);
  return {std::move(data)};
}
Operand whole(const Ints& shape, const std::vector<double>& values) { return typed(DType::I64, shape, values); }
Operand known(const std::vector<double>& values, DType dtype = DType::I64) {
  return {typed(dtype, {static_cast<i64>(values.size())}, values).data, true};
}
Operand none() { return {{}, false, true}; }

struct Call {
  std::string op;
  u64 opset;
  std::string attributes;
  std::vector<Operand> operands;
  std::size_t results = 1;
};

std::variant<Graph, ImportProblems> imported(const Call& call) {
  std::vector<std::string> inputs, outputs;
  std::string infos, results;
  ImportOptions options;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    const Operand& operand = call.operands[i];
    inputs.push_back(operand.is_left_out ? "" : cat("x", i));
    if (operand.is_left_out) continue;
    infos += test::part(11, test::value_info(inputs.back(), operand.data.dtype, operand.data.shape));
    if (operand.is_known) options.constants[inputs.back()] = operand.data;
  }
  for (std::size_t i = 0; i < call.results; ++i) {
    outputs.push_back(cat("y", i));
    results += test::part(12, test::untyped(outputs.back()));
  }
  std::string graph = test::part(1, test::node(call.op, inputs, outputs, call.attributes)) + test::part(2, "g");
  return test::import_bytes(test::model(graph + infos + results, "", call.opset), options);
}

std::string problem(const Call& call) {
  auto made = imported(call);
  auto* problems = std::get_if<ImportProblems>(&made);
  return problems ? problems->lines.at(0) : "imported";
}

// By the interpreter, or by kernels.
std::vector<HostArray> results(const Call& call, bool is_compiled = false) {
  auto made = imported(call);
  if (auto* problems = std::get_if<ImportProblems>(&made)) {
    ADD_FAILURE() << problems->lines.at(0);
    return {};
  }
  std::vector<HostArray> inputs;
  for (const Operand& operand : call.operands) {
    if (!operand.is_known && !operand.is_left_out) inputs.push_back(operand.data);
  }
  std::string error;
  const Graph& graph = std::get<Graph>(made);
  auto found = is_compiled ? test::evaluate_compiled(graph, inputs, error) : evaluate(graph, inputs, error);
  EXPECT_TRUE(found) << error;
  return found ? *found : std::vector<HostArray>();
}

// The results of a call one after the other.
void expect(const Call& call, const Ints& shape, const std::vector<double>& wanted) {
  for (bool is_compiled : {false, true}) {
    SCOPED_TRACE(cat(call.op, is_compiled ? " by kernels" : ""));
    std::vector<HostArray> found = results(call, is_compiled);
    ASSERT_EQ(found.size(), call.results);
    EXPECT_EQ(found[0].shape, shape);
    std::vector<double> all;
    for (const HostArray& array : found) {
      for (i64 i = 0; i < array.elements(); ++i) all.push_back(array.get(i));
    }
    ASSERT_EQ(all.size(), wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i) {
      double allowed = std::isinf(wanted[i]) ? 0 : 2e-6 + 2e-5 * std::abs(wanted[i]);
      EXPECT_TRUE(all[i] == wanted[i] || std::abs(all[i] - wanted[i]) <= allowed)
          << "element " << i << ": " << all[i] << " is not " << wanted[i];
    }
  }
}

class OnnxOperators : public testing::Test {
 protected:
  void SetUp() override {
    if (onnx_operators().empty()) GTEST_SKIP() << "built without libonnx";
  }
};

// As many rows as columns, so that either could have the scales.
TEST_F(OnnxOperators, RowsOfAQuantizedProductHaveScalesOfTheirOwn) {
  auto scales = [](const std::vector<double>& values) {
    return typed(DType::F32, {static_cast<i64>(values.size())}, values);
  };
  Operand one = typed(DType::F32, {}, {1}), zero = typed(DType::I8, {}, {0});
  expect({"QLinearMatMul",
          21,
          "",
          {typed(DType::I8, {2, 2}, {1, 2, 3, 4}), scales({1, 2}), zero, typed(DType::I8, {2, 2}, {1, 0, 0, 1}),
           scales({1, 5}), zero, one, zero}},
         {2, 2}, {1, 10, 6, 40});
}

// With biases, initial states and peepholes.
TEST_F(OnnxOperators, LstmInAllDirections) {
  expect({"LSTM",
          14,
          text("direction", "forward"),
          {x(1, {2, 2, 2}), x(2, {1, 8, 2}), x(3, {1, 8, 2}), x(4, {1, 16}), none(), x(5, {1, 2, 2}), x(6, {1, 2, 2}),
           x(7, {1, 6})},
          3},
         {2, 1, 2, 2},
         {0.0817798, 0.158831, -0.360474, -0.00104151, -0.229784, 0.00469132, -0.347856, -0.0640279, -0.229784,
          0.00469132, -0.347856, -0.0640279, -0.324358, 0.0129562, -0.514335, -0.189942});
  expect({"LSTM",
          14,
          text("direction", "reverse"),
          {x(1, {2, 2, 2}), x(2, {1, 8, 2}), x(3, {1, 8, 2}), x(4, {1, 16}), none(), x(5, {1, 2, 2}), x(6, {1, 2, 2}),
           x(7, {1, 6})},
          3},
         {2, 1, 2, 2},
         {0.0207716, 0.0888314, -0.339749, -0.076331, -0.173488, 0.0596075, -0.371888, -0.00194692, 0.0207716,
          0.0888314, -0.339749, -0.076331, 0.0284125, 0.211735, -0.534354, -0.204683});
  expect({"LSTM",
          14,
          text("direction", "bidirectional"),
          {x(1, {2, 2, 2}), x(2, {2, 8, 2}), x(3, {2, 8, 2}), x(4, {2, 16}), none(), x(5, {2, 2, 2}), x(6, {2, 2, 2}),
           x(7, {2, 6})},
          3},
         {2, 2, 2, 2}, {0.0817798, 0.158831,   -0.360474, -0.00104151, 0.0148383, -0.0128737, 0.10945,   0.0598959,
                        -0.229784, 0.00469132, -0.347856, -0.0640279,  0.0521853, -0.134267,  0.0928656, -0.0681449,
                        -0.229784, 0.00469132, -0.347856, -0.0640279,  0.0148383, -0.0128737, 0.10945,   0.0598959,
                        -0.324358, 0.0129562,  -0.514335, -0.189942,   0.0456443, -0.0361527, 0.208312,  0.110089});
}

TEST_F(OnnxOperators, GruAndRnn) {
  expect({"GRU",
          14,
          text("direction", "bidirectional") + integer("linear_before_reset", 1),
          {x(1, {2, 2, 2}), x(2, {2, 6, 2}), x(3, {2, 6, 2}), x(4, {2, 12}), none(), x(5, {2, 2, 2})},
          2},
         {2, 2, 2, 2}, {0.779442, 0.00273413, -0.446897, -0.325787, -0.657563, 0.561544, -0.105496, 0.794776,
                        0.699516, -0.415335,  -0.140657, -0.487235, -0.245708, 0.607826, -0.272417, 0.652121,
                        0.699516, -0.415335,  -0.140657, -0.487235, -0.657563, 0.561544, -0.105496, 0.794776});
  expect({"GRU",
          14,
          text("direction", "reverse"),
          {x(1, {2, 2, 2}), x(2, {1, 6, 2}), x(3, {1, 6, 2}), x(4, {1, 12}), none(), x(5, {1, 2, 2})},
          2},
         {2, 1, 2, 2},
         {0.824339, 0.00911871, -0.098331, -0.487911, 0.735259, -0.396535, -0.444945, -0.326679, 0.824339, 0.00911871,
          -0.098331, -0.487911});
  expect({"RNN",
          14,
          text("direction", "bidirectional") + texts("activations", {"Relu", "Tanh"}),
          {x(1, {2, 2, 2}), x(2, {2, 2, 2}), x(3, {2, 2, 2}), x(4, {2, 4}), none(), x(5, {2, 2, 2})},
          2},
         {2, 2, 2, 2}, {0,       0, 0.984375, 0, 0.257179, -0.720822, 0.335083, -0.832046,
                        0.59375, 0, 0.132812, 0, 0.856818, -0.486336, 0.889989, -0.486336,
                        0.59375, 0, 0.132812, 0, 0.257179, -0.720822, 0.335083, -0.832046});
}

TEST_F(OnnxOperators, NormalizationOfGroupsAndRows) {
  expect({"RMSNormalization", 23, integer("axis", -2), {x(1, {2, 2, 2}), x(2, {2, 2})}}, {2, 2, 2},
         {-0.117039, -0.351117, 0, 0.175559, 0.147438, 0.368595, 0.368595, 0.147438});
  expect({"GroupNormalization", 18, integer("num_groups", 2), {x(1, {1, 4, 2}), x(2, {2}), x(3, {2})}}, {1, 4, 2},
         {-0.58793, 0.23275, -0.47069, -1.17413, 0.169508, 0.662688, 0.0873117, 0.580492});
  expect({"GroupNormalization", 21, integer("num_groups", 2), {x(1, {1, 4, 2}), x(2, {4}), x(3, {4})}}, {1, 4, 2},
         {-0.58793, 0.23275, 0.360345, 0.712065, 0.138729, -1.09422, 0.356156, 0.602746});
  expect({"Swish", 24, real("alpha", 1.5), {x(1, {4})}}, {4}, {-0.0566577, 0.566186, 0, -0.183814});
}

// Of neighbours and a part of each head, with places; of halves.
TEST_F(OnnxOperators, RotaryEmbedding) {
  expect({"RotaryEmbedding",
          23,
          integer("interleaved", 1) + integer("rotary_embedding_dim", 2) + integer("num_heads", 2),
          {x(1, {1, 2, 8}), x(2, {3, 1}), x(3, {3, 1}), whole({1, 2}, {2, 1})}},
         {1, 2, 8},
         {0.203125, 0.515625, 0, -0.75, -0.15625, -0.4375, 0.25, -0.5, 0.046875, 0.234375, 0.5, -0.25, -0.109375,
          0.265625, 0.75, 0});
  expect({"RotaryEmbedding", 23, "", {x(1, {1, 2, 2, 4}), x(2, {1, 2, 2}), x(3, {1, 2, 2})}}, {1, 2, 2, 4},
         {-0.0625, 0.09375, 0.0625, 0.46875, 0.171875, 0.328125, 0.109375, -0.25, 0.4375, 0.1875, 0.0625, -0.078125,
          0.671875, 0.015625, 0.234375, -0.0625});
}

// Heads that share keys, behind earlier ones; a row that sees nothing; a cache that is not full.
TEST_F(OnnxOperators, Attention) {
  expect({"Attention",
          23,
          integer("is_causal", 1) + real("softcap", 1.5),
          {x(1, {1, 2, 2, 2}), x(2, {1, 1, 2, 2}), x(3, {1, 1, 2, 2}), none(), x(4, {1, 1, 1, 2}), x(5, {1, 1, 1, 2})},
          3},
         {1, 2, 2, 2},
         {0.0748856, 0.202534, 0.018873, 0.267629, 0.165464, 0.175361, -0.0218461, 0.283758, 0.125,  -0.625,
          0.5,       -0.25,    0.625,    -0.125,   0.75,     0,        -0.5,       0.375,    -0.375, 0.5});
  expect({"Attention",
          23,
          integer("q_num_heads", 2) + integer("kv_num_heads", 2) + real("scale", 0.5),
          {x(1, {1, 2, 4}), x(2, {1, 3, 4}), x(3, {1, 3, 4}), typed(DType::Bool, {2, 3}, {1, 0, 1, 0, 0, 0})}},
         {1, 2, 4}, {-0.217951, -0.259611, -0.148369, -0.00991958, 0, 0, 0, 0});
  expect(
      {"Attention",
       24,
       integer("is_causal", 1) + integer("qk_matmul_output_mode", 2),
       {x(1, {2, 1, 2, 2}), x(2, {2, 1, 3, 2}), x(3, {2, 1, 3, 2}), x(4, {2, 3}), none(), none(), whole({2}, {2, 3})},
       4},
      {2, 1, 2, 2},
      {-0.5,     0.375,      -0.413521,  0.461479,  -0.0860914, 0.283097,   0.0023744,  -0.380859,  0.5,
       -0.25,    0.625,      -0.125,     0.75,      0,          -0.75,      0.125,      -0.625,     0.25,
       -0.5,     0.375,      -0.5,       0.375,     -0.375,     0.5,        -0.25,      0.625,      -0.125,
       0.75,     0,          -0.75,      0.125,     -0.625,     -0.0517767, -kInfinity, -kInfinity, -0.367417,
       0.441291, -kInfinity, 0.00346602, -0.790728, -kInfinity, -0.676777,  0.176126,   -0.595971});
}

// As the exporter of PyTorch writes it.
TEST_F(OnnxOperators, GemmWithoutAThirdOperandMayHaveBeta) {
  expect({"Gemm", 13, real("beta", 2), {typed(DType::F32, {1, 2}, {1, 2}), typed(DType::F32, {2, 1}, {3, 4})}}, {1, 1},
         {11});
}

TEST_F(OnnxOperators, UpdatesOfOneElementAreCombined) {
  expect({"ScatterElements",
          18,
          integer("axis", 1) + text("reduction", "add"),
          {x(1, {2, 3}), whole({2, 3}, {0, -1, 0, 1, 1, 1}), x(2, {2, 3})}},
         {2, 3}, {1, 0.75, -0.25, -0.75, 0.75, -0.625});
  expect({"ScatterND", 18, text("reduction", "add"), {x(1, {3, 2}), whole({3, 1}, {0, 2, 0}), x(2, {3, 2})}}, {3, 2},
         {1.125, 0.5, 0, -0.75, 0.75, -0.75});
  expect({"ScatterElements",
          18,
          integer("axis", 1) + text("reduction", "mul"),
          {x(1, {2, 3}), whole({2, 3}, {0, -1, 0, 1, 1, 1}), x(2, {2, 3})}},
         {2, 3}, {-0.0390625, 0.75, -0, -0.75, -0, -0.625});
  expect({"ScatterND", 18, text("reduction", "mul"), {x(1, {3, 2}), whole({3, 1}, {0, 2, 0}), x(2, {3, 2})}}, {3, 2},
         {-0.046875, -0, 0, -0.75, 0.078125, 0.078125});
  expect({"ScatterElements",
          18,
          integer("axis", 1) + text("reduction", "max"),
          {x(1, {2, 3}), whole({2, 3}, {0, -1, 0, 1, 1, 1}), x(2, {2, 3})}},
         {2, 3}, {0.625, 0.75, 0, -0.75, 0.75, -0.625});
  expect({"ScatterND", 18, text("reduction", "max"), {x(1, {3, 2}), whole({3, 1}, {0, 2, 0}), x(2, {3, 2})}}, {3, 2},
         {0.75, 0.75, 0, -0.75, 0.625, -0.125});
  expect({"ScatterElements",
          18,
          integer("axis", 1) + text("reduction", "min"),
          {x(1, {2, 3}), whole({2, 3}, {0, -1, 0, 1, 1, 1}), x(2, {2, 3})}},
         {2, 3}, {-0.125, 0.75, -0.25, -0.75, -0.125, -0.625});
  expect({"ScatterND", 18, text("reduction", "min"), {x(1, {3, 2}), whole({3, 1}, {0, 2, 0}), x(2, {3, 2})}}, {3, 2},
         {-0.125, -0.25, 0, -0.75, 0.125, -0.625});
  expect({"TensorScatter", 24, text("mode", "circular"), {x(1, {2, 3, 2}), x(2, {2, 2, 2}), whole({2}, {0, 2})}},
         {2, 3, 2}, {0.5, -0.25, 0.625, -0.125, 0.125, -0.625, -0.75, 0.125, 0.375, -0.375, 0.75, 0});
}

TEST_F(OnnxOperators, GridSample) {
  auto sample = [](const char* mode, const char* padding, i64 corners, const std::vector<double>& wanted) {
    SCOPED_TRACE(cat(mode, " ", padding, " ", corners));
    std::string attributes = text("mode", mode) + text("padding_mode", padding) + integer("align_corners", corners);
    expect({"GridSample", 20, attributes, {x(1, {1, 1, 3, 2}), x(2, {1, 2, 3, 2}, 2.5)}}, {1, 1, 2, 3}, wanted);
  };
  sample("linear", "zeros", 1, {0.164062, -0.202148, -0.421875, 0.0219727, 0.0561523, 0.102539});
  sample("linear", "border", 0, {0.65625, -0.046875, -0.75, 0.0585938, 0.117188, 0.125});
  sample("linear", "reflection", 0, {0.65625, -0.0476074, -0.46875, -0.222656, 0.0703125, 0.125});
  sample("linear", "reflection", 1, {0.154297, -0.213135, -0.421875, -0.289062, -0.132812, 0.0234375});
  sample("nearest", "border", 0, {0.75, -0.75, -0.75, 0, 0.125, 0.125});
  sample("nearest", "zeros", 1, {0.75, -0.75, -0.75, 0, 0.125, 0.125});
  sample("nearest", "reflection", 1, {0.75, -0.75, -0.75, 0, 0.125, 0.125});
  sample("cubic", "zeros", 0, {0.189151, -2.2514e-05, 0.0823975, -0.00894873, -0.0051203, 0.036131});
}

TEST_F(OnnxOperators, ElementsInOtherPlaces) {
  expect({"Col2Im",
          18,
          integers("strides", {1, 2}) + integers("pads", {0, 1, 0, 0}),
          {x(1, {1, 4, 4}), known({3, 3}), known({2, 2})}},
         {1, 1, 3, 3}, {0.125, 0.75, -0.625, 0.875, -1.125, -0.625, 0.75, -0.25, 0});
  expect({"CenterCropPad", 18, integers("axes", {1, 0}), {x(1, {2, 4}), known({1, 5})}}, {5, 1},
         {0, 0.75, -0.625, 0, 0});
  expect({"Pad", 18, text("mode", "reflect"), {x(1, {2, 3}), known({1, 2, 0, 1})}}, {3, 6},
         {-0.625, 0.125, -0.75, 0.125, -0.625, 0.125, 0, 0.75, -0.125, 0.75, 0, 0.75, -0.625, 0.125, -0.75, 0.125,
          -0.625, 0.125});
  expect({"Pad", 19, text("mode", "wrap"), {x(1, {2, 3}), known({1, 2, 0, -1})}}, {3, 4},
         {-0.75, 0.125, -0.75, 0.125, -0.125, 0.75, -0.125, 0.75, -0.75, 0.125, -0.75, 0.125});
  expect({"Resize",
          19,
          text("mode", "linear") + text("coordinate_transformation_mode", "half_pixel_symmetric"),
          {x(1, {1, 1, 1, 4}), none(), known({1, 1, 1, 0.6}, DType::F32)}},
         {1, 1, 1, 2}, {0.458333, -0.25});
}

TEST_F(OnnxOperators, Pooling) {
  // (0.125^3 + 0.75^3 + 0 + 0.75^3)^(1/3)
  expect({"GlobalLpPool", 17, integer("p", 3), {x(1, {1, 1, 4})}}, {1, 1, 1}, {std::cbrt(0.845703125)});
  expect({"LpPool",
          18,
          integers("kernel_shape", {2}) + integers("dilations", {2}) + integers("pads", {1, 0}) + integer("p", 3),
          {x(1, {1, 1, 4})}},
         {1, 1, 3}, {0.75, 0.125, 0.944941});
  expect({"AveragePool",
          19,
          integers("kernel_shape", {2}) + integers("dilations", {2}) + integers("pads", {1, 1}) +
              integers("strides", {2}) + integer("ceil_mode", 1),
          {x(1, {1, 1, 4})}},
         {1, 1, 3}, {0.75, 0, -0.75});
  expect({"AveragePool",
          19,
          integers("kernel_shape", {3}) + integers("pads", {1, 1}) + integers("strides", {2}) +
              integer("ceil_mode", 1) + integer("count_include_pad", 1),
          {x(1, {1, 1, 5})}},
         {1, 1, 3}, {0.208333, 0, -0.208333});
}

// Against the C library; the argument of sin and cos goes often around.
TEST_F(OnnxOperators, TrigonometricFunctions) {
  auto check = [](const char* op, double (*wanted)(double), double from, double to) {
    SCOPED_TRACE(op);
    constexpr i64 n = 1001;
    HostArray data = HostArray::zeros(DType::F32, {n});
    for (i64 i = 0; i < n; ++i) data.set(i, from + (to - from) * static_cast<double>(i) / (n - 1));
    for (bool is_compiled : {false, true}) {
      std::vector<HostArray> found = results({op, 22, "", {{data}}}, is_compiled);
      ASSERT_EQ(found.size(), 1u);
      for (i64 i = 0; i < n; ++i) {
        double value = wanted(data.get(i));
        EXPECT_NEAR(found[0].get(i), value, 2e-7 + 5e-7 * std::abs(value)) << data.get(i);
      }
    }
  };
  for (double far : {30.0, 1e4, 1e6, 1e9}) {
    check("Sin", std::sin, -far, far);
    check("Cos", std::cos, -far, far);
  }
  check("Tan", std::tan, -1.5, 1.5);
  check("Atan", std::atan, -20, 20);
  check("Asin", std::asin, -1, 1);
  check("Acos", std::acos, -1, 1);
  check("Asinh", std::asinh, -20, 20);
  check("Asinh", std::asinh, -1e38, 1e38);
  check("Sinh", std::sinh, -1e-4, 1e-4);
  check("Sinh", std::sinh, -89.4, 89.4);
  check("Cosh", std::cosh, -89.4, 89.4);
  check("Acosh", std::acosh, 1, 20);
  check("Atanh", std::atanh, -0.99, 0.99);
}

// Far out only the range is right.
TEST_F(OnnxOperators, SinesOfHugeNumbersAreNoMoreThanOne) {
  for (const char* op : {"Sin", "Cos"}) {
    for (bool is_compiled : {false, true}) {
      HostArray data = HostArray::zeros(DType::F32, {3});
      data.set(0, 1e20), data.set(1, -3e38), data.set(2, std::numeric_limits<double>::quiet_NaN());
      std::vector<HostArray> found = results({op, 22, "", {{data}}}, is_compiled);
      ASSERT_EQ(found.size(), 1u);
      EXPECT_LE(std::abs(found[0].get(0)), 1) << op;
      EXPECT_LE(std::abs(found[0].get(1)), 1) << op;
      EXPECT_TRUE(std::isnan(found[0].get(2))) << op;
    }
  }
}

// As NumPy has it. A processor would stop the program at the first two.
TEST_F(OnnxOperators, IntegersDividedByZeroAreZero) {
  constexpr double kLeast = -2147483648.0;
  const std::vector<double> a = {kLeast, 5, -7, 7, -7, kLeast, kLeast, kLeast, 5},
                            b = {-1, 0, 2, -2, -1, kLeast, 2, 3, kLeast};
  auto check = [&](const char* op, DType dtype, const std::vector<double>& a, const std::vector<double>& b,
                   const std::vector<double>& wanted) {
    SCOPED_TRACE(op);
    const i64 n = std::ssize(a);
    std::string error;
    GraphBuilder builder("g");
    ValueId x = builder.input("a", {dtype, {n}}), y = builder.input("b", {dtype, {n}});
    auto made = builder.add(op, {}, {x, y}, op, error);
    ASSERT_TRUE(made) << error;
    builder.output((*made)[0], "y");
    Graph graph = builder.finish();
    std::vector<HostArray> inputs = {typed(dtype, {n}, a).data, typed(dtype, {n}, b).data};
    for (bool is_compiled : {false, true}) {
      auto found = is_compiled ? test::evaluate_compiled(graph, inputs, error) : evaluate(graph, inputs, error);
      ASSERT_TRUE(found) << error;
      for (i64 i = 0; i < n; ++i) EXPECT_EQ((*found)[0].get(i), wanted[static_cast<std::size_t>(i)]) << i;
    }
  };
  check("divide", DType::I32, a, b, {kLeast, 0, -3, -3, 7, 1, -1073741824, -715827882, 0});
  check("modulo", DType::I32, a, b, {0, 0, 1, -1, 0, 0, 0, 1, 5 + kLeast});
  check("remainder", DType::I32, a, b, {0, 0, -1, 1, 0, 0, 0, -2, 5});
  check("divide", DType::U8, {200, 200, 255, 7}, {0, 255, 255, 3}, {0, 0, 1, 2});
  check("modulo", DType::U8, {200, 200, 255, 7}, {0, 255, 255, 3}, {0, 200, 0, 1});
}

// Floats of 24 bits would round them.
TEST_F(OnnxOperators, PowersOfIntegersAreExact) {
  auto check = [](DType type, DType exponent_type, const std::vector<double>& a, const std::vector<double>& b,
                  const std::vector<i64>& wanted) {
    const i64 n = std::ssize(a);
    const Call call{"Pow", 17, "", {typed(type, {n}, a), typed(exponent_type, {n}, b)}};
    for (bool is_compiled : {false, true}) {
      SCOPED_TRACE(cat(name_of(type), "^", name_of(exponent_type), is_compiled ? " by kernels" : ""));
      std::vector<HostArray> found = results(call, is_compiled);
      ASSERT_EQ(found.size(), 1u);
      ASSERT_EQ(found[0].dtype, type);
      for (i64 i = 0; i < n; ++i) {
        i64 value = static_cast<i64>(found[0].get(i));
        if (type == DType::I64) std::memcpy(&value, found[0].bytes.data() + 8 * i, 8);
        EXPECT_EQ(value, wanted[static_cast<std::size_t>(i)])
            << a[static_cast<std::size_t>(i)] << "^" << b[static_cast<std::size_t>(i)];
      }
    }
  };
  check(DType::I32, DType::I32, {3, 7, -7, -2, 5, 0, 0, 46341}, {19, 11, 11, 31, 0, 0, 3, 2},
        {1162261467, 1977326743, -1977326743, -2147483648, 1, 1, 0, -2147479015});
  check(DType::I64, DType::I64, {3, 7, -3, 3, -2, -2}, {19, 11, 33, 39, 62, 63},
        {1162261467, 1977326743, -5559060566555523, 4052555153018976267, i64{1} << 62, -9223372036854775807 - 1});
  check(DType::I64, DType::I32, {15, 1, -1, -1, 0, 2}, {16, 100, 100, 101, 100, 100},
        {6568408355712890625, 1, 1, -1, 0, 0});
  check(DType::I64, DType::I64, {3, -1, 1, 3037000501}, {64, 1000001, 4611686018427387904, 2},
        {0, -1, 1, -9223372030635300615});
  // NumPy refuses these.
  check(DType::I32, DType::I64, {1, -1, -1, 2, 0}, {-3, -3, -4, -1, -1}, {1, -1, 1, 0, 0});
  check(DType::I8, DType::U8, {-5, 2, 3}, {3, 7, 4}, {-125, -128, 81});
  check(DType::U8, DType::I8, {3, 2, 255}, {5, 7, -1}, {243, 128, 0});
}

// Small ones that the graph knows cost no more than the product.
TEST_F(OnnxOperators, SmallConstantPowersOfIntegersAreProducts) {
  for (double exponent : {0, 1, 2, 3}) {
    const Call call{"Pow", 17, "", {typed(DType::I64, {2, 3}, {0, 1, -2, 3, -4, 5}), known({exponent})}};
    auto made = imported(call);
    const Graph* graph = std::get_if<Graph>(&made);
    ASSERT_TRUE(graph);
    auto count = [&](const char* op) { return std::ranges::count(graph->nodes, op, &graph::Node::op); };
    EXPECT_EQ(count("multiply"), exponent == 3 ? 2 : exponent == 2);
    EXPECT_EQ(count("integer_power"), 0);
    std::vector<HostArray> found = results(call);
    ASSERT_EQ(found.size(), 1u);
    ASSERT_EQ(found[0].shape, (std::vector<i64>{2, 3}));
    for (i64 i = 0; i < 6; ++i) EXPECT_EQ(found[0].get(i), std::pow(call.operands[0].data.get(i), exponent));
  }
}

// A NaN is more than every number, and takes the place of none of them.
TEST_F(OnnxOperators, TopKWithANaN) {
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  for (bool is_compiled : {false, true}) {
    Call call{"TopK", 11, "", {typed(DType::F32, {6}, {1, 2, kNaN, 9, 3, kNaN}), known({4})}, 2};
    std::vector<HostArray> found = results(call, is_compiled);
    ASSERT_EQ(found.size(), 2u);
    EXPECT_TRUE(std::isnan(found[0].get(0)) && std::isnan(found[0].get(1)));
    EXPECT_EQ(found[0].get(2), 9);
    EXPECT_EQ(found[0].get(3), 3);
    for (auto [i, place] : std::vector<std::pair<i64, double>>{{0, 2}, {1, 5}, {2, 3}, {3, 4}})
      EXPECT_EQ(found[1].get(i), place);
    call.attributes = integer("largest", 0);
    found = results(call, is_compiled);
    ASSERT_EQ(found.size(), 2u);
    for (auto [i, place] : std::vector<std::pair<i64, double>>{{0, 0}, {1, 1}, {2, 4}, {3, 3}})
      EXPECT_EQ(found[1].get(i), place);
  }
}

TEST_F(OnnxOperators, WindowsOfCosines) {
  for (bool is_periodic : {true, false}) {
    std::vector<double> wanted;
    double period = is_periodic ? 6 : 5;
    for (int i = 0; i < 6; ++i) wanted.push_back(0.5 - 0.5 * std::cos(2 * M_PI * i / period));
    expect({"HannWindow", 17, integer("periodic", is_periodic), {{typed(DType::I64, {}, {6}).data, true}}}, {6},
           wanted);
  }
}

// What is beyond the type is its largest or smallest number, in kernels, too.
TEST_F(OnnxOperators, QuantizedNumbersSaturate) {
  Operand scale = typed(DType::F32, {}, {2});
  expect({"QuantizeLinear",
          17,
          "",
          {typed(DType::F32, {5}, {0, 3, 1000, -254, -1e6}), scale, typed(DType::U8, {}, {128})}},
         {5}, {128, 130, 255, 1, 0});
}

// The scale of nothing but zeros is 1, as ONNX Runtime has it.
TEST_F(OnnxOperators, DynamicQuantization) {
  expect({"DynamicQuantizeLinear", 17, "", {typed(DType::F32, {3}, {0, 0, 0})}, 3}, {3}, {0, 0, 0, 1, 0});
  expect({"DynamicQuantizeLinear", 17, "", {typed(DType::F32, {3}, {0, 2, -3})}, 3}, {3},
         {153, 255, 0, 5.0 / 255, 153});
}

TEST_F(OnnxOperators, MeansOverDimensionsFromTheEnd) {
  expect({"MeanVarianceNormalization", 13, integers("axes", {-1}), {typed(DType::F32, {2, 2}, {1, 3, 9, 5})}}, {2, 2},
         {-1, 1, 1, -1});
}

// They go through what brings elements to other places; others say that they do not take them.
TEST_F(OnnxOperators, TensorsWithoutElements) {
  Operand nothing = x(1, {2, 0}), some = x(1, {2, 2});
  expect({"Concat", 17, integer("axis", 1), {nothing, some, nothing}}, {2, 2}, {-0.125, 0.75, 0, -0.75});
  expect({"Concat", 17, integer("axis", 1), {nothing, nothing}}, {2, 0}, {});
  expect({"Slice", 17, "", {some, known({2}), known({2}), known({1})}}, {2, 0}, {});
  expect({"Transpose", 17, "", {nothing}}, {0, 2}, {});
  expect({"Reshape", 17, "", {nothing, known({0, 3, -1})}}, {2, 3, 0}, {});
  expect({"Add", 17, "", {nothing, x(1, {2, 1})}}, {2, 0}, {});
  expect({"ReduceSum", 17, "", {nothing, known({1})}}, {2, 1}, {0, 0});
  expect({"ReduceMax", 20, integer("keepdims", 0), {nothing, known({1})}}, {2}, {-kInfinity, -kInfinity});
  expect({"Shape", 17, "", {nothing}}, {2}, {2, 0});
  EXPECT_EQ(problem({"MatMul", 17, "", {nothing, x(1, {0, 2})}}),
            "node `y0` (MatMul): tensors without elements are not supported here");
  // The first step of a decoder has no earlier keys.
  Operand past = x(1, {1, 1, 0, 2}), one = x(1, {1, 1, 1, 2});
  expect({"Attention", 23, "", {one, one, one, none(), past, past}, 2}, {1, 1, 1, 2}, {-0.125, 0.75, -0.125, 0.75});
}

TEST_F(OnnxOperators, WhatIsRefusedSaysWhy) {
  EXPECT_EQ(problem({"NonZero", 17, "", {x(1, {2})}}),
            "node `y0` (NonZero): this operator is not supported: the shape of its result depends on data");
  EXPECT_EQ(problem({"RNN", 14, "", {x(1, {513, 1, 1}), x(2, {1, 1, 1}), x(3, {1, 1, 1})}}),
            "node `y0` (RNN): its sequence has 513 steps; at most 512 are supported");
  EXPECT_EQ(problem({"RNN", 14, "", {x(1, {2, 1, 1}), x(2, {1, 1, 1}), x(3, {1, 1, 1}), none(), known({1})}}),
            "node `y0` (RNN): sequences that are shorter than the longest one are not supported");
  EXPECT_EQ(problem({"RNN", 14, texts("activations", {"Affine"}), {x(1, {2, 1, 1}), x(2, {1, 1, 1}), x(3, {1, 1, 1})}}),
            "node `y0` (RNN): activation `Affine` is not supported");
  EXPECT_EQ(problem({"Sin", 17, "", {typed(DType::F64, {1}, {1})}}),
            "node `y0` (Sin): it is computed in f32, which is too little for f64");
  EXPECT_EQ(problem({"Mod", 17, "", {x(1, {2}), x(2, {2})}}), "node `y0` (Mod): floats need `fmod`");
  EXPECT_EQ(problem({"RNN", 14, "", {x(1, {2, 1, 1}), x(2, {1, 1, 1}), x(3, {1, 1, 1}), x(4, {1, 1})}}),
            "node `y0` (RNN): a part of an operand lies outside of it");
  EXPECT_NE(problem({"Col2Im", 18, "", {x(1, {1, 4, 4}), known({3, 3}), known({0, 2})}}), "imported");
  EXPECT_NE(problem({"Attention", 23, "", {x(1, {1, 2, 1, 2}), x(1, {1, 0, 1, 2}), x(1, {1, 0, 1, 2})}}), "imported");
  // What nobody looks at may change the result.
  EXPECT_EQ(problem({"Exp", 17, integer("base", 2), {x(1, {2})}}),
            "node `y0` (Exp): its attribute `base` is not known");
}

// ---- docs/onnx.md

// The lines of the page from `<!-- NAME -->` to the next `<!-- end -->`.
std::vector<std::string> table_of_page(const std::string& name) {
  std::string text = tw::test::read_file(TW_SOURCE_DIR "/docs/onnx.md");
  std::size_t begin = text.find(cat("<!-- ", name, " -->")), end = text.find("<!-- end -->", begin);
  EXPECT_NE(end, std::string::npos) << name;
  std::istringstream in(text.substr(begin, end - begin));
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("| ") && !line.starts_with("| ---")) lines.push_back(line);
  }
  return lines;
}

// What stands in backquotes in the second column.
std::vector<std::string> operators_of(const std::string& line) {
  static const std::regex quoted("`([A-Za-z0-9]+)`");
  std::size_t column = line.find("| ", 2);
  std::vector<std::string> names;
  for (std::sregex_iterator at(line.begin() + static_cast<std::ptrdiff_t>(column), line.end(), quoted), end; at != end;
       ++at)
    names.push_back((*at)[1]);
  return names;
}

TEST_F(OnnxOperators, ThePageNamesAllOfThem) {
  std::vector<std::string> named;
  for (const std::string& line : table_of_page("operators")) {
    for (const std::string& name : operators_of(line)) named.push_back(name);
  }
  std::ranges::sort(named);
  EXPECT_EQ(join(named, " "), join(onnx_operators(), " "));
}

TEST_F(OnnxOperators, ThePageNamesThoseThatAreRefusedAndWhy) {
  int refused = 0;
  for (const std::string& line : table_of_page("refused")) {
    std::string reason = line.substr(2, line.find(" |", 2) - 2);
    for (const std::string& name : operators_of(line)) {
      EXPECT_EQ(problem({name, 24, "", {}}), cat("node `y0` (", name, "): this operator is not supported: ", reason));
      ++refused;
    }
  }
  EXPECT_GE(refused, 40);
}

}  // namespace
}  // namespace tw::graph

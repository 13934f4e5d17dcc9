// Operators that work element by element.
#include <cmath>
#include <limits>

#include "dsl/base/text.h"
#include "graph/onnx/node_import.h"

namespace tw::graph::onnx {
namespace {

// Without elements only the type of the result is left.
ValueId of_nothing(NodeImport& node, const std::string& op, const std::vector<i64>& shape, DType type) {
  bool is_comparison = op == "equal" || op == "less" || op == "less_equal" || op == "is_nan";
  return node.nothing(shape, is_comparison ? DType::Bool : type);
}

Converter unary(const char* op) {
  return [op](NodeImport& node) {
    ValueId x = node.input(0);
    node.result(0, node.is_empty(x) ? of_nothing(node, op, node.shape(x), node.dtype(x)) : node.add(op, {}, {x}));
  };
}

ValueId combined(NodeImport& node, const char* op, ValueId a, ValueId b) {
  std::vector<i64> shape = common_shape({node.shape(a), node.shape(b)});
  if (std::ranges::count(shape, 0) > 0) return of_nothing(node, op, shape, node.dtype(a));
  return node.add(op, {}, {node.broadcast(a, shape), node.broadcast(b, shape)});
}

// Before opset 7 the dimensions of the second operand are those from an axis on, or the last ones.
ValueId second_operand(NodeImport& node, ValueId a) {
  ValueId b = node.input(1);
  if (node.opset() >= 7) return b;
  std::vector<i64> shape = node.shape(b);
  node.ignore({"broadcast"});
  i64 last = node.rank(a) - node.rank(b), given = node.integer("axis", last);
  i64 first = given < 0 ? given + node.rank(a) : given;
  if (first < 0 && node.has("axis")) return node.fail(cat("its operand has no dimension ", given)), b;
  for (i64 d = first; d < last; ++d) shape.push_back(1);
  return node.reshape(b, shape);
}

Converter binary(const char* op) {
  return [op](NodeImport& node) {
    ValueId a = node.input(0);
    node.result(0, combined(node, op, a, second_operand(node, a)));
  };
}

Converter swapped(const char* op) {
  return [op](NodeImport& node) {
    ValueId a = node.input(0);
    node.result(0, combined(node, op, second_operand(node, a), a));
  };
}

// Combines all operands, from left to right.
ValueId folded(NodeImport& node, const char* op) {
  ValueId all = node.input(0);
  for (std::size_t i = 1; i < node.inputs(); ++i) all = combined(node, op, all, node.input(i));
  return all;
}

ValueId clamped(NodeImport& node, ValueId x, double low, double high) {
  DType type = node.dtype(x);
  return node.add("clamp", {}, {x, node.scalar(low, type), node.scalar(high, type)});
}

void clip(NodeImport& node) {
  ValueId x = node.input(0);
  DType type = node.dtype(x);
  double lowest = is_float(type) ? -std::numeric_limits<double>::infinity() : lowest_of(type);
  double highest = is_float(type) ? std::numeric_limits<double>::infinity() : highest_of(type);
  ValueId low = node.has_input(1) ? node.input(1) : node.scalar(node.real("min", lowest), type);
  ValueId high = node.has_input(2) ? node.input(2) : node.scalar(node.real("max", highest), type);
  node.result(0, node.add("clamp", {}, {x, node.reshape(low, {}), node.reshape(high, {})}));
}

// alpha * (e^x - 1) below zero, x above, each times a scale.
ValueId exponential_below(NodeImport& node, ValueId x, double alpha, double scale) {
  ValueId zero = node.number(0, x), below = node.add("exponential", {}, {node.add("minimum", {}, {x, zero})});
  below = node.add("subtract", {}, {below, node.number(1, x)});
  below = node.add("multiply", {}, {below, node.number(alpha * scale, x)});
  ValueId above = node.add("multiply", {}, {node.add("maximum", {}, {x, zero}), node.number(scale, x)});
  return node.add("add", {}, {above, below});
}

void leaky_relu(NodeImport& node) {
  ValueId x = node.input(0);
  node.result(0, node.add("prelu", {}, {x, node.number(node.real("alpha", 0.01), x)}));
}

// Before opset 7 there is a slope for each channel.
void prelu(NodeImport& node) {
  ValueId x = node.input(0), slope = node.input(1);
  if (node.opset() < 7 && node.rank(slope) == 1 && node.rank(x) > 1) {
    std::vector<i64> channels(static_cast<std::size_t>(node.rank(x) - 1), 1);
    channels[0] = node.extent(slope, 0);
    slope = node.reshape(slope, channels);
  }
  node.result(0, node.add("prelu", {}, {x, node.broadcast(slope, node.shape(x))}));
}

void swish(NodeImport& node) {
  ValueId x = node.input(0);
  node.result(0, node.add("swish", {}, {x, node.scalar(node.real("alpha", 1), node.dtype(x))}));
}

void shift_bits(NodeImport& node) {
  ValueId x = node.input(0), by = node.input(1);
  if (node.dtype(x) != DType::U8) return node.fail("only bits of u8 are shifted");
  std::vector<i64> shape = common_shape({node.shape(x), node.shape(by)});
  node.result(0, node.add("shift_bits", {{"left", i64{node.text("direction", "") == "LEFT"}}},
                          {node.broadcast(x, shape), node.broadcast(by, shape)}));
}

void celu(NodeImport& node) {
  ValueId x = node.input(0);
  double alpha = node.real("alpha", 1);
  ValueId scaled = node.add("divide", {}, {x, node.number(alpha, x)});
  ValueId low = exponential_below(node, node.add("minimum", {}, {scaled, node.number(0, x)}), alpha, 1);
  node.result(0, node.add("add", {}, {node.add("maximum", {}, {x, node.number(0, x)}), low}));
}

void thresholded_relu(NodeImport& node) {
  ValueId x = node.input(0);
  ValueId above = node.add("less", {}, {node.number(node.real("alpha", 1), x), x});
  node.result(0, node.add("where", {}, {above, x, node.number(0, x)}));
}

void hard_sigmoid(NodeImport& node) {
  ValueId x = node.input(0);
  ValueId line = node.add("multiply", {}, {x, node.number(node.real("alpha", 0.2), x)});
  line = node.add("add", {}, {line, node.number(node.real("beta", 0.5), x)});
  node.result(0, clamped(node, line, 0, 1));
}

void gelu(NodeImport& node) {
  ValueId x = node.input(0);
  if (node.text("approximate", "none") == "none") return node.result(0, node.add("gelu", {}, {x}));
  ValueId cube = node.add("multiply", {}, {x, node.add("multiply", {}, {x, x})});
  ValueId inner = node.add("add", {}, {x, node.add("multiply", {}, {cube, node.number(0.044715, x)})});
  inner = node.add("hyperbolic_tangent", {}, {node.add("multiply", {}, {inner, node.number(std::sqrt(2 / M_PI), x)})});
  ValueId half = node.add("multiply", {}, {x, node.number(0.5, x)});
  node.result(0, node.add("multiply", {}, {half, node.add("add", {}, {inner, node.number(1, x)})}));
}

// With `fmod` the remainder has the sign of the dividend.
void modulo(NodeImport& node) {
  bool is_truncated = node.integer("fmod", 0) != 0;
  if (!is_truncated && is_float(node.dtype(node.input(0)))) return node.fail("floats need `fmod`");
  node.result(0, combined(node, is_truncated ? "remainder" : "modulo", node.input(0), node.input(1)));
}

// Zero within lambda of zero; what is left moves towards it by the bias.
void shrink(NodeImport& node) {
  ValueId x = node.input(0), lambda = node.number(node.real("lambd", 0.5), x),
          bias = node.number(node.real("bias", 0), x);
  ValueId is_low = node.add("less", {}, {x, node.add("negate", {}, {lambda})}),
          is_high = node.add("less", {}, {lambda, x});
  ValueId high = node.add("where", {}, {is_high, node.add("subtract", {}, {x, bias}), node.number(0, x)});
  node.result(0, node.add("where", {}, {is_low, node.add("add", {}, {x, bias}), high}));
}

// Of integers, by an exponent of 0 to 3 that all elements have; nothing for others.
std::optional<ValueId> small_power(NodeImport& node, ValueId x, ValueId exponent) {
  const HostArray* data = node.data(exponent);
  std::vector<i64> shape = common_shape({node.shape(x), node.shape(exponent)});
  if (!data || std::ranges::count(shape, 0) > 0) return std::nullopt;
  double e = data->get(0);
  for (i64 i = 1; i < data->elements(); ++i) {
    if (data->get(i) != e) return std::nullopt;
  }
  if (e < 0 || e > 3) return std::nullopt;
  x = node.broadcast(x, shape);
  if (e == 0) return node.number(1, x);
  ValueId made = x;
  for (int n = 1; n < static_cast<int>(e); ++n) made = node.add("multiply", {}, {made, x});
  return made;
}

void power(NodeImport& node) {
  ValueId a = node.input(0), b = second_operand(node, a);
  if (node.dtype(a) == node.dtype(b) && is_float(node.dtype(a))) return node.result(0, combined(node, "power", a, b));
  if (is_int(node.dtype(a)) && is_int(node.dtype(b))) {
    std::optional<ValueId> made = small_power(node, a, b);
    return node.result(0, made ? *made : combined(node, "integer_power", a, b));
  }
  DType wide = node.dtype(a) == DType::F64 ? DType::F64 : DType::F32;
  ValueId made = combined(node, "power", node.cast(a, wide), node.cast(b, wide));
  node.result(0, node.cast(made, node.dtype(a)));
}

void where(NodeImport& node) {
  ValueId c = node.input(0), a = node.input(1), b = node.input(2);
  std::vector<i64> shape = common_shape({node.shape(c), node.shape(a), node.shape(b)});
  node.result(0, node.add("where", {}, {node.broadcast(c, shape), node.broadcast(a, shape), node.broadcast(b, shape)}));
}

void mean(NodeImport& node) {
  ValueId sum = folded(node, "add");
  node.result(0, node.add("divide", {}, {sum, node.number(static_cast<double>(node.inputs()), sum)}));
}

void is_infinite(NodeImport& node) {
  ValueId x = node.input(0);
  auto is = [&](double value) { return node.add("equal", {}, {x, node.number(value, x)}); };
  double infinity = std::numeric_limits<double>::infinity();
  bool positive = node.integer("detect_positive", 1) != 0, negative = node.integer("detect_negative", 1) != 0;
  if (positive && negative) return node.result(0, node.add("either_of", {}, {is(infinity), is(-infinity)}));
  if (positive || negative) return node.result(0, is(positive ? infinity : -infinity));
  node.result(0, node.broadcast(node.scalar(0, DType::Bool), node.shape(x)));
}

void batch_normalization(NodeImport& node) {
  if (node.integer("training_mode", 0) != 0) return node.fail("training is not supported");
  if (node.integer("spatial", 1) == 0) return node.fail("numbers for each element are not supported");
  ValueId x = node.input(0);
  std::vector<i64> channels(static_cast<std::size_t>(std::max<i64>(1, node.rank(x) - 1)), 1);
  auto per_channel = [&](ValueId value) {
    channels[0] = node.extent(value, 0);
    return node.broadcast(node.reshape(value, channels), node.shape(x));
  };
  ValueId variance = node.input(4);
  ValueId deviation =
      node.add("square_root", {}, {node.add("add", {}, {variance, node.number(node.real("epsilon", 1e-5), variance)})});
  ValueId scale = node.add("divide", {}, {node.input(1), deviation});
  ValueId centred = node.add("subtract", {}, {x, per_channel(node.input(3))});
  ValueId scaled = node.add("multiply", {}, {centred, per_channel(scale)});
  node.result(0, node.add("add", {}, {scaled, per_channel(node.input(2))}));
}

void dropout(NodeImport& node) {
  if (node.has_input(2)) {
    std::vector<i64> training = node.known_integers(2);
    if (!training.empty() && training[0] != 0) return node.fail("training is not supported");
  }
  ValueId x = node.input(0);
  node.result(0, x);
  node.result(1, node.broadcast(node.scalar(1, DType::Bool), node.shape(x)));
}

void cast_to(NodeImport& node) {
  node.ignore({"saturate", "round_mode"});  // of types that are not supported
  int type = static_cast<int>(node.integer("to", 0));
  std::optional<DType> to = dtype_of(type);
  if (!to) return node.fail(cat("it casts to the type ", type_name(type), ", which is not supported"));
  node.result(0, node.cast(node.input(0), *to));
}

// Operators that are one of the graph.
constexpr std::pair<const char*, const char*> kUnary[] = {
    {"Abs", "absolute"},
    {"Neg", "negate"},
    {"Sign", "sign"},
    {"Exp", "exponential"},
    {"Log", "logarithm"},
    {"Sqrt", "square_root"},
    {"Reciprocal", "reciprocal"},
    {"Erf", "error_function"},
    {"Tanh", "hyperbolic_tangent"},
    {"Sinh", "hyperbolic_sine"},
    {"Cosh", "hyperbolic_cosine"},
    {"Sigmoid", "logistic"},
    {"Floor", "rounded_down"},
    {"Ceil", "rounded_up"},
    {"Round", "rounded"},
    {"Relu", "relu"},
    {"Softplus", "softplus"},
    {"Softsign", "softsign"},
    {"Mish", "mish"},
    {"HardSwish", "hard_swish"},
    {"Not", "complement"},
    {"IsNaN", "is_nan"},
};
constexpr std::pair<const char*, const char*> kBinary[] = {
    {"Add", "add"},   {"Sub", "subtract"},           {"Mul", "multiply"}, {"Div", "divide"},   {"Equal", "equal"},
    {"Less", "less"}, {"LessOrEqual", "less_equal"}, {"And", "both"},     {"Or", "either_of"}, {"Xor", "exactly_one"},
};

}  // namespace

void add_elementwise(Converters& table) {
  for (auto [name, op] : kUnary) table[name] = unary(op);
  for (auto [name, op] : kBinary) table[name] = binary(op);
  table["Greater"] = swapped("less");
  table["GreaterOrEqual"] = swapped("less_equal");
  for (auto [name, op] : std::initializer_list<std::pair<const char*, const char*>>{
           {"Sum", "add"}, {"Max", "maximum"}, {"Min", "minimum"}})
    table[name] = [op = op](NodeImport& node) { node.result(0, folded(node, op)); };
  table["Mean"] = mean;
  table["Mod"] = modulo;
  table["Pow"] = power;
  table["Shrink"] = shrink;
  table["Where"] = where;
  table["Clip"] = clip;
  table["LeakyRelu"] = leaky_relu;
  table["PRelu"] = prelu;
  table["Swish"] = swish;
  table["BitShift"] = shift_bits;
  table["Celu"] = celu;
  table["Elu"] = [](NodeImport& node) {
    node.result(0, exponential_below(node, node.input(0), node.real("alpha", 1), 1));
  };
  table["Selu"] = [](NodeImport& node) {
    bool is_old = node.opset() < 6;  // with fewer digits
    node.result(0,
                exponential_below(node, node.input(0), node.real("alpha", is_old ? 1.6732 : 1.67326319217681884765625),
                                  node.real("gamma", is_old ? 1.0507 : 1.05070102214813232421875)));
  };
  table["ThresholdedRelu"] = thresholded_relu;
  table["HardSigmoid"] = hard_sigmoid;
  table["Gelu"] = gelu;
  table["IsInf"] = is_infinite;
  table["BatchNormalization"] = batch_normalization;
  table["Dropout"] = dropout;
  table["Identity"] = [](NodeImport& node) { node.result(0, node.input(0)); };
  table["Cast"] = cast_to;
  table["CastLike"] = [](NodeImport& node) {
    node.ignore({"saturate", "round_mode"});
    node.result(0, node.cast(node.input(0), node.dtype(node.input(1))));
  };
}

}  // namespace tw::graph::onnx

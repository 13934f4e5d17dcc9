#include "tests/fuzz/rewrites_target.h"

#include <functional>

#include "dsl/base/check.h"
#include "dsl/base/embedded_text.h"
#include "graph/own_operator.h"

namespace tw::fuzz {
namespace {

using graph::Definition, graph::GraphBuilder, graph::ValueId;
using Ints = std::vector<i64>;

// Longer texts are only parsed, since making their programs takes too long.
constexpr std::size_t kMostUsed = 4096;
// The first rewriting of every 16th text is proved by running it.
constexpr std::size_t kTried = 16;

// A graph that rewritings may fit: a layer normalisation in parts, GELU in parts, powers, sums with numbers.
graph::Graph small_graph() {
  GraphBuilder builder("small");
  auto add = [&](const std::string& op, WorkloadArguments arguments, const std::vector<ValueId>& inputs) {
    std::string error;
    auto made = builder.add(op, std::move(arguments), inputs, op, error);
    TW_CHECK(made && made->size() == 1, "the small graph cannot be made");
    return (*made)[0];
  };
  const Ints shape{2, 3, 4};
  auto spread = [&](ValueId value) { return add("broadcast", {{"R", shape}}, {value}); };
  auto number = [&](double value) {
    HostArray array = HostArray::zeros(DType::F32, {});
    array.set(0, value);
    return spread(builder.constant("n", std::move(array)));
  };
  auto mean = [&](ValueId x) {
    ValueId sum = add("reduce_sum", {{"axes", Ints{2}}}, {x});
    return add("divide", {}, {spread(add("reshape", {{"R", Ints{2, 3, 1}}}, {sum})), number(4)});
  };
  ValueId x = builder.input("x", {DType::F32, shape}), y = builder.input("y", {DType::F32, shape});
  ValueId d = add("subtract", {}, {x, mean(x)});
  ValueId variance = add("add", {}, {mean(add("multiply", {}, {d, d})), number(1e-5)});
  ValueId rows = add("divide", {}, {d, add("square_root", {}, {variance})});
  ValueId tanh = add("add", {}, {number(1), add("hyperbolic_tangent", {}, {y})});
  ValueId gelu = add("multiply", {}, {add("multiply", {}, {rows, tanh}), number(0.5)});
  ValueId powers = add("power", {}, {add("relu", {}, {gelu}), number(3)});
  builder.output(add("maximum", {}, {add("add", {}, {powers, x}), number(0)}), "a");
  builder.output(add("softmax", {{"axis", i64{2}}}, {rows}), "b");
  return builder.finish();
}

void use_rewritings(const graph::RewriteModule& module) {
  static const graph::Graph small = small_graph();
  graph::Graph made = graph::apply_rewrites(small, {&module});
  TW_CHECK(made.outputs.size() == small.outputs.size(), "a rewriting has taken an output away");
  for (std::size_t i = 0; i < made.outputs.size(); ++i) {
    const OperandType &before = small.values[small.outputs[i]].type, &now = made.values[made.outputs[i]].type;
    TW_CHECK(before.dtype == now.dtype && before.shape == now.shape, "a rewriting has changed the type of an output");
  }
}

// `is_whole`: with all inputs and attributes; else only with the inputs that it needs and the default attributes.
void use_operator(const graph::RewriteModule& module, const graph::OnnxOperator& op, bool is_whole) {
  GraphBuilder builder("own");
  graph::Match given;
  for (const Definition::Parameter& parameter : op.parameters) {
    bool is_there = is_whole || !parameter.is_optional;
    switch (parameter.kind) {
      case Definition::Kind::Value: {
        Ints shape{2, 3, 4};
        if (given.values.size() % 3 == 1) shape = {4};
        DType type = given.values.size() % 4 == 3 ? DType::I64 : DType::F32;
        if (is_there) given.values[parameter.name] = builder.input(parameter.name, {type, shape});
        break;
      }
      case Definition::Kind::Number:
        given.numbers[parameter.name] = is_there ? 2 : parameter.number;
        break;
      case Definition::Kind::Integers:
        given.lists[parameter.name] = is_there ? Ints{1} : parameter.list;
        break;
    }
  }
  std::string error;
  auto results = graph::build_operator({&module, &op}, given, builder, "y", error);
  TW_CHECK(results || !error.empty(), "an operator was refused without a reason");
  TW_CHECK(!results || results->size() == op.results.size(), "an operator has other results than its text");
}

}  // namespace

void fuzz_rewrites(const std::string& text) {
  Source source{"fuzz.tw", text};
  Diagnostics diagnostics(source);
  graph::RewriteModule module = graph::parse_rewrites(source, diagnostics);
  if (diagnostics.has_errors()) TW_CHECK(!diagnostics.render().empty(), "errors without a message");
  if (diagnostics.has_errors() || text.size() > kMostUsed) return;
  if (!module.rewrites.empty()) use_rewritings(module);
  if (!module.rewrites.empty() && std::hash<std::string>{}(text) % kTried == 0)
    (void)graph::check_rewrite(module, module.rewrites[0]);
  for (const graph::OnnxOperator& op : module.operators) {
    for (bool is_whole : {true, false}) use_operator(module, op, is_whole);
  }
}

std::vector<std::string> rewrites_seeds() {
  const std::string all(*embedded_text("graph/rewrites.tw")), word = "\nrewrite ";
  std::vector<std::string> out{
      all,
      "onnx \"own\" ScaledSum(x: value, y: value?, scale: number = 1.5) {\n"
      "  require len(x) >= 1 and (not y? or len(x) == 3), \"too few dimensions\"\n"
      "  z = relu(x)\n  return (if y? then z + y else z) * scale, z - 1\n}\n",
      "onnx \"\" OwnNorm(x: value, gamma: value?, epsilon: number = 1e-5, axes: ints = [2, -1]) {\n"
      "  require all(a in axes: a < len(x) and ceildiv(a * 3, 2) // 2 % 5 != 7)\n"
      "  s = reduce_sum(x, axes = [len(x) - 1]) / x[-1]\n"
      "  n = standardize(x - s, epsilon, first = len(x) - 1)\n"
      "  return if gamma? and len(gamma) == 1 then n * gamma else reshape(n, R = [product(x)])\n}\n",
      "onnx \"own\" Rounded(x: value, to: ints) { return cast(rounded(x), to = i32), transpose(x, order = rev(to)) }\n",
      "rewrite spread(x: value) { relu(x) -> relu(broadcast(x, R = [1] + [d for d in x])) }\n",
      "rewrite same(x: value, y: value, n: number) { when n == 3 or len(y) < 2\n  s = x + y\n  power(s, n) -> s * s * "
      "s }\n",
      "rewrite wrong(x: value) { power(x, ",
      "onnx \"own\" F(x: value) { return ",
      ""};
  for (std::size_t at = all.find(word); at != std::string::npos;) {
    std::size_t next = all.find(word, at + 1);
    out.push_back(all.substr(at + 1, next == std::string::npos ? next : next - at));
    at = next;
  }
  return out;
}

}  // namespace tw::fuzz

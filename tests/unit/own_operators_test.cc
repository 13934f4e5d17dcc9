// Operators of ONNX files that somebody wrote as text: the text, what nodes become by it, and what is refused.
#include <gtest/gtest.h>

#include <cmath>

#include "tests/support/support.h"
#include "tests/unit/compiled_nodes.h"
#include "tests/unit/onnx_files.h"
#include "tests/unit/parsed_rewrites.h"

namespace tw::graph {
namespace {

using test::parsed, test::part, test::ParsedRewrites;
using Ints = std::vector<i64>;

// ---- the text

struct Wrong {
  std::string text, place, message;  // the place is the last one in the text
};

TEST(OwnOperatorText, ErrorsSayWhatAndWhere) {
  const std::string f = "onnx \"own\" F";
  for (const Wrong& wrong : std::vector<Wrong>{
           {"onnx F(x: value) { return x }", "F(", "expected the domain of the operator, as `\"com.microsoft\"`"},
           {"rewrote r(x: value) { relu(x) -> x }", "rewrote", "expected `rewrite` or `onnx`, found `rewrote`"},
           {f + "(x: value) { y = x + x }", "F(", "there is no `return`"},
           {f + "(x: value) { return x; y = x }", "y = x", "`return` ends an operator"},
           {f + "(x: value) { x + x }", "x + x", "expected `NAME = ...`, `require` or `return`, found `x`"},
           {f + "(x: value) { return gellu(x) }", "gellu", "unknown operator `gellu`"},
           {f + "(x: value) { return x + z }", "z }", "unknown name `z`"},
           {f + "(x: value) { y = z; z = x; return y }", "z; z", "unknown name `z`"},
           {f + "(x: value) { x = 2 * x; return x }", "2 * x", "there is already a `x` here"},
           {f + "(x: value, x: value) { return x }", "x: value)", "there is already a `x` here"},
           {f + "(x: thing) { return x }", "thing", "expected `value`, `number` or `ints`"},
           {f + "(x: value, a: ints) { return x + a }", "a }", "`a` is a list, and no operand"},
           {f + "(x: value, a: number = [1]) { return x * a }", "[1]", "expected a number, found `[`"},
           {f + "(x: value, a: ints = [1, 1.5]) { return x }", "1.5", "expected an integer, found `1.5`"},
           {f + "(x: value) { return x } " + f + "(y: value) { return y }", "F(",
            "there is already an operator `F` of `own` here"},
           {f + "(x: value?) { return x + 1 }", "x + 1", "`x` may be left out"},
           {f + "(x: value, b: value?) { return if b? then x else x + b }", "b }", "`b` may be left out"},
           {f + "(x: value, b: value?) { return if not b? then x + b else x }", "b else", "`b` may be left out"},
           {f + "(x: value, b: value?) { return if b? or len(x) == 1 then x + b else x }", "b else",
            "`b` may be left out"},
           {f + "(x: value) { return if x? then x else 0 }", "x? then",
            "expected the name of a value that may be left out, as `x: value?`, before `?`"},
           {f + "(x: value) { require x?; return x }", "x?; ", "expected the name of a value that may be left out"},
           {f + "(x: value, b: value?) { require b? == 1; return x }",
            "b? ==", "`?` stands alone or between `and`, `or` and `not`"},
           {f + "(x: value, b: value?) { require -b?; return x }", "b?; ",
            "`?` stands alone or between `and`, `or` and `not`"},
           {f + "(x: value, b: value?) { return if b? and len([b?]) == 1 then x else 0 }", "b?]",
            "`?` stands alone or between `and`, `or` and `not`"},
           {"rewrite r(x: value) { relu(x) -> if len(x) == 1 then x else x }", "if len",
            "expected an operator, a name or a number"}}) {
    ParsedRewrites made = parsed(wrong.text);
    std::string wanted = cat("own.tw:1:", wrong.text.rfind(wrong.place) + 1, ": error: ", wrong.message);
    EXPECT_TRUE(made.errors.starts_with(wanted)) << "wanted: " << wanted << "\nfound: " << made.errors;
    bool is_second = wrong.message.ends_with("`own` here");
    EXPECT_EQ(made.module.operators.size(), is_second ? 1u : 0u) << wrong.text;
  }
  EXPECT_NE(parsed(f + "(x: value) { return gellu(x) }").errors.find("did you mean `gelu`?"), std::string::npos);
}

// All that is wrong is said, and what is right stays.
TEST(OwnOperatorText, GoesOnAfterAnError) {
  ParsedRewrites made = parsed(
      "onnx \"own\" F(x: value) {\n  y = * 3\n  z = )\n  return x\n}\n"
      "onnx \"own\" G(x: value) { return x }\nrewrite r(x: value) { power(x, 4) -> x * x * x * x }");
  for (const char* place : {"own.tw:2:7: error: ", "own.tw:3:7: error: "})
    EXPECT_NE(made.errors.find(place), std::string::npos) << made.errors;
  EXPECT_EQ(made.errors.find("expected `rewrite` or `onnx`"), std::string::npos) << made.errors;
  ASSERT_EQ(made.module.operators.size(), 1u);
  EXPECT_EQ(made.module.operators[0].name, "G");
  EXPECT_EQ(made.module.rewrites.size(), 1u);
}

TEST(OwnOperatorText, ValuesThatMayBeLeftOutAreUsedWhereTheyAre) {
  for (const char* body : {"if b? then x + b else x", "if not b? then x else x + b",
                           "if b? and len(b) == 1 then x + b else x", "if not b? or len(b) == 1 then x else x + b"})
    EXPECT_EQ(parsed(cat("onnx \"own\" F(x: value, b: value?) { return ", body, " }")).errors, "");
}

// ---- nodes

struct Operand {
  Ints shape;
  DType dtype = DType::F32;
  bool is_left_out = false;
};
const Operand kNone{.is_left_out = true};

struct Call {
  std::string op;
  std::vector<Operand> operands;
  std::string attributes = "";
  std::size_t results = 1;
  std::string domain = "own";
};

// The file has functions of these bytes, too.
std::variant<Graph, ImportProblems> imported_by(const std::string& text, const Call& call,
                                                const std::string& functions = "") {
  ParsedRewrites own = parsed(text);
  EXPECT_EQ(own.errors, "");
  std::vector<std::string> inputs, outputs;
  std::string infos;
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    const Operand& operand = call.operands[i];
    inputs.push_back(operand.is_left_out ? "" : cat("x", i));
    if (!operand.is_left_out) infos += part(11, test::value_info(inputs.back(), operand.dtype, operand.shape));
  }
  for (std::size_t i = 0; i < call.results; ++i) {
    outputs.push_back(cat("y", i));
    infos += part(12, test::untyped(outputs.back()));
  }
  std::string node = test::node(call.op, inputs, outputs, call.attributes, call.domain);
  return test::import_bytes(test::model(part(1, node) + part(2, "g") + infos, functions), {.modules = {&own.module}});
}

// The graph as text, or what is wrong.
std::string shown(const std::string& text, const Call& call, const std::string& functions = "") {
  auto made = imported_by(text, call, functions);
  auto* problems = std::get_if<ImportProblems>(&made);
  return problems ? join(problems->lines, "\n") : to_string(std::get<Graph>(made));
}

// Numbers from -0.75 to 0.75, multiples of 1/8: sums and halves of some are exact.
double element(std::size_t operand, i64 i) {
  return static_cast<double>((i * 7 + static_cast<i64>(operand) * 5) % 13 - 6) / 8;
}

// By the interpreter, and by kernels. `wanted`: all elements of all results; up to `allowed`.
void expect(const std::string& text, const Call& call, const std::vector<Ints>& shapes,
            const std::vector<double>& wanted, double allowed = 0) {
  auto made = imported_by(text, call);
  ASSERT_TRUE(std::holds_alternative<Graph>(made)) << std::get<ImportProblems>(made).lines.at(0);
  std::vector<HostArray> inputs;
  for (std::size_t n = 0; n < call.operands.size(); ++n) {
    if (call.operands[n].is_left_out) continue;
    inputs.push_back(HostArray::zeros(call.operands[n].dtype, call.operands[n].shape));
    for (i64 i = 0; i < inputs.back().elements(); ++i) inputs.back().set(i, element(n, i));
  }
  for (bool is_compiled : {false, true}) {
    SCOPED_TRACE(cat(call.op, is_compiled ? " by kernels" : ""));
    std::string error;
    const Graph& graph = std::get<Graph>(made);
    auto found = is_compiled ? test::evaluate_compiled(graph, inputs, error) : evaluate(graph, inputs, error);
    ASSERT_TRUE(found) << error;
    ASSERT_EQ(found->size(), shapes.size());
    std::size_t next = 0;
    for (std::size_t n = 0; n < found->size(); ++n) {
      EXPECT_EQ((*found)[n].shape, shapes[n]);
      for (i64 i = 0; i < (*found)[n].elements(); ++i, ++next) {
        ASSERT_LT(next, wanted.size());
        EXPECT_NEAR((*found)[n].get(i), wanted[next], allowed) << next;
      }
    }
    EXPECT_EQ(next, wanted.size());
  }
}

class OwnOperators : public testing::Test {
 protected:
  void SetUp() override {
    if (onnx_operators().empty()) GTEST_SKIP() << "built without libonnx";
  }
};

TEST_F(OwnOperators, WhatTheImporterKnowsIsNotWrittenAgain) {
  for (const char* text : {"onnx \"ai.onnx\" Relu(x: value) { return x }", "onnx \"\" If(x: value) { return x }"})
    EXPECT_NE(parsed(text).errors.find("` of `ai.onnx` is known already"), std::string::npos) << parsed(text).errors;
  EXPECT_EQ(parsed("onnx \"own\" Relu(x: value) { return x }").errors, "");
  // Nobody has written it.
  const std::string det = "onnx \"\" Det(x: value) { return relu(x) }";
  for (const char* domain : {"", "ai.onnx"})
    EXPECT_NE(shown(det, {"Det", {{{2}}}, "", 1, domain}).find(" = relu(x0)"), std::string::npos);
}

// The graph does not tell who made it, so kernels of one are found for the other.
TEST_F(OwnOperators, MakeTheGraphThatKnownOnesMake) {
  const Call call{"Both", {{{2, 3}}, {{3}}}}, known{"Add", {{{2, 3}}, {{3}}}, "", 1, ""};
  std::string graph = shown("onnx \"own\" Both(left: value, right: value) { return left + right }", call);
  EXPECT_NE(graph.find(" = add(x0, y0)"), std::string::npos) << graph;
  EXPECT_EQ(graph, shown("", known));
}

constexpr const char* kScaled =
    "onnx \"own\" Scaled(x: value, y: value?, scale: number = 2, axes: ints = [1]) {\n"
    "  s = if y? then x + y else x\n"
    "  return reduce_sum(s, axes = axes) * scale\n"
    "}";

TEST_F(OwnOperators, InputsThatAreLeftOutAndDefaults) {
  auto x = [](i64 i, i64 j) { return element(0, i * 3 + j); };
  std::vector<double> rows, tripled, columns;
  for (i64 i = 0; i < 2; ++i) {
    double sum = x(i, 0) + x(i, 1) + x(i, 2);
    rows.push_back(2 * sum);
    tripled.push_back(3 * sum);
  }
  for (i64 j = 0; j < 3; ++j) columns.push_back((x(0, j) + x(1, j) + 2 * element(1, j)) * 0.5);
  expect(kScaled, {"Scaled", {{{2, 3}}}}, {{2, 1}}, rows);
  expect(kScaled, {"Scaled", {{{2, 3}}, kNone}, test::integer("scale", 3)}, {{2, 1}}, tripled);
  expect(kScaled, {"Scaled", {{{2, 3}}, {{3}}}, test::real("scale", 0.5f) + test::integers("axes", {0})}, {{1, 3}},
         columns);
}

TEST_F(OwnOperators, ConditionsAskForWhatIsThere) {
  const std::string text =
      "onnx \"own\" F(x: value, b: value?) { return if not b? or len(b) == 2 then relu(x) else x + b }";
  EXPECT_NE(shown(text, {"F", {{{2, 3}}}}).find(" = relu(x0)"), std::string::npos);
  EXPECT_NE(shown(text, {"F", {{{2, 3}}, {{2, 3}}}}).find(" = relu(x0)"), std::string::npos);
  EXPECT_NE(shown(text, {"F", {{{2, 3}}, {{3}}}}).find(" = add(x0, "), std::string::npos);
}

TEST_F(OwnOperators, SeveralResults) {
  const std::string text = "onnx \"own\" Two(x: value) { return x + 1, x * 2 }";
  expect(text, {"Two", {{{2}}}, "", 2}, {{2}, {2}},
         {element(0, 0) + 1, element(0, 1) + 1, element(0, 0) * 2, element(0, 1) * 2});
  expect(text, {"Two", {{{2}}}}, {{2}}, {element(0, 0) + 1, element(0, 1) + 1});
  EXPECT_EQ(shown(text, {"Two", {{{2}}}, "", 3}),
            "node `y0` (Two): it has more outputs than the 2 that its text makes");
}

TEST_F(OwnOperators, ShapesAreKnownInAttributes) {
  const std::string text =
      "onnx \"own\" Spread(x: value, n: number) {\n"
      "  s = reduce_sum(x, axes = [len(x) - 2])\n"
      "  return if n == 1 then s else broadcast(s, R = [n] + s[1:])\n"
      "}";
  EXPECT_NE(shown(text, {"Spread", {{{2, 3}}}, test::integer("n", 4)}).find("f32[4, 3] = broadcast("),
            std::string::npos);
  std::string narrow = shown(text, {"Spread", {{{2, 3}}}, test::integer("n", 1)});
  EXPECT_NE(narrow.find(": f32[1, 3] = reshape("), std::string::npos) << narrow;
  EXPECT_EQ(narrow.find("broadcast("), std::string::npos) << narrow;
}

TEST_F(OwnOperators, TypesOfNumbersAndOfAttributes) {
  std::string graph = shown("onnx \"own\" Half(i: value, x: value) { return gather(x, i, axis = 0) * 0.5 }",
                            {"Half", {{{2}, DType::I64}, {{3}}}});
  EXPECT_NE(graph.find(": f32[2] = multiply("), std::string::npos) << graph;
  graph = shown("onnx \"own\" Next(i: value) { return cast(i + 1, to = f32) }", {"Next", {{{2}, DType::I64}}});
  EXPECT_NE(graph.find(": i64[2] = add("), std::string::npos) << graph;
  EXPECT_NE(graph.find(": f32[2] = cast("), std::string::npos) << graph;
}

// A product of other shapes would be another product.
TEST_F(OwnOperators, OnlyElementWiseOperatorsBroadcast) {
  const std::string text = "onnx \"own\" Times(x: value, w: value) { return matmul(x, w) }";
  EXPECT_NE(shown(text, {"Times", {{{2, 4}}, {{4, 4}}}}).find(" = matmul(x0, x1)"), std::string::npos);
  std::string refused = shown(text, {"Times", {{{2, 1, 4}}, {{4, 4}}}});
  EXPECT_TRUE(refused.starts_with("node `y0` (Times): own.tw:1:")) << refused;
}

TEST_F(OwnOperators, NodesThatDoNotFitAreRefused) {
  const Operand x{{2, 3}};
  auto says = [](const std::string& text, const Call& call, const std::string& why) {
    EXPECT_EQ(shown(text, call), cat("node `y0` (", call.op, "): ", why));
  };
  says(kScaled, {"Scaled", {x, x, x}}, "it has more inputs than the 2 that its text knows");
  says(kScaled, {"Scaled", {kNone, x}}, "its input `x` is missing");
  says(kScaled, {"Scaled", {{{0, 3}}}}, "tensors without elements are not supported here");
  says(kScaled, {"Scaled", {x}, test::integer("seed", 1)}, "its attribute `seed` is not known");
  says(kScaled, {"Scaled", {x}, test::text("scale", "a")}, "its attribute `scale` is no number");
  says(kScaled, {"Scaled", {x}, test::integer("axes", 1)}, "its attribute `axes` is no list of integers");
  says("onnx \"own\" By(x: value, n: number) { return x * n }", {"By", {x}}, "its attribute `n` is missing");
  says(kScaled, {"Scaled", {x}, test::integer("scale", (i64{1} << 53) + 1)}, "its attribute `scale` is beyond 2^53");
  says(kScaled, {"Scaled", {x}, test::integer("scale", -(i64{1} << 53) - 1)}, "its attribute `scale` is beyond 2^53");
  // At the place in the text.
  auto says_at = [&](const std::string& text, const Call& call, const std::string& place, const std::string& why) {
    says(text, call, cat("own.tw:1:", text.find(place) + 1, ": ", why));
  };
  says_at("onnx \"own\" F(x: value, b: value) { return relu(x + b) }", {"F", {x, {{4}}}}, "x + b",
          "expected f32[2, 3] for `B`, found f32[4]");
  says_at("onnx \"own\" F(x: value) { require len(x) == 3, \"x is no image\"; return x }", {"F", {x}}, "len(x)",
          "x is no image");
  says_at("onnx \"own\" F(x: value) { require len(x) == 3; return x }", {"F", {x}}, "len(x)",
          "`len(x) == 3` does not hold");
  says_at("onnx \"own\" F(x: value) { return top_k(x, axis = 0, count = 1, largest = 1) }", {"F", {x}}, "top_k",
          "`top_k` has several results");
  says_at("onnx \"own\" F(x: value, b: value?) { return softmax(x, axis = len(b)) }", {"F", {x}}, "b))",
          "unknown name `b`");
  says_at("onnx \"own\" F(x: value, w: value) { return matmul(x, w, M = x[0]) }", {"F", {x, {{3, 4}}}}, "x[0]",
          "`M` follows from the operands and is no argument");
  says_at("onnx \"own\" F(x: value, w: value) { return matmul(x, w, T = f32) }", {"F", {x, {{3, 4}}}}, "f32",
          "`T` follows from the operands and is no argument");
  says_at("onnx \"own\" F(x: value) { return reduce_sum(x, axes = [[0]]) }", {"F", {x}}, "[[0]]",
          "expected a list of integers");
  says_at("onnx \"own\" F(i: value) { return i * 0.5 }", {"F", {{{2}, DType::I64}}}, "0.5",
          "0.5 is no number of type i64");
  says_at("onnx \"own\" F(i: value) { return i - 300 }", {"F", {{{2}, DType::U8}}}, "300",
          "300 is no number of type u8");
  says_at("onnx \"own\" F(x: value, a: number = 0.5) { return if a == 1 then x else relu(x) }", {"F", {x}},
          "a ==", "`a` is 0.5; only integers are known here");
  // Requirements know the parts that stand before them.
  says_at(
      "onnx \"own\" F(x: value) { y = reduce_sum(x, axes = [0]); require y[0] == 1; z = y + x; require z[0] == 3; "
      "return z }",
      {"F", {x}}, "z[0]", "`z[0] == 3` does not hold");
  says_at("onnx \"own\" F(x: value) { require len(y) == 2; y = relu(x); return y }", {"F", {x}},
          "y) ==", "unknown name `y`");
  says_at("onnx \"own\" F(x: value) { require len(x) == 3, \"x is no image\"; y = softmax(x, axis = 2); return y }",
          {"F", {x}}, "len(x)", "x is no image");
}

// What is let through would read outside of its operands, or give something else than it says.
TEST_F(OwnOperators, AxesAreDimensionsAndOperandsFit) {
  auto made = [](const std::string& call) {
    return shown(cat("onnx \"own\" F(x: value, i: value, p: value, y: value) { return ", call, " }"),
                 {"F", {{{2, 3}}, {{2, 3}, DType::I64}, {{2}}, {{2, 2}}}});
  };
  for (const char* call : {"concat(x, x, axis = -1)",
                           "concat(x, x, axis = 2)",
                           "gather(x, i, axis = -1)",
                           "gather(x, i, axis = 2)",
                           "gather_elements(x, i, axis = -1)",
                           "gather_elements(x, i, axis = 7)",
                           "scatter_elements(x, i, x, axis = -1)",
                           "scatter_elements_add(x, i, x, axis = -1)",
                           "scatter_elements_mul(x, i, x, axis = 2)",
                           "scatter_elements_max(x, i, x, axis = 2)",
                           "scatter_elements_min(x, i, x, axis = -1)",
                           "cumulative_sum(x, axis = -1, exclusive = 0, reverse = 0)",
                           "hardmax(x, axis = -1)",
                           "softmax(x, axis = -1)",
                           "log_softmax(x, axis = 2)",
                           "argmax(x, axis = -1)",
                           "argmin(x, axis = 2)",
                           "top_k(x, axis = -1, count = 1, largest = 1)",
                           "scatter_along(x, x, p, axis = -1, circular = 0)",
                           "reverse_sequence(x, p, time = -1, batch = 0)",
                           "one_hot(i, p, axis = -1, depth = 4)",
                           "one_hot(i, p, axis = 3, depth = 4)",
                           "reduce_sum(x, axes = [-1])",
                           "reduce_max(x, axes = [0, 0])",
                           "reduce_min(x, axes = [2])",
                           "reduce_prod(x, axes = [0, -1])"})
    EXPECT_NE(made(call).find("is out of range"), std::string::npos) << call << ": " << made(call);
  for (auto [call, why] :
       {std::pair("concat(x, y, axis = 0)", "the operands differ in other dimensions, too"),
        std::pair("concat(x, p, axis = 0)", "the operands have different numbers of dimensions"),
        std::pair("gather_elements(p, i, axis = 0)", "the indices have another number of dimensions"),
        std::pair("scatter_elements(p, i, x, axis = 0)", "the indices have another number of dimensions"),
        std::pair("scatter_along(x, p, p, axis = 0, circular = 0)", "the update has another number of dimensions"),
        std::pair("top_k(x, axis = 1, count = 4, largest = 1)", "`count` is larger than the dimension"),
        std::pair("gather_nd(x, i, batch = -1)", "`batch` is out of range"),
        std::pair("standardize(x, 0.5, first = -1)", "`first` is out of range"),
        std::pair("divide_by_rms(x, 0.5, first = 3)", "`first` is out of range")})
    EXPECT_NE(made(call).find(why), std::string::npos) << call << ": " << made(call);
  EXPECT_NE(made("concat(x, y, axis = 1)").find(": f32[2, 5] = concat("), std::string::npos);
  EXPECT_NE(made("gather_elements(x, i, axis = 1)").find(": f32[2, 3] = gather_elements("), std::string::npos);
}

// Each part stands twice in the next one.
TEST_F(OwnOperators, PartsOfPartsAreMadeOnce) {
  std::string text = "onnx \"own\" F(x: value) { y0 = x + x; ";
  for (int i = 1; i < 40; ++i) text += cat("y", i, " = y", i - 1, " + y", i - 1, "; ");
  std::string graph = shown(text + "return y39 }", {"F", {{{2}}}});
  std::size_t additions = 0;
  for (std::size_t at = 0; (at = graph.find(" = add(", at)) != std::string::npos; ++at) ++additions;
  EXPECT_EQ(additions, 40u) << graph;
}

TEST_F(OwnOperators, OnlyTheirDomainAndNameAreKnown) {
  EXPECT_EQ(shown(kScaled, {"Other", {{{2}}}}), "node `y0` (Other): operators of `own` are not supported");
  EXPECT_EQ(shown(kScaled, {"Scaled", {{{2}}}, "", 1, "their"}),
            "node `y0` (Scaled): operators of `their` are not supported");
}

// A function that the file brings along is what the file means.
TEST_F(OwnOperators, FunctionsOfTheFileComeFirst) {
  std::string function =
      part(25, part(1, "F") + part(4, "a") + part(5, "b") + part(7, test::node("Exp", {"a"}, {"b"})) + part(10, "own"));
  const std::string text = "onnx \"own\" F(x: value) { return relu(x) }";
  EXPECT_NE(shown(text, {"F", {{{2}}}}).find(" = relu(x0)"), std::string::npos);
  EXPECT_NE(shown(text, {"F", {{{2}}}}, function).find(" = exponential(x0)"), std::string::npos);
}

// ---- docs/onnx.md

// The text of the page's example.
std::string example() {
  std::string page = tw::test::read_file(TW_SOURCE_DIR "/docs/onnx.md"), head = "```tw own_operators.tw\n";
  std::size_t begin = page.find(head);
  EXPECT_NE(begin, std::string::npos);
  begin += head.size();
  return page.substr(begin, page.find("```", begin) - begin);
}

TEST_F(OwnOperators, TheExampleOfThePageIsRight) {
  auto gelu = [](double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); };
  std::vector<double> plain, biased;
  for (i64 i = 0; i < 6; ++i) {
    plain.push_back(gelu(element(0, i)));
    biased.push_back(gelu(element(0, i) + element(1, i % 3)));
  }
  const std::string ms = "com.microsoft";
  expect(example(), {"FastGelu", {{{2, 3}}}, "", 1, ms}, {{2, 3}}, plain, 1e-5);
  expect(example(), {"FastGelu", {{{2, 3}}, {{3}}}, "", 1, ms}, {{2, 3}}, biased, 1e-5);

  // x + skip, and the bias if there is one, has the mean 0 and the variance 1 in each row, then gamma and beta.
  auto normalized = [](double epsilon, bool has_beta, bool has_bias = false) {
    std::vector<double> all;
    for (i64 i = 0; i < 2; ++i) {
      std::vector<double> row;
      double mean = 0, variance = 0;
      for (i64 j = 0; j < 3; ++j)
        row.push_back(element(0, i * 3 + j) + element(1, i * 3 + j) + (has_bias ? element(4, j) : 0));
      for (double value : row) mean += value / 3;
      for (double value : row) variance += (value - mean) * (value - mean) / 3;
      for (std::size_t j = 0; j < 3; ++j) {
        double scaled = (row[j] - mean) / std::sqrt(variance + epsilon) * element(2, static_cast<i64>(j));
        all.push_back(scaled + (has_beta ? element(3, static_cast<i64>(j)) : 0));
      }
    }
    return all;
  };
  const Operand rows{{2, 3}}, columns{{3}};
  const char* op = "SkipLayerNormalization";
  expect(example(), {op, {rows, rows, columns}, "", 1, ms}, {{2, 3}}, normalized(1e-12, false), 2e-5);
  expect(example(), {op, {rows, rows, columns, columns}, test::real("epsilon", 0.5f), 1, ms}, {{2, 3}},
         normalized(0.5, true), 2e-5);
  expect(example(), {op, {rows, rows, columns, kNone, columns}, "", 1, ms}, {{2, 3}}, normalized(1e-12, false, true),
         2e-5);
  EXPECT_NE(shown(example(), {op, {rows, rows, {{4}}}, "", 1, ms}).find("gamma needs one number for each column"),
            std::string::npos);
}

}  // namespace
}  // namespace tw::graph

// Workloads as text and in C++: programs that come out, calls, whole messages for wrong text, hostile input.
#include "dsl/text/workload.h"

#include <gtest/gtest.h>

#include "dsl/base/embedded_text.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "dsl/ir/print.h"
#include "dsl/te/te.h"
#include "dsl/text/parse_program.h"

namespace tw {
namespace {

// The program of workload `w` in the text as printed, or the messages.
std::string result_of(const std::string& text, const WorkloadArguments& arguments = {},
                      const std::vector<std::string>& epilogues = {}) {
  Source source{"w.tw", text};
  Diagnostics diagnostics(source);
  WorkloadModule module = parse_workloads(source, diagnostics);
  if (diagnostics.has_errors()) return diagnostics.render();
  std::optional<OwnedProgram> made = instantiate(module, "w", arguments, epilogues, diagnostics);
  EXPECT_EQ(made.has_value(), !diagnostics.has_errors());
  return made ? print(made->program) : diagnostics.render();
}

// "line:column message | note" of each error in the body of a workload, to keep long lists readable; the rendering
// itself is tested whole.
std::string errors_in(const std::string& body) {
  Source source{"w.tw", "workload w(N: int = 4, T: type = f32) {\n" + body + "\n}"};
  Diagnostics diagnostics(source);
  WorkloadModule module = parse_workloads(source, diagnostics);
  if (!diagnostics.has_errors()) instantiate(module, "w", {}, {}, diagnostics);
  std::vector<std::string> lines;
  for (const Diagnostic& d : diagnostics.all()) {
    Position at = position_of(source, d.span.begin);
    lines.push_back(cat(at.line - 1, ":", at.column, " ", d.message, d.note.empty() ? "" : " | ", d.note));
  }
  return join(lines, "\n");
}

std::string library_text() {
  for (const EmbeddedText& text : embedded_texts()) {
    if (text.path == "dsl/te/operators.tw") return std::string(text.text);
  }
  return "";
}

TEST(Library, HasNoErrorsAndEverythingIsDocumented) {
  Source source{"dsl/te/operators.tw", library_text()};
  Diagnostics diagnostics(source);
  parse_workloads(source, diagnostics);
  EXPECT_EQ(diagnostics.render(), "");
  std::vector<std::string> names;
  for (const Signature& signature : signatures(operator_library())) {
    names.push_back(signature.name);
    EXPECT_NE(signature.doc, "") << signature.name;
  }
  EXPECT_EQ(join(names, " "),
            "dense matmul batch_matmul transpose_batch_matmul conv1d conv2d conv3d depthwise_conv2d conv2d_transposed "
            "capsule_conv2d conv2d_bn_relu "
            "max_pool2d avg_pool2d softmax norm layernorm rmsnorm");
  names.clear();
  for (const EpilogueSignature& epilogue : epilogue_signatures(operator_library())) {
    names.push_back(epilogue.name);
    EXPECT_NE(epilogue.doc, "") << epilogue.name;
  }
  EXPECT_EQ(join(names, " "), "bias bn add relu gelu silu sigmoid tanh");
}

TEST(Library, SignaturesSayWhatIsRequired) {
  std::string text;
  for (const Signature& signature : signatures(operator_library())) {
    if (signature.name != "conv2d") continue;
    for (const auto& p : signature.parameters)
      text +=
          cat(p.name, p.kind == ParameterKind::Type ? ": type" : "", p.required ? "" : cat(" = ", p.fallback), ", ");
  }
  EXPECT_EQ(text,
            "N, H, W, CI, CO, K, stride = 1, padding = 0, dilation = 1, groups = 1, T: type = f32, acc: type = "
            "accumulator(T), out: type = result(T), ");
}

TEST(Workload, DenseGelu) {
  EXPECT_EQ(result_of(R"(workload w(M: int, N: int, K: int, T: type = f32) {
  input X: T[M, K]
  const W: T[K, N], bias: T[N]            # rewritten once, outside the kernel
  D[i: M, j: N] = sum(k: K) X[i, k] * W[k, j]
  output Y[i: M, j: N] = gelu(D[i, j] + bias[j])
})",
                      {{"M", i64{4}}, {"N", i64{5}}, {"K", i64{6}}}),
            R"(program w(X: input f32[4, 6], W: const f32[6, 5], bias: const f32[5], Y: output f32[4, 5]) {
  local D: f32[4, 5]
  for i in 4 {
    for j in 5 {
      for k in 6 {
        block D(i: S 4 = i, j: S 5 = j, k: R 6 = k) {
          init {
            D[i, j] = 0.0
          }
          D[i, j] = D[i, j] + X[i, k] * W[k, j]
        }
      }
    }
  }
  for i in 4 {
    for j in 5 {
      block Y(i: S 4 = i, j: S 5 = j) {
        Y[i, j] = 0.5 * (D[i, j] + bias[j]) * (1.0 + erf((D[i, j] + bias[j]) * 0.7071067811865476))
      }
    }
  }
}
)");
}

TEST(Workload, TypesLayoutsAndTolerance) {
  EXPECT_EQ(
      result_of(R"(workload w(N: int) {
  doc "types and attributes"
  tolerance 1e-3, 0
  input X: f16[N] layout "odd", I: i8[N, N]
  let Z = X
  S: bf16[i: N] = sum(k: N) in f64 I[i, k] * Z[k]
  output Y: i8[i: N] layout "even" = S[i] + 1
  output A, B: f16[] = argmin(k: N) X[k]
})",
                {{"N", i64{2}}}),
      R"(program w(X: input f16[2] layout "odd", I: input i8[2, 2], Y: output i8[2] layout "even", A: output i64[], B: output f16[]) {
  tolerance 0.001, 0.0
  local S_acc: f64[2]
  local S: bf16[2]
  for i in 2 {
    for k in 2 {
      block S_acc(i: S 2 = i, k: R 2 = k) {
        init {
          S_acc[i] = f64(0.0)
        }
        S_acc[i] = S_acc[i] + f64(i32(I[i, k])) * f64(f32(X[k]))
      }
    }
  }
  for i in 2 {
    block S(i: S 2 = i) {
      S[i] = bf16(S_acc[i])
    }
  }
  for i in 2 {
    block Y(i: S 2 = i) {
      Y[i] = i8(f32(S[i]) + 1.0)
    }
  }
  for k in 2 {
    block A(k: R 2 = k) {
      init {
        A[], B[] = 0, f16(inf)
      }
      A[], B[] = if f32(X[k]) < f32(B[]) or f32(X[k]) == f32(B[]) and k < A[] then k else A[], if f32(X[k]) < f32(B[]) or f32(X[k]) == f32(B[]) and k < A[] then X[k] else B[]
    }
  }
}
)");
}

TEST(Workload, ConvolutionWithoutPaddingAndGroupsIsPlain) {
  std::string text = "conv2d(N = 1, H = 4, W = 4, CI = 2, CO = 2, K = 3)";
  Source source{"use", text};
  Diagnostics of_use(source), diagnostics(*operator_library().source);
  std::optional<WorkloadUse> use = parse_use(source, of_use);
  ASSERT_TRUE(use);
  EXPECT_EQ(to_string(*use), text);
  std::optional<OwnedProgram> program = instantiate(operator_library(), use->workload, use->arguments, {}, diagnostics);
  ASSERT_TRUE(program) << diagnostics.render();
  EXPECT_TRUE(program->program.locals.empty());
  EXPECT_NE(
      print(program->program).find("Y[n, y, x, co] = Y[n, y, x, co] + X[n, y + ky, x + kx, ci] * F[ky, kx, ci, co]"),
      std::string::npos);
  Source again{"text", workload_text(program->program)};
  Diagnostics of_text(again);
  std::optional<OwnedProgram> parsed = parse_program(again, of_text);
  ASSERT_TRUE(parsed) << of_text.render();
  EXPECT_TRUE(structurally_equal(program->program, parsed->program));
}

TEST(Workload, ConditionsOnParametersDecide) {
  const char* text = R"(workload w(p: int, q: int = p + 1) {
  require p >= 0
  input X: f32[4]
  if p == 0 { output Y[i: 4] = X[i] } else if p < q { output Y[i: 4] = X[i] * q } else { output Y[i: 4] = X[i] // 0 }
})";
  EXPECT_NE(result_of(text, {{"p", i64{0}}}).find("Y[i] = X[i]\n"), std::string::npos);
  EXPECT_NE(result_of(text, {{"p", i64{2}}}).find("Y[i] = X[i] * 3.0\n"), std::string::npos);
  EXPECT_NE(result_of(text, {{"p", i64{-1}}}).find("error: w: `p >= 0` does not hold with p = -1\n"),
            std::string::npos);
}

TEST(Workload, FunctionsSeeWhatIsBeforeThemAndTheLibrary) {
  EXPECT_NE(result_of("fn twice(x) = x + x\nfn relu(x) = twice(max(x, 1))\nworkload w() { input X: f32[1]; output Y[] "
                      "= relu(X[0]) }")
                .find("Y[] = max(X[0], 1.0) + max(X[0], 1.0)"),
            std::string::npos);
  EXPECT_NE(result_of("workload w() { input X: f32[1]; output Y[] = relu(X[0]) }").find("Y[] = max(X[0], 0.0)"),
            std::string::npos);
  EXPECT_EQ(result_of("fn f(x) = g(x)\nfn g(x) = f(x)\nworkload w() { input X: f32[1]; output Y[] = g(X[0]) }"),
            "w.tw:1:11: error: unknown function `g`\n"
            "    1 | fn f(x) = g(x)\n"
            "      |           ^\n");
}

// One text for tensors of all ranks.
TEST(Workload, ListsStandForSeveralDimensionsAxesAndIndices) {
  std::string text = R"(
fn spread(i, S) = [if s == 1 then 0 else a for (a, s) in zip(i, S)]
workload w(S: ints, order: ints = rev(range(len(S))), T: type = f32) {
  require len(order) == len(S) and all(p in range(len(S)): contains(order, p)), "no permutation"
  let rows = [1 for s in S[1:]] + [S[-1]]
  input X: T[S], B: T[rows]
  A[i: S] = if all(a in i: a >= 1) then X[i] + B[spread(i, rows)] else 0
  output Y: T[i: [S[p] for p in order]] = A[[i[position(order, d)] for d in range(len(S))]]
})";
  EXPECT_EQ(result_of(text, {{"S", std::vector<i64>{2, 3, 4}}, {"order", std::vector<i64>{1, 2, 0}}}),
            "program w(X: input f32[2, 3, 4], B: input f32[1, 1, 4], Y: output f32[3, 4, 2]) {\n"
            "  local A: f32[2, 3, 4]\n"
            "  for i0 in 2 {\n"
            "    for i1 in 3 {\n"
            "      for i2 in 4 {\n"
            "        block A(i0: S 2 = i0, i1: S 3 = i1, i2: S 4 = i2) {\n"
            "          A[i0, i1, i2] = if i0 >= 1 and i1 >= 1 and i2 >= 1 then X[i0, i1, i2] + B[0, 0, i2] else 0.0\n"
            "        }\n"
            "      }\n"
            "    }\n"
            "  }\n"
            "  for i0 in 3 {\n"
            "    for i1 in 4 {\n"
            "      for i2 in 2 {\n"
            "        block Y(i0: S 3 = i0, i1: S 4 = i1, i2: S 2 = i2) {\n"
            "          Y[i0, i1, i2] = A[i2, i0, i1]\n"
            "        }\n"
            "      }\n"
            "    }\n"
            "  }\n"
            "}\n");
  EXPECT_NE(result_of(text, {{"S", std::vector<i64>{5}}}).find("output f32[5]"), std::string::npos);
  EXPECT_NE(result_of(text, {{"S", std::vector<i64>{2, 2}}, {"order", std::vector<i64>{0, 0}}}).find("no permutation"),
            std::string::npos);
}

TEST(Workload, ReductionsOverSeveralAxes) {
  std::string text = R"(
workload w(S: ints, axes: ints) {
  let kept = [d for d in range(len(S)) if not contains(axes, d)]
  input X: f32[S]
  output Y[i: [S[d] for d in kept]] = max(k: [S[d] for d in axes])
      X[[if contains(axes, d) then k[position(axes, d)] else i[position(kept, d)] for d in range(len(S))]]
})";
  std::string rows = result_of(text, {{"S", std::vector<i64>{2, 3, 4}}, {"axes", std::vector<i64>{2, 0}}});
  EXPECT_NE(rows.find("Y[i0] = max(Y[i0], X[k1, i0, k0])"), std::string::npos) << rows;
  std::string nothing = result_of(text, {{"S", std::vector<i64>{2}}, {"axes", std::vector<i64>{}}});
  EXPECT_NE(nothing.find("a reduction needs an axis"), std::string::npos) << nothing;
}

TEST(Workload, OwnEpilogues) {
  std::string text = result_of(R"(epilogue scale(y) {
  doc "y times a constant"
  const Scale: T[channels]
  let half = channels // 2
  return y * Scale[channel] + half
}
workload w() { input X: f16[2, 4]; output Y: f16[i: 2, j: 4] layout "l" = X[i, j] })",
                               {}, {"scale", "relu", "scale"});
  EXPECT_EQ(
      text.substr(0, text.find("\n  for")),
      R"(program w(X: input f16[2, 4], Scale: const f16[4], Scale_1: const f16[4], scale_1: output f16[2, 4] layout "l") {
  local Y: f32[2, 4]
  local scale: f32[2, 4]
  local relu: f32[2, 4])");
  EXPECT_NE(text.find("scale[i, j] = Y[i, j] * f32(Scale[j]) + 2.0"), std::string::npos);
  EXPECT_NE(text.find("block scale_1("), std::string::npos);
}

TEST(CxxApi, MakesTheProgramOfTheText) {
  te::Definition d("w");
  te::Tensor X = d.input("X", DType::F32, {4, 6}), W = d.constant("W", DType::F32, {6, 5});
  IterVar i = d.axis("i", 4), j = d.axis("j", 5), k = d.reduce_axis("k", 6);
  te::Tensor D = d.sum("D", {i, j}, {k}, X(d[i], d[k]) * W(d[k], d[j]));
  IterVar y = d.axis("i", 4), x = d.axis("j", 5);
  d.output("Y", {y, x}, te::max(D(d[y], d[x]) - 0.5, 0.0) / 2.0);
  OwnedProgram program = d.finish();
  EXPECT_EQ(print(program.program), result_of(R"(workload w() {
    input X: f32[4, 6]; const W: f32[6, 5]
    D[i: 4, j: 5] = sum(k: 6) X[i, k] * W[k, j]
    output Y[i: 4, j: 5] = max(D[i, j] - 0.5, 0) / 2 })"));
}

// ---- calls

TEST(Call, EveryProblemAtOnce) {
  std::vector<std::string> lines;
  auto note = [&](const std::vector<CallProblem>& problems) {
    for (const CallProblem& p : problems)
      lines.push_back(cat("[", p.argument, "] ", p.message, p.note.empty() ? "" : " | ", p.note));
  };
  note(check_call(operator_library(), "dense",
                  {{"M", i64{1}}, {"n", i64{2}}, {"T", i64{3}}, {"M", i64{4}}, {"K", DType::F16}}, {"bias", "geluu"}));
  note(check_call(operator_library(), "conv2", {}, {}));
  note(check_call(operator_library(), "norm", {{"B", i64{1}}, {"M", i64{1}}, {"N", i64{1}}, {"zzz", i64{1}}}, {}));
  EXPECT_EQ(join(lines, "\n"),
            "[n] `dense` has no argument `n` | did you mean `N`?\n"
            "[T] expected a type for `T`, found 3\n"
            "[M] argument `M` is given twice\n"
            "[K] expected an integer for `K`, found f16\n"
            "[] `dense` needs the argument `N`\n"
            "[geluu] unknown epilogue `geluu` | did you mean `gelu`?\n"
            "[] unknown workload `conv2` | did you mean `conv2d`?\n"
            "[zzz] `norm` has no argument `zzz` | known are: B, M, N, T");
}

TEST(Call, UsesAreText) {
  auto message = [](const std::string& text) {
    Source source{"use", text};
    Diagnostics diagnostics(source);
    std::optional<WorkloadUse> use = parse_use(source, diagnostics);
    EXPECT_EQ(use.has_value(), !diagnostics.has_errors());
    return use ? to_string(*use) : diagnostics.all()[0].message;
  };
  EXPECT_EQ(message("banded(M = 512, T = f16, x = -1)"), "banded(M = 512, T = f16, x = -1)");
  EXPECT_EQ(message("banded"), "banded()");
  EXPECT_EQ(message("banded(512)"), "expected a named integer or type, found `512`");
  EXPECT_EQ(message("banded(M = big)"), "expected a named integer or type, found `big`");
  EXPECT_EQ(message("3"), "expected a workload with arguments, found `3`");
  EXPECT_EQ(message("a(M = 1) b"), "expected the end of the line, found `b`");
  EXPECT_EQ(message("a(M = 1)\nb"), "expected the end of the text, found `b`");
}

// ---- wrong text

TEST(Errors, AreRenderedWholeAndAllAtOnce) {
  EXPECT_EQ(result_of("workload w(N: int, M: integer) {\n"
                      "}\n"
                      "worklaod v() { }\n"
                      "workload w(N: int) {\n"
                      "  inptu X: f32[N]\n"
                      "  input Y f32[N]\n"
                      "  D[i] = 1\n"
                      "  output Z[i: N] = sqrt(sum(k: N) Y[k])\n"
                      "  output Z[i: N] = Y[i] +\n"
                      "}\n"),
            "w.tw:1:23: error: expected `int`, `ints` or `type`, found `integer`\n"
            "    1 | workload w(N: int, M: integer) {\n"
            "      |                       ^~~~~~~\n"
            "w.tw:3:1: error: expected `workload`, `fn` or `epilogue`, found `worklaod`\n"
            "    3 | worklaod v() { }\n"
            "      | ^~~~~~~~\n"
            "note: did you mean `workload`?\n"
            "w.tw:5:3: error: expected a statement, found `inptu`\n"
            "    5 |   inptu X: f32[N]\n"
            "      |   ^~~~~\n"
            "note: did you mean `input`?\n"
            "w.tw:6:11: error: expected `:`, found `f32`\n"
            "    6 |   input Y f32[N]\n"
            "      |           ^~~\n"
            "w.tw:7:6: error: expected `:` and the extent of the axis, found `]`\n"
            "    7 |   D[i] = 1\n"
            "      |      ^\n"
            "note: for example `i: N`\n"
            "w.tw:8:25: error: a reduction must be the whole right side of a stage\n"
            "    8 |   output Z[i: N] = sqrt(sum(k: N) Y[k])\n"
            "      |                         ^~~\n"
            "note: give it a stage of its own: `S[...] = sum(...) ...`\n"
            "w.tw:10:1: error: expected an expression, found `}`\n"
            "   10 | }\n"
            "      | ^\n");
}

struct Case {
  const char* body;
  const char* messages;
};
constexpr Case kCases[] = {
    {"input X: f32", "1:10 expected a type with a shape | for example `X: f32[M, N]`"},
    {"input X: f31[N]\noutput Y[] = 1",
     "1:10 expected a type, found `f31` | types are f64 f32 f16 bf16 i64 i32 i8 u8 bool"},
    {"input X: f32[n]\noutput Y[] = 1", "1:14 unknown name `n` | did you mean `N`?"},
    {"input X: f32[N - 4]\noutput Y[] = 1", "1:14 a dimension of `X` has extent 0 | an extent is at least 1"},
    {"input X: f32[2 * 2199023255552]\noutput Y[] = 1",
     "1:14 a dimension of `X` has extent 4398046511104 | an extent is at most 2^40"},
    {"input X: f32[1099511627776, 64]\noutput Y[] = 1", "1:7 `X` has more than 2^45 elements"},
    {"input X: f32[9223372036854775807 + N]\noutput Y[] = 1", "1:14 this integer overflows"},
    {"let a = N // 0\noutput Y[] = 1", "1:11 `//` divides by zero"},
    {"let a = N / 2\noutput Y[] = 1", "1:11 `/` divides floats | integers divide with `//`"},
    {"let a = foo(N)\noutput Y[] = 1",
     "1:9 expected an integer, found a call of `foo` | integers know min, max, ceildiv, is_float and the functions on "
     "lists"},
    {"let a = 1.5\noutput Y[] = 1", "1:9 expected an integer, found `1.5`"},
    {"let N = 1\noutput Y[] = 1", "1:5 there is already a `N` here"},
    {"require N % 3 == 0, \"N must divide\"\noutput Y[] = 1", "1:9 w: N must divide with N = 4"},
    {"require N, 3", "1:12 expected the message of `require`, found `3`"},
    {"tolerance 1e-3\noutput Y[] = 1", "2:1 expected `,`, found `output`"},
    {"tolerance -1, 0\noutput Y[] = 1", "1:1 a tolerance cannot be negative"},
    {"input X: f32[N]", "0:10 workload `w` has no output"},
    {"output Y[i: N] = X[i]", "1:18 unknown name `X`"},
    {"input X: f32[N]\noutput Y[i: N] = X", "2:18 expected a value, found the buffer `X` | an element is `X[...]`"},
    {"input X: f32[N]\noutput Y[i: N] = X[i, 0]", "2:18 `X` has 1 dimension, found 2 indices"},
    {"input X: f32[N]\noutput Y[i: N] = X[X[i]]", "2:20 expected an integer as index, found f32"},
    {"input X: f32[N]\noutput Y[i: N] = X[i + 1]",
     "2:18 index 0 of `X` takes the values 1 to 4, its extent is 4 | guard it with `if ... then ... else ...`"},
    {"input X: f32[N]\noutput Y[i: N] = i[0]", "2:18 expected a buffer, found `i`"},
    {"let S = [N, 2]\noutput Y[i: S] = i[2]", "2:20 this list has 2 elements"},
    {"let S = [N, 2]\noutput Y[i: N] = S", "2:18 expected a value, found a list"},
    {"let S = [N, 2] + N\noutput Y[i: N] = i", "1:16 a list can only be joined with a list | one element is `[x]`"},
    {"let S = [a for (a, b) in [N]]\noutput Y[i: N] = i", "1:17 expected lists of 2 elements here"},
    {"let S = position([N], 7)\noutput Y[i: N] = i", "1:9 this list has no 7"},
    {"let S = max([])\noutput Y[i: N] = i", "1:9 `max` of an empty list"},
    {"let S = zip([1], 2)\noutput Y[i: N] = i", "1:9 `zip` takes two lists"},
    {"let S = [[a * b for a in range(1000)] for b in range(1000)]\noutput Y[i: N] = i",
     "1:10 the lists of this workload have more than 262144 elements"},
    {"let S = range(99999999999)\noutput Y[i: N] = i", "1:9 the lists of this workload have more than 262144 elements"},
    {"let a = all(a in range(600): all(b in range(600): a == a + b))\noutput Y[i: N] = i",
     "1:30 the lists of this workload have more than 262144 elements"},
    {"input X: f32[N]\noutput Y[i: N, i: N] = X[i]", "2:16 there is already an axis `i` here"},
    {"input X: f32[N]\noutput X[i: N] = X[i]", "2:8 there is already a `X` here"},
    {"input X: f32[N]\noutput Y[i: N] = exq(X[i])", "2:18 unknown function `exq` | did you mean `exp`?"},
    {"input X: f32[N]\noutput Y[i: N] = pow(X[i])", "2:18 `pow` takes 2 arguments, found 1"},
    {"input X: f32[N]\noutput Y[i: N] = gelu(X[i], 2)", "2:18 `gelu` takes 1 arguments, found 2"},
    {"input X: f32[N]\noutput Y[i: N] = f16(X[i], 2)", "2:18 the conversion `f16` takes 1 argument, found 2"},
    {"input X: f32[N]\noutput Y[i: N] = exp(x = X[i])", "2:22 `exp` takes no named arguments"},
    {"input X: f32[N]\noutput Y[i: N] = X[i] % 2", "2:23 expected integers at `%`, found f32"},
    {"input X: i32[N]\noutput Y[i: N] = X[i] / X[i]", "2:23 expected floats at `/`, found i32; `//` divides integers"},
    {"input X: f32[N]\noutput Y[i: N] = X[i] and i == 0", "2:23 expected conditions at `and`, found f32"},
    {"input X: f32[N]\noutput Y[i: N] = not X[i]", "2:18 expected a condition at `not`, found f32"},
    {"input X: f32[N]\noutput Y[i: N] = if X[i] then 1 else 2", "2:21 expected a condition, found f32"},
    {"input X: f32[N]\noutput Y[i: N] = [X[i]]", "2:18 expected a value, found a list"},
    {"input X: f32[N]\noutput Y[i: N] = X[i] * 9007199254740993", "2:25 the integer 9007199254740993 is above 2^53"},
    {"input X: f32[N]\noutput Y[i: N] = i // 0", "2:20 `//` divides by zero"},
    {"input X: f32[N]\noutput Y, Z[i: N] = sum(k: N) X[k]", "2:11 expected 1 result, found 2"},
    {"input X: f32[N]\noutput Y[i: N] = argmax(k: N) X[k]", "2:8 expected 2 results (index and value), found 1"},
    {"input X: f32[N]\noutput Y: f32, Z[i: N] = argmax(k: N) X[k]",
     "2:11 expected an integer type for the index, found f32"},
    {"input X: f32[N]\noutput Y, Z[i: N] = argmax(k: N) in f64 X[k]",
     "2:37 argmax and argmin have no accumulator | give the value a type instead"},
    {"input X: f32[N]\noutput Y[i: N] = sum(k: N) in bool X[k]", "2:31 expected the type of a number, found bool"},
    {"input X: f32[N]\noutput Y[i: N] = sum() X[i]", "2:24 expected the end of the line, found `X`"},
    {"input X: f32[N]\noutput Y[i: N] = median(k: N) X[k]", "2:26 expected `,` or `)`, found `:`"},
    {"input X: f32[N]\noutput Y[i: N] = X[i]\nif X { }",
     "3:4 expected an integer, found `X` | only parameters and lets are known here"},
    {"return 1", "1:1 expected a statement, found `return` | a stage looks like `D[i: M, j: N] = ...`"},
};

TEST(Errors, OfEveryKind) {
  for (const Case& c : kCases) EXPECT_EQ(errors_in(c.body), c.messages) << c.body;
}

TEST(Errors, OfDefinitions) {
  EXPECT_NE(result_of("fn f(x) = x\nfn f(y) = y").find("2:4: error: there is already a function `f` here"),
            std::string::npos);
  EXPECT_NE(result_of("fn exp(x) = x").find("1:4: error: `exp` is a function of the language"), std::string::npos);
  EXPECT_NE(result_of("epilogue e(y) { let a = 1 }").find("1:10: error: this epilogue has no `return`"),
            std::string::npos);
  EXPECT_NE(result_of("workload w() { output A[] = 1; output B[] = 2 }", {}, {"relu"})
                .find("error: epilogues need a workload with one output"),
            std::string::npos);
  EXPECT_NE(result_of("workload w() { output A[] = 1.0 }", {}, {"bias"}).find("1:10: error: unknown name `channels`"),
            std::string::npos);
  EXPECT_EQ(result_of("}"),
            "w.tw:1:1: error: expected `workload`, `fn` or `epilogue`, found `}`\n    1 | }\n      | ^\n");
}

// ---- hostile text

TEST(Hostile, LibraryTruncatedAtEveryByte) {
  std::string text = library_text();
  int good = 0;
  for (std::size_t length = 0; length < text.size(); ++length) {
    Source source{"t", text.substr(0, length)};
    Diagnostics diagnostics(source);
    WorkloadModule module = parse_workloads(source, diagnostics);
    ASSERT_LE(diagnostics.all().size(), 21u);
    good += !diagnostics.has_errors();
  }
  EXPECT_GT(good, 20);  // the ends of definitions and what lies between them
  EXPECT_LT(good, static_cast<int>(text.size()) / 2);
}

TEST(Hostile, DamagedLibraryNeverCrashes) {
  std::string text = library_text();
  Rng rng(5);
  for (int round = 0; round < 300; ++round) {
    std::string damaged = text;
    for (int i = 0; i < 3; ++i) {
      damaged[static_cast<std::size_t>(rng.below(static_cast<i64>(text.size())))] =
          text[static_cast<std::size_t>(rng.below(static_cast<i64>(text.size())))];
    }
    Source source{"t", damaged};
    Diagnostics diagnostics(source);
    WorkloadModule module = parse_workloads(source, diagnostics);
    for (const Signature& signature : signatures(module)) {
      WorkloadArguments arguments;
      for (const auto& p : signature.parameters)
        if (p.required)
          arguments.push_back({p.name, p.kind == ParameterKind::Type       ? ArgumentValue(DType::F32)
                                       : p.kind == ParameterKind::Integers ? ArgumentValue(std::vector<i64>{2, 3})
                                                                           : ArgumentValue(i64{3})});
      Diagnostics of_call(*module.source);
      std::optional<OwnedProgram> program = instantiate(module, signature.name, arguments, {}, of_call);
      EXPECT_EQ(program.has_value(), !of_call.has_errors());
    }
  }
}

TEST(Hostile, AMebibyteOfJunk) {
  Rng rng(9);
  const char* words[] = {"workload", "w", "(", ")", "{", "}",  "[",  "]",  "=", ",",  ":", ";",
                         "sum",      "i", "1", "+", "-", "if", "\"", "\n", "#", "fn", "$", "\xff"};
  for (int round = 0; round < 4; ++round) {
    std::string text;
    while (text.size() < (1 << 20) - 16) text += cat(round % 2 ? " " : "", words[rng.below(24)]);
    Source source{"t", text};
    Diagnostics diagnostics(source);
    parse_workloads(source, diagnostics);
    EXPECT_TRUE(diagnostics.has_errors());
    EXPECT_LE(diagnostics.all().size(), 21u);
  }
}

TEST(Hostile, DepthAndGrowthHaveLimits) {
  std::string deep = "workload w() { ";
  for (int i = 0; i < 1000; ++i) deep += "if 1 { ";
  EXPECT_NE(result_of(deep).find("this is nested deeper than 200 levels"), std::string::npos);
  std::string chain = "workload w() { ";
  for (int i = 0; i < 1000; ++i) chain += "if 0 { } else ";
  EXPECT_NE(result_of(chain).find("this is nested deeper than 200 levels"), std::string::npos);
  std::string doubling = "fn g0(x) = x + x\n";
  for (int i = 1; i < 40; ++i) doubling += cat("fn g", i, "(x) = g", i - 1, "(g", i - 1, "(x))\n");
  EXPECT_NE(result_of(doubling + "workload w() { output Y[i: 4] = g39(f32(i)) }").find("this expression is too large"),
            std::string::npos);
  std::string tower = "fn g0(x) = x\n";
  for (int i = 1; i < 200; ++i) tower += cat("fn g", i, "(x) = g", i - 1, "(x)\n");
  EXPECT_NE(
      result_of(tower + "workload w() { output Y[] = g199(1) }").find("functions call each other more than 64 deep"),
      std::string::npos);
  std::string many = "workload w() {\n";
  for (int i = 0; i < 20000; ++i) many += cat("let a", i, " = b\n");
  std::string messages = result_of(many + "}");
  EXPECT_LT(messages.size(), 5000u);
}

}  // namespace
}  // namespace tw

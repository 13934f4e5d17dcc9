// parse_program(print(p)) is p: for all operators and for every construct; whole messages for wrong text; hostile text.
#include "dsl/text/parse_program.h"

#include <gtest/gtest.h>

#include <functional>

#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "dsl/ir/print.h"
#include "dsl/text/workload.h"

namespace tw {
namespace {

std::string messages(const std::string& text) {
  Source source{"p", text};
  Diagnostics diagnostics(source);
  std::optional<OwnedProgram> program = parse_program(source, diagnostics);
  EXPECT_EQ(program.has_value(), !diagnostics.has_errors());
  return diagnostics.render();
}

void expect_round_trip(const Program& program) {
  std::string text = print(program);
  Source source{"p", text};
  Diagnostics diagnostics(source);
  std::optional<OwnedProgram> again = parse_program(source, diagnostics);
  ASSERT_TRUE(again) << diagnostics.render() << text;
  EXPECT_TRUE(structurally_equal(program, again->program)) << text;
  EXPECT_EQ(structural_hash(program), structural_hash(again->program));
  EXPECT_EQ(print(again->program), text);
}

void expect_round_trip(const std::string& text) {
  Source source{"p", text};
  Diagnostics diagnostics(source);
  std::optional<OwnedProgram> program = parse_program(source, diagnostics);
  ASSERT_TRUE(program) << diagnostics.render();
  EXPECT_EQ(print(program->program), text);
  expect_round_trip(program->program);
}

TEST(RoundTrip, EveryOperatorInEveryType) {
  for (const Signature& signature : signatures(operator_library())) {
    for (DType type : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I8, DType::I32}) {
      WorkloadArguments arguments;
      for (const Signature::Parameter& parameter : signature.parameters) {
        if (parameter.name == "T")
          arguments.push_back({"T", type});
        else if (parameter.name == "K")
          arguments.push_back({"K", i64{3}});
        else if (parameter.name == "padding")
          arguments.push_back({"padding", i64{1}});
        else if (parameter.required)
          arguments.push_back({parameter.name, i64{5}});
      }
      Diagnostics diagnostics(*operator_library().source);
      std::optional<OwnedProgram> program =
          instantiate(operator_library(), signature.name, arguments, {"bias", "gelu", "add"}, diagnostics);
      if (!program)
        EXPECT_NE(diagnostics.render().find("T must be a float type"), std::string::npos) << diagnostics.render();
      else
        expect_round_trip(program->program);
    }
  }
}

TEST(RoundTrip, EveryConstruct) {
  expect_round_trip(
      "program p(X: input f32[4, 5] layout \"a \\\"b\\\"\", W: const f16[3], Y: output f32[4, 5], Z: output i64[]) "
      "@unroll = 16 @note = \"x\\\\y\" {\n"
      "  tolerance 1e-04, 0.001\n"
      "  local T: f32[4, 5] in shared\n"
      "  local U: bool[1, 2, 3] layout \"swizzle\"\n"
      "  parallel for i in 4 @a.b = -3 {\n"
      "    vectorize for j in 5 {\n"
      "      block T(i: S 4 = i, j: S 5 = j) where i * 5 + j < 19 and not i == 3 @pack = \"yes\" {\n"
      "        T[i, j] = X[i, j]\n"
      "      }\n"
      "    }\n"
      "    unroll for j in 5 {\n"
      "      bind blockIdx.x for k in 2 {\n"
      "        bind vthread for l in 1 {\n"
      "          block Y(i: S 4 = i, j: S 5 = j, k: R 2 = k * 1 + l) {\n"
      "            init {\n"
      "              Y[i, j] = -inf\n"
      "              Z[] = 0\n"
      "            }\n"
      "            Y[i, j] = max(Y[i, j], T[i, j] * f32(W[k]))\n"
      "            for i_1 in 2 {\n"
      "              block inner(a: S 2 = i_1) {\n"
      "                Z[] = a - (a - 1) - 2 * (a + 1) // 3 % 4\n"
      "              }\n"
      "            }\n"
      "          }\n"
      "        }\n"
      "      }\n"
      "    }\n"
      "  }\n"
      "}\n");
  expect_round_trip(
      "program q(X: input f32[8], Y: output f32[8], B: output bool[2]) {\n"
      "  alloc A: f32[8] in register {\n"
      "    A[ramp(0, 1, 8)] = X[ramp(7, -1, 8)] + broadcast(1.5, 8)\n"
      "    if X[0] > 0.0 or not B[0] and B[1] {\n"
      "      Y[ramp(0, 1, 8)] = A[ramp(0, 1, 8)]\n"
      "    } else {\n"
      "      Y[0], Y[1] = A[1], A[0]\n"
      "    }\n"
      "    if B[0] {\n"
      "      Y[2] = if X[0] < 1e-05 then -X[1] else (if B[1] then nan else pow(X[2], 2.0)) + 1.0\n"
      "    }\n"
      "  }\n"
      "  alloc A_1: f32[2] {\n"
      "    A_1[0] = f32(f16(0.1)) + f32(f64(1e+300)) + f32(bf16(-inf)) + f32(i32(5)) + f32(i8(-5)) + f32(true)\n"
      "    Y[3] = sigmoid(erf(tanh(exp(log(sqrt(rsqrt(abs(floor(ceil(round(A_1[0])))))))))))\n"
      "  }\n"
      "  B[0], B[1] = true, X[0] <= 1.0 and (X[0] != 2.0 or X[1] >= 3.0)\n"
      "}\n");
  expect_round_trip("program empty() {\n}\n");
}

TEST(RoundTrip, NamesThatLookLikeWords) {
  expect_round_trip(
      "program program(init: input f32[2], block: output f32[2], f32: output f32[1], ramp: input f32[1]) {\n"
      "  for S in 2 {\n"
      "    block alloc(R: S 2 = S) {\n"
      "      block[R] = init[R]\n"
      "      f32[0] = inf\n"
      "      f32[0] = ramp[0]\n"
      "    }\n"
      "  }\n"
      "}\n");
}

TEST(RoundTrip, RandomExpressions) {
  Arena arena;
  Build build{arena};
  const Buffer* x = arena.make<Buffer>(BufferId{1}, Str("X"), DType::I64, arena.list<i64>({100}), Scope::Global, Str{});
  const Buffer* y = arena.make<Buffer>(BufferId{2}, Str("Y"), DType::I64, arena.list<i64>({}), Scope::Global, Str{});
  Rng rng(7);
  std::function<const Expr*(int, bool)> random = [&](int depth, bool condition) -> const Expr* {
    auto make = [&](BinaryOp op, const Expr* a, const Expr* b) {
      bool compares = op >= BinaryOp::Lt && op <= BinaryOp::Ne;
      return arena.make<Binary>(Expr{{Kind::Binary}, {compares ? DType::Bool : a->type.dtype, 1}}, op, a, b);
    };
    if (condition) {
      if (depth == 0) return make(BinaryOp::Lt, random(0, false), random(0, false));
      i64 pick = rng.below(9);
      if (pick < 2)
        return make(pick == 0 ? BinaryOp::And : BinaryOp::Or, random(depth - 1, true), random(depth - 1, true));
      if (pick == 2)
        return arena.make<Unary>(Expr{{Kind::Unary}, {DType::Bool, 1}}, UnaryOp::Not, random(depth - 1, true));
      return make(static_cast<BinaryOp>(static_cast<int>(BinaryOp::Lt) + pick - 3), random(depth - 1, false),
                  random(depth - 1, false));
    }
    if (depth == 0)
      return rng.below(2) ? build.integer(rng.below(9) - 4)
                          : build.load(x, arena.list<const Expr*>({build.integer(rng.below(9))}));
    constexpr BinaryOp ops[] = {BinaryOp::Add,      BinaryOp::Sub, BinaryOp::Mul, BinaryOp::FloorDiv,
                                BinaryOp::FloorMod, BinaryOp::Min, BinaryOp::Max};
    i64 pick = rng.below(10);
    if (pick < 7) return make(ops[pick], random(depth - 1, false), random(depth - 1, false));
    if (pick == 7)
      return arena.make<Select>(Expr{{Kind::Select}, {DType::I64, 1}}, random(depth - 1, true),
                                random(depth - 1, false), random(depth - 1, false));
    const Expr* inner =
        random(depth - 1, false);  // a negative number is a number, so minus stands before other things only
    return inner->kind == Kind::IntImm ? inner
                                       : arena.make<Unary>(Expr{{Kind::Unary}, {DType::I64, 1}}, UnaryOp::Neg, inner);
  };
  for (int i = 0; i < 500; ++i) {
    Program program;
    program.name = "p";
    program.params = arena.list<Param>({{x, Role::Input}, {y, Role::Output}});
    program.body = build.store(y, {}, random(1 + i % 6, false));
    expect_round_trip(program);
  }
}

TEST(ProgramErrors, AreWholeAndSeveral) {
  EXPECT_EQ(messages("program p(X: input f33[4], Y: output f32[4]) {\n}\n"),
            "p:1:20: error: expected an element type, found `f33`\n"
            "    1 | program p(X: input f33[4], Y: output f32[4]) {\n"
            "      |                    ^~~\n"
            "note: types are f64 f32 f16 bf16 i64 i32 i8 u8 bool\n");
  EXPECT_EQ(messages("program p(X: input f32[4], Y: output f32[4]) {\n"
                     "  for i in 4 {\n"
                     "    block Y(i: S 4 = i) {\n"
                     "      Y[i] = X[j] + 1.0\n"
                     "      Y[i, i] = 1.0\n"
                     "      Y[i] = 1\n"
                     "      Y[i] = X[i] + 1\n"
                     "      Y[X[i]] = 1.0\n"
                     "      Y[i] = XX[i]\n"
                     "      X[i] = if X[i] then 1.0 else 2.0\n"
                     "    }\n"
                     "  }\n"
                     "  fro i in 4 { }\n"
                     "}\n"),
            "p:4:16: error: unknown name `j`\n"
            "    4 |       Y[i] = X[j] + 1.0\n"
            "      |                ^\n"
            "p:5:7: error: `Y` has 1 dimensions, found 2 indices\n"
            "    5 |       Y[i, i] = 1.0\n"
            "      |       ^~~~~~~\n"
            "p:6:14: error: expected f32 for `Y`, found i64\n"
            "    6 |       Y[i] = 1\n"
            "      |              ^\n"
            "note: conversions are written out, as in `f32(x)`\n"
            "p:7:19: error: expected equal types at `+`, found f32 and i64\n"
            "    7 |       Y[i] = X[i] + 1\n"
            "      |                   ^\n"
            "note: conversions are written out, as in `f32(x)`\n"
            "p:8:9: error: expected an i64 as index, found f32\n"
            "    8 |       Y[X[i]] = 1.0\n"
            "      |         ^~~~\n"
            "p:9:14: error: unknown buffer `XX`\n"
            "    9 |       Y[i] = XX[i]\n"
            "      |              ^~\n"
            "note: did you mean `X`?\n"
            "p:10:17: error: expected a condition, found f32\n"
            "   10 |       X[i] = if X[i] then 1.0 else 2.0\n"
            "      |                 ^~~~\n"
            "p:13:3: error: expected a statement, found `fro`\n"
            "   13 |   fro i in 4 { }\n"
            "      |   ^~~\n"
            "note: did you mean `for`?\n");
}

std::string first_message(const std::string& statement) {
  std::string text = "program p(X: input f32[4], Y: output f32[4]) {\n" + statement + "\n}";
  Source source{"p", text};
  Diagnostics diagnostics(source);
  EXPECT_FALSE(parse_program(source, diagnostics));
  return diagnostics.all().empty() ? "" : diagnostics.all()[0].message;
}

TEST(ProgramErrors, OfEveryKind) {
  EXPECT_EQ(first_message("for i in 0 { Y[0] = 1.0 }"), "expected an extent from 1 to 2^40, found 0");
  EXPECT_EQ(first_message("for i in n { Y[0] = 1.0 }"), "expected an extent, found `n`");
  EXPECT_EQ(first_message("for Y in 4 { Y[0] = 1.0 }"), "there is already a buffer `Y` here");
  EXPECT_EQ(first_message("parallel i in 4 { Y[0] = 1.0 }"), "expected `for`, found `i`");
  EXPECT_EQ(first_message("for i in 4 { }"), "expected a statement between `{` and `}`");
  EXPECT_EQ(first_message("block B(i: T 4 = 0) { Y[i] = 1.0 }"), "expected `S` or `R`, found `T`");
  EXPECT_EQ(first_message("block B(i: S 4 = 0.5) { Y[i] = 1.0 }"), "expected an i64 as index, found f32");
  EXPECT_EQ(first_message("block B(i: S 4 = 0) where 1 { Y[i] = 1.0 }"), "expected a condition, found i64");
  EXPECT_EQ(first_message("alloc T: f32[2] in cache { T[0] = 1.0 }"),
            "expected `global`, `register`, `shared`, `local` or `global.vtcm`, found `cache`");
  EXPECT_EQ(first_message("alloc T: f32[1099511627776, 1099511627776] { T[0, 0] = 1.0 }"),
            "this buffer has more than 2^45 elements");
  EXPECT_EQ(first_message("Y[0], Y[1] = 1.0"), "expected 2 values, found 1");
  EXPECT_EQ(first_message("Y[0] = exp(1)"), "expected floats at `exp`, found i64");
  EXPECT_EQ(first_message("Y[0] = pow(1.0)"), "expected 2 arguments, found 1");
  EXPECT_EQ(first_message("Y[0] = foo(1.0)"), "unknown function `foo`");
  EXPECT_EQ(first_message("Y[0] = X"), "expected a value, found the buffer `X`");
  EXPECT_EQ(first_message("Y[0] = 1.0 // 2.0"), "expected integers at `//`, found f32");
  EXPECT_EQ(first_message("Y[0] = f32(1 / 2)"), "expected floats at `/`, found i64");
  EXPECT_EQ(first_message("Y[0] = f32(true + true)"), "expected numbers at `+`, found bool");
  EXPECT_EQ(first_message("Y[0] = f32(1 and 2)"), "expected conditions at `and`, found i64");
  EXPECT_EQ(first_message("Y[0] = f32(not 1)"), "expected a condition at `not`, found i64");
  EXPECT_EQ(first_message("Y[ramp(0, 1, 1)] = 1.0"), "expected a number of lanes from 2 to 1024");
  EXPECT_EQ(first_message("Y[0] = if true then 1.0 else 2"),
            "expected equal types behind `then` and `else`, found f32 and i64");
  EXPECT_EQ(first_message("Y[0] = [1.0]"), "expected a value, found `[1.0]`");
  EXPECT_EQ(first_message("Y[0] = 1.0 2.0"), "expected the end of the line, found `2.0`");
  EXPECT_EQ(first_message("for i in 4 @x = { Y[i] = 1.0 }"), "expected a key in quotes, found `Y`");
  EXPECT_EQ(first_message("for i in 4 @x = (1) { Y[i] = 1.0 }"),
            "expected an integer, a number, a text, a list or a dictionary, found `(`");
  EXPECT_EQ(first_message("for i in 4 @x = [1 2] { Y[i] = 1.0 }"), "expected `]`, found `2`");
  EXPECT_EQ(first_message("for i in 4 @x = {\"a\" 1} { Y[i] = 1.0 }"), "expected `:`, found `1`");
  EXPECT_EQ(first_message("for i in 4 @x = {\"a\": 1, \"a\": 2} { Y[i] = 1.0 }"), "the key \"a\" is there twice");
}

TEST(Hostile, TruncatedProgramsGiveDiagnostics) {
  Source use_text{"use", "max_pool2d(N = 1, H = 4, W = 4, C = 2, K = 3, padding = 1, T = i8)"};
  Diagnostics of_use(use_text), diagnostics(*operator_library().source);
  std::optional<WorkloadUse> use = parse_use(use_text, of_use);
  std::string text =
      print(instantiate(operator_library(), use->workload, use->arguments, {"bias"}, diagnostics)->program);
  for (std::size_t length = 0; length + 2 < text.size(); ++length)
    EXPECT_NE(messages(text.substr(0, length)), "") << length;
}

TEST(Hostile, DamagedProgramsNeverCrash) {
  std::string text =
      "program p(X: input f32[4], Y: output f32[4]) {\n  for i in 4 {\n    block B(i: S 4 = i) where i < 3 {\n      "
      "Y[i] = X[i] + f32(i8(3))\n    }\n  }\n}\n";
  Rng rng(3);
  int good = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string damaged = text;
    for (int i = 0; i < 1 + round % 4; ++i) {
      auto at = static_cast<std::size_t>(rng.below(static_cast<i64>(damaged.size())));
      damaged[at] = text[static_cast<std::size_t>(rng.below(static_cast<i64>(text.size())))];
    }
    Source source{"p", damaged};
    Diagnostics diagnostics(source);
    std::optional<OwnedProgram> program = parse_program(source, diagnostics);
    EXPECT_EQ(program.has_value(), !diagnostics.has_errors());
    if (program) {
      ++good;
      expect_round_trip(program->program);
    }
  }
  EXPECT_GT(good, 0);
}

TEST(Hostile, DeepNestingIsAnError) {
  std::string text = "program p(Y: output f32[1]) {\n";
  for (int i = 0; i < 5000; ++i) text += cat("for i", i, " in 1 {\n");
  EXPECT_NE(messages(text).find("this is nested deeper than 200 levels"), std::string::npos);
}

}  // namespace
}  // namespace tw

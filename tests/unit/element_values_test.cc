// Single elements against the interpreter, which computes all of them.
#include "backends/element_values.h"

#include <gtest/gtest.h>

#include "dsl/base/text.h"
#include "dsl/ir/print.h"
#include "dsl/passes/widen.h"
#include "support/parsed.h"
#include "support/random_program.h"
#include "support/scheduled.h"
#include "support/small_operators.h"
#include "tests/unit/evaluate.h"

namespace tw {
namespace {

std::vector<const HostArray*> pointers_to(const std::vector<HostArray>& arrays) {
  std::vector<const HostArray*> out;
  for (const HostArray& array : arrays) out.push_back(&array);
  return out;
}

// How many elements were compared.
i64 compare_all(const Program& program) {
  const std::vector<HostArray> arguments = arguments_of(program, 1);
  std::vector<HostArray> expected = arguments;
  EXPECT_EQ(interpret(program, expected), "");
  ElementValues values(program, pointers_to(arguments));
  i64 compared = 0;
  for (std::size_t i = 0; i < program.params.size(); ++i) {
    const Param& param = program.params[i];
    if (param.role != Role::Output) continue;
    for (i64 position = elements_of(param.buffer); position-- > 0; ++compared) {
      std::optional<double> value = values.at(param.buffer, position);
      EXPECT_TRUE(value) << param.buffer->name << " at " << position << "\n" << print(program);
      if (!value) return compared;
      HostArray stored = HostArray::zeros(param.buffer->dtype, {1});
      stored.set(0, *value);
      EXPECT_EQ(stored.get(0), expected[i].get(position)) << param.buffer->name << " at " << position << "\n"
                                                          << print(program);
    }
  }
  return compared;
}

// As they are, and as the reference computes them.
void compare_both(const OwnedProgram& owned, const std::string& name) {
  Arena arena;
  EXPECT_GT(compare_all(owned.program), 0) << name;
  EXPECT_GT(compare_all(widen_to_f64(arena, owned.program)), 0) << name;
}

TEST(ElementValues, OfEveryOperator) {
  for (const auto& [name, owned] : test::small_operators()) compare_both(owned, name);
}

TEST(ElementValues, OfNarrowTypes) {
  for (const char* use : {"matmul(M = 3, N = 4, K = 5, T = f16)", "dense(M = 3, N = 4, K = 5, T = bf16)",
                          "dense(M = 3, N = 4, K = 5, T = i8)", "softmax(M = 3, N = 5, T = f16)"})
    compare_both(test::Scheduled(use, {}, "").base(), use);
}

TEST(ElementValues, OfRandomPrograms) {
  Rng rng(1);
  std::string use;
  for (int i = 0; i < 400; ++i) {
    OwnedProgram owned = test::random_program(rng, use);
    EXPECT_GT(compare_all(owned.program), 0) << use;
    if (HasFailure()) return;
  }
}

// The value of an element that lies before it: sums of a prefix.
TEST(ElementValues, OfOneThatReadsItself) {
  OwnedProgram owned = test::parsed(R"(program prefix(X: input f32[40], Y: output f32[40]) {
    for i in 40 { block Y(i: S 40 = i) { Y[i] = (if i > 0 then Y[i - 1] else 0.0) + X[i] } } })");
  EXPECT_EQ(compare_all(owned.program), 40);
}

TEST(ElementValues, OfOtherProgramsAreUnknown) {
  for (
      const char* body : {
          "for i in 8 { block A(i: S 8 = i) { Y[i] = X[i] } }\n for i in 8 { block B(i: S 8 = i) { Y[i] = 2.0 } }",  // two writers
          "for i in 8 { block A(i: S 8 = i) { Y[i] = X[i] } }\n Y[7] = 5.0",  // one of them no block
          "for i in 7 { block A(i: S 7 = i) { Y[i] = X[i] } }",               // a part of it
          "for i in 7 { block A(i: S 8 = i) { Y[i] = X[i] } }",               // a part of the domain
          "for i in 8 { block A(i: S 8 = 7 - i) { Y[i] = X[i] } }",           // bound otherwise
          "for i in 8 { for k in 4 { block A(i: S 8 = i, k: R 8 = k) { init { Y[i] = 0.0 } Y[i] = Y[i] + X[k] } } "
          "}",                                                                // half of a sum
          "for i in 8 { if i < 4 { block A(i: S 8 = i) { Y[i] = X[i] } } }",  // now and then
          "for i in 8 { block A(i: S 8 = i) where i < 4 { Y[i] = X[i] } }",   // a predicate
          "for i in 8 { block A(i: S 8 = i) { Y[i // 2 * 2] = X[i] } }",      // no iter
          "for i in 8 { block A(i: S 8 = i) { Y[i] = X[i + 1] } }",           // behind the end
          "for i in 8 { block A(i: S 8 = i) { Y[i] = X[i // (7 - i)] } }",    // divided by zero
          "for i in 8 { block A(i: S 8 = i) { Y[i] = Y[7 - i] } }",           // a circle
          "for i in 8 { block A(i: S 8 = i) { Y[i] = Y[i] + X[i] } }",        // without a beginning
          "for i in 8 { Y[i] = X[i] }",                                       // no block
      }) {
    OwnedProgram owned = test::parsed(cat("program p(X: input f32[8], Y: output f32[8]) {\n", body, "\n}"));
    const std::vector<HostArray> arguments = arguments_of(owned.program, 1);
    EXPECT_FALSE(ElementValues(owned.program, pointers_to(arguments)).at(owned.program.params[1].buffer, 7)) << body;
  }
}

// An init that has the targets the other way round; steps that are used up.
TEST(ElementValues, OfOtherSumsAreUnknown) {
  auto text = [](const char* init) {
    return cat(
        "program p(X: input f32[8], Y: output f32[], Z: output f32[]) {\n for k in 8 { block A(k: R 8 = k) { init { ",
        init, " }\n Y[], Z[] = Y[] + X[k], Z[] * X[k] } } }");
  };
  OwnedProgram good = test::parsed(text("Y[], Z[] = 0.0, 1.0")), swapped = test::parsed(text("Z[], Y[] = 1.0, 0.0"));
  EXPECT_EQ(compare_all(good.program), 2);
  const std::vector<HostArray> arguments = arguments_of(swapped.program, 1);
  EXPECT_FALSE(ElementValues(swapped.program, pointers_to(arguments)).at(swapped.program.params[1].buffer, 0));
  EXPECT_TRUE(ElementValues(good.program, pointers_to(arguments), 1000).at(good.program.params[1].buffer, 0));
  EXPECT_FALSE(ElementValues(good.program, pointers_to(arguments), 20).at(good.program.params[1].buffer, 0));
}

}  // namespace
}  // namespace tw

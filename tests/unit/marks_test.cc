// Values of marks: which of them are the same, and what no text can say.
#include <gtest/gtest.h>

#include <cmath>

#include "dsl/ir/compare.h"
#include "dsl/ir/print.h"
#include "dsl/schedule/schedule.h"
#include "support/parsed.h"

namespace tw {
namespace {

constexpr const char* kText =
    "program p(A: input f32[4], C: output f32[4]) {\n  for i in 4 {\n    block C(i: S 4 = i) {\n      C[i] = A[i]\n    "
    "}\n  }\n}\n";

OwnedProgram program() { return test::parsed(kText); }

TEST(Marks, DifferentValuesAreDifferentProgramsAndTraces) {
  OwnedProgram base = program();
  Arena arena;
  auto number = [](double value) { return Literal{.tag = Literal::Tag::Number, .number = value}; };
  auto list = [&](std::initializer_list<Literal> items) {
    return Literal{.tag = Literal::Tag::List, .items = arena.list<Literal>(items)};
  };
  auto entry = [&](Str key, Literal value) {
    return Literal{
        .tag = Literal::Tag::Dictionary, .items = arena.list<Literal>({value}), .keys = arena.list<Str>({key})};
  };
  const std::vector<Literal> values = {Literal::of(1),
                                       number(1),
                                       number(-0.0),
                                       number(0),
                                       Literal::of(Str("1")),
                                       list({}),
                                       list({Literal::of(1)}),
                                       list({number(1)}),
                                       list({Literal::of(1), Literal::of(1)}),
                                       list({list({Literal::of(1)})}),
                                       entry("a", Literal::of(1)),
                                       entry("b", Literal::of(1)),
                                       entry("a", Literal::of(2))};
  for (const Literal& a : values) {
    for (const Literal& b : values) {
      Schedule first(base.program), second(base.program);
      ASSERT_TRUE(first.annotate({.block = *first.get_block("C")}, "m", a));
      ASSERT_TRUE(second.annotate({.block = *second.get_block("C")}, "m", b));
      EXPECT_EQ(structurally_equal(first.program(), second.program()), &a == &b) << print(a) << " " << print(b);
      EXPECT_EQ(first.trace().hash() == second.trace().hash(), &a == &b) << print(a) << " " << print(b);
      EXPECT_EQ(print(a) == print(b), &a == &b);
    }
  }
}

TEST(Marks, WhatNoTextSaysIsRejected) {
  OwnedProgram base = program();
  Arena arena;
  Schedule s(base.program);
  BlockId c = *s.get_block("C");
  for (double value : {INFINITY, -INFINITY, NAN}) {
    auto done = s.annotate({.block = c}, "m", {.tag = Literal::Tag::Number, .number = value});
    ASSERT_FALSE(done);
    EXPECT_EQ(to_string(done.rejected()), "annotate: expected a finite number");
  }
  Literal twice{.tag = Literal::Tag::Dictionary,
                .items = arena.list<Literal>({Literal::of(1), Literal::of(2)}),
                .keys = arena.list<Str>({"a", "a"})};
  auto done = s.annotate({.block = c}, "m", twice);
  ASSERT_FALSE(done);
  EXPECT_EQ(to_string(done.rejected()), "annotate: the key \"a\" is there twice");
}

}  // namespace
}  // namespace tw

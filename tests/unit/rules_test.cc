// The rule language, and spaces that follow from rules.
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "dsl/base/text.h"
#include "dsl/ir/print.h"
#include "dsl/text/workload.h"
#include "sampler/space/space.h"
#include "tests/unit/operator_kit.h"

namespace tw {
namespace {

OwnedProgram small_matmul() { return workload("matmul", {{"M", i64{6}}, {"N", i64{8}}, {"K", i64{4}}}); }

// The sketches that one module's set `s` gives.
struct Built {
  Space space;
  std::string errors;
};
Built build(const std::string& text, const Program& program) {
  auto source = std::make_shared<Source>(Source{"my.tw", text});
  Diagnostics diagnostics(*source);
  rules::Library library = rules::Library::built_in();
  std::shared_ptr<const rules::Module> module = rules::parse_module(source, diagnostics);
  if (!module || !library.add(module, diagnostics)) return {{}, diagnostics.render()};
  Built built;
  built.space = build_space(program, *library.find_set("s"), library, {}, built.errors);
  return built;
}

TEST(RuleLanguage, EitherForksAndListsUnroll) {
  OwnedProgram program = small_matmul();
  Built built = build(R"(
rule fork(b: block)
  when is_reduction(b)
{
  i, j, k = loops(b)
  either { } or n in [2, 3] { split(i, [_, n]) } or when extent(j) > 100 { split(j, [_, 2]) }
}
rules s { fork }
)",
                      program.program);
  EXPECT_EQ(built.errors, "");
  EXPECT_EQ(built.space.sketches.size(), 3u);
}

// Each pair of texts: with steps, and with their statements in place. The spaces are the same, forks and draws too.
TEST(Steps, AreAsIfWrittenWhereTheyAreCalled) {
  OwnedProgram program = small_matmul();
  const char* steps = R"(
step halve(l, n) {
  a, c = split(l, [_, n])
  return a, c
}
step tile_rows(i, widths) {
  w ~ widths
  require w > 1
  either { i0, i1 = halve(i, w) } or n in [2, 3] { i0, i1 = halve(i, n); if n == 3 { drop } }
  return i0, i1
}
step tile_all(b) {
  i, j, k = loops(b)
  i0, i1 = tile_rows(i, [1, 2, 3])
  try { split(j, [2, 2]); unroll(i1) } else { vectorize(j) }
  either { skip } or { unroll(i1) }
}
rule r(b: block) when is_reduction(b) {
  tile_all(b)
  parallel(loops(b)[0])
}
rules s { r }
)";
  const char* in_place = R"(
rule r(b: block) when is_reduction(b) {
  i, j, k = loops(b)
  w = sample_categorical([1, 2, 3])
  require w > 1
  either { i0, i1 = split(i, [_, w]) } or n in [2, 3] { i0, i1 = split(i, [_, n]); if n == 3 { drop } }
  try { split(j, [2, 2]); unroll(i1) } else { vectorize(j) }
  either { skip } or { unroll(i1) }
  parallel(loops(b)[0])
}
rules s { r }
)";
  Built with = build(steps, program.program), without = build(in_place, program.program);
  EXPECT_EQ(with.errors + without.errors, "");
  ASSERT_EQ(with.space.sketches.size(), 4u);
  ASSERT_EQ(without.space.sketches.size(), 4u);
  EXPECT_EQ(with.space.rejects.size(), without.space.rejects.size());
  for (std::size_t i = 0; i < 4; ++i) {
    const Sketch &a = with.space.sketches[i], &b = without.space.sketches[i];
    EXPECT_EQ(a.trace.hash(), b.trace.hash()) << a.trace.print() << b.trace.print();
    EXPECT_EQ(a.trace.print().find("parallel") != std::string::npos,
              i % 2 == 1);  // `skip` ends the rule, not the step alone
    EXPECT_EQ(a.places, b.places);
    ASSERT_EQ(a.forks.size(), b.forks.size());
    for (std::size_t f = 0; f < a.forks.size(); ++f) {
      EXPECT_EQ(a.forks[f].place, b.forks[f].place);
      EXPECT_EQ(a.forks[f].choices, b.forks[f].choices);
    }
  }
}

// What a step has done is taken back with the rest of a `try`, and its names are its own.
TEST(Steps, InATryAreTakenBack) {
  OwnedProgram program = small_matmul();
  Built built = build(R"(
step cut(l, most) {
  a, c = split(l, [_, 2])
  seen = 1
  split(c, [most, most])
}
rule r(b: block) when is_reduction(b) {
  seen = 0
  try { cut(loops(b)[0], 1) } else { seen = seen + 4 }
  split(loops(b)[1], [_, seen])
}
rules s { r }
)",
                      program.program);
  EXPECT_EQ(built.errors, "");
  ASSERT_EQ(built.space.sketches.size(), 1u);
  std::string trace = built.space.sketches[0].trace.print();
  EXPECT_EQ(trace.find("[_, 2]"), std::string::npos) << trace;
  EXPECT_NE(trace.find("split(j, [_, 4])"), std::string::npos) << trace;
}

// Names of modules are their own: two of one name live side by side, and each module sees its own, or what another one
// exports.
TEST(Modules, KeepTheirNames) {
  OwnedProgram program = small_matmul();
  rules::Library library = rules::Library::built_in();
  auto add = [&](const char* name, const char* text) {
    auto source = std::make_shared<Source>(Source{name, text});
    Diagnostics diagnostics(*source);
    std::shared_ptr<const rules::Module> module = rules::parse_module(source, diagnostics);
    EXPECT_TRUE(module && library.add(module, diagnostics)) << diagnostics.render();
  };
  add("one.tw",
      "fn width() = 2\nfn points(x) = 7\nexport step cut(l) { split(l, [_, width()]) }\nexport fn shared(f) = "
      "f(points(0))\n");
  add("two.tw",
      "fn width() = 3\nmark narrow: int\nrule r(b: block) when is_reduction(b) {\n  cut(loops(b)[0]); "
      "split(loops(b)[-1], [_, width()])\n"
      "  n = 4; split(loops(b)[2], [_, shared(x -> if x == 7 then width() + n else 1)])\n  annotate(b, \"narrow\", "
      "1)\n}\nrules s { r }\n");
  std::string errors;
  Space space = build_space(program.program, *library.find_set("s"), library, {}, errors);
  EXPECT_EQ(errors, "");
  ASSERT_EQ(space.sketches.size(), 1u);
  std::string trace = space.sketches[0].trace.print();
  for (const char* part : {"[_, 2]", "[_, 3]", "[_, 7]"})
    EXPECT_NE(trace.find(part), std::string::npos) << part << trace;
}

TEST(RuleLanguage, NotationOfDrawsRecordsAndQuantifiers) {
  OwnedProgram program = small_matmul();
  const char* notation = R"(
rule r(b: block)
  when is_reduction(b) and all(l in loops(b): extent(l) > 1) and any((n, l) in enumerate(loops(b)): n == 2 and kind(l) == "R")
    and all(l in []: false) and not any(l in []: true) and not all(l in loops(b): kind(l) == "S") and not any(l in loops(b): extent(l) == 1)
{
  i, j, k = loops(b); tile = {rows: [1, 2], columns: {widths: [2, 4], "most": 4}}
  x, y ~ tile.rows; w ~ tile["columns"].widths
  require x * y * w <= tile.columns.most
  split(i, [_, x * y]); split(j, [_, w])
}
rules s { r }
)";
  const char* plain = R"(
rule r(b: block) when is_reduction(b) {
  i, j, k = loops(b)
  x = sample_categorical([1, 2]); y = sample_categorical([1, 2]); w = sample_categorical([2, 4])
  require x * y * w <= 4
  split(i, [_, x * y]); split(j, [_, w])
}
rules s { r }
)";
  Built a = build(notation, program.program), b = build(plain, program.program);
  EXPECT_EQ(a.errors + b.errors, "");
  ASSERT_EQ(a.space.sketches.size(), 1u);
  EXPECT_EQ(a.space.sketches[0].trace.print(), b.space.sketches[0].trace.print());
}

// Loops of one iteration are kept, unless a rule says otherwise: traces keep the default of the instruction.
TEST(RuleLanguage, KeepsLoopsOfOneIteration) {
  OwnedProgram program = workload("matmul", {{"M", i64{6}}, {"N", i64{8}}, {"K", i64{4}}}, {"relu"});
  auto trace = [&](const std::string& more) {
    Built built = build("rule r(b: block) when is_reduction(b) { compute_at(b, loops(consumers(b)[0])[0]" + more +
                            ") }\nrules s { r }\n",
                        program.program);
    EXPECT_EQ(built.errors, "");
    return built.space.sketches[0].trace.print();
  };
  EXPECT_NE(trace("").find("keep_units = 1"), std::string::npos) << trace("");
  EXPECT_EQ(trace(", keep_units = false").find("keep_units"), std::string::npos) << trace(", keep_units = false");
}

// One operator by hand: the rules of a set make their sketches, schedules theirs.
TEST(Schedules, StandBesideTheRules) {
  OwnedProgram program = small_matmul();
  const char* module = R"(
rule cut(b: block) { i, j, k = loops(b); split(i, [_, 2]) }
schedule by_hand for matmul {
  i, j, k = get_loops(get_block("C"))
  split(j, [_, sample_categorical([2, 4])])
  either { } or { parallel(i) }
}
schedule other for dense { i, j, k = get_loops(get_block("Y")); split(i, [_, 3]) }
schedule large for matmul when extent(loops(blocks()[0])[0]) > 100 { skip }
)";
  auto makers = [&](const std::string& sets) {
    Built built = build(module + sets, program.program);
    EXPECT_EQ(built.errors, "");
    std::vector<std::string> out;
    for (const Sketch& sketch : built.space.sketches) out.push_back(join(sketch.rules, "+"));
    return join(out, " ");
  };
  EXPECT_EQ(makers("rules s { cut; by_hand; other; large }"), "cut by_hand by_hand");
  EXPECT_EQ(makers("rules s { by_hand; cut }"), "cut by_hand by_hand");
  EXPECT_EQ(makers("rules s { other; by_hand }"), "by_hand by_hand");
  EXPECT_EQ(makers("rules s { cut }"), "cut");
  // Nothing that fits: the program as it is.
  EXPECT_EQ(makers("rules s { other; large }"), "");
}

TEST(Schedules, JoinTheSetsOfOthers) {
  auto source = std::make_shared<Source>(Source{"hand.tw", "schedule hand for matmul { skip }\nrules own { }\n"});
  auto later = std::make_shared<Source>(Source{"later.tw", "rules later { auto_inline }\n"});
  Diagnostics diagnostics(*source);
  rules::Library library = rules::Library::built_in();
  ASSERT_TRUE(library.add(rules::parse_module(source, diagnostics), diagnostics) &&
              library.add(rules::parse_module(later, diagnostics), diagnostics));
  auto has = [&](const char* set) {
    const std::vector<rules::RuleUse>& uses = *library.find_set(set);
    return std::count_if(uses.begin(), uses.end(), [](const rules::RuleUse& use) { return use.rule->name == "hand"; });
  };
  EXPECT_EQ(has("cpu"), 1);
  EXPECT_EQ(has("later"), 1);
  EXPECT_EQ(has("own"), 0);
}

TEST(Schedules, ThatDoNotApplySayWhy) {
  OwnedProgram program = small_matmul();
  Built built =
      build("schedule hand for matmul {\n  split(get_loops(get_block(\"C\"))[0], [2, 2])\n}\nrules s { hand }\n",
            program.program);
  EXPECT_EQ(built.errors,
            "my.tw:1:10: error: the schedule does not apply to this program: split: factors multiply to 4, but loop "
            "`i` has extent 6\n"
            "    1 | schedule hand for matmul {\n"
            "      |          ^~~~~~~~~~~~~~~\n"
            "schedule `hand` is left out (matmul)\n");
  EXPECT_EQ(built.space.sketches.size(), 1u);  // the program as it is
}

// A `require` that excludes every draw makes no sketch: what was there stays, and rule, line and condition are named.
TEST(RuleLanguage, AForkThatNoDrawSatisfiesIsNoSketch) {
  OwnedProgram program = small_matmul();
  auto never = [&](const std::string& conditions) {
    Built built =
        build("rule never(b: block) when is_reduction(b) {\n  v = sample_categorical([1, 2, 4])\n" + conditions +
                  "  split(loops(b)[1], [_, v])\n}\n"
                  "rule good(b: block) when is_reduction(b) { split(loops(b)[0], [_, sample_categorical([2, 3])]) }\n"
                  "rules s { never; good }\n",
              program.program);
    EXPECT_EQ(built.errors, "");
    return std::move(built.space);
  };
  for (const char* conditions :
       {"  require v > 100\n", "  require v > 1\n  require v < 2\n", "  require v > 1\n  prefer(v - 4)\n"}) {
    Space space = never(conditions);
    ASSERT_EQ(space.sketches.size(), 1u) << conditions;
    EXPECT_EQ(space.sketches[0].rules, std::vector<std::string>{"good"});
    ASSERT_EQ(space.rejects.size(), 1u) << conditions;
    EXPECT_EQ(space.rejects[0].rule, "never");
    bool is_second = std::string_view(conditions).find("v > 1\n") != std::string_view::npos;
    bool is_prefer = std::string_view(conditions).find("prefer") != std::string_view::npos;
    EXPECT_EQ(space.rejects[0].instruction, is_prefer ? "prefer" : "require");
    EXPECT_NE(space.rejects[0].reason.find(is_second ? "(my.tw:4)" : "(my.tw:3)"), std::string::npos)
        << space.rejects[0].reason;
    EXPECT_NE(space.rejects[0].reason.find(is_prefer   ? "v - 4"
                                           : is_second ? "v < 2"
                                                       : "v > 100"),
              std::string::npos)
        << space.rejects[0].reason;
    EXPECT_EQ(space.visits[0].kept, 0);
  }
  EXPECT_EQ(never("  require v > 2\n").sketches[0].rules, (std::vector<std::string>{"never", "good"}));
}

TEST(RuleLanguage, BuildingASpaceCanBeStopped) {
  OwnedProgram program = small_matmul();
  rules::Library library = rules::Library::built_in();
  std::string errors;
  int asked = 0;
  Space stopped =
      build_space(program.program, *library.find_set("cpu"), library, {}, errors, 1, [&] { return ++asked > 3; });
  Space whole = build_space(program.program, *library.find_set("cpu"), library, {}, errors);
  EXPECT_LE(asked, 5);  // not again for each block
  EXPECT_LT(stopped.visits.size(), whole.visits.size());
  EXPECT_FALSE(stopped.sketches.empty());
}

TEST(RuleLanguage, SkipKeepsAndDropRemovesAFork) {
  OwnedProgram program = small_matmul();
  Built built = build(R"(
rule fork(b: block) {
  i, j, k = loops(b)
  either { skip } or { split(i, [_, 2]); drop } or { split(j, [_, 2]) }
}
rules s { fork }
)",
                      program.program);
  EXPECT_EQ(built.errors, "");
  EXPECT_EQ(built.space.sketches.size(), 2u);
}

TEST(RuleLanguage, TryTakesBackEverythingInside) {
  OwnedProgram program = small_matmul();
  Built built = build(R"(
rule attempt(b: block) {
  i, j, k = loops(b)
  try { split(i, [_, 2]); parallel(k) } else { split(j, [_, 4]) }
}
rules s { attempt }
)",
                      program.program);
  ASSERT_EQ(built.errors, "");
  ASSERT_EQ(built.space.sketches.size(), 1u);
  EXPECT_EQ(built.space.sketches[0].trace.print(0),
            "b_C = get_block(\"C\")\ni, j, k = get_loops(b_C)\nj_0, j_1 = split(j, [_, 4])\n");
}

TEST(RuleLanguage, ARejectedForkIsNoSketchAndIsExplained) {
  OwnedProgram program = small_matmul();
  Built built = build(R"(
rule wrong(b: block) {
  i, j, k = loops(b)
  either { split(i, [2, 2]) } or { split(i, [_, 2]) }
}
rules s { wrong }
)",
                      program.program);
  EXPECT_EQ(built.errors, "");
  EXPECT_EQ(built.space.sketches.size(), 1u);
  ASSERT_EQ(built.space.rejects.size(), 1u);
  EXPECT_EQ(built.space.rejects[0].reason, "split: factors multiply to 4, but loop `i` has extent 6");
}

TEST(RuleLanguage, ConditionsMayNotDependOnSamples) {
  OwnedProgram program = small_matmul();
  Built built = build(R"(rule open(b: block) {
  r = sample_categorical([1, 2])
  if r > 1 { skip }
}
rules s { open }
)",
                      program.program);
  EXPECT_EQ(built.errors,
            "my.tw:3:6: error: this condition depends on a sample, so the space would depend on a draw\n"
            "    3 |   if r > 1 { skip }\n"
            "      |      ^~~~~\n"
            "note: `if`, `when` and `either` take fixed values only; use `require`, or a list of sketches\n");
}

TEST(RuleLanguage, ErrorsNamePlaceAndSuggestion) {
  OwnedProgram program = small_matmul();
  struct Case {
    const char* text;
    const char* expected;  // a part of the rendered errors
  };
  const Case cases[] = {
      {"rules s { auto_inlin }", "1:11: error: unknown rule `auto_inlin`"},
      {"rules s { auto_inlin }", "did you mean `auto_inline`?"},
      {"rules s { register_tiling(nr = [1]) }", "rule `register_tiling` has no parameter `nr`"},
      {"rule auto_inline(b: block) { skip }", "there already is a rule `auto_inline`"},
      {"rule a(b: block) { x = splitt(b) }\nrules s { a }", "unknown function or instruction `splitt`"},
      {"rule a(b: block) { x = splitt(b) }\nrules s { a }", "did you mean `split`?"},
      {"rule a(b: block) { x = y }\nrules s { a }", "`y` is not defined here"},
      {"rule a(b: block) { x = target.vector_bit }\nrules s { a }", "did you mean `vector_bits`?"},
      {"rule a(b: block) { for x in 3 { skip } }\nrules s { a }", "expected a list, found an integer"},
      {"rule a(b: block) { either x in range(300) { skip } }\nrules s { a }",
       "the rule makes more than 256 sketches of one block"},
      {"fn f(x) = f(x)\nrule a(b: block) { y = f(1) }\nrules s { a }", "functions nested more than 64 deep"},
      {"rule a(b: block) { for x in range(9999) { for y in range(9999) { z = x } } }\nrules s { a }",
       "more than 1000000 steps"},
      {"rule a(b: block) { 1 + 2 }", "this expression has no effect"},
      {"rule a(b: blok) { skip }", "expected `block` or `program`"},
  };
  for (const Case& c : cases)
    EXPECT_NE(build(c.text, program.program).errors.find(c.expected), std::string::npos)
        << c.text << "\n"
        << build(c.text, program.program).errors;
}

TEST(Space, DoesNotDependOnTheSeed) {
  rules::Library library = rules::Library::built_in();
  for (const Signature& signature : signatures(operator_library())) {
    OwnedProgram made = workload(signature.name, arguments_for(signature));
    std::vector<Hash128> first;
    for (u64 seed = 1; seed <= 20; ++seed) {
      std::string errors;
      Space space = build_space(made.program, *library.find_set("cpu"), library, {}, errors, seed);
      std::vector<Hash128> hashes;
      for (const Sketch& sketch : space.sketches) {
        hashes.push_back(sketch.trace.with_decisions(std::vector<Decision>(sketch.trace.sample_count())).hash());
      }
      if (seed == 1) first = hashes;
      EXPECT_EQ(hashes, first) << signature.name << " with seed " << seed;
    }
  }
}

TEST(Space, TheReferenceTilesWithNoCacheOrOneOfTwo) {
  rules::Library library = rules::Library::built_in();
  std::string errors;
  OwnedProgram made = small_matmul();
  Space space = build_space(made.program, *library.find_set("reference-cpu"), library, {}, errors);
  EXPECT_EQ(errors, "");
  EXPECT_EQ(space.sketches.size(), 3u);
}

}  // namespace
}  // namespace tw

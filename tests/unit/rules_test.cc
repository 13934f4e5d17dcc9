// Rules: the language, and what the built-in sets do to every operator of the library.
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "backends/device_form.h"
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

struct Drawn {
  std::string reasons, unlowered;  // of rejects, in schedules and in lowering
  int draws = 0, rejected = 0, lowered = 0;
};

// Sets for devices are lowered to kernels, which the interpreter runs.
Result<LoweredProgram> lowered_for(std::string_view set, Arena& arena, const Program& program) {
  LoweringOptions options{.max_instructions = 20000};
  if (set != "opencl") return lower(arena, program, options);
  TW_TRY(LoweredGpuProgram kernels, lower_gpu(arena, program, options, {}));
  return as_interpreted(arena, kernels);
}

// Draws of every sketch compute what the operator computes.
void check_space(const OwnedProgram& made, const std::string& what, const char* set, int threads, Drawn& drawn) {
  static const rules::Library library = rules::Library::built_in();
  rules::TargetFacts target{
      .vector_bits = 256, .vector_registers = 16, .threads = threads, .group_threads = 256, .shared_bytes = 32 << 10};
  std::string errors;
  Space space = build_space(made.program, *library.find_set(set), library, target, errors);
  ASSERT_EQ(errors, "") << what;
  ASSERT_FALSE(space.sketches.empty()) << what;
  OutputValues expected = outputs_of(made.program, 1);
  for (std::size_t s = 0; s < space.sketches.size(); ++s) {
    const Sketch& sketch = space.sketches[s];
    u64 seeds = space.sketches.size() > 8 ? 1 : 2;
    for (u64 seed = 0; seed < seeds; ++seed) {
      Arena arena;
      State state(arena, made.program);
      Rng rng(seed, s);
      std::vector<Decision> decisions(sketch.trace.sample_count());
      ASSERT_TRUE(sketch.prior->draw(decisions, rng)) << what;
      Status status = replay(sketch.trace, state, decisions, ReplayMode::Adapt, &rng);
      ++drawn.draws;
      if (!status) {
        ++drawn.rejected;
        drawn.reasons += cat(what, ": ", to_string(status.rejected()), "\n");
        continue;
      }
      EXPECT_TRUE(near(outputs_of(state.program(), 1), expected))
          << what << "\n"
          << sketch.trace.with_decisions(decisions).print() << print(state.program());
      Result<LoweredProgram> lowered = lowered_for(set, arena, state.program());
      if (!lowered) {
        drawn.unlowered += cat(what, ": ", to_string(lowered.rejected()), "\n");
        continue;
      }
      ++drawn.lowered;
      EXPECT_TRUE(near(outputs_of(*lowered, 1), expected)) << what << " lowered\n"
                                                           << sketch.trace.with_decisions(decisions).print();
    }
  }
}

class EveryOperator : public testing::TestWithParam<std::tuple<const char*, int>> {};

TEST_P(EveryOperator, DrawsComputeTheSame) {
  auto [set, threads] = GetParam();
  Drawn drawn;
  for (const Signature& signature : signatures(operator_library())) {
    check_space(workload(signature.name, arguments_for(signature)), signature.name, set, threads, drawn);
  }
  check_space(workload("dense", {{"M", i64{7}}, {"N", i64{20}}, {"K", i64{9}}}, {"bias", "gelu"}), "dense bias gelu",
              set, threads, drawn);
  check_space(workload("dense", {{"M", i64{1}}, {"N", i64{150}}, {"K", i64{9}}}), "dense of one row", set, threads,
              drawn);
  EXPECT_GT(drawn.draws, 50);
  EXPECT_GE(drawn.lowered, drawn.draws * 9 / 10) << drawn.lowered << " of " << drawn.draws;
  // The space holds next to no point that an instruction rejects.
  EXPECT_LE(drawn.rejected, drawn.draws / 100) << drawn.rejected << " of " << drawn.draws << "\n" << drawn.reasons;
}

// The space of a convolution for AVX-512, as text: all its sketches.
std::string space_text(const OwnedProgram& made) {
  static const rules::Library library = rules::Library::built_in();
  std::string errors, text;
  Space space = build_space(made.program, *library.find_set("cpu"), library,
                            {.vector_bits = 512, .vector_registers = 32, .threads = 1}, errors);
  EXPECT_EQ(errors, "");
  for (const Sketch& sketch : space.sketches) text += sketch.trace.print(0);
  return text;
}

// Tiles do not cross the border of a group, and hold rows of one phase of a transposed convolution.
TEST(RegisterTiling, GroupsAndPhasesAreLoopsOfTheirOwn) {
  auto grouped = [](i64 ci, i64 co, i64 groups) {
    return workload("conv2d", {{"N", i64{1}},
                               {"H", i64{4}},
                               {"W", i64{7}},
                               {"CI", ci},
                               {"CO", co},
                               {"K", i64{3}},
                               {"padding", i64{2}},
                               {"dilation", i64{2}},
                               {"groups", groups}});
  };
  std::string text = space_text(grouped(32, 48, 4));
  EXPECT_NE(text.find("split(co, [_, 12])"), std::string::npos) << text;
  EXPECT_NE(text.find("width = sample_categorical([12])"), std::string::npos) << text;
  EXPECT_NE(text.find("reorder([g, n, y, i1, j1"), std::string::npos) << "one group's weights stay in the caches\n"
                                                                      << text;
  EXPECT_NE(text.find("reorder([n, y, i1, g, j1"), std::string::npos) << "pixels are read whole\n" << text;
  EXPECT_NE(space_text(grouped(8, 96, 2)).find("width = sample_categorical([16, 48])"), std::string::npos);
  EXPECT_EQ(space_text(grouped(8, 96, 1)).find("width = "), std::string::npos);
  auto transposed = [](i64 size, i64 stride, i64 window) {
    return workload("conv2d_transposed", {{"N", i64{1}},
                                          {"H", size},
                                          {"W", size},
                                          {"CI", i64{2}},
                                          {"CO", i64{20}},
                                          {"K", window},
                                          {"stride", stride},
                                          {"padding", i64{1}}});
  };
  for (auto [size, stride, window] : {std::array<i64, 3>{5, 2, 4}, {5, 2, 3}, {6, 3, 4}}) {
    std::string phases = space_text(transposed(size, stride, window));
    EXPECT_NE(phases.find(cat("split(x, [_, ", stride, "])")), std::string::npos);
    EXPECT_EQ(phases.find("transform_layout(b, "), std::string::npos) << "rows of a phase are stored where they belong";
  }
  EXPECT_EQ(space_text(transposed(5, 1, 3)).find("split(x, [_, 1])"), std::string::npos);
  Drawn drawn;
  for (i64 groups : {2, 3})
    check_space(grouped(2 * groups, 7 * groups, groups), cat("conv2d of ", groups, " groups"), "cpu", 2, drawn);
  check_space(grouped(2, 16, 2), "conv2d of groups of a vector", "cpu", 1, drawn);
  for (auto [stride, window] : {std::pair<i64, i64>{2, 3}, {2, 4}, {3, 4}, {3, 5}, {4, 5}})
    check_space(transposed(3, stride, window), cat("conv2d_transposed by ", stride, ", window ", window), "cpu", 2,
                drawn);
  EXPECT_GE(drawn.lowered, drawn.draws * 9 / 10) << drawn.unlowered;
  EXPECT_LE(drawn.rejected, drawn.draws / 100) << drawn.reasons;
}

// A row of the tile uses the loaded vectors of columns again: not along a loop that moves their operand, too.
TEST(RegisterTiling, RowsUseTheVectorsOfColumnsAgain) {
  std::string capsules = space_text(workload("capsule_conv2d", {{"N", i64{1}},
                                                                {"H", i64{4}},
                                                                {"W", i64{4}},
                                                                {"CI", i64{8}},
                                                                {"CO", i64{32}},
                                                                {"K", i64{3}},
                                                                {"padding", i64{1}}}));
  EXPECT_NE(capsules.find("split(i, [_, r])"), std::string::npos) << capsules;
  EXPECT_EQ(capsules.find("split(j, [_, r])"), std::string::npos) << "weights move along j";
}

// Rows of an operand that is read as it is may be asked for ahead, where the hardware does not do that by itself.
TEST(RegisterTiling, TheNextRowIsAskedForIfItIsFarAway) {
  auto asks = [](const char* name, i64 columns, i64 bytes, DType type = DType::F32) {
    std::string text = space_text(workload(name, {{"M", i64{64}}, {"N", columns}, {"K", i64{8}}, {"T", type}}));
    return text.find(cat("sample_categorical([0, ", bytes, "])")) != std::string::npos;
  };
  EXPECT_TRUE(asks("matmul", 512, 2048));
  EXPECT_TRUE(asks("matmul", 512, 1024, DType::F16));
  EXPECT_FALSE(asks("matmul", 128, 512));
  EXPECT_FALSE(asks("dense", 512, 2048)) << "weights are laid out before the call";
}

// A multiplication can load its operand by itself, unless that is converted first.
TEST(RegisterTiling, SumsTakeTheRegistersOfOperandsThatAreNotConverted) {
  auto text = [](DType type) {
    return space_text(workload("matmul", {{"M", i64{64}}, {"N", i64{64}}, {"K", i64{5}}, {"T", type}}));
  };
  const std::string one = "require((((r * v) + 1) + 1) <=", all = "require((((r * v) + v) + 1) <=";
  EXPECT_NE(text(DType::F32).find(one), std::string::npos) << text(DType::F32);
  EXPECT_EQ(text(DType::F32).find(all), std::string::npos);
  for (DType type : {DType::BF16, DType::F16, DType::I8}) {
    EXPECT_EQ(text(type).find(one), std::string::npos) << name_of(type);
    EXPECT_NE(text(type).find(all), std::string::npos) << name_of(type) << "\n" << text(type);
  }
}

// Columns that do not fill their last vector may be padded: in a copy of a constant before the call, of another operand
// in it.
TEST(RegisterTiling, ColumnsArePaddedWhereTheyFillNoVector) {
  EXPECT_EQ(space_text(workload("dense", {{"M", i64{9}}, {"N", i64{64}}, {"K", i64{5}}})).find("pad_einsum("),
            std::string::npos);
  EXPECT_NE(space_text(workload("dense", {{"M", i64{9}}, {"N", i64{61}}, {"K", i64{5}}})).find("pad_einsum("),
            std::string::npos);
  std::string batches =
      space_text(workload("batch_matmul", {{"B", i64{2}}, {"M", i64{9}}, {"N", i64{47}}, {"K", i64{5}}}));
  EXPECT_NE(batches.find("pad_einsum("), std::string::npos);
  EXPECT_NE(batches.find("\ncompute_at("), std::string::npos) << "one product's operand at a time\n" << batches;
  Drawn drawn;
  check_space(workload("dense", {{"M", i64{9}}, {"N", i64{21}}, {"K", i64{5}}}, {"bias", "gelu"}), "dense bias gelu",
              "cpu", 2, drawn);
  check_space(workload("batch_matmul", {{"B", i64{2}}, {"M", i64{5}}, {"N", i64{19}}, {"K", i64{7}}}), "batch_matmul",
              "cpu", 1, drawn);
  check_space(workload("transpose_batch_matmul", {{"B", i64{1}}, {"S", i64{11}}, {"H", i64{2}}, {"D", i64{6}}}),
              "transpose_batch_matmul", "cpu", 2, drawn);
  EXPECT_EQ(drawn.lowered, drawn.draws) << drawn.unlowered;
  EXPECT_EQ(drawn.rejected, 0) << drawn.reasons;
}

// Programs of rows that no operator of the library has: batches, a product before, a result that is no row, several
// outputs, a shared vector, tails.
constexpr const char* kRows = R"(workload heads_softmax() {
  input X: f32[2, 3, 5, 48]
  Top[b: 2, h: 3, i: 5] = max(j: 48) X[b, h, i, j]
  E[b: 2, h: 3, i: 5, j: 48] = exp(X[b, h, i, j] - Top[b, h, i])
  S[b: 2, h: 3, i: 5] = sum(j: 48) E[b, h, i, j]
  output Y: f32[b: 2, h: 3, i: 5, j: 48] = E[b, h, i, j] / S[b, h, i]
}
workload one_head() {
  input X: f32[1, 1, 5, 37]
  Top[b: 1, h: 1, i: 5] = max(j: 37) X[b, h, i, j]
  S[b: 1, h: 1, i: 5] = sum(j: 37) exp(X[b, h, i, j] - Top[b, h, i])
  output Y: f32[b: 1, h: 1, i: 5] = log(S[b, h, i]) + Top[b, h, i]
}
workload scores() {
  input Q: f32[6, 8]
  input W: f32[40, 8]
  C[i: 6, j: 40] = sum(k: 8) Q[i, k] * W[j, k]
  Top[i: 6] = max(j: 40) C[i, j]
  E[i: 6, j: 40] = exp(C[i, j] - Top[i])
  S[i: 6] = sum(j: 40) E[i, j]
  output Y: f32[i: 6, j: 40] = E[i, j] / S[i]
}
workload activation() {
  input Q: f32[6, 8]
  const W: f32[32, 8]
  C[i: 6, j: 32] = sum(k: 8) Q[i, k] * W[j, k]
  G[i: 6, j: 32] = C[i, j] / (1.0 + exp(0.0 - C[i, j]))
  S[i: 6] = sum(j: 32) G[i, j] * G[i, j]
  output Y: f32[i: 6, j: 32] = G[i, j] / sqrt(S[i] / 32 + 0.00001)
}
workload residual() {
  input X: f32[7, 33], R: f32[7, 33]
  output Z: f32[i: 7, j: 33] = X[i, j] + R[i, j]
  S[i: 7] = sum(j: 33) Z[i, j]
  output Y: f32[i: 7, j: 33] = Z[i, j] - S[i] / 33
}
workload vector_product() {
  input X: f32[9, 70], W: f32[70]
  output Y: f32[i: 9] = sum(k: 70) X[i, k] * W[k]
}
workload whole() {
  input X: f32[200]
  output Y: f32[] = sum(k: 200) X[k] * X[k]
})";

// Sums across rows: with a tail of columns, of several loops, two of one input, of halves.
constexpr const char* kColumns = R"(workload vector_matrix() {
  input X: f32[130], W: f32[130, 37]
  output Y: f32[j: 37] = sum(k: 130) X[k] * W[k, j]
}
workload statistics() {
  input X: f32[4, 6, 8, 16]
  S[c: 16] = sum(n: 4, h: 6, w: 8) X[n, h, w, c]
  Q[c: 16] = sum(n: 4, h: 6, w: 8) X[n, h, w, c] * X[n, h, w, c]
  output M: f32[c: 16] = S[c] / 192.0
  output V: f32[c: 16] = Q[c] / 192.0 - S[c] * S[c] / 36864.0
}
workload gradient() {
  input G: f16[2, 128, 40]
  S[b: 2, j: 40] = sum(i: 128) f32(G[b, i, j])
  output B: f16[b: 2, j: 40] = f16(S[b, j])
}
workload highest() {
  input X: f32[200, 24]
  output Y: f32[j: 24] = max(i: 200) X[i, j]
})";

OwnedProgram program_of(const char* text, const std::string& name) {
  Source source{"sums.tw", text};
  Diagnostics diagnostics(source);
  std::optional<OwnedProgram> program = instantiate(parse_workloads(source, diagnostics), name, {}, {}, diagnostics);
  EXPECT_TRUE(program) << diagnostics.render();
  return program ? std::move(*program) : small_matmul();
}

TEST(Rows, DrawsComputeTheSame) {
  Drawn drawn;
  for (const char* name :
       {"heads_softmax", "one_head", "scores", "activation", "residual", "vector_product", "whole"}) {
    for (const char* set : {"cpu", "opencl"}) check_space(program_of(kRows, name), cat(name, " ", set), set, 2, drawn);
  }
  EXPECT_GT(drawn.draws, 30);
  EXPECT_EQ(drawn.rejected, 0) << drawn.reasons;
  EXPECT_EQ(drawn.lowered, drawn.draws) << drawn.unlowered;
}

// Outputs without a sum, and the place of a maximum.
constexpr const char* kElements = R"(workload transpose() {
  input X: f32[37, 53]
  output Y[j: 53, i: 37] = X[i, j]
}
workload planes() {
  input X: f32[2, 5, 19, 3]
  output Y[b: 2, c: 3, i: 5, j: 19] = X[b, i, j, c]
}
workload stencil() {
  input X: f32[13, 41]
  output Y[i: 11, j: 39] = 0.2 * (X[i + 1, j + 1] + X[i, j + 1] + X[i + 2, j + 1] + X[i + 1, j] + X[i + 1, j + 2])
}
workload sum_and_transpose() {
  input X: f32[21, 34], Z: f32[34, 21]
  output Y[j: 34, i: 21] = X[i, j] + Z[j, i]
}
workload top() {
  input X: f32[6, 45]
  output At: i64, Best[i: 6] = argmax(k: 45) X[i, k]
}
workload least() {
  input X: f32[3, 2, 33]
  output At: i64, Best[i: 3, j: 2] = argmin(k: 33) X[i, j, k]
})";

TEST(Elements, HaveSpacesWhoseDrawsComputeTheSame) {
  Drawn drawn;
  for (const char* name : {"transpose", "planes", "stencil", "sum_and_transpose", "top", "least"}) {
    for (int threads : {1, 2})
      check_space(program_of(kElements, name), cat(name, " for ", threads), "cpu", threads, drawn);
  }
  EXPECT_EQ(drawn.rejected, 0) << drawn.reasons;
  EXPECT_EQ(drawn.lowered, drawn.draws) << drawn.unlowered;
  // Tiles of both axes, vectors of results and vectors of operands.
  std::string text = space_text(program_of(kElements, "transpose"));
  for (const char* wanted : {"i1, ir = split(", "vectorize(jv)", "vectorize(ir)", "reorder([j0, i0", "reorder([i0, j0"})
    EXPECT_NE(text.find(wanted), std::string::npos) << wanted << "\n" << text;
  text = space_text(program_of(kElements, "stencil"));
  for (const char* wanted : {"unroll(ir)", "vectorize(jv)", "reorder([j0, i0", "reorder([i0, j0"})
    EXPECT_NE(text.find(wanted), std::string::npos) << wanted << "\n" << text;
  EXPECT_NE(space_text(program_of(kElements, "top")).find("rfactor("), std::string::npos);
}

TEST(ColumnSums, DrawsComputeTheSame) {
  Drawn drawn;
  for (const char* name : {"vector_matrix", "statistics", "gradient", "highest"}) {
    for (int threads : {1, 2, 3})
      check_space(program_of(kColumns, name), cat(name, " for ", threads), "cpu", threads, drawn);
  }
  EXPECT_GT(drawn.draws, 40);
  EXPECT_EQ(drawn.rejected, 0) << drawn.reasons;
  EXPECT_EQ(drawn.lowered, drawn.draws) << drawn.unlowered;
}

// Both forks: all rows by one thread, and parts of them; sums are in registers, columns in vectors.
TEST(ColumnSums, AreVectorsInRegisters) {
  rules::Library library = rules::Library::built_in();
  OwnedProgram made = program_of(kColumns, "vector_matrix");
  std::string errors;
  Space space = build_space(made.program, *library.find_set("cpu"), library,
                            {.vector_bits = 256, .vector_registers = 16, .threads = 2}, errors);
  ASSERT_EQ(space.sketches.size(), 2u) << errors;
  for (const Sketch& sketch : space.sketches) {
    std::string trace = sketch.trace.print();
    EXPECT_EQ(trace.find("split_k(") != std::string::npos, &sketch == &space.sketches[1]) << trace;
    for (const char* word : {"promote(", "vectorize(", "parallel("})
      EXPECT_NE(trace.find(word), std::string::npos) << trace;
  }
}

// All stages of softmax and the norms are in one loop over rows, which threads share.
TEST(Rows, AreComputedTogether) {
  rules::Library library = rules::Library::built_in();
  OwnedProgram programs[] = {workload("softmax", {{"M", i64{8}}, {"N", i64{64}}}),
                             workload("layernorm", {{"M", i64{8}}, {"N", i64{64}}}),
                             workload("rmsnorm", {{"M", i64{8}}, {"N", i64{64}}}), program_of(kRows, "heads_softmax"),
                             program_of(kRows, "one_head")};
  for (const OwnedProgram& made : programs) {
    std::string errors;
    Space space = build_space(made.program, *library.find_set("cpu"), library,
                              {.vector_bits = 256, .vector_registers = 16, .threads = 2}, errors);
    ASSERT_EQ(space.sketches.size(), 1u) << made.program.name << errors;
    Arena arena;
    State state(arena, made.program);
    Rng rng(1, 0);
    std::vector<Decision> decisions(space.sketches[0].trace.sample_count());
    ASSERT_TRUE(space.sketches[0].prior->draw(decisions, rng));
    Status replayed = replay(space.sketches[0].trace, state, decisions, ReplayMode::Adapt, &rng);
    ASSERT_TRUE(replayed) << made.program.name << to_string(replayed.rejected());
    const For* rows = as<For>(state.program().body);
    ASSERT_NE(rows, nullptr) << print(state.program());
    EXPECT_EQ(rows->loop_kind, LoopKind::Parallel) << print(state.program());
    int vectors = 0;
    for_each<For>(rows, [&](const For* loop) { vectors += loop->loop_kind == LoopKind::Vectorize; });
    EXPECT_GE(vectors, 3) << print(state.program());
  }
}

// Inputs are copied into other layouts before the kernel.
TEST(FreeLayouts, DrawsComputeTheSame) {
  Drawn drawn;
  for (const char* name : {"matmul", "batch_matmul", "conv2d"}) {
    for (const Signature& signature : signatures(operator_library())) {
      if (signature.name != name) continue;
      OwnedProgram free = workload(name, arguments_for(signature));
      mark_free_layout(free);
      check_space(free, std::string(name) + " with free layouts", "cpu", 1, drawn);
    }
  }
  EXPECT_GT(drawn.draws, 30);
  EXPECT_EQ(drawn.rejected, 0);
}

INSTANTIATE_TEST_SUITE_P(Sets, EveryOperator,
                         testing::Combine(testing::Values("cpu", "reference-cpu"), testing::Values(1, 2)),
                         [](const auto& info) {
                           std::string name = std::get<0>(info.param);
                           std::replace(name.begin(), name.end(), (char)45, (char)95);
                           return name + "_" + std::to_string(std::get<1>(info.param));
                         });

INSTANTIATE_TEST_SUITE_P(Devices, EveryOperator, testing::Combine(testing::Values("opencl"), testing::Values(1)));

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

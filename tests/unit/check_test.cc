// The commands check, explain and reduce, as the real program, and what they stand on.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <filesystem>

#include "backends/meaning.h"
#include "dsl/base/text.h"
#include "dsl/text/workload.h"
#include "runtime/store/trace_file.h"
#include "sampler/search/check_rule.h"
#include "support/device_schedules.h"
#include "support/parsed.h"
#include "support/run_program.h"
#include "support/scheduled.h"
#include "support/support.h"

namespace tw {
namespace {

using test::Finished;
using test::tracewright;

class Check : public testing::Test {
 protected:
  void write(const std::string& name, const std::string& text) { test::write_file(folder.path() + "/" + name, text); }
  Finished run(std::vector<std::string> words) { return tracewright(std::move(words), {.folder = folder.path()}); }
  boost::json::object json_of(const Finished& finished) {
    boost::system::error_code error;
    boost::json::value value = boost::json::parse(finished.out, error);
    EXPECT_FALSE(error) << finished.out << finished.err;
    return value.is_object() ? value.as_object() : boost::json::object{};
  }
  test::TemporaryDirectory folder;
};

constexpr const char* tiling = R"(rule tile_rows(b: block)
  doc "rows and columns in tiles that divide"
  when is_reduction(b) and has_reuse(b) and len(spatial_loops(b)) == 2
{
  i, j = spatial_loops(b)
  i0, i1 = split(i, sample_perfect_tile(i, 2))
  j0, j1 = split(j, sample_perfect_tile(j, 2))
  reorder([i0, j0, i1, j1])
  try { parallel(reduction_loops(b)[0]) }
}
)";

TEST_F(Check, SaysWhatARuleFitsWhyNotAndProvesItByRunning) {
  write("tile.tw", tiling);
  Finished finished = run({"check", "tile.tw", "--op", "dense", "--op", "batch_matmul", "--op", "softmax", "--target",
                           "cpu -threads=1", "--draws", "60"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.out,
            "rule tile_rows: rows and columns in tiles that divide\n"
            "  fits dense(M = 16, N = 64, K = 13), block Y: 1 sketch\n"
            "  fits dense(M = 17, N = 61, K = 12), block Y: 1 sketch\n"
            "  `has_reuse(b)` is false for softmax S, softmax Top\n"
            "  `is_reduction(b)` is false for softmax Y, softmax E\n"
            "  `len(spatial_loops(b)) == 2` is false for batch_matmul Z\n"
            "  rejected 2 times while the space was built: parallel: loop `k` feeds the reduction iter `k`; "
            "expected it to feed only spatial iters\n"
            "  2 sketches of 2 programs; 60 draws ran: 0 rejected, 0 computed something else\n"
            "  97 % of all drawn tile levels were above 1, the rarest level in 97 % of its draws; most draws are the "
            "best of 16 in this, "
            "of the prior's own 84 % are\n");
}

// Only ranking needs to know a device.
TEST_F(Check, WorksForDevicesWithoutADescription) {
  write("tile.tw", tiling);
  Finished finished = run({"check", "tile.tw", "--op", "dense", "--target", "cuda -arch=sm_120", "--draws", "8"});
  EXPECT_NE(finished.out.find("fits dense(M = 16, N = 64, K = 13), block Y: 1 sketch\n"), std::string::npos)
      << finished.out << finished.err;
}

TEST_F(Check, EveryTileLevelIsAboveOneInHalfOfTheDraws) {
  // As the reference tiles: four levels outside, two for the reduction.
  write("reference.tw", "rules s { multi_level_tiling }\n");
  boost::json::object all =
      json_of(run({"check", "reference.tw", "--op", "dense", "--op", "matmul", "--draws", "100", "--json"}));
  const boost::json::object& set = all.at("checked").at(0).as_object();
  EXPECT_GE(set.at("draws").as_int64(), 100);
  EXPECT_EQ(set.at("different").as_int64(), 0);
  EXPECT_EQ(set.at("rejected").as_int64(), 0);
  const boost::json::object& rarest = set.at("rarest_tile_level").as_object();
  EXPECT_GT(rarest.at("drawn").as_int64(), 50);
  EXPECT_GE(2 * rarest.at("above_one").as_int64(), rarest.at("drawn").as_int64());
}

TEST_F(Check, ARuleOfWhichEveryDrawIsRejectedIsNotProven) {
  write("never.tw", R"(rule never(b: block)
  when is_reduction(b)
{
  q = cache_read(b, 0, "global"); annotate(q, "prepack", 1)
}
)");
  Finished finished = run({"check", "never.tw", "--op", "matmul", "--draws", "10"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(
      finished.out.find("draws rejected 30 times: prepack: reads `A`, which is not constant and has no free layout"),
      std::string::npos)
      << finished.out;
}

// The untouched program proves nothing of a rule.
TEST_F(Check, ARuleThatAddsNoSketchIsNotProven) {
  for (const char* body : {"split(loops(b)[0], [_, _])", "either when 1 > 2 { unroll(loops(b)[0]) }",
                           "bind(loops(b)[0], \"threadidx.x\")", "skip"}) {
    write("none.tw", cat("rule none_of_it(b: block)\n  when is_reduction(b)\n{\n  ", body, "\n}\n"));
    Finished finished = run({"check", "none.tw", "--op", "matmul", "--op", "dense"});
    EXPECT_EQ(finished.code, 1) << body;
    EXPECT_NE(finished.out.find("  the rule adds no sketch anywhere\n"), std::string::npos) << finished.out;
    EXPECT_EQ(finished.out.find("draws ran"), std::string::npos) << finished.out;
  }
  write("hand.tw", "schedule hand for densee { parallel(get_loops(get_block(\"Y\"))[0]) }\n");
  Finished hand = run({"check", "hand.tw", "--op", "matmul"});
  EXPECT_EQ(hand.code, 1);
  EXPECT_NE(hand.out.find("is for `densee`, which none of the programs is: did you mean `dense`?"), std::string::npos)
      << hand.out;
}

TEST_F(Check, ARuleThatGoesWrongDoesNotEndTheCheckOfTheOthers) {
  write("two.tw",
        "rule wrong(b: block) { x = loops(b)[9] }\nrule right(b: block) when is_reduction(b) { parallel(loops(b)[0]) "
        "}\n");
  Finished finished = run({"check", "two.tw", "--op", "matmul", "--draws", "5"});
  EXPECT_EQ(finished.code, 2);
  EXPECT_NE(finished.err.find("rule `wrong` is left out (at block `C` of matmul)\n"), std::string::npos)
      << finished.err;
  EXPECT_NE(finished.out.find("rule right\n  fits matmul"), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find("5 draws ran: 0 rejected, 0 computed something else"), std::string::npos) << finished.out;
}

TEST_F(Check, ErrorsInAModuleAreDiagnosticsAndExitCode2) {
  write("bad.tw", "rule a(b: block) {\n  x = splitt(b)\n}\n");
  Finished finished = run({"check", "bad.tw", "--op", "dense"});
  EXPECT_EQ(finished.code, 2);
  EXPECT_EQ(finished.out, "");
  EXPECT_EQ(
      finished.err,
      "bad.tw:2:7: error: unknown function or instruction `splitt`\n    2 |   x = splitt(b)\n      |       ^~~~~~\n"
      "note: did you mean `split`?\n");
  EXPECT_EQ(run({"check", "none.tw"}).code, 2);
  EXPECT_EQ(run({"check", "bad.tw", "--op", "dens"}).code, 2);
}

TEST_F(Check, EveryOperatorOfTheLibraryHasATrialProgram) {
  std::set<std::string> tried;
  for (const TrialProgram& program : trial_programs()) tried.insert(program.use.substr(0, program.use.find('(')));
  for (const Signature& signature : signatures(operator_library()))
    EXPECT_TRUE(tried.count(signature.name)) << signature.name;
}

TEST_F(Check, TheJudgeSeesAWrongProgram) {
  auto program = [](const char* value) {
    return test::parsed(
        cat("program p(X: input f32[6], Y: output f32[6]) {\n  for i in 6 {\n    block Y(v: S 6 = i) {\n      Y[v] = "
            "X[v] + ",
            value, "\n    }\n  }\n}\n"));
  };
  OwnedProgram one = program("1.0"), two = program("2.0");
  EXPECT_EQ(Judge(one.program).difference(one.program), "");
  EXPECT_TRUE(Judge(one.program).difference(two.program).starts_with("element 0 of `Y`: expected "));
  EXPECT_EQ(Judge(one.program, 1, 10).difference(two.program), "");
}

// ---- schedules by hand

constexpr const char* by_hand = R"(schedule columns for dense
  doc "columns in tiles"
{
  i, j, k = get_loops(get_block("Y"))
  j0, j1 = split(j, [_, sample_categorical([2, 4, 8])])
  reorder([j0, i, k, j1])
}
)";

TEST_F(Check, AScheduleByHandIsTriedOnItsOperator) {
  write("hand.tw", by_hand);
  Finished finished = run({"check", "hand.tw", "--draws", "10"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.out,
            "schedule columns: columns in tiles\n"
            "  fits dense(M = 16, N = 64, K = 13): 1 sketch\n"
            "  fits dense(M = 17, N = 61, K = 12): 1 sketch\n"
            "  2 sketches of 2 programs; 10 draws ran: 0 rejected, 0 computed something else\n");
  EXPECT_EQ(run({"check", "hand.tw", "--op", "softmax"}).out,
            "schedule columns: columns in tiles\n"
            "  is for `dense`, and was not tried\n");
}

// Of several schedules of a module, those that are for none of the chosen programs are left aside.
TEST_F(Check, SchedulesForOtherProgramsAreLeftAside) {
  write("own.tw",
        "workload rows(M: int) { input X: f32[M, 16]\n output Y[i: M, j: 16] = X[i, j] * 2.0 }\n"
        "workload columns(M: int) { input X: f32[M, 16]\n output Z[i: M, j: 16] = X[i, j] + 1.0 }\n");
  write("hand.tw",
        "schedule of_rows for rows { parallel(get_loops(get_block(\"Y\"))[0]) }\n"
        "schedule of_columns for columns { parallel(get_loops(get_block(\"Z\"))[0]) }\n"
        "schedule of_wide_rows for rows\n  when extent(loops(blocks()[0])[0]) > 100\n"
        "{ parallel(get_loops(get_block(\"Y\"))[0]) }\n");
  const std::vector<std::string> with_rows{"check",      "hand.tw", "--draws", "5",
                                           "--workload", "own.tw",  "--use",   "rows(M = 8)"};
  Finished one = run(with_rows);
  EXPECT_EQ(one.code, 0) << one.out << one.err;
  EXPECT_NE(one.out.find("schedule of_rows\n  fits rows(M = 8): 1 sketch\n"), std::string::npos) << one.out;
  EXPECT_NE(one.out.find("schedule of_columns\n  is for `columns`, and was not tried\n"), std::string::npos) << one.out;
  EXPECT_NE(
      one.out.find("schedule of_wide_rows\n  fits none of the programs\n  `extent(loops(blocks()[0])[0]) > 100` is "
                   "false for rows\n"),
      std::string::npos)
      << one.out;
  // Without --use they need one; a name that no file has is wrong, and so is a module of which nothing was tried.
  Finished none = run({"check", "hand.tw"});
  EXPECT_EQ(none.code, 1);
  EXPECT_NE(none.out.find("is for `columns`, which none of the programs is: name one with --workload and --use"),
            std::string::npos)
      << none.out;
  write("wrong.tw", cat(test::read_file(folder.path() + "/hand.tw"), "schedule off for colums { skip }\n"));
  std::vector<std::string> words = with_rows;
  words[1] = "wrong.tw";
  Finished wrong = run(words);
  EXPECT_EQ(wrong.code, 1);
  EXPECT_NE(wrong.out.find("is for `colums`, which none of the programs is: did you mean `columns`?"),
            std::string::npos)
      << wrong.out;
  words = with_rows;
  words.insert(words.end(), {"--rule", "of_columns"});
  EXPECT_EQ(run(words).code, 1) << "nothing was tried";
}

TEST_F(Check, AScheduleByHandIsInTheSpaceOfTheTasksThatComputeItsOperator) {
  write("hand.tw", by_hand);
  std::string tasks =
      "tasks:\n  - {name: g, op: dense, args: {M: 64, N: 96, K: 8}}\n  - {name: h, op: matmul, args: {M: 64, N: 96, K: "
      "8}}\n";
  write("list.yaml", "version: 1\ntarget: {kind: cpu, threads: 1}\nmodules: [hand.tw]\n" + tasks);
  auto with_columns = [&](const std::string& set) {
    boost::json::object json = json_of(run({"space", "list.yaml", "--rules", set, "--json"}));
    std::string found;
    for (const boost::json::value& task : json.at("tasks").as_array()) {
      int by_hand = 0, others = 0;
      for (const boost::json::value& sketch : task.at("sketches").as_array())
        ++(sketch.at("rules") == boost::json::value{"columns"} ? by_hand : others);
      found += cat(by_hand, " and ", others > 1 ? "many" : std::to_string(others), "; ");
    }
    return found;
  };
  EXPECT_EQ(with_columns("cpu"), "1 and many; 0 and many; ");
  EXPECT_EQ(with_columns("untuned"), "1 and 0; 0 and 1; ");
  // A misspelt operator is said, and ends nothing.
  std::string text = by_hand;
  write("hand.tw", text.replace(text.find("dense"), 5, "dens"));
  Finished warned = run({"space", "list.yaml"});
  EXPECT_EQ(warned.code, 0);
  EXPECT_NE(warned.err.find("warning: the schedule `columns` is for `dens`, which no task computes"), std::string::npos)
      << warned.err;
  EXPECT_NE(warned.err.find("note: did you mean `dense`?"), std::string::npos) << warned.err;
}

// ---- what tune says of rules

TEST_F(Check, TuneSaysWhichRulesHaveNoEffect) {
  const char* rule =
      "rules mine { bind_all }\nrule bind_all(b: block)\n  doc \"a typing error\"\n  when not is_reduction(b)\n{ l = "
      "fuse(loops(b)); bind(l, \"blockIdx.q\") }\n";
  write("mine.tw", rule);
  write("list.yaml",
        "version: 1\ntarget: {kind: cpu, threads: 1}\nbudget: {trials: 1}\nrules: mine\nmodules: [mine.tw]\n"
        "tasks:\n  - {name: g, op: softmax, args: {M: 8, N: 8}}\n");
  Finished finished = run({"tune", "list.yaml", "--database", "x.db", "--model", "random"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_NE(finished.err.find("the rule `bind_all` fits, but all that it does is rejected: "), std::string::npos)
      << finished.err;
  EXPECT_NE(finished.err.find("blockIdx.q"), std::string::npos) << finished.err;
}

// ---- explain

TEST_F(Check, ExplainNamesRulesBlocksAndRejects) {
  write("tile.tw", cat(tiling, "rules tiled { auto_inline; tile_rows }\n"));
  write("list.yaml", R"(version: 1
target: {kind: cpu, threads: 1}
modules: [tile.tw]
rules: tiled
tasks:
  - {name: g, op: dense, args: {M: 48, N: 128, K: 64}, epilogue: [bias]}
)");
  Finished finished = run({"explain", "list.yaml", "--draws", "20"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.out,
            "# task g\n"
            "rule         block  applied  outcome\n"
            "auto_inline  bias   no       `not is_output(b)` is false\n"
            "auto_inline  Y      no       `is_elementwise(b)` is false\n"
            "tile_rows    bias   no       `is_reduction(b)` is false\n"
            "tile_rows    Y      yes      1 of 1 forks kept\n"
            "\n"
            "rule       instruction  while  rejected  reason                                                           "
            "                  example\n"
            "tile_rows  parallel     try           1  loop `...` feeds the reduction iter `...`; expected it to feed "
            "only spatial iters  loop `k` feeds the reduction iter `k`; expected it to feed only spatial iters\n"
            "\n"
            "0 of 20 draws rejected\n\n");
  boost::json::object json = json_of(run({"explain", "list.yaml", "--json"}));
  const boost::json::object& reject = json.at("tasks").at(0).at("rejects").at(0).as_object();
  EXPECT_EQ(reject.at("rule"), "tile_rows");
  EXPECT_EQ(reject.at("instruction"), "parallel");
  EXPECT_EQ(reject.at("count"), 1);
}

// A rule may apply and do nothing, in all forks or in some.
TEST_F(Check, ExplainSaysWhichRulesChangeNothing) {
  write("idle.tw", R"(rule idle(b: block)
  when is_reduction(b)
{
  if extent(spatial_loops(b)[0]) > 1000 { parallel(spatial_loops(b)[0]) }
}
rule perhaps(b: block)
  when is_reduction(b)
{
  either { skip } or { parallel(spatial_loops(b)[0]) }
}
rules idle_ones { idle; perhaps }
)");
  write("list.yaml",
        "version: 1\nmodules: [idle.tw]\nrules: idle_ones\ntasks:\n  - {name: g, op: matmul, args: {M: 48, N: 16, K: "
        "8}}\n");
  Finished finished = run({"explain", "list.yaml", "--draws", "10"});
  EXPECT_NE(finished.out.find("idle     C      yes      1 of 1 forks kept, none changed\n"
                              "perhaps  C      yes      2 of 2 forks kept, 1 changed\n"),
            std::string::npos)
      << finished.out << finished.err;
  boost::json::object json = json_of(run({"explain", "list.yaml", "--json"}));
  const boost::json::array& rules = json.at("tasks").at(0).at("rules").as_array();
  ASSERT_EQ(rules.size(), 2u) << json;
  EXPECT_EQ(rules[0].at("changed"), 0);
  EXPECT_EQ(rules[1].at("changed"), 1);
}

TEST_F(Check, ExplainCountsRejectedDrawsOfARule) {
  write("odd.tw", R"(rule odd(b: block)
  when is_reduction(b)
{
  i = spatial_loops(b)[0]
  split(i, [sample_categorical([1, 2]), 24])
}
rules odd_only { odd }
)");
  write("list.yaml",
        "version: 1\nmodules: [odd.tw]\nrules: odd_only\ntasks:\n  - {name: g, op: matmul, args: {M: 48, N: 16, K: "
        "8}}\n");
  boost::json::object json = json_of(run({"explain", "list.yaml", "--draws", "100", "--json"}));
  const boost::json::object& task = json.at("tasks").at(0).as_object();
  std::int64_t rejected = task.at("rejected").as_int64();
  EXPECT_GT(rejected, 20);
  EXPECT_LT(rejected, 80);
  for (const boost::json::value& row : task.at("rejects").as_array()) {
    if (row.at("when") != "drawing") continue;
    EXPECT_EQ(row.at("rule"), "odd");
    EXPECT_EQ(row.at("instruction"), "split");
    EXPECT_EQ(row.at("count").as_int64(), rejected);
  }
}

// What each draw is refused for: by the rule's conditions together, by a postprocessor, by an error that only running
// it shows.
TEST_F(Check, ExplainSaysWhyNoDrawIsLeft) {
  const std::string list =
      "version: 1\nmodules: [m.tw]\nrules: mine\ntasks:\n  - {name: g, op: matmul, args: {M: 48, N: 16, K: 8}}\n";
  const std::string rule =
      "rule tile(b: block)\n  when is_reduction(b)\n{\n  t = sample_perfect_tile(spatial_loops(b)[0], 2)\n";
  write("list.yaml", list);
  auto row_with = [&](const std::string& module, const char* when) {
    write("m.tw", module);
    boost::json::object json = json_of(run({"explain", "list.yaml", "--draws", "10", "--json"}));
    const boost::json::object& task = json.at("tasks").at(0).as_object();
    if (std::string_view(when) == "drawing") {
      EXPECT_EQ(task.at("rejected"), task.at("draws"));
    }
    for (const boost::json::value& row : task.at("rejects").as_array()) {
      if (row.at("when") == when)
        return cat(std::string_view(row.at("rule").as_string()), " | ",
                   std::string_view(row.at("instruction").as_string()), " | ",
                   std::string_view(row.at("example").as_string()));
    }
    return std::string("nothing was rejected");
  };
  EXPECT_EQ(
      row_with(rule + "  few = sample_categorical([1, 2])\n  most = sample_categorical([3, 4])\n  require few > "
                      "most\n}\nrules mine { tile }\n",
               "building"),
      "tile | require | require: no decisions satisfy `require(few > most)` and the conditions before it (m.tw:7)");
  // Too many assignments to count them all: the draws find out.
  std::string many;
  for (int i = 0; i < 8; ++i) many += cat("  v", i, " = sample_categorical([1, 2, 3, 4, 5, 6, 7, 8])\n");
  EXPECT_EQ(row_with(rule + many + "  require v0 + v1 + v2 + v3 + v4 + v5 + v6 + v7 > 100\n}\nrules mine { tile }\n",
                     "drawing"),
            "tile | require | require: no decisions satisfy `require((((((((v0 + v1) + v2) + v3) + v4) + v5) + v6) + "
            "v7) > 100)` and the conditions before it");
  EXPECT_EQ(row_with(rule + "}\npost no(p: program) {\n  drop\n}\nrules mine { tile; no }\n", "drawing"),
            " |  | postprocessor `no` refuses the program");
  EXPECT_EQ(
      row_with(rule + "}\npost wrong(p: program) {\n  x = blocks()[9]\n}\nrules mine { tile; wrong }\n", "drawing"),
      " |  | the postprocessor has an error in its text");
}

// ---- space

TEST_F(Check, SpaceGoesOnWithoutABadRuleOrModule) {
  const std::string tasks = "tasks:\n  - {name: g, op: matmul, args: {M: 8, N: 8, K: 8}}\n";
  write("good.tw", "rule cut(b: block)\n  after decompose\n{ skip }\n");
  write("wrong.tw", "rule wrong(b: block)\n  after decompose\n{ x = loops(b)[9] }\n");
  write("clause.tw", "rule lost(b: block)\n  before register_tilin\n{ skip }\n");
  write("placed.tw", "rule placed(b: block) { skip }\n");
  write(
      "list.yaml",
      "version: 1\nmodules: [good.tw, wrong.tw, clause.tw, missing.tw, {file: placed.tw, before: nothing}]\n" + tasks);
  Finished finished = run({"space", "list.yaml"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_NE(finished.out.find("# task g: "), std::string::npos) << finished.out;
  for (const char* part : {"warning: there is no file missing.tw; it is left out",
                           "warning: clause.tw has errors, see below; it is left out",
                           "warning: the set `cpu` has no rule `nothing`; it is left out",
                           "rule `wrong` is left out (at block `C` of matmul)"}) {
    EXPECT_NE(finished.err.find(part), std::string::npos) << part << "\n" << finished.err;
  }
  // Nothing else to go on with.
  for (const char* module : {"clause.tw", "missing.tw", "{file: placed.tw, before: nothing}"}) {
    write("list.yaml", cat("version: 1\nmodules: [", module, "]\n", tasks));
    EXPECT_EQ(run({"space", "list.yaml"}).code, 2) << module;
  }
  write("list.yaml", "version: 1\nrules: cpu\n" + tasks);
  Finished flag = run({"space", "list.yaml", "--rules", "cpuu"});
  EXPECT_EQ(flag.code, 2);
  EXPECT_EQ(flag.err,
            "--rules:1:1: error: there is no rule set `cpuu`\n    1 | cpuu\n      | ^~~~\nnote: did you mean `cpu`?\n");
}

TEST_F(Check, SpaceAsJsonHasTracesPointsAndRulesAndNothingElse) {
  write("list.yaml",
        "version: 1\ntasks:\n  - {name: g, op: matmul, args: {M: 8, N: 8, K: 8}}\n  - {name: h, op: softmax, args: {M: "
        "8, N: 8}}\n");
  auto keys = [](const boost::json::value& value) {
    std::vector<std::string> out;
    for (const auto& entry : value.as_object()) out.emplace_back(entry.key());
    return out;
  };
  boost::json::object json = json_of(run({"space", "list.yaml", "--rules", "reference-cpu", "--json"}));
  EXPECT_EQ(keys(json), std::vector<std::string>{"tasks"});
  ASSERT_EQ(json.at("tasks").as_array().size(), 2u);
  for (const boost::json::value& task : json.at("tasks").as_array()) {
    EXPECT_EQ(keys(task), (std::vector<std::string>{"name", "sketches", "log10_sketches"}));
    EXPECT_NEAR(task.at("log10_sketches").as_double(), std::log10(task.at("sketches").as_array().size()), 1e-9);
    for (const boost::json::value& sketch : task.at("sketches").as_array()) {
      EXPECT_EQ(keys(sketch), (std::vector<std::string>{"trace", "log10_points", "rules"}));
      std::string text(sketch.at("trace").as_string());
      Trace trace = test::parsed_schedule(text);
      for (const Decision& decision : trace.decisions()) EXPECT_TRUE(decision.open()) << text;
      EXPECT_GT(sketch.at("log10_points").as_double(), 0);
      EXPECT_FALSE(sketch.at("rules").as_array().empty());
    }
  }
  EXPECT_EQ(json.at("tasks").at(0).at("name"), "g");
  EXPECT_EQ(json.at("tasks").at(0).at("sketches").as_array().size(), 3u);
  EXPECT_EQ(json.at("tasks").at(0).at("sketches").at(0).at("rules").at(0), "multi_level_tiling");
}

// ---- reduce

// A trace of many lines, of which two matter.
std::string long_trace(const std::string& last) {
  WorkloadArguments arguments = {{"M", i64{48}}, {"N", i64{64}}, {"K", i64{32}}};
  Diagnostics diagnostics(*operator_library().source);
  std::optional<OwnedProgram> program = instantiate(operator_library(), "matmul", arguments, {}, diagnostics);
  EXPECT_TRUE(program) << diagnostics.render();
  Trace trace = test::parsed_schedule(
      cat("b = get_block(\"C\")\ni, j, k = get_loops(b)\n"
          "t0, t1, t2 = sample_perfect_tile(i, 3, max_innermost = 64) @ [4, 3, 4]\n"
          "i_0, i_1, i_2 = split(i, [t0, t1, t2])\nj_0, j_1 = split(j, [_, 8])\nk_0, k_1 = split(k, [_, 4])\n"
          "reorder([i_0, j_0, k_0, i_1, i_2, k_1, j_1])\nparallel(i_0)\nvectorize(j_1)\nunroll(k_1)\n",
          last, "\n"));
  return print_trace_file({TW_VERSION, "cpu -mcpu=znver3 -threads=1", *program, trace});
}

TEST_F(Check, ReduceShrinksATraceThatCannotBeReplayed) {
  write("bug.tw", long_trace("parallel(k_0)"));
  Finished finished = run({"reduce", "bug.tw"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  TraceFile small = test::parsed_trace_file(finished.out);
  EXPECT_EQ(small.trace.print(0),
            "b = get_block(\"C\")\ni, j, k = get_loops(b)\nk_0, k_1 = split(k, [_, 4])\nparallel(k_0)\n");
  EXPECT_NE(finished.out.find("for i in 1 "), std::string::npos) << finished.out;
}

// Traces that fail in all the ways there are, on workloads that no interpreter could run: 1024^3, and 3.2 billion
// points.
constexpr const char* kHead = "tracewright 1 \"0.1.0\"\ntarget \"cpu -mcpu=znver3 -threads=1\"\n";
std::string large_product(const std::string& middle) {
  return cat(
      kHead,
      "program matmul(A: input f32[1024, 1024], B: input f32[1024, 1024], C: output f32[1024, 1024]) {\n  for i in "
      "1024 {\n    for j in 1024 {\n      for k in 1024 {\n"
      "        block C(i: S 1024 = i, j: S 1024 = j, k: R 1024 = k) {\n          init {\n            C[i, j] = 0.0\n   "
      "       }\n"
      "          C[i, j] = C[i, j] + A[i, k] * B[k, j]\n        }\n      }\n    }\n  }\n}\n"
      "schedule {\n  b = get_block(\"C\")\n  i, j, k = get_loops(b)\n  t0, t1, t2 = sample_perfect_tile(i, 3, "
      "max_innermost = 64) @ [4, 64, 4]\n"
      "  i_0, i_1, i_2 = split(i, [t0, t1, t2])\n  j_0, j_1 = split(j, [_, 8])\n  k_0, k_1 = split(k, [_, 4])\n  "
      "reorder([i_0, j_0, k_0, i_1, i_2, k_1, j_1])\n"
      "  parallel(i_0)\n  vectorize(j_1)\n  unroll(k_1)\n  ",
      middle,
      "\n  annotate(b, \"a\", 1)\n  annotate(b, \"c\", 1)\n  annotate(i_1, \"d\", 1)\n  annotate(b, \"e\", 1)\n}\n");
}
// A sum whose value depends on its order.
std::string large_sum() {
  return cat(kHead,
             "program order(A: input f32[8, 400000000], C: output f32[8]) {\n  for i in 8 {\n    for k in 400000000 "
             "{\n      block C(i: S 8 = i, k: R 400000000 = k) {\n"
             "        init {\n          C[i] = 0.0\n        }\n        C[i] = C[i] + (if k == 0 then 1e8 else if k == "
             "1 then -1e8 else A[i, k])\n      }\n    }\n  }\n}\n"
             "schedule {\n  c = get_block(\"C\")\n  i, k = get_loops(c)\n  annotate(c, \"a\", 3)\n  i0, i1 = split(i, "
             "[_, 4])\n  k0, k1 = split(k, [_, 4])\n  parallel(i0)\n"
             "  reorder([k1, k0])\n  vectorize(i1)\n  annotate(c, \"b\", 3)\n}\n");
}
std::string foreign_intrinsic() {
  std::string text = test::read_file(TW_SOURCE_DIR "/tests/corpus/reference-arm-dotprod_bytes.tw");
  std::size_t target = text.find("target \""), end = text.find('\n', target);
  return text.substr(0, target) + "target \"cpu -mcpu=znver3 -threads=1\"" + text.substr(end);
}

// Any instruction, with what depends on it, is needed for the failure, and what fails is the last one.
TEST_F(Check, ReduceLeavesNoInstructionThatTheFailureDoesNotNeed) {
  struct Failing {
    std::string trace, kind;
    std::size_t instructions;
  };
  const Failing cases[] = {{large_product("parallel(k_0)"), "rejected: parallel: loop", 4},
                           {large_product("w = get_block(\"nothing\")"), "rejected: get_block: there is no block", 1},
                           {large_product("u0, u1 = sample_perfect_tile(j_0, 2, max_innermost = 64) @ [5, 5]"),
                            "rejected: sample_perfect_tile: the factors of the decision", 3},
                           {large_product("only = get_loops(b)"), "rejected: get_loops: gave", 2},
                           {large_product("annotate(b, \"prepack\", 1)"), "rejected: prepack: writes", 2},
                           {foreign_intrinsic(), "intrinsic `dot_i8i8x4_neon` is for", 6},
                           {large_sum(), "element ", 4}};
  for (const Failing& failing : cases) {
    SCOPED_TRACE(failing.kind);
    write("bug.tw", failing.trace);
    Finished finished = run({"reduce", "bug.tw"});
    ASSERT_EQ(finished.code, 0) << finished.err;
    TraceFile small = test::parsed_trace_file(finished.out);
    Source source{"target", small.target};
    Diagnostics diagnostics(source);
    Target target = *parse_target(small.target, 0, diagnostics);
    auto failure = [&](const Trace& trace) {
      for (Question question : {Question::Compile, Question::Compare}) {
        std::string why = failure_of({small.program, trace}, target, nullptr, question);
        if (!why.empty()) return why;
      }
      return std::string();
    };
    EXPECT_TRUE(failure(small.trace).starts_with(failing.kind)) << failure(small.trace);
    EXPECT_EQ(small.trace.instructions().size(), failing.instructions) << finished.out;
    for (std::size_t i = 0; i < small.trace.instructions().size(); ++i) {
      std::vector<bool> keep(small.trace.instructions().size(), true);
      keep[i] = false;
      EXPECT_FALSE(failure(small.trace.keeping(keep)).starts_with(failing.kind))
          << "without instruction " << i << " of\n"
          << small.trace.print();
    }
  }
}

TEST_F(Check, ReduceKeepsWhatAUsersCommandNeeds) {
  write("bug.tw", long_trace("annotate(b, \"unroll_limit\", 16)"));
  // "Fails" while a loop is vectorized and the first tile has a factor 4 in front.
  Finished finished = run({"reduce", "bug.tw", "--check", "! (grep -q vectorize {} && grep -q '@ .4,' {})", "--json"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  boost::json::object json = json_of(finished);
  EXPECT_LE(json.at("instructions").as_int64(), 6) << finished.out;
  std::string text(json.at("trace_file").as_string());
  EXPECT_NE(text.find("vectorize"), std::string::npos) << text;
  EXPECT_NE(text.find("@ [4, 1, "), std::string::npos) << text;
  EXPECT_FALSE(std::filesystem::exists(folder.path() + "/bug.tw.part.tw"));
}

TEST_F(Check, ReduceSaysThatAGoodTraceDoesNotFail) {
  write("good.tw", long_trace("annotate(b, \"unroll_limit\", 16)"));
  Finished finished = run({"reduce", "good.tw"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_EQ(finished.err, "tracewright: good.tw does not fail: it replays and computes what its workload says\n");
}

// A product with a schedule for GPUs and lines behind it, as a file.
std::string gpu_trace(i64 extent, const std::string& last) {
  test::Scheduled scheduled(cat("matmul(M = ", extent, ", N = ", extent, ", K = ", extent, ")"), {}, "");
  return print_trace_file(
      {TW_VERSION, "cuda -arch=sm_80", scheduled.base(), test::parsed_schedule(test::gpu_gemm_schedule({}) + last)});
}

// The interpreter takes seconds for a product of this size, on a busy machine more.
TEST_F(Check, ReduceDoesNotTakeASlowRunOfAGoodTraceForAFailure) {
  write("good.tw", gpu_trace(96, ""));
  Finished finished = run({"reduce", "good.tw", "--seconds", "1", "--runs", "3"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_EQ(finished.out, "");
  EXPECT_TRUE(finished.err.ends_with("good.tw does not fail: it replays and computes what its workload says\n"))
      << finished.err;
}

// The interpreter gives up on such a product, which is no fault of the trace and no proof that it is right.
TEST(FailureOf, AProgramTooLargeToRunIsNotJudgedButItsTraceIsReplayedAndLowered) {
  auto judge = [](const std::string& text, std::string& unjudged) {
    TraceFile file = test::parsed_trace_file(text);
    Target target;
    target.kind = TargetKind::Cuda;
    target.arch = "sm_80";
    return failure_of({file.program, file.trace}, target, &unjudged);
  };
  std::string unjudged, wrong;
  EXPECT_EQ(judge(gpu_trace(1024, ""), unjudged), "");
  EXPECT_EQ(unjudged,
            "the program without the trace cannot be run in the interpreter: gave up: there are more points of blocks "
            "than steps");
  EXPECT_TRUE(judge(gpu_trace(1024, "parallel(k0)\n"), unjudged).starts_with("rejected: ")) << unjudged;
}

}  // namespace
}  // namespace tw

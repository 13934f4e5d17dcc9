// Plugins and the examples of the C++ API, built as somebody else would: out of the tree, against
// the installed files.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "dsl/base/sanitizer.h"
#include "dsl/base/text.h"
#include "rules/lang/load_plugin.h"
#include "support/run_program.h"
#include "support/support.h"

namespace tw {
namespace {

using test::Finished;

// An installed tracewright, and projects built against it. Building takes long, so there are few
// tests.
class Outside : public testing::Test {
 protected:
  void SetUp() override {
    if (TW_SANITIZED) GTEST_SKIP() << "who links a sanitized library needs the sanitizer, too";
    Finished install = test::run_program({"cmake", "--install", TW_BINARY_DIR, "--prefix", at("installed")});
    ASSERT_EQ(install.code, 0) << install.err;
  }
  std::string at(const std::string& name) const { return folder.path() + "/" + name; }
  void build(const std::string& source, const std::string& name) {
    Finished configured = test::run_program({"cmake", "-G", "Ninja", "-S", cat(TW_SOURCE_DIR "/", source), "-B",
                                             at(name), "-DCMAKE_PREFIX_PATH=" + at("installed")});
    ASSERT_EQ(configured.code, 0) << configured.out << configured.err;
    Finished built = test::run_program({"cmake", "--build", at(name)});
    ASSERT_EQ(built.code, 0) << built.out << built.err;
  }
  std::string why_not(const std::string& file, int seconds = 10) const {
    std::string error;
    EXPECT_EQ(rules::load_plugin(at(file), error, seconds), nullptr);
    return error;
  }
  Finished run(std::vector<std::string> words) {
    return test::tracewright(std::move(words), {.folder = folder.path()});
  }
  void is_checked();
  void is_placed();
  void is_imported();
  Finished tune_with(const std::string& names);
  void rules_cost_themselves();
  void candidates_are_left_out();
  test::TemporaryDirectory folder;
};

void Outside::is_checked() {
  Finished finished =
      run({"check", "plugin/loops_by_stride.so", "--op", "matmul", "--draws", "40", "--target", "cpu -threads=1"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(finished.out,
            "rule loops_by_stride: loops that step through consecutive elements go inside, and are cut\n"
            "  fits matmul(M = 16, N = 64, K = 13), block C: 2 sketches\n"
            "  2 sketches of 1 programs; 40 draws ran: 0 rejected, 0 computed something else\n"
            "post unroll_short_loops: innermost loops of up to four iterations are written out\n"
            "  1 sketches of 1 programs; 40 draws ran: 0 rejected, 0 computed something else\n");
}

void Outside::is_placed() {
  test::write_file(at("list.yaml"),
                   "version: 1\ntarget: {kind: cpu, threads: 1}\nmodules: [{file: "
                   "plugin/loops_by_stride.so, before: decompose}]\n"
                   "tasks:\n  - {name: s, op: softmax, args: {M: 8, N: 8}}\n");
  Finished finished = run({"space", "list.yaml"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_NE(
      finished.out.find(
          ", loops_by_stride (plugin/loops_by_stride.so), unroll_short_loops (plugin/loops_by_stride.so), decompose,"),
      std::string::npos)
      << finished.out;
  EXPECT_NE(finished.out.find("sample_categorical([4, 8, 16])"), std::string::npos) << finished.out;
}

void Outside::is_imported() {
  test::write_file(
      at("mine.tw"),
      "import \"plugin/loops_by_stride.so\"\nrules mine { auto_inline; loops_by_stride; unroll_short_loops }\n");
  Finished finished = run({"check", "mine.tw", "--op", "dense", "--draws", "10"});
  EXPECT_EQ(finished.code, 0) << finished.err << finished.out;
  // In the search, too: traces of its candidates (the untuned program is record 2) have what the postprocessor did,
  // behind the marker.
  test::write_file(at("mine.yaml"),
                   "version: 1\ntarget: {kind: cpu, threads: 1}\nmodules: [mine.tw]\nrules: mine\ndatabase: "
                   "mine.db\ntasks:\n  - {name: d, op: "
                   "dense, args: {M: 4, N: 4, K: 4}}\n");
  Finished tuned = run({"tune", "mine.yaml", "--trials", "4"});
  EXPECT_EQ(tuned.code, 0) << tuned.err;
  std::string done;
  for (const char* record : {"1", "3", "4"}) {  // tiles of 4, 8 and 16; only the first one is short enough
    Finished trace = run({"replay", "--record", record, "--database", "mine.db", "--emit", "trace"});
    std::size_t marker = trace.out.find("enter_postproc()");
    ASSERT_NE(marker, std::string::npos) << trace.out << trace.err;
    done += trace.out.substr(marker);
  }
  EXPECT_NE(done.find("unroll("), std::string::npos) << done;
}

// Tunes a small product with the rules of the wrong plugin that are named.
Finished Outside::tune_with(const std::string& names) {
  test::write_file(
      at("own.tw"),
      cat("import \"wrong/rules.so\"\n"
          "rule cuts(b: block)\n  when is_reduction(b)\n"
          "{ i = loops(b)[0]; o, t = split(i, [_, sample_categorical([3, 6, 12, 16, 24, 32, 48, 64, 96])]) }\n"
          "rules own { cuts; ",
          names, " }\n"));
  test::write_file(
      at("own.yaml"),
      "version: 1\ntarget: {kind: cpu, threads: 1}\nmodules: [own.tw]\nrules: own\ndatabase: own.db\ntasks:\n"
      "  - {name: g, op: matmul, args: {M: 192, N: 8, K: 8}}\n");
  std::filesystem::remove(at("own.db"));
  Finished finished = run({"tune", "own.yaml", "--trials", "4"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_NE(finished.out.find("4 trials in "), std::string::npos) << finished.out << finished.err;
  return finished;
}

int times(const std::string& text, const std::string& part) {
  int count = 0;
  for (std::size_t i = text.find(part); i != std::string::npos; i = text.find(part, i + 1)) ++count;
  return count;
}

// Rules and postprocessors of a plugin that crash, end the process, throw or hang are left out; all else goes on.
void Outside::rules_cost_themselves() {
  Finished finished =
      tune_with("crashing; exiting; throwing; hanging; crashing_post; exiting_post; throwing_post; hanging_post");
  for (const char* wrong :
       {"the rule crashes: Segmentation fault", "the rule ends the process with code 3", "the rule crashes: Aborted",
        "the rule takes longer than 10 seconds", "postprocessor `crashing_post` crashes: Segmentation fault",
        "postprocessor `exiting_post` ends the process with code 3",
        "postprocessor `throwing_post` throws an exception",
        "postprocessor `hanging_post` takes longer than 10 seconds"})
    EXPECT_EQ(times(finished.err, wrong), 1) << wrong << "\n" << finished.err;
  for (const char* name :
       {"rule `crashing`", "rule `exiting`", "rule `throwing`", "rule `hanging`", "post `crashing_post`",
        "post `exiting_post`", "post `throwing_post`", "post `hanging_post`"})
    EXPECT_EQ(times(finished.err, cat(name, " is left out")), 1) << name << "\n" << finished.err;
}

// What goes wrong later, with some candidates only, costs these.
void Outside::candidates_are_left_out() {
  Finished finished = tune_with("late_post");
  for (const char* wrong :
       {" crashes: Segmentation fault", " crashes: Aborted", " throws an exception", " takes too long"})
    EXPECT_EQ(times(finished.err, cat("postprocessor `late_post`", wrong)), 1) << wrong << "\n" << finished.err;
}

TEST_F(Outside, ARuleInCppIsCheckedPlacedAndImportedLikeOneOfTheLanguage) {
  ASSERT_NO_FATAL_FAILURE(build("examples/plugin", "plugin"));
  is_checked();
  is_placed();
  is_imported();
}

TEST_F(Outside, WhatIsWrongWithAPluginIsSaidAndEndsNothing) {
  ASSERT_NO_FATAL_FAILURE(build("tests/plugins", "wrong"));
  EXPECT_EQ(why_not("wrong/old.so"),
            "it was built for tracewright 0.0.9 (interface 2), this is " TW_VERSION " (interface 2); build it again");
  EXPECT_EQ(why_not("wrong/crash.so"), "its entry point crashes: Segmentation fault");
  EXPECT_EQ(why_not("wrong/throws.so"), "its entry point crashes: Aborted");
  EXPECT_EQ(why_not("wrong/hang.so", 1), "its entry point takes longer than 1 seconds");
  EXPECT_EQ(why_not("wrong/exit.so"), "its entry point ends the process with code 3");
  EXPECT_EQ(why_not("wrong/nothing.so"),
            "it is no plugin: it does not export `tracewright_plugin`; write TW_PLUGIN(...) in one "
            "of its files");
  EXPECT_EQ(why_not("wrong/empty.so"), "it has no rules");
  test::write_file(at("text.so"), "this is no library\n");
  EXPECT_EQ(why_not("text.so"), "it is no shared library");
  EXPECT_EQ(why_not("none.so").rfind("it cannot be loaded: ", 0), 0u) << why_not("none.so");

  // A tune that has other modules goes on without it.
  test::write_file(at("good.tw"), "rule nothing(b: block)\n  after decompose\n{ skip }\n");
  test::write_file(at("two.yaml"),
                   "version: 1\ntarget: {kind: cpu, threads: 1}\nmodules: [good.tw, wrong/crash.so]\ntasks:\n  "
                   "- {name: g, op: matmul, args: {M: 8, N: 8, K: 8}}\n");
  Finished finished = run({"tune", "two.yaml", "--trials", "1"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_NE(finished.err.find("wrong/crash.so has errors, see below; it is left out"), std::string::npos)
      << finished.err;
  EXPECT_NE(finished.err.find("wrong/crash.so: error: the plugin is not loaded: its entry point "
                              "crashes: Segmentation fault\n"),
            std::string::npos)
      << finished.err;
  rules_cost_themselves();
  candidates_are_left_out();
}

TEST_F(Outside, TheExamplesOfTheCppApiRun) {
  ASSERT_NO_FATAL_FAILURE(build("examples/cpp", "cpp"));
  Finished workload = test::run_program({at("cpp/workload")});
  EXPECT_EQ(workload.code, 0) << workload.err;
  EXPECT_NE(workload.out.find("program scaled(X: input f32[4, 8], S: const f32[8], Y: output f32[4, 8])"),
            std::string::npos)
      << workload.out;
  Finished schedule = test::run_program({at("cpp/schedule")});
  EXPECT_EQ(schedule.code, 0) << schedule.err;
  EXPECT_NE(schedule.out.find("rejected: parallel: loop `k` feeds the reduction iter `k`"), std::string::npos)
      << schedule.out;
  EXPECT_NE(schedule.out.find("replayed: the same program"), std::string::npos) << schedule.out;
  Finished space = test::run_program({at("cpp/space")});
  EXPECT_EQ(space.code, 0) << space.err;
  EXPECT_EQ(space.out.rfind("2 sketches\n", 0), 0u) << space.out;
  EXPECT_NE(space.out.find("sample_categorical([8, 16]) @ "), std::string::npos) << space.out;
  Finished tune = test::run_program({at("cpp/tune"), at("api.db")});
  EXPECT_EQ(tune.code, 0) << tune.out << tune.err;
  EXPECT_NE(tune.out.find("layer: 4 trials, best "), std::string::npos) << tune.out;
}

TEST_F(Outside, TheExamplesOfFilesRulesAndExportsRun) {
  ASSERT_NO_FATAL_FAILURE(build("examples/cpp", "cpp"));
  Finished trace = test::run_program({at("cpp/trace")});
  EXPECT_EQ(trace.code, 0) << trace.err;
  EXPECT_TRUE(trace.out.starts_with("ir ") && trace.out.ends_with(" the same\n")) << trace.out;
  Finished check = test::run_program({at("cpp/check")});
  EXPECT_EQ(check.code, 0) << check.err;
  EXPECT_NE(check.out.find("20 draws, 0 wrong\n"), std::string::npos) << check.out;
  EXPECT_NE(check.out.find("columns: 1 x parallel: loop `k` feeds the reduction iter `k`"), std::string::npos)
      << check.out;
  EXPECT_NE(check.out.find("reduced:\n  b_Y = get_block(\"Y\")\n"), std::string::npos) << check.out;
  EXPECT_TRUE(check.out.ends_with("  unroll(j1)\n")) << check.out;
  Finished by_hand = test::run_program({at("cpp/template"), at("template.db"), at("exported")});
  EXPECT_EQ(by_hand.code, 0) << by_hand.out << by_hand.err;
  EXPECT_NE(by_hand.out.find(" files\n"), std::string::npos) << by_hand.out;
  EXPECT_NE(test::read_file(at("exported/mine.h")).find("mine_product_run("), std::string::npos);
  std::ofstream(at("small.yaml")) << test::kGemmAndRows;
  Finished list = test::run_program({at("cpp/task_list"), at("small.yaml"), at("list.db"), at("kernels")});
  EXPECT_EQ(list.code, 0) << list.out << list.err;
  EXPECT_TRUE(list.out.starts_with("2 kernels in ")) << list.out;
  EXPECT_NE(test::read_file(at("kernels/kernels.h")).find("kernels_gemm_run("), std::string::npos);
}

}  // namespace
}  // namespace tw

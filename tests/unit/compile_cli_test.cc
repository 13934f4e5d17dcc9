// The commands compile, run and tune on ONNX files: results, and what is said of bad input.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "backends/target.h"
#include "dsl/base/rng.h"
#include "dsl/base/sanitizer.h"
#include "dsl/base/text.h"
#include "graph/import_onnx.h"
#include "runtime/lists/npy.h"
#include "support/run_program.h"
#include "support/support.h"
#include "tests/unit/onnx_files.h"

namespace tw {
namespace {

namespace fs = std::filesystem;
using test::Finished;

// Of Debian's libonnx-testdata.
const fs::path kCases = "/usr/lib/python3/dist-packages/onnx/backend/test/data";

class CompileCommand : public testing::Test {
 protected:
  void SetUp() override {
    if (!fs::exists(kCases)) GTEST_SKIP() << "libonnx-testdata is not installed";
    if (graph::onnx_operators().empty()) GTEST_SKIP() << "the plugin for ONNX files was not built";
  }
  std::string at(const std::string& name) const { return folder.path() + "/" + name; }
  static std::string onnx_case(const std::string& name) { return (kCases / name / "model.onnx").string(); }
  Finished run(std::vector<std::string> words) {
    return test::tracewright(std::move(words), {.folder = folder.path()});
  }
  Finished compile(const std::string& name, std::vector<std::string> more = {}) {
    std::vector<std::string> words{"compile", onnx_case(name), "--threads", "1", "--output", "out"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words);
  }
  void expect_refused(std::vector<std::string> words, int code, const std::string& message) {
    Finished found = run(words);
    EXPECT_EQ(found.code, code) << join(words, " ") << "\n" << found.err;
    EXPECT_NE(found.err.find(message), std::string::npos) << found.err;
    EXPECT_EQ(found.out, "");
  }

  test::TemporaryDirectory folder;
};

TEST_F(CompileCommand, WhatItWritesIsCheckedAndRuns) {
  for (const char* name : {"pytorch-converted/test_Conv2d_depthwise_padded", "pytorch-converted/test_Conv1d_groups",
                           "pytorch-converted/test_MaxPool2d_stride_padding_dilation", "node/test_softmax_axis_1",
                           "pytorch-operator/test_operator_addmm", "node/test_layer_normalization_4d_axis2"}) {
    Finished made = compile(name, {"--check"});
    EXPECT_EQ(made.code, 0) << name << made.err;
    EXPECT_NE(made.out.find("checked "), std::string::npos) << made.out;
    EXPECT_EQ(made.out.find("WRONG"), std::string::npos) << made.out;
  }
}

TEST_F(CompileCommand, ItsOutputsAreThoseOfTheOnnxTests) {
  std::string name = "pytorch-converted/test_Conv2d_padding";
  ASSERT_EQ(compile(name, {"--name", "net"}).code, 0);
  fs::path data = kCases / name / "test_data_set_0";
  auto input = graph::read_onnx_tensor((data / "input_0.pb").string());
  auto expected = graph::read_onnx_tensor((data / "output_0.pb").string());
  ASSERT_TRUE(std::holds_alternative<HostArray>(input) && std::holds_alternative<HostArray>(expected));
  test::write_file(at("x.npy"), *npy_bytes(std::get<HostArray>(input)));
  Finished without = run({"run", "out", "--output", "y.npy"});
  EXPECT_NE(without.err.find("no --input, so it has random numbers"), std::string::npos) << without.err;
  Finished ran = run({"run", "out", "--input", "x.npy", "--output", "y.npy"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  std::string error;
  std::optional<HostArray> found = read_npy(at("y.npy"), error);
  ASSERT_TRUE(found) << error;
  const HostArray& wanted = std::get<HostArray>(expected);
  ASSERT_EQ(found->shape, wanted.shape);
  for (i64 i = 0; i < wanted.elements(); ++i)
    EXPECT_NEAR(found->get(i), wanted.get(i), 1e-4 * (1 + std::abs(wanted.get(i))));
  Finished profile = run({"run", "out", "--profile"});
  EXPECT_EQ(profile.code, 0) << profile.err;
  EXPECT_NE(profile.out.find("all steps"), std::string::npos) << profile.out;
  Finished json = run({"run", "out", "--profile", "--json"});
  EXPECT_EQ(json.code, 0) << json.err;
  boost::json::array kernels = boost::json::parse(json.out).at("kernels").as_array();
  EXPECT_EQ(kernels.size() + 2, split(profile.out, '\n').size()) << profile.out;  // head and sum
  for (const boost::json::value& kernel : kernels) {
    EXPECT_GT(kernel.at("seconds").to_number<double>(), 0);
    EXPECT_EQ(kernel.at("calls").to_number<int>(), 1);
    EXPECT_NE(profile.out.find(kernel.at("kernel").as_string().c_str()), std::string::npos) << profile.out;
  }
  expect_refused({"run", "out", "--json"}, 2, "--json is for --profile");
}

TEST_F(CompileCommand, PrintsJsonAndGraphs) {
  Finished made = compile("pytorch-converted/test_Linear", {"--check", "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  boost::json::object report = boost::json::parse(made.out).as_object();
  for (const char* key : {"folder", "library", "steps", "kernels", "memory_bytes", "least_memory_bytes", "weight_bytes",
                          "seconds", "check", "kernel_check"})
    EXPECT_TRUE(report.contains(key)) << key;
  Finished graph = run({"compile", onnx_case("pytorch-converted/test_Linear"), "--emit", "graph"});
  EXPECT_EQ(graph.code, 0);
  EXPECT_NE(graph.out.find("kernel 0: "), std::string::npos) << graph.out;
  EXPECT_NE(graph.out.find("  output "), std::string::npos);
}

// Kernels of a model are timed with cold caches, where the list does not say otherwise; either kind of record serves.
TEST_F(CompileCommand, TuningAModelMakesRecordsThatCompileUses) {
  fs::copy_file(onnx_case("pytorch-converted/test_Linear"), at("linear.onnx"));
  for (const std::string timing : {"", "warm"}) {
    SCOPED_TRACE(timing);
    std::string more = timing.empty() ? "" : ", timing: " + timing, database = timing + "own.db";
    test::write_file(at("list.yaml"),
                     "version: 1\ntarget: {kind: cpu, threads: 1}\ntasks:\n"
                     "  - {name: net, model: linear.onnx" +
                         more + "}\n");
    Finished tuned = run({"tune", "list.yaml", "--trials", "4", "--database", database});
    ASSERT_EQ(tuned.code, 0) << tuned.err;
    EXPECT_NE(tuned.out.find("net_"), std::string::npos) << tuned.out;
    EXPECT_EQ(run({"show", database}).out.find("cold caches") != std::string::npos, timing.empty());
    Finished made =
        run({"compile", "linear.onnx", "--threads", "1", "--database", database, "--output", "out", "--check"});
    ASSERT_EQ(made.code, 0) << made.err;
    EXPECT_NE(made.err.find("1 of 1 kernels come from " + database), std::string::npos) << made.err;
    boost::json::object manifest = boost::json::parse(test::read_file(at("out/manifest.json"))).as_object();
    EXPECT_TRUE(std::ranges::any_of(manifest.at("tasks").as_array(), [](const boost::json::value& task) {
      return task.as_object().contains("record") && task.at("record").is_number() &&
             task.at("gflops").to_number<double>() > 0;
    })) << boost::json::serialize(manifest);
  }
}

// At the end the whole model is timed with the first kernels and with the fastest ones.
TEST_F(CompileCommand, TuningAModelTimesTheWholeOfIt) {
  fs::copy_file(onnx_case("pytorch-converted/test_Linear"), at("linear.onnx"));
  Finished tuned = run({"tune", "linear.onnx", "--trials", "4", "--database", "own.db", "--json"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  boost::json::array models = boost::json::parse(tuned.out).at("models").as_array();
  ASSERT_EQ(models.size(), 1u) << tuned.err;
  for (const char* time : {"first_us", "best_us", "gain", "kernels_us"})
    EXPECT_GT(models[0].at(time).as_double(), 0) << time;
  Finished again = run({"tune", "linear.onnx", "--trials", "4", "--database", "own.db"});
  EXPECT_NE(again.out.find("times as fast as with the first kernels"), std::string::npos) << again.out << again.err;
}

TEST_F(CompileCommand, BadInputIsRefused) {
  std::string linear = onnx_case("pytorch-converted/test_Linear");
  expect_refused({"compile", "none.onnx", "--output", "o"}, 2, "`none.onnx` cannot be read");
  test::write_file(at("bad.onnx"), "no model at all");
  expect_refused({"compile", "bad.onnx", "--output", "o"}, 2, "is no ONNX file or is damaged");
  expect_refused({"compile", onnx_case("node/test_nonzero_example"), "--output", "o"}, 2, "(NonZero)");
  expect_refused({"compile", linear, "--output", "o", "--shape", "zzz=1,2"}, 2, "the model has no input `zzz`");
  expect_refused({"compile", linear, "--output", "o", "--shape", "x"}, 2, "expected NAME=EXTENT");
  expect_refused({"compile", linear, "--output", "o", "--shape", "x=1,,2"}, 2, "expected NAME=EXTENT");
  expect_refused({"compile", linear}, 2, "--output: the folder to write to is missing");
  expect_refused({"compile", linear, "--output", "o", "--threads", "-1"}, 2, "--threads");
  expect_refused({"compile", linear, "--emit", "zzz"}, 2, "only `graph` is known");
  expect_refused({"compile", linear, "--output", "/proc/none"}, 3, "/proc/none");
  expect_refused({"compile", linear, "--output", "o", "--database", "none.db"}, 3, "none.db");
  test::write_file(at("r.tw"), "rewrite r(x: value) { power(x, 3) -> x * x }");
  expect_refused({"compile", linear, "--output", "o", "--rewrites", "r.tw"}, 2, "`r` is not proved");
  expect_refused({"compile", linear, "--output", "o", "--rewrites", "none.tw"}, 2, "none.tw");
  test::write_file(at("file"), "");
  expect_refused({"compile", linear, "--output", "file"}, 3, "cannot make the folder file");
  expect_refused({"compile", ".", "--output", "o"}, 2, "`.` cannot be read");
  EXPECT_FALSE(fs::exists(at("o")));
}

// A file whose input has these dimensions, as bytes of the format; none at all where there are no bytes.
std::string with_shape(const std::string& dims) {
  using namespace graph::test;
  std::string input = part(1, "x") + part(2, part(1, number(1, 1) + dims));
  return model(part(1, node("Relu", {"x"}, {"y"})) + part(2, "g") + part(11, input) + part(12, untyped("y")));
}

TEST_F(CompileCommand, ShapesOfOpenInputs) {
  using namespace graph::test;
  test::write_file(at("open.onnx"), with_shape(part(2, part(1, part(2, "batch")) + part(1, number(1, 3)))));
  test::write_file(at("none.onnx"), with_shape(""));
  auto with = [](const std::string& file, const std::string& shape) {
    return std::vector<std::string>{"compile", file, "--threads", "1", "--output", "o", "--shape", shape};
  };
  expect_refused({"compile", "open.onnx", "--output", "o"}, 2,
                 "input `x` has an open dimension `batch`: say its shape");
  expect_refused({"compile", "none.onnx", "--output", "o"}, 2, "input `x` has no shape: say it");
  expect_refused(with("open.onnx", "x=4"), 2, "input `x` has 2 dimensions, not the 1 of [4]");
  expect_refused(with("open.onnx", "x="), 2, "input `x` has 2 dimensions, not the 0 of []");
  for (const char* shape : {"x=0,3", "x=-1,3", "x=a,3", "x=4,3,", "=4,3", "x=4;3", "x=99999999999999999999,3"})
    expect_refused(with("open.onnx", shape), 2, "expected NAME=EXTENT");
  expect_refused(with("none.onnx", "x=999999999999,999999999999"), 2, "input `x` has too many elements");
  expect_refused(with("open.onnx", "x=4,5"), 2, "dimension 1 of input `x` is 3 in the file, not 5");
  test::write_file(at("fixed.onnx"), with_shape(part(2, part(1, number(1, 2)) + part(1, number(1, 3)))));
  expect_refused(with("fixed.onnx", "x=4,3"), 2, "dimension 0 of input `x` is 2 in the file, not 4");
  test::write_file(at("huge.onnx"), with_shape(part(2, part(1, number(1, u64{1} << 40)) + part(1, number(1, 2)))));
  expect_refused({"compile", "huge.onnx", "--output", "o"}, 2, "input `x` has too many elements: 1099511627776 x 2");
  for (const char* second : {"x=4,3", "x=5,3"}) {
    for (const std::vector<std::string>& command :
         {std::vector<std::string>{"tune"}, {"run"}, {"bench", "--against", "onnxruntime"}}) {
      std::vector<std::string> words = command;
      words.insert(words.end(), {"open.onnx", "--shape", "x=4,3", "--shape", second});
      expect_refused(words, 2, "--shape: the input `x` has 2 shapes; say one");
    }
  }
  EXPECT_FALSE(fs::exists(at("o")));
  for (const char* file : {"open.onnx", "none.onnx"}) {
    Finished made = run(with(file, "x=4,3"));
    EXPECT_EQ(made.code, 0) << made.err;
    EXPECT_NE(test::read_file(at("o/manifest.json")).find("[4,3]"), std::string::npos);
  }
}

TEST_F(CompileCommand, AModelWithoutOutputsIsRefused) {
  using namespace graph::test;
  test::write_file(at("none.onnx"), model(part(1, node("Relu", {"x"}, {"y"})) + part(2, "g") +
                                          part(11, value_info("x", DType::F32, {2, 3}))));
  expect_refused({"compile", "none.onnx", "--output", "o"}, 2, "it has no outputs");
  EXPECT_FALSE(fs::exists(at("o")));
}

// All that is wrong is said at once, with the names of the nodes.
TEST_F(CompileCommand, UnsupportedOperatorsAreNamedWithTheirNodes) {
  using namespace graph::test;
  std::string graph = part(1, node("NonZero", {"x"}, {"n"}, part(3, "find_them"))) +
                      part(1, node("Frobnicate", {"x"}, {"y"}, part(3, "the_other"))) + part(2, "g") +
                      part(11, value_info("x", DType::F32, {2, 3})) + part(12, value_info("y", DType::F32, {2, 3}));
  test::write_file(at("bad.onnx"), model(graph));
  Finished found = run({"compile", "bad.onnx", "--output", "o"});
  EXPECT_EQ(found.code, 2);
  EXPECT_NE(found.err.find("node `find_them` (NonZero): "), std::string::npos) << found.err;
  EXPECT_NE(found.err.find("node `the_other` (Frobnicate): "), std::string::npos) << found.err;
  EXPECT_FALSE(fs::exists(at("o")));
}

// Files that are cut off or changed: an answer of the documented kind, whatever they mean by now.
TEST_F(CompileCommand, DamagedFilesAreRefusedOrCompiled) {
  std::string good = test::read_file(onnx_case("pytorch-converted/test_Linear"));
  Rng rng(1);
  for (int i = 0; i < 40; ++i) {
    std::string bad = good;
    for (i64 n = 1 + rng.below(3); n > 0; --n)
      bad[static_cast<std::size_t>(rng.below(std::min<i64>(200, std::ssize(bad))))] = static_cast<char>(rng.below(256));
    if (rng.below(3) == 0) bad.resize(static_cast<std::size_t>(rng.below(std::ssize(bad))));
    test::write_file(at("bad.onnx"), bad);
    Finished found = run({"compile", "bad.onnx", "--emit", "graph"});
    EXPECT_TRUE(found.code == 0 || found.code == 2) << i << ": " << found.code << found.err;
    EXPECT_TRUE(found.code == 0 || found.err.find("bad.onnx cannot be compiled") != std::string::npos) << found.err;
  }
}

// Without a C compiler the folder has all but the libraries, and nothing is checked.
TEST_F(CompileCommand, WithoutACompilerNothingIsChecked) {
  Finished found =
      test::tracewright({"compile", onnx_case("pytorch-converted/test_Linear"), "--output", "out", "--check"},
                        {.folder = folder.path(), .environment = {"PATH=/nonexistent"}});
  EXPECT_EQ(found.code, 3) << found.err;
  EXPECT_NE(found.err.find("no C compiler (cc) was found"), std::string::npos) << found.err;
  EXPECT_NE(found.err.find("without a library nothing is checked"), std::string::npos) << found.err;
  EXPECT_TRUE(fs::exists(at("out/model.weights")) && !fs::exists(at("out/libmodel.so")));
}

// A linker that puts another library in the place of what it has linked.
TEST_F(CompileCommand, ALibraryThatDoesNotRunIsNoWrongResult) {
  fs::create_directory(at("bin"));
  auto check = [&](const std::string& create, const std::string& run) {
    test::write_file(at("bin/cc"),
                     cat("#!/bin/sh\nPATH=/usr/bin:/bin\ncc \"$@\" || exit 1\n[ \"$1\" = -shared ] || exit 0\n",
                         "echo 'int model_create(const char* w, int n, void** c) { *c = 0; ", create,
                         " } void model_destroy(void* c) {} int model_run(void) { ", run,
                         " }' | cc -shared -fPIC -w -x c - -o libmodel.so\n"));
    fs::permissions(at("bin/cc"), fs::perms::owner_all);
    std::vector<std::string> words{"compile", onnx_case("pytorch-converted/test_Linear"), "--output", "out", "--check"};
    return test::tracewright(words,
                             {.folder = folder.path(), .environment = {cat("PATH=", at("bin"), ":/usr/bin:/bin")}});
  };
  Finished crashed = check("return 0;", "__builtin_trap();");
  EXPECT_EQ(crashed.code, 1) << crashed.err;
  EXPECT_NE(crashed.err.find("the model was ended by signal"), std::string::npos) << crashed.err;
  Finished failed = check("return 0;", "return 1;");
  EXPECT_EQ(failed.code, 1) << failed.err;
  EXPECT_NE(failed.err.find("a kernel failed"), std::string::npos) << failed.err;
  Finished missing = check("return 3;", "return 0;");
  EXPECT_EQ(missing.code, 3) << missing.err;
  EXPECT_NE(missing.err.find("there is not enough memory"), std::string::npos) << missing.err;
  Finished wrong = check("return 0;", "return 0;");
  EXPECT_EQ(wrong.code, 4) << wrong.err;
}

// While the model is computed to compare with, which takes seconds.
TEST_F(CompileCommand, CtrlCEndsACheck) {
  using namespace graph::test;
  std::string nodes, last = "x";
  for (int i = 0; i < 100; ++i) {
    nodes += part(1, node("MatMul", {last, "x"}, {cat("m", i)})) + part(1, node("Tanh", {cat("m", i)}, {cat("t", i)}));
    last = cat("t", i);
  }
  test::write_file(at("long.onnx"), model(nodes + part(2, "g") + part(11, value_info("x", DType::F32, {512, 512})) +
                                          part(12, untyped(last))));
  auto interrupt = [&](int pid) {
    for (int wait = 0; wait < 6000 && !fs::exists(at("out/liblong.so")); ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    kill(pid, SIGINT);
  };
  Finished found = test::tracewright({"compile", "long.onnx", "--output", "out", "--check", "--json"},
                                     {.folder = folder.path(), .meanwhile = interrupt});
  EXPECT_EQ(found.code, 130) << found.err;
  EXPECT_EQ(found.out, "");
  EXPECT_NE(found.err.find("interrupted; out is complete and was not checked"), std::string::npos) << found.err;
  EXPECT_EQ(run({"run", "out"}).code, 0);
}

// A kernel reads no row beside the table, whatever the indices are.
TEST_F(CompileCommand, IndicesOutsideOfATableStandForTheNearestRow) {
  using namespace graph::test;
  test::write_file(at("rows.onnx"), model(part(1, node("Gather", {"x", "i"}, {"y"})) + part(2, "g") +
                                          part(11, value_info("x", DType::F32, {3, 40})) +
                                          part(11, value_info("i", DType::I64, {4})) + part(12, untyped("y"))));
  HostArray x = HostArray::zeros(DType::F32, {3, 40}), index = HostArray::zeros(DType::I64, {4});
  for (i64 i = 0; i < x.elements(); ++i) x.set(i, static_cast<double>(i));
  const double places[] = {1e15, -1e15, 3, -1};
  const i64 rows[] = {2, 0, 2, 2};
  for (i64 i = 0; i < 4; ++i) index.set(i, places[i]);
  test::write_file(at("x.npy"), *npy_bytes(x));
  test::write_file(at("i.npy"), *npy_bytes(index));
  Finished ran =
      run({"run", "rows.onnx", "--threads", "1", "--input", "x=x.npy", "--input", "i=i.npy", "--output", "y.npy"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  std::string error;
  std::optional<HostArray> y = read_npy(at("y.npy"), error);
  ASSERT_TRUE(y) << error;
  for (i64 i = 0; i < y->elements(); ++i) EXPECT_EQ(y->get(i), x.get(rows[i / 40] * 40 + i % 40)) << i;
}

// What compilers, linkers and shells take for more than a letter.
TEST_F(CompileCommand, FoldersMayHaveAnyName) {
  for (const char* name : {"a\"b", "a b", "a\\b", "a\nb", "a'b", "-x", "@x", "$x", "a,b", "a;b", "*"}) {
    Finished made = run({"compile", onnx_case("node/test_relu"), "--threads", "1", cat("--output=", name), "--check"});
    EXPECT_EQ(made.code, 0) << name << "\n" << made.err;
    EXPECT_EQ(run({"run", at(name), "--seconds", "0.001"}).code, 0) << name;
  }
}

// Files and functions that every library comes with begin with tw_; the others are C's own.
TEST_F(CompileCommand, NamesOfOtherFilesAndFunctionsAreNotTaken) {
  for (const char* name : {"tw_kernel_abi", "tw_pool", "string", "pthread", "m"}) {
    Finished made = compile("pytorch-converted/test_Linear", {"--name", name, "--check", "--json"});
    ASSERT_EQ(made.code, 0) << made.err;
    EXPECT_EQ(boost::json::parse(made.out).at("library").as_string(), cat("k", name));
  }
}

// An ONNX file is compiled first, into a folder that is gone afterwards.
TEST_F(CompileCommand, RunTakesAnOnnxFile) {
  using namespace graph::test;
  test::write_file(at("open.onnx"), with_shape(part(2, part(1, part(2, "batch")) + part(1, number(1, 3)))));
  HostArray x = HostArray::zeros(DType::F32, {2, 3});
  for (i64 i = 0; i < x.elements(); ++i) x.set(i, static_cast<double>(i) - 2.5);
  test::write_file(at("x.npy"), *npy_bytes(x));
  fs::create_directory(at("tmp"));
  auto run_it = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"run", "open.onnx", "--shape", "x=2,3", "--input", "x=x.npy", "--output", "y.npy"};
    words.insert(words.end(), more.begin(), more.end());
    Finished found = test::tracewright(words, {.folder = folder.path(), .environment = {"TMPDIR=" + at("tmp")}});
    EXPECT_TRUE(fs::is_empty(at("tmp")));
    return found;
  };
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--threads", "2", "--seconds", "0.01"}}) {
    Finished ran = run_it(more);
    ASSERT_EQ(ran.code, 0) << ran.err;
    EXPECT_TRUE(ran.out.starts_with("y: f32[2, 3]\n")) << ran.out;
    std::string error;
    std::optional<HostArray> y = read_npy(at("y.npy"), error);
    ASSERT_TRUE(y) << error;
    for (i64 i = 0; i < y->elements(); ++i) EXPECT_EQ(y->get(i), std::max(0.0, x.get(i)));
    fs::remove(at("y.npy"));
  }
  EXPECT_EQ(run_it({"--profile"}).code, 0);
  // What is wrong is said before anything is compiled.
  EXPECT_EQ(run_it({"--output", "zzz=z.npy"}).code, 2);
  expect_refused({"run", "open.onnx"}, 2, "input `x` has an open dimension `batch`");
  expect_refused({"run", "open.onnx", "--shape", "x=4,3", "--input", "x.npy"}, 2, "x.npy holds f32[2, 3]");
  expect_refused({"run", "open.onnx", "--shape", "x=4,3", "--output", "none/y.npy"}, 3, "cannot write none/y.npy");
  expect_refused({"run", "none.onnx"}, 2, "`none.onnx` cannot be read");
  Finished bare = test::tracewright({"run", "open.onnx", "--shape", "x=4,3"},
                                    {.folder = folder.path(), .environment = {"PATH=/nonexistent"}});
  EXPECT_EQ(bare.code, 3);
  EXPECT_NE(bare.err.find("no C compiler (cc) was found"), std::string::npos) << bare.err;
  ASSERT_EQ(run({"compile", "open.onnx", "--shape", "x=2,3", "--threads", "1", "--output", "out"}).code, 0);
  EXPECT_EQ(run({"run", "out", "--shape", "x=2,3"}).code, 0);
  expect_refused({"run", "out", "--shape", "x=4,3"}, 2, "the library has no entry for x=4,3; it has x=2,3");
  expect_refused({"run", "out", "--database", "d.db"}, 2,
                 "--rewrites, --target, --precision and --database are for an ONNX file");
}

TEST_F(CompileCommand, AFileForEachTensorOfRun) {
  using namespace graph::test;
  test::write_file(at("open.onnx"), with_shape(part(2, part(1, number(1, 2)) + part(1, number(1, 3)))));
  test::write_file(at("x.npy"), *npy_bytes(HostArray::zeros(DType::F32, {2, 3})));
  ASSERT_EQ(run({"compile", "open.onnx", "--threads", "1", "--output", "out"}).code, 0);
  for (const char* model : {"out", "open.onnx"}) {
    expect_refused({"run", model, "--input", "x=x.npy", "--input", "x=x.npy"}, 2,
                   "--input: `x` has two files; say one");
    expect_refused({"run", model, "--input", "x.npy", "--input", "x=x.npy"}, 2, "--input: `x` has two files; say one");
    expect_refused({"run", model, "--output", "y=a.npy", "--output", "b.npy"}, 2,
                   "--output: `y` has two files; say one");
  }
  EXPECT_FALSE(fs::exists(at("a.npy")) || fs::exists(at("b.npy")));
}

TEST_F(CompileCommand, AFileThatIsNotThereIsNotCalledDamaged) {
  fs::create_directory(at("folder.onnx"));
  test::write_file(at("empty.onnx"), "");
  for (const std::vector<std::string>& command :
       {std::vector<std::string>{"compile"}, {"run"}, {"bench"}, {"tune", "--trials", "1"}}) {
    auto says = [&](const char* file, const std::string& message) {
      std::vector<std::string> words = command;
      words.insert(words.begin() + 1, file);
      expect_refused(words, 2, message);
      return run(words).err;
    };
    std::string none = says("none.onnx", "`none.onnx` cannot be read: No such file or directory");
    EXPECT_EQ(none.find("damaged"), std::string::npos) << none;
    says("folder.onnx", "`folder.onnx` cannot be read: Is a directory");
    says("empty.onnx", "`empty.onnx` is no ONNX file or is damaged");
  }
}

TEST_F(CompileCommand, AModelUnderAnotherNameIsSaid) {
  fs::copy_file(onnx_case("pytorch-converted/test_Linear"), at("linear.bin"));
  for (const char* command : {"run", "bench", "tune", "space"})
    expect_refused({command, "linear.bin"}, 2,
                   "linear.bin is an ONNX model, but its name does not end in .onnx: rename it");
  test::write_file(at("text"), "no model");
  expect_refused({"run", "text"}, 2, "`text` is no folder that `tracewright compile` wrote");
}

// One rule for --threads: 0, the default, is all that there are; of a folder, as it was compiled.
TEST_F(CompileCommand, ThreadsOfAnInference) {
  std::string linear = onnx_case("pytorch-converted/test_Linear");
  auto threads_of_run = [&](std::vector<std::string> words) {
    words.insert(words.end(), {"--seconds", "0.001"});
    Finished found = run(words);
    EXPECT_EQ(found.code, 0) << found.err;
    std::size_t at = found.out.find(" calls with ");
    return at == std::string::npos ? found.out : split(found.out.substr(at + 12), ' ')[0];
  };
  std::string all = std::to_string(host_target().threads);
  EXPECT_EQ(threads_of_run({"run", linear}), all);
  EXPECT_EQ(threads_of_run({"run", linear, "--threads", "3"}), "3");
  ASSERT_EQ(run({"compile", linear, "--threads", "3", "--output", "three"}).code, 0);
  EXPECT_EQ(threads_of_run({"run", "three"}), "3");
  EXPECT_EQ(threads_of_run({"run", "three", "--threads", "2"}), "2");
  ASSERT_EQ(run({"compile", linear, "--threads", "0", "--output", "usual"}).code, 0);
  EXPECT_EQ(threads_of_run({"run", "usual"}), all);
  ASSERT_EQ(compile("pytorch-converted/test_Linear").code, 0);
  EXPECT_EQ(threads_of_run({"run", "out"}), "1");
}

// Where a database has kernels for a rewriting's result, tune has made them with the same rewriting.
TEST_F(CompileCommand, TuneTakesRewritings) {
  std::string path = onnx_case("node/test_relu");
  test::write_file(at("r.tw"), "rewrite r(x: value) { relu(x) -> maximum(x, 0) }");
  test::write_file(at("bad.tw"), "rewrite r(x: value) { relu(x) -> maximum(x, 1) }");
  auto names = [&](std::vector<std::string> more) {
    std::vector<std::string> words{"tune", path, "--dry-run", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    Finished found = run(words);
    EXPECT_EQ(found.code, 0) << found.err;
    return found.out;
  };
  EXPECT_NE(names({}), names({"--rewrites", "r.tw"}));
  expect_refused({"tune", path, "--rewrites", "bad.tw"}, 2, "`r` is not proved");
  expect_refused({"tune", path, "--rewrites", "none.tw"}, 2, "none.tw");
}

// All commands that take a model know the operators of --rewrites, alone and for the models of a list.
TEST_F(CompileCommand, OperatorsOfOnesOwn) {
  using namespace graph::test;
  test::write_file(at("own.onnx"), model(part(1, node("Bent", {"x"}, {"y"}, integer("by", 2), "own")) + part(2, "g") +
                                         part(11, value_info("x", DType::F32, {2, 3})) + part(12, untyped("y"))));
  test::write_file(at("list.yaml"), "version: 1\ntasks:\n  - {name: net, model: own.onnx}\n");
  test::write_file(at("own.tw"), "onnx \"own\" Bent(x: value, by: number) { return relu(x) * by }");
  std::string unknown = "node `y` (Bent): operators of `own` are not supported";
  expect_refused({"compile", "own.onnx", "--output", "o"}, 2, unknown);
  expect_refused({"tune", "list.yaml", "--dry-run"}, 2, unknown);
  Finished made = run({"compile", "own.onnx", "--rewrites", "own.tw", "--threads", "1", "--output", "o", "--check"});
  ASSERT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.out.find("checked "), std::string::npos) << made.out;
  for (const char* file : {"own.onnx", "list.yaml"}) {
    Finished tuned = run({"tune", file, "--rewrites", "own.tw", "--trials", "2", "--database", "own.db", "--json"});
    ASSERT_EQ(tuned.code, 0) << tuned.err;
    EXPECT_EQ(boost::json::parse(tuned.out).at("models").as_array().size(), 1u) << tuned.err;
  }
  HostArray x = HostArray::zeros(DType::F32, {2, 3});
  for (i64 i = 0; i < x.elements(); ++i) x.set(i, static_cast<double>(i) - 2.5);
  test::write_file(at("x.npy"), *npy_bytes(x));
  Finished ran = run({"run", "own.onnx", "--rewrites", "own.tw", "--input", "x.npy", "--output", "y.npy"});
  ASSERT_EQ(ran.code, 0) << ran.err;
  std::string error;
  std::optional<HostArray> y = read_npy(at("y.npy"), error);
  ASSERT_TRUE(y) << error;
  for (i64 i = 0; i < y->elements(); ++i) EXPECT_EQ(y->get(i), 2 * std::max(0.0, x.get(i)));
}

TEST_F(CompileCommand, BadTextOfOperatorsIsRefused) {
  std::string relu = onnx_case("node/test_relu");
  test::write_file(at("one.tw"), "onnx \"own\" F(x: value) { return x }");
  test::write_file(at("two.tw"), "\nonnx \"own\" F(x: value) { return relu(x) }");
  test::write_file(at("bad.tw"), "onnx \"own\" F(x: value) { return none_such(x) }");
  auto with = [&](const std::string& first, const std::string& second) {
    return std::vector<std::string>{"compile", relu, "--output", "o", "--rewrites", first, "--rewrites", second};
  };
  expect_refused(with("one.tw", "two.tw"), 2,
                 "two.tw:2:12: error: there is an operator `F` of `own` in one.tw already");
  expect_refused(with("one.tw", "bad.tw"), 2, "bad.tw:1:33: error: unknown operator `none_such`");
  EXPECT_FALSE(fs::exists(at("o")));
}

TEST_F(CompileCommand, BadInputOfRunIsRefused) {
  expect_refused({"run", "none"}, 2, "is no folder that `tracewright compile` wrote");
  ASSERT_EQ(compile("pytorch-converted/test_Linear").code, 0);
  test::write_file(at("x.npy"), *npy_bytes(HostArray::zeros(DType::F32, {1, 2})));
  expect_refused({"run", "out", "--input", "x.npy"}, 2, "x.npy holds f32[1, 2], but `");
  expect_refused({"run", "out", "--input", "zzz=x.npy"}, 2, "the model has no `zzz`");
  expect_refused({"run", "out", "--input", "none.npy"}, 2, "none.npy");
  test::write_file(at("wide.npy"), *npy_bytes(HostArray::zeros(DType::F64, {4, 10})));
  expect_refused({"run", "out", "--input", "wide.npy"}, 2, "wide.npy holds f64[4, 10], but `0` is f32[4, 10]");
  test::write_file(at("bad.npy"), "no array");
  expect_refused({"run", "out", "--input", "bad.npy"}, 2, "`bad.npy`: it is no .npy file");
  expect_refused({"run", "out", "--threads", "-1"}, 2, "--threads");
  expect_refused({"run", "out", "--output", "zzz=y.npy"}, 2, "--output: the model has no `zzz`; there are 3");
  expect_refused({"run", "out", "--output", "none/y.npy"}, 3, "cannot write none/y.npy");
  expect_refused({"run", "out/manifest.json"}, 2, "is no folder that `tracewright compile` wrote");
  std::string weights = test::read_file(at("out/model.weights"));
  test::write_file(at("out/model.weights"), weights.substr(0, weights.size() / 2));
  expect_refused({"run", "out"}, 3, "the file of weights cannot be read or belongs to another model");
  fs::remove(at("out/model.weights"));
  expect_refused({"run", "out"}, 3, "the file of weights cannot be read");
}

TEST_F(CompileCommand, AFolderOfKernelsIsNoModel) {
  test::write_file(at("list.yaml"), test::kGemmAndRows);
  ASSERT_EQ(run({"tune", "list.yaml", "--trials", "2"}).code, 0);
  ASSERT_EQ(run({"export", "list.yaml", "--output", "kernels"}).code, 0);
  expect_refused({"run", "kernels"}, 2, "kernels/manifest.json describes kernels and no model");
}

// What .npy files, and what memory cannot hold.
TEST_F(CompileCommand, WhatDoesNotFitIsSaid) {
  using namespace graph::test;
  std::string graph = part(1, node("Cast", {"x"}, {"y"}, integer("to", 16))) + part(2, "g") +
                      part(11, value_info("x", DType::F32, {2, 3})) + part(12, untyped("y"));
  test::write_file(at("bf16.onnx"), model(graph));
  ASSERT_EQ(run({"compile", "bf16.onnx", "--threads", "1", "--output", "out", "--check"}).code, 0);
  expect_refused({"run", "out", "--output", "y.npy"}, 2, ".npy files cannot hold bf16");
  if (TW_SANITIZED) return;  // their heap ends the program
  test::write_file(at("big.onnx"), with_shape(part(2, part(1, part(2, "n")) + part(1, number(1, 3)))));
  ASSERT_EQ(run({"compile", "big.onnx", "--threads", "1", "--output", "big", "--shape", "x=20000000000,3"}).code, 0);
  expect_refused({"run", "big"}, 3, "there is not enough memory");
}

TEST_F(CompileCommand, ABadModelOfAListIsSaidWhereItStands) {
  test::write_file(at("list.yaml"), "version: 1\ntasks:\n  - {name: net, model: none.onnx}\n");
  expect_refused({"tune", "list.yaml"}, 2, "list.yaml:3:24: error: `none.onnx` cannot be read");
  test::write_file(at("list.yaml"),
                   "version: 1\ntasks:\n  - {name: net, op: dense, shapes: {x: [1]}, args: {M: 1, N: 1, K: 1}}\n");
  expect_refused({"tune", "list.yaml"}, 2, "`shapes` goes with `model`, not with `op`");
}

}  // namespace
}  // namespace tw

// `--precision` of compile, run, bench and tune: what is printed and what is refused.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>

#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "runtime/lists/npy.h"
#include "support/run_program.h"
#include "support/support.h"
#include "tests/unit/onnx_files.h"

namespace tw {
namespace {

using test::Finished;

HostArray random_array(const std::vector<i64>& shape, u64 seed) {
  Rng rng(seed);
  HostArray array = HostArray::zeros(DType::F32, shape);
  for (i64 i = 0; i < array.elements(); ++i) array.set(i, rng.normal());
  return array;
}

std::string initializer(const std::string& name, const HostArray& array) {
  using namespace graph::test;
  std::string dims;
  for (i64 extent : array.shape) dims += number(1, static_cast<u64>(extent));
  return part(5, dims + number(2, onnx_type(array.dtype)) + part(8, name) +
                     part(9, std::string(array.bytes.begin(), array.bytes.end())));
}

class Precision : public testing::Test {
 protected:
  void SetUp() override {
    if (graph::onnx_operators().empty()) GTEST_SKIP() << "the plugin for ONNX files was not built";
    using namespace graph::test;
    std::string net = part(1, node("MatMul", {"x", "a"}, {"h"})) + part(1, node("Relu", {"h"}, {"r"})) +
                      part(1, node("MatMul", {"r", "b"}, {"y"})) + part(2, "g");
    net += initializer("a", random_array({64, 96}, 1)) + initializer("b", random_array({96, 32}, 2));
    net += part(11, value_info("x", DType::F32, {16, 64})) + part(12, value_info("y", DType::F32, {16, 32}));
    test::write_file(at("net.onnx"), model(net));
    test::write_file(at("integers.onnx"),
                     model(part(1, node("Add", {"x", "x"}, {"y"})) + part(2, "g") +
                           part(11, value_info("x", DType::I64, {4})) + part(12, value_info("y", DType::I64, {4}))));
  }
  std::string at(const std::string& name) const { return folder_.path() + "/" + name; }
  Finished run(std::vector<std::string> words) {
    return test::tracewright(std::move(words), {.folder = folder_.path()});
  }
  void expect_refused(std::vector<std::string> words, int code, const std::string& message) {
    Finished found = run(words);
    EXPECT_EQ(found.code, code) << join(words, " ") << "\n" << found.err;
    EXPECT_NE(found.err.find(message), std::string::npos) << found.err;
    EXPECT_EQ(found.out, "");
  }
  boost::json::object compiled(std::vector<std::string> more) {
    std::vector<std::string> words{"compile", "net.onnx", "--threads", "1", "--output", "out", "--check", "--json"};
    words.insert(words.end(), more.begin(), more.end());
    Finished made = run(words);
    EXPECT_EQ(made.code, 0) << made.err;
    return made.code == 0 ? boost::json::parse(made.out).as_object() : boost::json::object();
  }

 private:
  test::TemporaryDirectory folder_;
};

TEST_F(Precision, TheAccuracyAgainstF32IsPrinted) {
  boost::json::object wide = compiled({});
  EXPECT_EQ(wide.at("precision"), "f32");
  EXPECT_FALSE(wide.contains("accuracy"));
  for (const char* type : {"bf16", "f16"}) {
    boost::json::object report = compiled({"--precision", type});
    EXPECT_EQ(report.at("precision"), type);
    EXPECT_LT(report.at("weight_bytes").to_number<double>(), 0.55 * wide.at("weight_bytes").to_number<double>());
    EXPECT_EQ(report.at("check").as_array().size(), report.at("steps").to_number<std::size_t>());
    for (const boost::json::value& step : report.at("check").as_array()) EXPECT_FALSE(step.at("wrong").as_bool());
    const boost::json::value& found = report.at("accuracy").at(0);
    double most = std::string_view(type) == "bf16" ? 0x1p-7 : 0x1p-10;
    EXPECT_EQ(found.at("name"), "y");
    EXPECT_GT(found.at("cosine").to_number<double>(), 0.9999);
    EXPECT_LT(found.at("relative_error").to_number<double>(), most);
    EXPECT_GT(found.at("relative_error").to_number<double>(), most / 100) << "narrow values round";
    EXPECT_GT(found.at("largest_error").to_number<double>(), 0);
    EXPECT_EQ(found.at("rows").to_number<i64>(), 16);
    EXPECT_GE(found.at("same_largest").to_number<i64>(), 14);
  }
  Finished text = run({"compile", "net.onnx", "--precision", "bf16", "--threads", "1", "--output", "out", "--check"});
  EXPECT_NE(text.out.find("checked 2 steps, each on what those before it gave"), std::string::npos) << text.out;
  EXPECT_NE(text.out.find("y against f32: largest error "), std::string::npos) << text.out;
  EXPECT_NE(text.out.find(" of 16 row(s)\n"), std::string::npos) << text.out;
}

TEST_F(Precision, TheCheckRunsOnTheInputsThatAreGiven) {
  HostArray zeros = HostArray::zeros(DType::F32, {16, 64});
  test::write_file(at("zeros.npy"), *npy_bytes(zeros));
  test::write_file(at("x.npy"), *npy_bytes(random_array({16, 64}, 5)));
  boost::json::object none = compiled({"--precision", "bf16", "--input", "x=zeros.npy"});
  EXPECT_EQ(none.at("accuracy").at(0).at("largest_error").to_number<double>(), 0) << "of zeros";
  boost::json::object some = compiled({"--precision", "bf16", "--input", "x.npy"});
  EXPECT_GT(some.at("accuracy").at(0).at("largest_error").to_number<double>(), 0);
  test::write_file(at("small.npy"), *npy_bytes(HostArray::zeros(DType::F32, {2, 64})));
  std::vector<std::string> words{"compile", "net.onnx", "--output", "o", "--check", "--input", "small.npy"};
  expect_refused(words, 2, "small.npy holds f32[2, 64], but `x` is f32[16, 64]");
  words.back() = "z=x.npy";
  expect_refused(words, 2, "--input: the model has no `z`; there are x");
  expect_refused({"compile", "net.onnx", "--output", "o", "--input", "x.npy"}, 2, "--input is for --check");
  EXPECT_FALSE(std::filesystem::exists(at("o")));
}

TEST_F(Precision, WhatItCannotBeIsRefused) {
  expect_refused({"compile", "net.onnx", "--output", "o", "--precision", "bf61"}, 2,
                 "--precision: unknown type `bf61`; did you mean `bf16`?");
  expect_refused({"compile", "net.onnx", "--output", "o", "--precision", "i8"}, 2, "--precision: unknown type `i8`");
  expect_refused({"compile", "integers.onnx", "--output", "o", "--precision", "bf16"}, 2,
                 "--precision bf16: integers.onnx computes nothing in f32");
  expect_refused({"run", "integers.onnx", "--precision", "bf16"}, 2, "computes nothing in f32");
  expect_refused({"bench", "net.onnx", "--against", "onnxruntime", "--precision", "f8"}, 2, "unknown type `f8`");
  ASSERT_EQ(run({"compile", "net.onnx", "--threads", "1", "--output", "out"}).code, 0);
  expect_refused({"run", "out", "--precision", "bf16"}, 2, "--precision and --database are for an ONNX file");
}

// Ours may, where the one is narrow.
TEST_F(Precision, ProductsOfAFileHaveOneType) {
  using namespace graph::test;
  std::string net = part(1, node("MatMul", {"x", "a"}, {"y"})) + part(2, "g");
  net += initializer("a", HostArray::zeros(DType::F64, {64, 32}));
  net += part(11, value_info("x", DType::F32, {16, 64})) + part(12, value_info("y", DType::F32, {16, 32}));
  test::write_file(at("mixed.onnx"), model(net));
  expect_refused({"compile", "mixed.onnx", "--output", "o"}, 2, "its operands are f32 and f64");
}

TEST_F(Precision, ATaskListSaysIt) {
  expect_refused({"tune", "net.onnx", "--precision", "f8"}, 2, "--precision: unknown type `f8`");
  test::write_file(at("list.yaml"), "version: 1\ntasks:\n  - {name: net, model: net.onnx, precision: f8}\n");
  expect_refused({"tune", "list.yaml"}, 2, "expected `precision` to be `f32`, `bf16` or `f16`");
  expect_refused({"tune", "list.yaml", "--precision", "bf16"}, 2, "in a list it is `precision: bf16`");
  test::write_file(at("list.yaml"),
                   "version: 1\ntasks:\n  - {name: net, op: dense, args: {M: 1, N: 1, K: 1}, precision: bf16}\n");
  expect_refused({"tune", "list.yaml"}, 2, "`precision` goes with `model`, not with `op`");
}

// Records are of kernels, so those of a list with the same precision are found, and those of f32 are not.
TEST_F(Precision, WhatIsTunedIsFound) {
  test::write_file(at("list.yaml"),
                   "version: 1\ntarget: {kind: cpu, threads: 1}\ntasks:\n"
                   "  - {name: net, model: net.onnx, precision: bf16}\n");
  Finished tuned = run({"tune", "list.yaml", "--trials", "2", "--database", "own.db"});
  ASSERT_EQ(tuned.code, 0) << tuned.err;
  EXPECT_NE(tuned.out.find("times as fast as with the first kernels"), std::string::npos) << tuned.out << tuned.err;
  std::vector<std::string> words{"compile", "net.onnx", "--threads", "1", "--database", "own.db", "--output", "out"};
  Finished wide = run(words);
  EXPECT_NE(wide.err.find("0 of 2 kernels come from own.db"), std::string::npos) << wide.err;
  words.insert(words.end(), {"--precision", "bf16", "--check"});
  Finished made = run(words);
  EXPECT_EQ(made.code, 0) << made.err;
  EXPECT_NE(made.err.find("2 of 2 kernels come from own.db"), std::string::npos) << made.err;
}

TEST_F(Precision, RunTakesAModelWithIt) {
  test::write_file(at("x.npy"), *npy_bytes(random_array({16, 64}, 5)));
  for (const char* type : {"f32", "bf16"}) {
    Finished ran = run(
        {"run", "net.onnx", "--threads", "1", "--precision", type, "--input", "x.npy", "--output", cat(type, ".npy")});
    ASSERT_EQ(ran.code, 0) << ran.err;
  }
  std::string error;
  std::optional<HostArray> wide = read_npy(at("f32.npy"), error), narrow = read_npy(at("bf16.npy"), error);
  ASSERT_TRUE(wide && narrow) << error;
  EXPECT_EQ(narrow->dtype, DType::F32);
  EXPECT_NE(wide->bytes, narrow->bytes);
}

}  // namespace
}  // namespace tw

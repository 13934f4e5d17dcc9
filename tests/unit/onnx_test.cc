// ONNX files as graphs: the tests that ONNX has for its own operators, what is said of files that cannot be imported,
// and damaged files.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "graph/import_onnx.h"
#include "tests/unit/onnx_files.h"

namespace tw::graph {
namespace {

namespace fs = std::filesystem;
using test::imported, test::model, test::node, test::number, test::part, test::value_info;

// Of Debian's libonnx-testdata: in `node` one folder for each operator and variant, with inputs and outputs; in others
// small files that PyTorch wrote, and some by hand. Those of `real` have no files. TW_ONNX_DATA is another such folder.
const char* const kOtherData = std::getenv("TW_ONNX_DATA");
const fs::path kData = kOtherData ? kOtherData : "/usr/lib/python3/dist-packages/onnx/backend/test/data";
const fs::path kCases = kData / "node";

std::vector<fs::path> cases(const std::vector<const char*>& kinds = {"node"}) {
  std::vector<fs::path> found;
  for (const char* kind : kinds) {
    std::error_code missing;
    for (const fs::directory_entry& entry : fs::directory_iterator(kData / kind, missing))
      found.push_back(entry.path());
  }
  std::ranges::sort(found);
  return found;
}

// Cases whose outputs are not what their operators say: windows were computed with 3.1415 as pi, others are written
// with four digits. OnnxOperators has cases of its own for these.
bool has_wrong_data(const std::string& name) {
  return name.find("test_blackmanwindow") == 0 || name.find("test_hammingwindow") == 0 ||
         name.find("test_hannwindow") == 0 || name == "test_gridsample_bicubic" ||
         name == "test_averagepool_2d_ceil_last_window_starts_on_pad";
}
// Takes the interpreter four minutes: it is only imported.
constexpr const char* kLargeCase = "test_operator_conv";

std::optional<HostArray> tensor(const fs::path& folder, const char* kind, std::size_t index) {
  auto read = read_onnx_tensor((folder / "test_data_set_0" / cat(kind, "_", index, ".pb")).string());
  HostArray* array = std::get_if<HostArray>(&read);
  return array ? std::optional(std::move(*array)) : std::nullopt;
}

bool is_near(const HostArray& wanted, const HostArray& found) {
  if (wanted.shape != found.shape || wanted.dtype != found.dtype) return false;
  bool is_half = wanted.dtype == DType::F16 || wanted.dtype == DType::BF16;
  double absolute = is_half ? 2e-3 : is_float(wanted.dtype) ? 1e-5 : 0;
  for (i64 i = 0; i < wanted.elements(); ++i) {
    double a = wanted.get(i), b = found.get(i);
    if (a == b || (std::isnan(a) && std::isnan(b))) continue;
    if (!(std::abs(a - b) <= absolute + 10 * absolute * std::abs(a))) return false;
  }
  return true;
}

// Results of NonMaxSuppression have as many rows as there can be: those that are wanted, and then rows of -1.
HostArray with_rows_behind(HostArray wanted, const HostArray& found) {
  bool can_be = wanted.shape.size() == 2 && found.shape.size() == 2 && wanted.shape[0] <= found.shape[0];
  if (!can_be || wanted.dtype != DType::I64) return wanted;
  wanted.shape[0] = found.shape[0];
  wanted.bytes.resize(static_cast<std::size_t>(wanted.shape[0] * wanted.shape[1] * 8), 0xff);
  return wanted;
}

// What became of a case: "", why it is refused, or "wrong".
std::string outcome(const fs::path& folder) {
  std::string path = (folder / "model.onnx").string();
  ImportOptions options;
  auto imported = import_onnx(path, options);
  std::vector<std::string> names = onnx_inputs(path);
  // Shapes, and then scales and the like, may be inputs there.
  for (bool with_floats : {false, true}) {
    if (std::holds_alternative<Graph>(imported)) break;
    for (std::size_t i = 0; i < names.size(); ++i) {
      std::optional<HostArray> input = tensor(folder, "input", i);
      bool is_integer = input && (bytes_of(input->dtype) > 1 || input->dtype == DType::Bool) && !is_float(input->dtype);
      bool is_short = input && i > 0 && input->shape.size() < 2 && input->elements() <= 8;
      if (is_integer || (with_floats && is_short)) options.constants[names[i]] = *input;
    }
    imported = import_onnx(path, options);
  }
  if (auto* problems = std::get_if<ImportProblems>(&imported)) return problems->lines.at(0);
  const Graph& graph = std::get<Graph>(imported);
  if (folder.filename() == kLargeCase) return "";
  std::vector<HostArray> inputs;
  for (std::size_t file = 0; file < names.size(); ++file) {
    if (options.constants.count(names[file])) continue;
    std::optional<HostArray> input = tensor(folder, "input", file);
    if (!input) return "its data is of another type";  // bfloat16 as uint16
    inputs.push_back(std::move(*input));
  }
  std::string error;
  std::optional<std::vector<HostArray>> found = evaluate(graph, inputs, error);
  if (!found) return cat("wrong: ", error);
  for (std::size_t i = 0; i < found->size(); ++i) {
    std::optional<HostArray> wanted = tensor(folder, "output", i);
    if (!wanted) return "its data is of another type";
    if (folder.filename().string().starts_with("test_nonmaxsuppression"))
      wanted = with_rows_behind(std::move(*wanted), (*found)[i]);
    if (!is_near(*wanted, (*found)[i])) return cat("wrong: output ", i);
  }
  return "";
}

// Files that are written here.
class Onnx : public testing::Test {
 protected:
  void SetUp() override {
    if (onnx_operators().empty()) GTEST_SKIP() << "built without libonnx";
  }
};
// Files of ONNX's own tests.
class OnnxCases : public Onnx {
 protected:
  void SetUp() override {
    Onnx::SetUp();
    if (cases().empty()) GTEST_SKIP() << "libonnx-testdata is not installed";
  }
};

// Those that are imported give what they should; how many, and why the others are refused, for people.
struct Count {
  int right = 0, with_wrong_data = 0, of = 0;
  std::string refused;
};
Count count_right(const std::vector<const char*>& kinds) {
  Count count;
  for (const fs::path& folder : cases(kinds)) {
    std::string what = outcome(folder), name = folder.filename().string();
    bool is_wrong = what.starts_with("wrong"), is_known = has_wrong_data(name);
    EXPECT_TRUE(!is_wrong || is_known) << name << ": " << what;
    count.with_wrong_data += is_wrong && is_known;
    ++count.of;
    count.right += what.empty();
    if (!what.empty()) count.refused += cat(name, ": ", what, "\n");
  }
  return count;
}

TEST_F(OnnxCases, NodeTestsThatAreImportedAreRight) {
  Count count = count_right({"node"});
  EXPECT_GE(count.right, kOtherData ? 0 : 801) << "of " << count.of << "; the others:\n" << count.refused;
  EXPECT_EQ(count.with_wrong_data, kOtherData ? count.with_wrong_data : 13);
  if (kOtherData) std::printf("%d of %d are right; the others:\n%s", count.right, count.of, count.refused.c_str());
}

TEST_F(OnnxCases, FilesOfPyTorchAndByHandThatAreImportedAreRight) {
  Count count = count_right({"simple", "pytorch-converted", "pytorch-operator"});
  EXPECT_GE(count.right, 124) << "of " << count.of << "; the others:\n" << count.refused;
}

TEST_F(OnnxCases, AGraphAsText) {
  auto imported = import_onnx((kCases / "test_gemm_all_attributes" / "model.onnx").string());
  ASSERT_TRUE(std::holds_alternative<Graph>(imported));
  EXPECT_EQ(to_string(std::get<Graph>(imported)),
            "graph test_gemm_all_attributes\n"
            "  input a: f32[4, 3]\n"
            "  input b: f32[5, 4]\n"
            "  input c: f32[1, 5]\n"
            "  const v: f32[]\n"
            "  const y_3: f32[3, 5]\n"
            "  const v_1: f32[]\n"
            "  const y_5: f32[1, 5]\n"
            "  y: f32[3, 4] = transpose(a; order = [1, 0])\n"
            "  y_1: f32[4, 5] = transpose(b; order = [1, 0])\n"
            "  y_2: f32[3, 5] = matmul(y, y_1)\n"
            "  y_4: f32[3, 5] = multiply(y_2, y_3)\n"
            "  y_6: f32[1, 5] = multiply(c, y_5)\n"
            "  y_7: f32[3, 5] = broadcast(y_6; R = [3, 5])\n"
            "  y_8: f32[3, 5] = add(y_4, y_7)\n"
            "  output y = y_8\n");
}

TEST_F(OnnxCases, WhatCannotBeImportedIsSaidWithTheNode) {
  auto lines = [](const char* name) {
    auto imported = import_onnx((kCases / name / "model.onnx").string());
    auto* problems = std::get_if<ImportProblems>(&imported);
    return problems ? join(problems->lines, "\n") : std::string("imported");
  };
  EXPECT_NE(lines("no_such_case").find("cannot be read: No such file or directory"), std::string::npos);
  EXPECT_EQ(lines("test_det_2d"), "node `y` (Det): this operator is not supported: nobody has written it yet");
  EXPECT_EQ(lines("test_reshape_one_dim"), "node `reshaped` (Reshape): input 1 is no constant");
}

// Its nodes stand in place of each call, with the call's attributes, and names inside are its own.
TEST_F(Onnx, FunctionsOfTheModelAreInlined) {
  std::string given = part(5, part(1, "axis") + part(21, "along"));
  std::string function = part(1, "rows") + part(4, "a") + part(5, "y") + part(7, node("Softmax", {"a"}, {"x"}, given)) +
                         part(7, node("Exp", {"x"}, {"y"})) + part(10, "own");
  auto along = [](i64 value) { return part(5, part(1, "along") + number(3, static_cast<u64>(value)) + number(20, 2)); };
  std::string graph = part(1, node("rows", {"x"}, {"b"}, along(0), "own")) +
                      part(1, node("rows", {"b"}, {"c"}, "", "own")) + part(2, "g") +
                      part(11, value_info("x", DType::F32, {2, 3})) + part(12, value_info("c", DType::F32, {2, 3}));
  EXPECT_EQ(imported(model(graph, part(25, function))),
            "graph g\n"
            "  input x: f32[2, 3]\n"
            "  x_1: f32[2, 3] = softmax(x; axis = 0)\n"
            "  y: f32[2, 3] = exponential(x_1)\n"
            "  x_2: f32[2, 3] = softmax(y; axis = 1)\n"
            "  y_1: f32[2, 3] = exponential(x_2)\n"
            "  output c = y_1\n");
  std::string endless =
      part(1, "rows") + part(4, "a") + part(5, "y") + part(7, node("rows", {"a"}, {"y"}, "", "own")) + part(10, "own");
  EXPECT_NE(imported(model(graph, part(25, endless))).find("nested deeper than 64"), std::string::npos);
  EXPECT_EQ(imported(model(graph)),
            "node `b` (rows): operators of `own` are not supported\n"
            "node `c` (rows): operators of `own` are not supported");
}

// Softmax of opset 11 takes all dimensions from `axis` on together, that of 13 only one.
TEST_F(Onnx, FunctionsHaveAnOpsetOfTheirOwn) {
  auto called = [](u64 opset) {
    std::string function = part(1, "rows") + part(4, "a") + part(5, "b") +
                           part(7, node("Softmax", {"a"}, {"b"}, test::integer("axis", 0))) +
                           part(9, number(2, opset)) + part(10, "own");
    std::string graph = part(1, node("rows", {"x"}, {"b"}, "", "own")) +
                        part(1, node("Softmax", {"b"}, {"y"}, test::integer("axis", 0))) + part(2, "g") +
                        part(11, value_info("x", DType::F32, {2, 3})) + part(12, value_info("y", DType::F32, {2, 3}));
    return imported(model(graph, part(25, function)));
  };
  EXPECT_NE(called(11).find("b_1: f32[1, 6] = softmax(b; axis = 1)"), std::string::npos) << called(11);
  EXPECT_NE(called(11).find("y: f32[2, 3] = softmax(b_2; axis = 0)"), std::string::npos) << called(11);
  EXPECT_EQ(called(13).find("reshape"), std::string::npos) << called(13);
  EXPECT_EQ(called(25), "node `b` (rows): its function: its opset is 25; 1 to 24 are known");
  EXPECT_EQ(called(0), "node `b` (rows): its function: its opset is 0; 1 to 24 are known");
}

// In branches, too: the function's value of an attribute counts where the call has none.
TEST_F(Onnx, FunctionsHaveDefaultsAndOmittedOperands) {
  auto along = [](i64 value) { return part(1, "along") + number(3, static_cast<u64>(value)) + number(20, 2); };
  std::string softmax = node("Softmax", {"a"}, {"s"}, part(5, part(1, "axis") + part(21, "along")));
  auto branch = [&](const char* name) {
    std::string graph = part(1, softmax) + part(12, value_info("s", DType::F32, {2, 3}));
    return part(5, part(1, name) + part(6, graph) + number(20, 5));
  };
  std::string function = part(1, "rows") + part(4, "a") + part(4, "condition") + part(4, "least") + part(5, "y") +
                         part(7, node("Clip", {"a", "least"}, {"z"})) +
                         part(7, node("If", {"condition"}, {"s"}, branch("then_branch") + branch("else_branch"))) +
                         part(7, node("Add", {"z", "s"}, {"y"})) + part(10, "own") + part(11, along(0));
  auto of_call = [&](const std::string& attribute) {
    std::string graph = part(1, node("rows", {"x", "c"}, {"y"}, attribute, "own")) + part(2, "g") +
                        part(11, value_info("x", DType::F32, {2, 3})) + part(11, value_info("c", DType::Bool, {})) +
                        part(12, value_info("y", DType::F32, {2, 3}));
    ImportOptions options;
    options.constants["c"] = HostArray::zeros(DType::Bool, {});
    return imported(model(graph, part(25, function)), options);
  };
  EXPECT_NE(of_call("").find("s: f32[2, 3] = softmax(x; axis = 0)\n"), std::string::npos) << of_call("");
  EXPECT_NE(of_call(part(5, along(1))).find("softmax(x; axis = 1)"), std::string::npos) << of_call(part(5, along(1)));
}

// Field 8 of a node and 13 of a function.
TEST_F(Onnx, FunctionsAreChosenByTheirOverload) {
  auto function = [](const std::string& op, const std::string& overload) {
    return part(25, part(1, "f") + part(4, "a") + part(5, "c") + part(7, node(op, {"a"}, {"c"})) + part(10, "own") +
                        (overload.empty() ? "" : part(13, overload)));
  };
  auto called = [&](const std::string& overload, const std::string& functions) {
    std::string call = node("f", {"x"}, {"y"}, "", "own") + (overload.empty() ? "" : part(8, overload));
    return imported(model(part(1, call) + part(2, "g") + part(11, value_info("x", DType::F32, {2})) +
                              part(12, value_info("y", DType::F32, {2})),
                          functions));
  };
  std::string three = function("Exp", "one") + function("Log", "") + function("Neg", "two");
  EXPECT_NE(called("one", three).find("exponential(x)"), std::string::npos) << called("one", three);
  EXPECT_NE(called("", three).find("logarithm(x)"), std::string::npos) << called("", three);
  EXPECT_NE(called("two", three).find("negate(x)"), std::string::npos) << called("two", three);
  EXPECT_EQ(called("none", three), "node `y` (f): operators of `own` are not supported");
  EXPECT_EQ(called("", three + function("Exp", "two")),
            "two functions of the domain `own` have the name `f` and the overload `two`");
  EXPECT_EQ(called("", function("Exp", "") + function("Log", "")),
            "two functions of the domain `own` have the name `f`");
}

TEST_F(Onnx, TheBranchOfAKnownConditionStandsInItsPlace) {
  auto branch = [](const char* name, const std::string& op) {
    std::string graph =
        part(1, node(op, {"x"}, {cat("of_", name)})) + part(12, value_info(cat("of_", name), DType::F32, {2}));
    return part(5, part(1, name) + part(6, graph) + number(20, 5));
  };
  std::string choice = node("If", {"c"}, {"y"}, branch("then_branch", "Exp") + branch("else_branch", "Log"));
  std::string graph = part(1, choice) + part(2, "g") + part(11, value_info("c", DType::Bool, {})) +
                      part(11, value_info("x", DType::F32, {2})) + part(12, value_info("y", DType::F32, {2}));
  ImportOptions no;
  no.constants["c"] = HostArray::zeros(DType::Bool, {});
  EXPECT_NE(imported(model(graph), no).find("of_else_branch: f32[2] = logarithm(x)\n"), std::string::npos);
  EXPECT_EQ(imported(model(graph)), "node `y` (If): its condition is no constant");
}

TEST_F(Onnx, OpenDimensionsNeedAShape) {
  std::string open =
      part(1, "x") + part(2, part(1, number(1, 1) + part(2, part(1, part(2, "batch")) + part(1, number(1, 3)))));
  std::string graph = part(1, node("Exp", {"x"}, {"y"})) + part(2, "g") + part(11, open) +
                      part(12, value_info("y", DType::F32, {2, 3}));
  EXPECT_EQ(imported(model(graph)), "input `x` has an open dimension `batch`: say its shape");
  ImportOptions options;
  options.shapes["x"] = {5, 3};
  EXPECT_EQ(imported(model(graph), options), "output `y` is declared as f32[2, 3], but its nodes make f32[5, 3]");
  options.shapes["x"] = {2, 3};
  EXPECT_NE(imported(model(graph), options).find("y: f32[2, 3] = exponential(x)"), std::string::npos);
  options.shapes["x"] = {2, 4};
  EXPECT_EQ(imported(model(graph), options), "dimension 1 of input `x` is 3 in the file, not 4");
}

// A dimension with a name has one extent in all inputs.
TEST_F(Onnx, NamedDimensionsAreTheSameInAllInputs) {
  auto with = [](const std::string& dimension, const ImportOptions& options) {
    std::string graph = part(1, node("Add", {"x", "z"}, {"y"})) + part(2, "g") +
                        part(11, test::open_value("x", {dimension, "3"})) +
                        part(11, test::open_value("z", {dimension, "3"})) + part(12, test::untyped("y"));
    return imported(model(graph), options);
  };
  ImportOptions one, both;
  one.shapes["z"] = {5, 3};
  EXPECT_NE(with("batch", one).find("input x: f32[5, 3]"), std::string::npos) << with("batch", one);
  both.shapes["x"] = {1, 3}, both.shapes["z"] = {5, 3};
  EXPECT_EQ(with("batch", both), "the dimension `batch` is 1 in input `x` and 5 in input `z`; it is to be the same");
  EXPECT_EQ(with("?", one), "input `x` has an open dimension `?`: say its shape");
  EXPECT_NE(with("?", both).find("input x: f32[1, 3]"), std::string::npos) << with("?", both);
}

// Data of a constant in a file of its own, which must lie beside the model and be long enough.
TEST_F(Onnx, ExternalDataLiesBesideTheModel) {
  fs::path data = fs::path(testing::TempDir()) / "weights.bin";
  std::ofstream(data, std::ios::binary) << std::string(8, 'x');
  auto with = [](const std::string& location, i64 extent, const std::string& key = "", const std::string& value = "") {
    std::string entry = part(13, part(1, "location") + part(2, location));
    if (!key.empty()) entry += part(13, part(1, key) + part(2, value));
    std::string tensor = number(1, static_cast<u64>(extent)) + number(2, 1) + part(8, "w") + entry + number(14, 1);
    std::string graph = part(1, node("Exp", {"x"}, {"y"})) + part(2, "g") + part(5, tensor) +
                        part(11, value_info("x", DType::F32, {2})) + part(12, value_info("y", DType::F32, {2}));
    return imported(model(graph));
  };
  EXPECT_NE(with("weights.bin", 2).find("const w: f32[2]"), std::string::npos);
  EXPECT_EQ(with("weights.bin", 3), "constant `w`: `weights.bin` does not have its data");
  EXPECT_EQ(with("weights.bin", i64{1} << 31), "constant `w`: `weights.bin` does not have its data");
  EXPECT_EQ(with("no.bin", 2), "constant `w`: `no.bin` does not have its data");
  for (const char* outside : {"../weights.bin", "a/../../weights.bin", "/etc/passwd"})
    EXPECT_NE(with(outside, 2).find("which is not beside the model"), std::string::npos) << outside;
  for (const char* bad : {"64x", "abc", "", "-1", " 0", "99999999999999999999"}) {
    EXPECT_EQ(with("weights.bin", 1, "offset", bad),
              cat("constant `w`: the offset `", bad, "` of its external data is no number"));
    EXPECT_EQ(with("weights.bin", 1, "length", bad),
              cat("constant `w`: the length `", bad, "` of its external data is no number"));
  }
  for (const char* length : {"4", "12", "0"})
    EXPECT_EQ(with("weights.bin", 2, "length", length),
              cat("constant `w`: its external data has ", length, " bytes, but its shape and type need 8"));
  EXPECT_NE(with("weights.bin", 2, "length", "8").find("const w: f32[2]"), std::string::npos);
  EXPECT_NE(with("weights.bin", 1, "offset", "4").find("const w: f32[1]"), std::string::npos);
  EXPECT_EQ(with("weights.bin", 2, "offset", "4"), "constant `w`: `weights.bin` does not have its data");
  fs::remove(data);
}

// Also where they stand in a function.
TEST_F(Onnx, ExternalDataOfConstantsIsThatOfInitializers) {
  fs::path data = fs::path(testing::TempDir()) / "numbers.bin";
  std::ofstream(data, std::ios::binary) << std::string(8, 'x');
  auto with = [](const std::string& location, i64 extent) {
    std::string tensor = number(1, static_cast<u64>(extent)) + number(2, 1) +
                         part(13, part(1, "location") + part(2, location)) + number(14, 1);
    std::string constant = node("Constant", {}, {"w"}, part(5, part(1, "value") + part(5, tensor) + number(20, 4)));
    std::string function = part(1, "f") + part(4, "a") + part(5, "b") + part(7, constant) +
                           part(7, node("Add", {"a", "w"}, {"b"})) + part(10, "own");
    std::string graph = part(1, node("f", {"x"}, {"y"}, "", "own")) + part(2, "g") +
                        part(11, value_info("x", DType::F32, {2})) + part(12, value_info("y", DType::F32, {2}));
    return imported(model(graph, part(25, function)));
  };
  EXPECT_NE(with("numbers.bin", 2).find("const v: f32[2]"), std::string::npos) << with("numbers.bin", 2);
  EXPECT_EQ(with("numbers.bin", 3), "node `w` (Constant) of function `f`: `numbers.bin` does not have its data");
  for (const char* outside : {"../numbers.bin", "/etc/passwd"})
    EXPECT_EQ(with(outside, 2), cat("node `w` (Constant) of function `f`: its data is to come from `", outside,
                                    "`, which is not beside the model"));
  fs::remove(data);
}

// One that stays in the folder is as good as a file.
TEST_F(Onnx, LinksOfExternalDataStayInTheFolder) {
  fs::path folder = fs::path(testing::TempDir()) / cat("linked_", getpid());
  fs::create_directories(folder / "model/below");
  std::ofstream(folder / "secret.bin", std::ios::binary) << std::string(8, 'x');
  std::ofstream(folder / "model/below/data.bin", std::ios::binary) << std::string(8, 'x');
  fs::create_symlink("../secret.bin", folder / "model/out.bin");
  fs::create_directory_symlink("..", folder / "model/up");
  fs::create_symlink("below/data.bin", folder / "model/in.bin");
  fs::create_symlink("loop.bin", folder / "model/loop.bin");
  std::string path = (folder / "model/m.onnx").string();
  auto from = [&](const std::string& location) {
    std::string entry = part(13, part(1, "location") + part(2, location));
    std::string tensor = number(1, 2) + number(2, 1) + part(8, "w") + entry + number(14, 1);
    std::string graph = part(1, node("Exp", {"x"}, {"y"})) + part(2, "g") + part(5, tensor) +
                        part(11, value_info("x", DType::F32, {2})) + part(12, value_info("y", DType::F32, {2}));
    std::ofstream(path, std::ios::binary) << model(graph);
    auto made = import_onnx(path);
    auto* problems = std::get_if<ImportProblems>(&made);
    return problems ? join(problems->lines, "\n") : to_string(std::get<Graph>(made));
  };
  for (const char* outside : {"out.bin", "up/secret.bin"})
    EXPECT_EQ(from(outside),
              cat("constant `w`: its data is to come from `", outside, "`, which is not beside the model"));
  EXPECT_NE(from("in.bin").find("const w: f32[2]"), std::string::npos) << from("in.bin");
  EXPECT_EQ(from("loop.bin"), "constant `w`: `loop.bin` does not have its data");
  // Caches of downloads keep the files in one folder and links with their names in another.
  fs::create_directories(folder / "named");
  fs::create_symlink("../model/m.onnx", folder / "named/m.onnx");
  fs::create_symlink("../model/below/data.bin", folder / "named/data.bin");
  fs::create_symlink("../secret.bin", folder / "named/out.bin");
  path = (folder / "named/m.onnx").string();
  EXPECT_NE(from("data.bin").find("const w: f32[2]"), std::string::npos) << from("data.bin");
  EXPECT_NE(from("out.bin").find("which is not beside the model"), std::string::npos) << from("out.bin");
  // A path without a folder.
  const fs::path before = fs::current_path();
  fs::current_path(folder / "model");
  path = "m.onnx";
  EXPECT_EQ(from("no.bin"), "constant `w`: `no.bin` does not have its data");
  EXPECT_NE(from("in.bin").find("const w: f32[2]"), std::string::npos) << from("in.bin");
  fs::current_path(before);
  fs::remove_all(folder);
}

TEST_F(Onnx, EveryProblemIsSaidAndNothingThatFollowsFromIt) {
  std::string graph = part(1, node("Foo", {"x"}, {"a"})) + part(1, node("Exp", {"a"}, {"b"})) +
                      part(1, node("Softmax", {"x"}, {"c"}, test::integer("axis", 7))) +
                      part(1, node("Log", {"c"}, {"y"})) + part(2, "g") +
                      part(11, value_info("x", DType::F32, {2, 3})) + part(12, value_info("y", DType::F32, {2, 3}));
  EXPECT_EQ(imported(model(graph)),
            "node `a` (Foo): this operator is not supported\n"
            "node `c` (Softmax): there is no dimension 7 of 2");
}

// An open input is no reason to say nothing of the nodes.
TEST_F(Onnx, ProblemsOfAllKindsAreSaidAtOnce) {
  std::string function = part(1, "f") + part(4, "a") + part(5, "c") + part(7, node("Exp", {"a"}, {"b"})) +
                         part(7, node("Det", {"b"}, {"c"})) + part(10, "own");
  std::string words = number(1, 1) + number(2, 8) + part(8, "words") + part(6, "one");
  std::string nodes;
  for (const std::string& made :
       {node("Foo", {"x"}, {"a"}), node("Exp", {"a"}, {"b"}), node("f", {"b"}, {"c"}, "", "own"),
        node("Bar", {"c"}, {"d"}, "", "other"), node("Softmax", {"z"}, {"y"}, test::integer("axis", 7)),
        node("StringConcat", {"words", "words"}, {"e"})})
    nodes += part(1, made);
  std::string graph = nodes + part(2, "g") + part(5, words) + part(11, test::open_value("x", {"batch", "3"})) +
                      part(11, test::open_value("t", {"2"}, 8)) + part(11, value_info("z", DType::F32, {2, 3})) +
                      part(12, test::untyped("d")) + part(12, test::untyped("y"));
  EXPECT_EQ(imported(model(graph, part(25, function))),
            "constant `words`: elements of type STRING are not supported\n"
            "input `x` has an open dimension `batch`: say its shape\n"
            "input `t` has elements of type STRING, which is not supported\n"
            "node `a` (Foo): this operator is not supported\n"
            "node `c` (Det) of function `f`: this operator is not supported: nobody has written it yet\n"
            "node `d` (Bar): operators of `other` are not supported\n"
            "node `y` (Softmax): there is no dimension 7 of 2\n"
            "node `e` (StringConcat): this operator is not supported: text is not supported");
}

// A file that somebody damaged gives a graph or problems.
TEST_F(OnnxCases, DamagedFilesAreRefusedOrImported) {
  std::vector<fs::path> all = cases();
  fs::path path = fs::path(testing::TempDir()) / "damaged.onnx";
  Rng rng(7);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    const fs::path& from = all[static_cast<std::size_t>(rng.below(static_cast<i64>(all.size())))];
    std::ifstream file(from / "model.onnx", std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    std::string bytes = text.str();
    if (bytes.size() > 4096 || bytes.empty()) continue;
    if (round % 4 == 0) bytes.resize(static_cast<std::size_t>(rng.below(static_cast<i64>(bytes.size()))));
    for (int i = 0; i < 1 + round % 3 && !bytes.empty(); ++i)
      bytes[static_cast<std::size_t>(rng.below(static_cast<i64>(bytes.size())))] = static_cast<char>(rng.below(256));
    std::ofstream(path, std::ios::binary) << bytes;
    refused += std::holds_alternative<ImportProblems>(import_onnx(path.string()));
  }
  EXPECT_GT(refused, 1000);
  fs::remove(path);
}

}  // namespace
}  // namespace tw::graph

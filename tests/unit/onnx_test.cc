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

namespace tw::graph {
namespace {

namespace fs = std::filesystem;

// Of Debian's libonnx-testdata: one folder for each operator and variant, with inputs and outputs.
const fs::path kCases = "/usr/lib/python3/dist-packages/onnx/backend/test/data/node";

std::vector<fs::path> cases() {
  std::vector<fs::path> found;
  std::error_code missing;
  for (const fs::directory_entry& entry : fs::directory_iterator(kCases, missing)) found.push_back(entry.path());
  std::ranges::sort(found);
  return found;
}

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
    if (!is_near(*wanted, (*found)[i])) return cat("wrong: output ", i);
  }
  return "";
}

TEST(Onnx, NodeTestsThatAreImportedAreRight) {
  if (cases().empty()) GTEST_SKIP() << "libonnx-testdata is not installed";
  int right = 0;
  for (const fs::path& folder : cases()) {
    std::string what = outcome(folder);
    EXPECT_FALSE(what.starts_with("wrong")) << folder.filename() << ": " << what;
    right += what.empty();
  }
  EXPECT_GE(right, 696) << "of " << cases().size();
}

TEST(Onnx, AGraphAsText) {
  if (cases().empty()) GTEST_SKIP() << "libonnx-testdata is not installed";
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
            "  output y_8\n");
}

TEST(Onnx, WhatCannotBeImportedIsSaidWithTheNode) {
  auto lines = [](const char* name) {
    auto imported = import_onnx((kCases / name / "model.onnx").string());
    auto* problems = std::get_if<ImportProblems>(&imported);
    return problems ? join(problems->lines, "\n") : std::string("imported");
  };
  EXPECT_NE(lines("no_such_case").find("cannot be read, is no ONNX file or is damaged"), std::string::npos);
  if (cases().empty()) GTEST_SKIP() << "libonnx-testdata is not installed";
  EXPECT_EQ(lines("test_det_2d"), "node `y` (Det): this operator is not supported");
  EXPECT_EQ(lines("test_reshape_one_dim"), "node `reshaped` (Reshape): input 1 is no constant");
}

// A file that somebody damaged gives a graph or problems.
TEST(Onnx, DamagedFilesAreRefusedOrImported) {
  if (cases().empty()) GTEST_SKIP() << "libonnx-testdata is not installed";
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

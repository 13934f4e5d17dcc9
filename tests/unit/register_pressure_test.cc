// backends/llvm/register_pressure.h, by the code that comes out.
#include <gtest/gtest.h>

#include <algorithm>
#include <regex>
#include <sstream>

#include "backends/backend.h"
#include "backends/interpreter.h"
#include "backends/target.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "dsl/passes/lower.h"
#include "runtime/measure/object_loader.h"
#include "support/aligned.h"
#include "support/scheduled.h"

namespace tw {
namespace {

// Tiles of rows x vectors of 8, on a processor with 16 registers.
struct Tile {
  int rows, vectors, unroll = 1;
};

std::ostream& operator<<(std::ostream& out, const Tile& tile) {
  return out << tile.rows << " x " << tile.vectors << ", unrolled " << tile.unroll;
}

const CodegenTarget kAvx2{.triple = "x86_64-pc-linux-gnu", .cpu = "x86-64-v3", .vector_bits = 256};

LlvmCompiler compiler() {
  Result<LlvmCompiler> made = LlvmCompiler::create(kAvx2);
  EXPECT_TRUE(made);
  made->set_verify(true);
  return std::move(*made);
}

// The borders of an image leave out a row of the tile in two of three steps over the columns of the filter.
test::Scheduled convolution(const Tile& tile) {
  return test::Scheduled(
      "conv2d(N = 1, H = 7, W = 7, CI = 8, CO = 32, K = 3, stride = 1, padding = 1)", {},
      cat("p = get_block(\"P\")\ncompute_inline(p)\n"
          "y = get_block(\"Y\")\n"
          "n, h, w, co, ky, kx, ci = get_loops(y)\n"
          "j0, jv = split(co, [_, ",
          8 * tile.vectors, "])\ni0, ir = split(w, [_, ", tile.rows, "])\nk0, k1 = split(ci, [_, ", tile.unroll,
          "])\nreorder([n, h, j0, i0, ky, kx, k0, k1, ir, jv])\npromote(y, 0, ky)\n"
          "unroll(k1)\nunroll(ir)\nvectorize(jv)\n"));
}

// Each row of the filter is behind the test whether it is inside of the image: its columns are no loop. Of the columns
// of the image those of one tile meet the border.
test::Scheduled depthwise(const Tile& tile) {
  return test::Scheduled(
      cat("depthwise_conv2d(N = 1, H = 8, W = ", 4 * tile.rows, ", C = 64, K = 3, stride = 1, padding = 1)"), {},
      cat("p = get_block(\"P\")\ncompute_inline(p)\n"
          "y = get_block(\"Y\")\n"
          "n, h, w, c, ky, kx = get_loops(y)\n"
          "j0, jv = split(c, [_, ",
          8 * tile.vectors, "])\ni0, ir = split(w, [_, ", tile.rows,
          "])\nk0, k1 = split(kx, [_, 8])\nreorder([n, h, i0, j0, ky, k0, k1, ir, jv])\npromote(y, 0, ky)\n"
          "unroll(k1)\nunroll(ir)\nvectorize(jv)\n"));
}

test::Scheduled product(const Tile& tile) {
  return test::Scheduled(cat("dense(M = ", 4 * tile.rows, ", N = 96, K = 32)"), {},
                         test::dense_schedule({.rows = tile.rows, .columns = 8 * tile.vectors, .unroll = tile.unroll}));
}

// Lines of loops of one block that multiply and touch the stack.
std::vector<std::string> stack_in_loops(const std::string& assembly) {
  std::vector<std::string> found, since;
  std::istringstream lines(assembly);
  std::string label;
  bool multiplies = false;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(".L")) label = line.substr(0, line.find(':')), since.clear(), multiplies = false;
    multiplies |= line.find("vfmadd") != std::string::npos;
    if (line.find("(%rsp") != std::string::npos) since.push_back(line);
    bool is_loop = std::regex_search(line, std::regex("\\sj[a-z]+\\s")) && line.ends_with(label);
    if (is_loop && multiplies) found.insert(found.end(), since.begin(), since.end());
  }
  return found;
}

int lines_with(const std::string& text, const char* pattern) {
  const std::regex wanted(pattern);
  int count = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) count += std::regex_search(line, wanted);
  return count;
}

class RegisterPressure : public testing::TestWithParam<Tile> {
 protected:
  LoweredProgram lowered(const test::Scheduled& scheduled) {
    Result<LoweredProgram> lowered = lower(arena_, scheduled.program(), {.vector_bits = 256, .vector_registers = 16});
    EXPECT_TRUE(lowered) << to_string(lowered.rejected());
    return lowered ? *lowered : LoweredProgram();
  }

  // Small integers: sums are exact.
  void expect_right(const test::Scheduled& scheduled) {
    if (host_target().vector_bits < 256) GTEST_SKIP() << "the code is for AVX2, which this processor lacks";
    Result<Kernel> kernel = compiler().compile(lowered(scheduled), "f");
    ASSERT_TRUE(kernel) << to_string(kernel.rejected());
    std::string error;
    LoadedObject loaded = load_object(kernel->code, error);
    ASSERT_EQ(error, "");
    std::vector<HostArray> arrays;
    std::vector<Aligned<float>> memory;
    std::vector<void*> pointers;
    Rng rng(3);
    for (const Param& param : scheduled.base().program.params) {
      const Buffer* buffer = param.buffer;
      arrays.push_back(HostArray::zeros(buffer->dtype, {buffer->shape.begin(), buffer->shape.end()}));
      memory.emplace_back(static_cast<std::size_t>(arrays.back().elements()));
      for (i64 i = 0; i < arrays.back().elements(); ++i) {
        arrays.back().set(i, static_cast<double>(rng.below(7)) - 3);
        memory.back()[i] = static_cast<float>(arrays.back().get(i));
      }
    }
    for (auto& data : memory) pointers.push_back(data.data());
    ASSERT_EQ(interpret(scheduled.base().program, arrays), "");
    ASSERT_EQ(loaded.run("f")(pointers.data(), nullptr, nullptr, nullptr), 0);
    for (i64 i = 0; i < arrays.back().elements(); ++i) ASSERT_EQ(memory.back()[i], arrays.back().get(i)) << i;
  }

 private:
  Arena arena_;
};

TEST_P(RegisterPressure, LoopsTouchNoStack) {
  for (const test::Scheduled& scheduled : {product(GetParam()), convolution(GetParam())}) {
    std::string text = *compiler().emit(lowered(scheduled), "f", Emit::Assembly);
    EXPECT_NE(text.find("vfmadd"), std::string::npos);
    std::vector<std::string> lines = stack_in_loops(text);
    EXPECT_EQ(lines, std::vector<std::string>()) << text;
  }
}

class RegisterPressureOfWindows : public RegisterPressure {};

TEST_P(RegisterPressureOfWindows, RowsOfAWindowHardlyTouchTheStack) {
  std::string text = *compiler().emit(lowered(depthwise(GetParam())), "f", Emit::Assembly);
  const int multiplications = lines_with(text, "vfmadd"), spills = lines_with(text, "rsp.*ymm|ymm.*rsp");
  EXPECT_GE(multiplications, 3 * GetParam().rows * GetParam().vectors) << text;
  EXPECT_LE(4 * spills, multiplications) << text;
}

TEST_P(RegisterPressure, ResultsStayTheSame) { expect_right(convolution(GetParam())); }
TEST_P(RegisterPressureOfWindows, ResultsStayTheSame) { expect_right(depthwise(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Tiles, RegisterPressure,
                         testing::Values(Tile{7, 2, 1}, Tile{7, 2, 2}, Tile{7, 2, 8}, Tile{3, 4, 1}, Tile{3, 4, 4},
                                         Tile{6, 2, 4}, Tile{4, 3, 4}, Tile{2, 6, 2}, Tile{1, 8, 4}));
INSTANTIATE_TEST_SUITE_P(Tiles, RegisterPressureOfWindows,
                         testing::Values(Tile{7, 2}, Tile{3, 4}, Tile{6, 2}, Tile{4, 3}, Tile{2, 6}, Tile{1, 8},
                                         Tile{10, 1}, Tile{12, 1}, Tile{14, 1}));

}  // namespace
}  // namespace tw

// What the built-in rule sets do to every operator of the library, and what each rule for processors does.
#include <gtest/gtest.h>

#include <array>
#include <set>

#include "dsl/ir/print.h"
#include "tests/unit/space_kit.h"

namespace tw {
namespace {

OwnedProgram transposed_convolution(i64 size, i64 stride, i64 window, i64 ci, i64 co) {
  return workload("conv2d_transposed", {{"N", i64{1}},
                                        {"H", size},
                                        {"W", size},
                                        {"CI", ci},
                                        {"CO", co},
                                        {"K", window},
                                        {"stride", stride},
                                        {"padding", i64{1}}});
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
    return transposed_convolution(size, stride, window, 2, 20);
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

// A convolution of each channel by itself may pad its image for a tile of channels, if a vector of them fits into the
// first cache (32 KiB).
TEST(RegisterTiling, ImagesArePaddedForSomeChannelsAtATime) {
  auto depthwise = [](i64 n, i64 size, i64 channels, i64 stride = 1) {
    return workload(
        "depthwise_conv2d",
        {{"N", n}, {"H", size}, {"W", size}, {"C", channels}, {"K", i64{3}}, {"stride", stride}, {"padding", i64{1}}});
  };
  std::string text = space_text(depthwise(1, 7, 64));
  EXPECT_NE(text.find("compute_at(b_P, j1"), std::string::npos) << text;
  EXPECT_NE(text.find("transform_layout(b_P, 0, \"write\""), std::string::npos) << text;
  EXPECT_NE(text.find("unroll(ky)"), std::string::npos) << text;
  EXPECT_EQ(space_text(depthwise(1, 30, 64)).find("transform_layout(b_P, 0"), std::string::npos)
      << "32 x 32 pixels of 64 bytes do not fit";
  OwnedProgram all_channels = workload("conv2d", {{"N", i64{1}},
                                                  {"H", i64{7}},
                                                  {"W", i64{7}},
                                                  {"CI", i64{8}},
                                                  {"CO", i64{64}},
                                                  {"K", i64{3}},
                                                  {"padding", i64{1}}});
  EXPECT_EQ(space_text(all_channels).find("transform_layout(b_P, 0"), std::string::npos)
      << "all columns read one image";
  const char* run_time = R"(workload convolution() {
  input X: f32[7, 7, 8], W: f32[3, 3, 8, 64]
  P[y: 9, x: 9, c: 8] = if y >= 1 and y < 8 and x >= 1 and x < 8 then X[y - 1, x - 1, c] else 0
  output Y[y: 7, x: 7, o: 64] = sum(ky: 3, kx: 3, c: 8) P[y + ky, x + kx, c] * W[ky, kx, c, o]
})";
  EXPECT_EQ(space_text(program_of(run_time, "convolution")).find("transform_layout(b_P, 0"), std::string::npos);
  Drawn drawn;
  for (int threads : {1, 2}) {
    check_space(depthwise(2, 5, 20), "depthwise", "cpu", threads, drawn);
    check_space(depthwise(1, 8, 33, 2), "depthwise by 2", "cpu", threads, drawn);
  }
  EXPECT_GE(drawn.lowered, drawn.draws * 9 / 10) << drawn.unlowered;
  EXPECT_LE(drawn.rejected, drawn.draws / 20) << drawn.reasons;
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

// The rows of a stage with a long chain of operations are a loop, so that the machine code of each is short.
TEST(RegisterTiling, RowsOfStagesThatCallFunctionsAreALoop) {
  auto space_with = [](const char* stage) {
    return space_text(workload("dense", {{"M", i64{48}}, {"N", i64{64}}, {"K", i64{32}}}, {"bias", stage}));
  };
  EXPECT_NE(space_with("relu").find("unroll(i_1)"), std::string::npos);
  std::string gelu = space_with("gelu");
  EXPECT_EQ(gelu.find("unroll(i_1)"), std::string::npos) << gelu;
  EXPECT_NE(gelu.find("vectorize(j_1)"), std::string::npos) << gelu;
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

// The sum reads an operand along two dimensions, as a product of a reshaped one does.
constexpr const char* kParted = R"(workload parted() {
  input X: f32[12, 64], B: f32[4, 3, 16]
  output Y: f32[i: 12, j: 3] = sum(k: 64) X[i, k] * B[k // 16, j, k % 16]
}
workload parted_constant() {
  input X: f32[12, 64]
  const B: f32[4, 3, 16]
  output Y: f32[i: 12, j: 3] = sum(k: 64) X[i, k] * B[k // 16, j, k % 16]
})";

// Products and convolutions with fewer columns than a vector has lanes (8), with and without a tail of the sum.
TEST(FewColumns, DrawsComputeTheSame) {
  Drawn drawn;
  auto product = [](const char* op, i64 m, i64 n, i64 k) { return workload(op, {{"M", m}, {"N", n}, {"K", k}}); };
  Rng rng(7, 0);
  for (int i = 0; i < 12; ++i) {
    i64 m = 1 + rng.below(20), n = 1 + rng.below(7), k = 16 + rng.below(40);
    for (const char* op : {"matmul", "dense"})
      check_space(product(op, m, n, k), cat(op, " ", m, " ", n, " ", k), "cpu", 1 + i % 2, drawn);
  }
  check_space(workload("dense", {{"M", i64{9}}, {"N", i64{3}}, {"K", i64{20}}}, {"bias", "gelu"}), "bias, gelu", "cpu",
              1, drawn);
  check_space(workload("dense", {{"M", i64{9}}, {"N", i64{3}}, {"K", i64{20}}, {"T", DType::F16}}), "halves", "cpu", 1,
              drawn);
  for (i64 stride : {1, 2}) {
    check_space(workload("conv2d", {{"N", i64{1}},
                                    {"H", i64{5}},
                                    {"W", i64{7}},
                                    {"CI", i64{17}},
                                    {"CO", i64{3}},
                                    {"K", i64{3}},
                                    {"stride", stride},
                                    {"padding", i64{1}}}),
                "conv2d", "cpu", 2, drawn);
  }
  for (auto [stride, window] : {std::pair<i64, i64>{1, 3}, {2, 3}, {2, 4}, {3, 4}})
    check_space(transposed_convolution(3, stride, window, 16, 2), cat("transposed by ", stride), "cpu", 2, drawn);
  for (const char* name : {"parted", "parted_constant"}) check_space(program_of(kParted, name), name, "cpu", 2, drawn);
  EXPECT_GT(drawn.draws, 100);
  EXPECT_EQ(drawn.rejected, 0) << drawn.reasons;
  EXPECT_EQ(drawn.lowered, drawn.draws) << drawn.unlowered;
}

// How often the text stands in the space of a product.
std::size_t count_in_space(const OwnedProgram& made, const std::string& wanted) {
  std::string text = space_text(made);
  std::size_t count = 0;
  for (std::size_t at = text.find(wanted); at != std::string::npos; at = text.find(wanted, at + 1)) ++count;
  return count;
}

// Vectors have sixteen lanes here.
TEST(FewColumns, VectorsRunAlongTheSum) {
  auto dense = [](i64 n, i64 k) { return workload("dense", {{"M", i64{40}}, {"N", n}, {"K", k}}); };
  for (i64 n : {1, 3, 15}) {
    EXPECT_EQ(count_in_space(dense(n, 64), "rfactor(kv, -1)"), 1u) << n;
    EXPECT_EQ(count_in_space(dense(n, 64), "\"horizontal\", 1)"), 1u) << n;
    EXPECT_GE(count_in_space(dense(n, 64), "jv = split("), 1u) << n << ": a register tile is the other choice";
  }
  EXPECT_EQ(count_in_space(dense(16, 64), "rfactor("), 0u) << "as many columns as lanes";
  EXPECT_EQ(count_in_space(dense(3, 31), "rfactor("), 0u) << "a sum of less than two vectors";
  std::string text = space_text(dense(8, 64));
  EXPECT_NE(text.find("require((((r * 8) + min(r, 8)) + 1) <= 32)"), std::string::npos) << text;
  // Weights of a convolution lie apart along the sum, those of a dense layer side by side.
  OwnedProgram to_image = transposed_convolution(4, 2, 4, 32, 3);
  EXPECT_EQ(count_in_space(dense(3, 64), "kv = split(k, [_, u, 16])"), 1u);
  text = space_text(to_image);
  EXPECT_NE(text.find("(p2 // 16, p0, p1, p3, p2 % 16)"), std::string::npos) << text;
  EXPECT_NE(text.find("r = sample_categorical([2, 4, 6, 8])"), std::string::npos) << "whole phases\n" << text;
  EXPECT_NE(text.find("unroll(kx)"), std::string::npos) << "the zeros between pixels are known\n" << text;
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

}  // namespace
}  // namespace tw

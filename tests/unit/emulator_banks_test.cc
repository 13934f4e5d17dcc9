// Bank conflicts of shared memory as the emulator counts them: of loads, stores and asynchronous copies.
#include <gtest/gtest.h>

#include <regex>

#include "dsl/base/text.h"
#include "runtime/emulation/emulation.h"
#include "sampler/search/emulation_gate.h"
#include "support/drawn_kernels.h"
#include "support/kernels_by_hand.h"
#include "support/scheduled.h"

namespace tw {
namespace {

class EmulatorBanks : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string error;
    ASSERT_NE(emulation_compiler(error), "") << error << ": these tests were compiled, so there is a compiler";
  }
};

TEST_F(EmulatorBanks, ConflictsAreCounted) {
  struct Row {
    const char* body;
    i64 accesses, conflicts;
  };
  const Row rows[] = {
      {"__shared__ float s[32]; s[threadIdx.x] = 1; y[threadIdx.x] = s[threadIdx.x];", 2, 0},
      {"__shared__ float s[64]; s[threadIdx.x * 2] = 1; y[threadIdx.x] = 0;", 1, 1},
      {"__shared__ float s[1024]; s[threadIdx.x * 32] = 1; y[threadIdx.x] = 0;", 1, 31},
      {"__shared__ float s[1056]; s[threadIdx.x * 33] = 1; y[threadIdx.x] = 0;", 1, 0},
      {"__shared__ float s[1]; if (threadIdx.x == 0) s[0] = 1; __syncthreads(); y[threadIdx.x] = s[0];", 2, 0},
      {"__shared__ float s[128] __attribute__((aligned(64))); *(float4*)(s + threadIdx.x * 4) = make_float4(1, 2, 3, "
       "4); y[threadIdx.x] = 0;",
       1, 0},
      {"__shared__ float s[256] __attribute__((aligned(64))); *(float4*)(s + threadIdx.x * 8) = make_float4(1, 2, 3, "
       "4); y[threadIdx.x] = 0;",
       1, 4},
      {"__shared__ float s[64]; for (int i = 0; i < 4; ++i) s[(threadIdx.x * 2 + i) % 64] = 1, __syncthreads(); "
       "y[threadIdx.x] = 0;",
       4, 4},
  };
  for (const Row& row : rows) {
    std::vector<double> y;
    EmulationReport report = test::emulate_by_hand(row.body, y, 32, 1);
    ASSERT_EQ(report.status, EmulationStatus::Ok) << report.message;
    EXPECT_EQ(report.warp_accesses, row.accesses) << row.body;
    EXPECT_EQ(report.bank_conflicts, row.conflicts) << row.body;
  }
}

// What copies write is counted where they are issued, zeros as well, and with the width of the copy: half warps write 8
// bytes at once, quarter warps 16.
TEST_F(EmulatorBanks, ConflictsOfAsynchronousCopiesAreCounted) {
  struct Row {
    int bytes, stride;  // floats from one lane's to the next one's
    i64 conflicts;
  };
  const Row rows[] = {
      {4, 1, 0},  {4, 2, 1},  {4, 32, 31},  {4, 33, 0},    // one round for 32 lanes
      {8, 2, 0},  {8, 4, 2},  {8, 16, 14},  {8, 18, 0},    // 16 lanes, 8 banks apart at most: two rounds each
      {16, 4, 0}, {16, 8, 4}, {16, 16, 12}, {16, 20, 0}};  // rows of 64 bytes, and padded to 80
  for (const Row& row : rows) {
    std::string array = "__shared__ __attribute__((aligned(128))) float s[1056]; ",
                operands = cat("(s + threadIdx.x * ", row.stride, ", x + threadIdx.x % 8 * 4");
    std::string wait = "tw_copy_async_commit(); tw_copy_async_wait<0>(); y[threadIdx.x] = 0;";
    for (const std::string& copy : {cat("tw_copy_async_", row.bytes, operands, "); "),
                                    cat("tw_copy_async_or_zeros_", row.bytes, operands, ", threadIdx.x % 2 == 0); ")}) {
      std::vector<double> y;
      EmulationReport report = test::emulate_by_hand(array + copy + wait, y, 32, 1);
      ASSERT_EQ(report.status, EmulationStatus::Ok) << report.message;
      EXPECT_EQ(report.warp_accesses, 1) << copy;
      EXPECT_EQ(report.bank_conflicts, row.conflicts) << copy;
      EXPECT_EQ(report.shared_accesses, 32) << copy;
    }
  }
}

// Copies that are issued between the same barriers are apart, and one that arrives behind a barrier counts once.
TEST_F(EmulatorBanks, EachAsynchronousCopyIsCountedOnce) {
  const char* body = R"(__shared__ __attribute__((aligned(128))) float s[2][640];
for (int i = 0; i < 2; ++i) tw_copy_async_16(s[i] + threadIdx.x * 16, x + threadIdx.x % 8 * 4);
tw_copy_async_commit();
__syncthreads();
tw_copy_async_wait<0>();
__syncthreads();
y[threadIdx.x] = 0;)";
  std::vector<double> y;
  EmulationReport report = test::emulate_by_hand(body, y, 32, 1);
  ASSERT_EQ(report.status, EmulationStatus::Ok) << report.message;
  EXPECT_EQ(report.warp_accesses, 2);
  EXPECT_EQ(report.bank_conflicts, 24);
}

// Copies in pieces of 16 bytes, by 64 work-items; X stands for the block.
std::string copies(const std::string& block, const std::string& loops, const std::string& layout) {
  std::string text = R"(X_piece, X_v = split(X_row, [_, 8])
reorder([X_rows, X_piece, X_v])
X_all = fuse([X_rows, X_piece])
X_f, X_t = split(X_all, [_, 64])
reorder([X_t, X_f, X_v])
bind(X_t, "threadIdx.x")
vectorize(X_v)
)";
  return std::regex_replace(cat("X_i, X_j, X_k, ", loops, " = get_loops(X)\n", text, layout, "\n"), std::regex("X"),
                            block);
}

// A product of halves by one warp of a group for each 32 rows, which reads 64 x 64 and 64 x 32 by ldmatrix: the second
// operand is turned. All copies are of 16 bytes.
std::string mma_schedule(const std::string& layout) {
  return cat(R"(b = get_block("C_acc")
i, j, k = get_loops(b)
rows = reindex_cache_read(b, 0, "shared", (r, c, s) -> (r, s))
columns = reindex_cache_read(b, 1, "shared", (r, c, s) -> (s, c))
i0, iw, ip, ih, il = split(i, [_, 2, 2, 2, 8])
j0, jp, jl, je = split(j, [_, 4, 4, 2])
k0, k1, kk = split(k, [_, 4, 16])
reorder([i0, j0, k0, iw, il, jl, k1, ip, jp, ih, je, kk])
bind(i0, "blockIdx.y")
bind(j0, "blockIdx.x")
t = fuse([iw, il, jl])
bind(t, "threadIdx.x")
promote(b, 0, k0)
annotate(ih, "warp_mma", 1)
compute_at(rows, k0, keep_units = true)
compute_at(columns, k0, keep_units = true)
unroll(k1)
unroll(ip)
unroll(jp)
)",
             copies("rows", "X_rows, X_row", layout), copies("columns", "X_row, X_rows", layout),
             "pipeline(k0, 2)\nmake_async(rows)\nmake_async(columns)\n");
}

TEST_F(EmulatorBanks, PaddingAndExchangedPiecesFreeReadsOfMatrices) {
  const char* use = "matmul(M = 64, N = 32, K = 128, T = f16)";
  struct Row {
    const char* layout;
    bool are_reads_free;
    i64 of_copies = 0;
  };
  // A quarter warp copies two rows of the second operand, which have 64 bytes; where these are padded to 80, 4 banks of
  // the two meet in each of 4 quarters of 16 accesses.
  for (const Row& row : {Row{"", false},
                         {"storage_align(X, 0, -2, 16, 8)", true, 4 * 16},
                         {"set_layout(X, 0, \"xor\", 3)", true},
                         {"set_layout(X, 0, \"xor\", 1)", false}}) {
    test::Scheduled scheduled(use, {}, mma_schedule(row.layout));
    Kernel kernel = test::cuda_kernel(scheduled.program());
    ASSERT_NE(kernel.code.find("tw_ldmatrix_x4_trans("), std::string::npos) << kernel.code;
    EmulationVerdict verdict = check_by_emulation(scheduled.base().program, {kernel, scheduled.program()});
    EXPECT_EQ(verdict.kind, EmulationVerdict::Right) << row.layout << verdict.message;
    // Two warps read 2 x 4 times 16 x 16 of A and 2 x 4 times 16 x 16 of B in each of two passes; 512 bytes are copied
    // at once.
    EXPECT_EQ(verdict.report.warp_accesses, 2 * (8 + 8) * 2 + (64 * 128 + 128 * 32) * 2 / 512)
        << row.layout << kernel.code;
    if (row.are_reads_free)
      EXPECT_EQ(verdict.report.bank_conflicts, row.of_copies) << row.layout << "\n" << kernel.code;
    else
      EXPECT_GT(verdict.report.bank_conflicts, row.of_copies) << row.layout;
  }
}

}  // namespace
}  // namespace tw

// The analytic model of GPUs: its counts are those that one finds by hand, and it orders kernels whose order is known.
#include "costmodel/gpu/gpu_draft.h"

#include <gtest/gtest.h>

#include <cmath>

#include "dsl/base/text.h"
#include "runtime/lists/device_file.h"
#include "support/device_schedules.h"
#include "support/parsed.h"
#include "support/scheduled.h"

namespace tw {
namespace {

GpuDevice device(const std::string& name) {
  Target target;
  target.kind = TargetKind::Cuda;
  target.gpu = name;
  for (const std::string& built_in : built_in_devices()) {
    for (const char* arch : {"sm_80", "sm_89", "sm_90a"}) {
      std::string errors;
      target.arch = arch;
      if (built_in == name && device_of(target, errors)) return *device_of(target, errors);
    }
  }
  ADD_FAILURE() << name;
  return {};
}

// One thread for each point of the output, `threads` to a block along the last loop, or along the one before it.
std::string naive(int threads, bool along_rows = false) {
  const char *split = along_rows ? "i" : "j", *other = along_rows ? "j" : "i";
  return cat("b = get_block(\"C\")\ni, j, k = get_loops(b)\nreorder([", other, ", ", split, "])\ng, t = split(", split,
             ", [_, ", threads, "])\nbind(g, \"blockIdx.x\")\nbind(t, \"threadIdx.x\")\nbind(", other,
             ", \"blockIdx.y\")\n");
}

// Of the first kernel of a program on an A100.
KernelEstimate estimate_of(const std::string& program) {
  GpuDraft draft(device("a100"));
  draft.seconds(test::parsed(program).program);
  return draft.kernels().at(0);
}

double warp_instructions(const std::string& program) { return estimate_of(program).warp_instructions; }

class Model {
 public:
  explicit Model(const std::string& name = "a100") : draft_(device(name)) {}
  const KernelEstimate& operator()(const std::string& use, const std::string& schedule) {
    scheduled_ = std::make_unique<test::Scheduled>(use, std::vector<std::string>{}, schedule);
    seconds = draft_.seconds(scheduled_->program());
    return draft_.kernels().at(0);
  }
  double time(const std::string& use, const std::string& schedule) { return (*this)(use, schedule), seconds; }
  double seconds = 0;

 private:
  GpuDraft draft_;
  std::unique_ptr<test::Scheduled> scheduled_;
};

const char* kGemm = "matmul(M = 2048, N = 2048, K = 2048)";

TEST(GpuDraft, CountsWhatATiledProductMoves) {
  Model model;
  const KernelEstimate& tiled =
      model(kGemm, test::gpu_gemm_schedule({.ty = 16, .tx = 16, .rows = 8, .columns = 8, .depth = 8}));
  EXPECT_EQ(tiled.grid, (std::array<i64, 3>{16, 16, 1}));
  EXPECT_EQ(tiled.threads, (std::array<i64, 3>{16, 16, 1}));
  EXPECT_EQ(tiled.shared_bytes, (128 + 128) * 8 * 4);
  EXPECT_GE(tiled.registers, 64 + 16);  // sums and operands
  EXPECT_LE(tiled.registers, 64 + 16 + 40);
  // Each block reads its rows of A and its columns of B once and writes its tile.
  double operands = 256.0 * 2048 * (128 + 128) * 4, result = 2048.0 * 2048 * 4;
  // A work-item writes 32 bytes in two halves, each of which fills half of a sector.
  EXPECT_NEAR(tiled.l2_bytes, operands + 2 * 7 * result, 0.01 * operands);
  // A and B and C fit into the second cache's reach of a wave; nothing less than each once can be read.
  EXPECT_GE(tiled.dram_bytes, 3 * 2048.0 * 2048 * 4 * 0.99);
  EXPECT_LE(tiled.dram_bytes, tiled.l2_bytes);
  // 2048 multiply-adds for each of 64 results of 256 threads, 64 lanes.
  EXPECT_NEAR(tiled.fma, 2048.0 * 64 * 256 / 64, 0.02 * tiled.fma);
  EXPECT_GT(model.seconds, 2048.0 * 2048 * 2048 / (108 * 64 * 1.41e9));
}

TEST(GpuDraft, OrdersProducts) {
  const char* use = "matmul(M = 4096, N = 4096, K = 4096)";
  // With 128 lanes to 4 schedulers what is not a multiply-add counts; with the 64 of an A100 tiles of 4 x 4 are nearly
  // enough.
  Model model("h100");
  double plain = model.time(use, naive(128)), strided = model.time(use, naive(128, true));
  double small = model.time(use, test::gpu_gemm_schedule({.ty = 16, .tx = 16, .rows = 2, .columns = 2, .depth = 8}));
  double middle = model.time(use, test::gpu_gemm_schedule({.ty = 16, .tx = 16, .rows = 4, .columns = 4, .depth = 8}));
  double large = model.time(use, test::gpu_gemm_schedule({.ty = 16, .tx = 16, .rows = 8, .columns = 8, .depth = 8}));
  EXPECT_GT(strided, 2 * plain) << "a warp that reads down a column";
  EXPECT_GT(plain, small) << "shared memory";
  EXPECT_GT(small, 1.3 * middle) << "register tiles";
  EXPECT_GT(middle, large);
  // Few threads hide nothing, and more registers than there are spill.
  EXPECT_GT(model.time(use, test::gpu_gemm_schedule({.ty = 2, .tx = 2, .rows = 8, .columns = 8, .depth = 8})),
            1.5 * large);
  EXPECT_GT(model.time(use, test::gpu_gemm_schedule({.ty = 8, .tx = 8, .rows = 16, .columns = 16, .depth = 8})), large);
}

TEST(GpuDraft, SmallProductsWantSmallTiles) {
  const char* use = "matmul(M = 256, N = 256, K = 1024)";
  Model model;
  double large = model.time(use, test::gpu_gemm_schedule({.ty = 16, .tx = 16, .rows = 8, .columns = 8, .depth = 8}));
  double small = model.time(use, test::gpu_gemm_schedule({.ty = 8, .tx = 8, .rows = 4, .columns = 4, .depth = 8}));
  EXPECT_GT(large, 1.5 * small) << "4 blocks on 108 multiprocessors";
}

// 432 blocks are 4 for each multiprocessor, one warp for each of its schedulers; 216 blocks leave half of these idle.
TEST(GpuDraft, WarpsAreDealtToSchedulers) {
  auto schedule = [](const char* threads) {
    return cat("b = get_block(\"C\")\ni, j, k = get_loops(b)\ni0, i1 = split(i, [_, 8])\nj0, j1 = split(j, [_, ",
               threads,
               "])\nreorder([i0, j0, j1, k, i1])\nbind(i0, \"blockIdx.y\")\nbind(j0, \"blockIdx.x\")\nbind(j1, "
               "\"threadIdx.x\")\npromote(b, 0, "
               "k)\nunroll(i1)\n");
  };
  Model model;
  double half = model.time("matmul(M = 864, N = 64, K = 2048)", schedule("32"));
  double full = model.time("matmul(M = 1728, N = 64, K = 2048)", schedule("32"));
  EXPECT_LT(full, 1.2 * half) << "twice the work in the same time";
}

TEST(GpuDraft, SeesLaunchesThatCannotBe) {
  Model model;
  double good = model.time(kGemm, test::gpu_gemm_schedule({.ty = 16, .tx = 16, .rows = 8, .columns = 8, .depth = 8}));
  double too_much =
      model.time(kGemm, test::gpu_gemm_schedule({.ty = 16, .tx = 16, .rows = 16, .columns = 8, .depth = 256}));
  EXPECT_LT(good, 1);
  EXPECT_GT(too_much, 100);
}

// Lanes of a warp that read down a column of 32 words all want the same bank.
TEST(GpuDraft, CountsBankConflicts) {
  const std::string use = "matmul(M = 1024, N = 1024, K = 1024)";
  auto schedule = [](const char* align) {
    return cat(
        "b = get_block(\"C\")\ni, j, k = get_loops(b)\nk0, k1 = split(k, [_, 32])\ni0, i1 = split(i, [_, "
        "32])\nreorder([i0, j, k0, i1, k1])\n"
        "bind(i0, \"blockIdx.y\")\nbind(j, \"blockIdx.x\")\nbind(i1, \"threadIdx.x\")\npromote(b, 0, k0)\nc = "
        "cache_read(b, 0, "
        "\"shared\")\ncompute_at(c, k0, keep_units = 1)\n",
        align);
  };
  Model model;
  double without = model(use, schedule("")).shared;
  double with = model(use, schedule("storage_align(c, 0, 0, 32, 1)\n")).shared;
  // 1024 times a warp takes 32 turns instead of one.
  EXPECT_NEAR(without - with, 1024 * 31, 1);
}

// Quarters of a warp write 16 bytes each at once. In rows of 80 bytes two pieces of a quarter lie in the same banks, in
// rows of 64 none; reading down a column it is 4 and 16 rows that do.
TEST(GpuDraft, WideWritesGoByPartsOfAWarp) {
  const std::string use = "matmul(M = 1024, N = 1024, K = 1024)";
  auto schedule = [](const char* align) {
    return cat(R"(b = get_block("C")
i, j, k = get_loops(b)
k0, k1 = split(k, [_, 16])
i0, i1 = split(i, [_, 32])
reorder([i0, j, k0, i1, k1])
bind(i0, "blockIdx.y")
bind(j, "blockIdx.x")
bind(i1, "threadIdx.x")
promote(b, 0, k0)
c = cache_read(b, 0, "shared")
compute_at(c, k0, keep_units = 1)
o0, o1, o2, ci, ck = get_loops(c)
c0, c1 = split(ck, [_, 4])
f = fuse([ci, c0])
f0, t = split(f, [_, 32])
reorder([t, f0, c1])
bind(t, "threadIdx.x")
vectorize(c1)
)",
               align);
  };
  Model model;
  double without = model(use, schedule("")).shared,
         with = model(use, schedule("storage_align(c, 0, 0, 16, 4)\n")).shared;
  // 1,024 reads take 4 turns instead of 16, 64 x 4 writes 8 instead of 4.
  EXPECT_NEAR(without - with, 1024 * 12 - 256 * 4, 1);
}

// Work-items that were fused into one axis touch what they touch on two.
TEST(GpuDraft, FusedWorkItemsAreTheSame) {
  auto schedule = [](const char* bound) {
    return cat(
        "b = get_block(\"C\")\ni, j, k = get_loops(b)\ni0, i1, i2 = split(i, [_, 8, 4])\nj0, j1, j2 = split(j, [_, 16, "
        "4])\n"
        "reorder([i0, j0, i1, j1, k, i2, j2])\nbind(i0, \"blockIdx.y\")\nbind(j0, \"blockIdx.x\")\npromote(b, 0, k)\n",
        bound, "unroll(i2)\nvectorize(j2)\n");
  };
  Model model;
  const char* use = "matmul(M = 512, N = 512, K = 512)";
  KernelEstimate apart = model(use, schedule("bind(i1, \"threadIdx.y\")\nbind(j1, \"threadIdx.x\")\n"));
  KernelEstimate fused = model(use, schedule("t = fuse([i1, j1])\nbind(t, \"threadIdx.x\")\n"));
  EXPECT_EQ(fused.block_threads(), apart.block_threads());
  EXPECT_EQ(fused.shared, apart.shared);
  EXPECT_EQ(fused.l2_bytes, apart.l2_bytes);
  // Per step of k a warp reads 4 x 2 rows of A, each by 16 work-items, and 64 elements of B: 8 lines and 2; 4 warps;
  // and 4 x 2 for C.
  EXPECT_NEAR(apart.shared, 512 * 4 * (4 * 2 + 2), 0.1 * apart.shared);
}

// So are those whose number is taken apart by // and %, where a thread's rows lie between two parts of its column.
TEST(GpuDraft, FusedWorkItemsReadAsWide) {
  auto schedule = [](const char* bound) {
    return cat(
        "b = get_block(\"C\")\ni, j, k = get_loops(b)\ni0, i1 = split(i, [_, 8])\nj0, j1, j2, j3 = split(j, [_, 2, 4, "
        "4])\nreorder([i0, j0, j1, i1, j2, k, j3])\nbind(i0, \"blockIdx.y\")\nbind(j0, \"blockIdx.x\")\npromote(b, 0, "
        "k)\n",
        bound, "vectorize(j3)\n");
  };
  Model model;
  const char* use = "matmul(M = 512, N = 512, K = 512)";
  KernelEstimate apart = model(use, schedule("bind(j1, \"threadIdx.z\")\nbind(i1, \"threadIdx.y\")\nbind(j2, "
                                             "\"threadIdx.x\")\n"));
  KernelEstimate fused = model(use, schedule("t = fuse([j1, i1, j2])\nbind(t, \"threadIdx.x\")\n"));
  EXPECT_EQ(fused.block_threads(), apart.block_threads());
  EXPECT_EQ(fused.warp_instructions, apart.warp_instructions);
  EXPECT_EQ(fused.shared, apart.shared);
}

// Six work-items copy 40 elements: some of them do nothing at the end, and all 40 move.
TEST(GpuDraft, GuardsLeaveNothingOut) {
  Model model;
  const std::string schedule = test::gpu_gemm_schedule({.ty = 3, .tx = 2, .rows = 2, .columns = 4, .depth = 5});
  EXPECT_GE(model("matmul(M = 60, N = 64, K = 60)", schedule).dram_bytes, 4.0 * (60 * 60 + 60 * 64 + 60 * 64));
}

// A register's loop outside of a long serial one: the code has that loop twice, not its passes all together, so that
// nothing is read once for both or along it.
TEST(GpuDraft, LongLoopsStayInTheCode) {
  auto schedule = [](int rows, const char* order) {
    return cat("b = get_block(\"C\")\nc = cache_write(b, 0, \"local\")\ni, j, k = get_loops(b)\ni0, i1 = split(i, [_, ",
               rows, "])\nj0, j1 = split(j, [_, 128])\nreorder([i0, j0, j1, ", order,
               "])\nbind(i0, \"blockIdx.y\")\nbind(j0, \"blockIdx.x\")\nbind(j1, \"threadIdx.x\")\n"
               "reverse_compute_at(c, j1)\n");
  };
  Model model;
  const char* use = "matmul(M = 512, N = 512, K = 512)";
  auto count = [&](int rows, const char* order) { return model(use, schedule(rows, order)).warp_instructions; };
  double one = count(1, "k, i1"), outside = count(2, "i1, k"), inside = count(2, "k, i1");
  EXPECT_NEAR(outside, 2 * one, 0.01 * outside);
  EXPECT_LT(inside, 0.7 * outside) << "one loop, and one load of B, for two rows";
}

// What a schedule unrolls is written out, however much it is.
TEST(GpuDraft, MarkedLoopsAreWrittenOut) {
  auto schedule = [](int depth) {
    return cat(
        "b = get_block(\"C\")\ni, j, k = get_loops(b)\ni0, i1, i2 = split(i, [_, 8, 8])\nj0, j1, j2 = split(j, [_, "
        "16, 8])\nk0, k1 = split(k, [_, ",
        depth,
        "])\nreorder([i0, j0, i1, j1, k0, k1, i2, j2])\nbind(i0, \"blockIdx.y\")\nbind(j0, \"blockIdx.x\")\nbind(i1, "
        "\"threadIdx.y\")\nbind(j1, \"threadIdx.x\")\npromote(b, 0, k0)\nunroll(k1)\nunroll(i2)\nunroll(j2)\n");
  };
  Model model;
  double shallow = model(kGemm, schedule(16)).warp_instructions, deep = model(kGemm, schedule(64)).warp_instructions;
  EXPECT_LE(deep, shallow) << "4,096 statements, and 1,024";
  EXPECT_GE(deep, 0.9 * shallow);
}

// The same loops with and without the mark of a matrix instruction: 1024 multiply-adds a cycle instead of 64.
TEST(GpuDraft, TensorCoresCount) {
  auto schedule = [](const char* mark) {
    return cat(
        "b = get_block(\"C\")\ni, j, k = get_loops(b)\ni0, ih, il = split(i, [_, 2, 8])\nj0, jl, je = split(j, [_, 4, "
        "2])\nk0, kk = split(k, [_, "
        "8])\nreorder([i0, j0, k0, il, jl, ih, je, kk])\nbind(i0, \"blockIdx.y\")\nbind(j0, \"blockIdx.x\")\nt = "
        "fuse([il, jl])\nbind(t, "
        "\"threadIdx.x\")\npromote(b, 0, k0)\n",
        mark);
  };
  Model model;
  const char* use = "matmul(M = 512, N = 512, K = 512, T = f16, out = f32)";
  KernelEstimate plain = model(use, schedule("")), tensor = model(use, schedule("annotate(ih, \"warp_mma\", 1)\n"));
  // Without it, each of 2 x 2 sums has half a conversion of either operand beside its multiply-add.
  EXPECT_NEAR(plain.fma / tensor.fma, 2 * 1024 / 64, 1);
  EXPECT_LT(tensor.issue, plain.issue / 3);
}

// Operands come once for each step of a sum, or only the first of them is waited for; pairs of halves fill half of the
// sectors that they are in; and sums in shared memory take the operands' place.
TEST(GpuDraft, SeesHowSumsLeaveATile) {
  Model model;
  const char* use = "matmul(M = 512, N = 512, K = 512, T = f16)";
  KernelEstimate direct = model(use, test::warp_mma_schedule(false)),
                 staged = model(use, test::warp_mma_schedule(true));
  EXPECT_EQ(direct.shared_bytes, 2 * 2 * 32 * 32 * 2);
  EXPECT_EQ(staged.shared_bytes, direct.shared_bytes);
  // Of each sector two halves are written, each by itself.
  EXPECT_NEAR(direct.l2_bytes - staged.l2_bytes, (2 * 7 - 1) * 512 * 512 * 2, 1);
  EXPECT_GT(staged.shared, direct.shared);
  KernelEstimate ahead = model(use, test::warp_mma_schedule(false, 8));
  // 16 passes of two steps.
  EXPECT_NEAR(direct.warp_wait - ahead.warp_wait, 16 * 30, 1) << "shared_latency of a device is 30 cycles";
  EXPECT_EQ(direct.issue, ahead.issue);
}

// Rows of 4,096 floats by 512 work-items: each takes vectors that lie 2,048 apart, and holds two of them, not what is
// between.
TEST(GpuDraft, WhatLiesApartIsNotBetween) {
  Model model;
  KernelEstimate rows = model("rmsnorm(M = 64, N = 4096)", R"(b = get_block("Y")
q = cache_read(b, 0, "register")
i, j = get_loops(b)
o, t, v = split(j, [_, 512, 4])
reorder([i, t, o, v])
bind(i, "blockIdx.x")
bind(t, "threadIdx.x")
unroll(o)
vectorize(v)
compute_at(q, t, keep_units = 1)
)");
  EXPECT_GE(rows.registers, 8);
  EXPECT_LE(rows.registers, 80);
}

struct Published {
  const char* what;
  int stages, pad, swizzle;
  bool is_async;
  double tflops;
};

// A product of bf16 of 4096^3 by groups of 128 x 128 and warps of 64 x 64 sums, 64 elements of the sum at a time, on an
// A100 SXM4 40 GB: measured by gau-nernst (github.com/gau-nernst/learn-cuda, 02b_matmul_sm80, table of the versions).
// There the second operand lies column by column, here row by row: the same bytes in pieces of 16. No constant of the
// model was fitted to these.
TEST(GpuDraft, AgreesWithWhatWasMeasuredElsewhere) {
  auto schedule = [](const Published& p) {
    auto copy = [&p](const std::string& q, const std::string& loops, const std::string& row) {
      return cat(loops, " = get_loops(", q, ")\n", row, "l, ", row, "v = split(", q, "_k, [_, 8])\nreorder([", q,
                 "_r, ", row, "l, ", row, "v])\n", row, "w = fuse([", q, "_r, ", row, "l])\n", row, "f, ", row,
                 "t = split(", row, "w, [_, 128])\nreorder([", row, "t, ", row, "f, ", row, "v])\nbind(", row,
                 "t, \"threadIdx.x\")\nvectorize(", row, "v)\nstorage_align(", q, ", 0, -2, 16, offset = ", 8 * p.pad,
                 ")\nset_layout(", q, ", 0, \"xor\", bits = ", p.swizzle, ")\n");
    };
    std::string out = R"(b = get_block("Y_acc")
rows = reindex_cache_read(b, 0, "shared", (p0, p1, p2) -> (p0, p2))
columns = reindex_cache_read(b, 1, "shared", (p0, p1, p2) -> (p2, p1))
i, j, k = get_loops(b)
i0, iw, ip, ih, il = split(i, [_, 2, 4, 2, 8])
j0, jw, jp, jl, je = split(j, [_, 2, 8, 4, 2])
k0, k1, kk = split(k, [_, 4, 16])
reorder([i0, j0, k0, iw, jw, il, jl, k1, ip, jp, ih, je, kk])
bind(i0, "blockIdx.y")
bind(j0, "blockIdx.x")
lane = fuse([iw, jw, il, jl])
bind(lane, "threadIdx.x")
promote(b, 0, k0)
annotate(ih, "warp_mma", 1)
y = get_block("Y")
reverse_compute_inline(y)
compute_at(rows, k0, keep_units = 1)
compute_at(columns, k0, keep_units = 1)
)";
    out += copy("rows", "a0, a1, a2, rows_r, rows_k", "r") + copy("columns", "c0, c1, c2, columns_k, columns_r", "c");
    out += cat("pipeline(k0, ", p.stages, ")\n", p.is_async ? "make_async(rows)\nmake_async(columns)\n" : "");
    return out + "unroll(k1)\nunroll(ip)\nunroll(jp)\n";
  };
  Model model;
  const char* use = "dense(M = 4096, N = 4096, K = 4096, T = bf16)";
  for (const Published& p :
       {Published{"v1: neither padded nor swizzled", 1, 0, 0, false, 59.92},
        Published{"v3: padded", 1, 1, 0, false, 166.78}, Published{"v4: swizzled", 1, 0, 3, false, 190.94},
        Published{"v6: two stages", 2, 0, 3, true, 220.77}}) {
    double tflops = 2 * std::pow(4096.0, 3) / model.time(use, schedule(p)) / 1e12;
    EXPECT_NEAR(tflops / p.tflops, 1, 0.1) << p.what << ": " << tflops;
  }
}

// Floats of 4096^3 on an RTX A6000, as measured by S. Boehm (github.com/siboehm/SGEMM_CUDA: shared memory, rows of 8
// sums, 8 x 8 sums, the same with 16 elements of the sum at a time; operands lie a little otherwise there). The device
// here is an RTX 4090 of an A6000's size, clock and memory, which is a younger one: so the order is what counts, and
// that they are not far off.
TEST(GpuDraft, OrdersWhatWasMeasuredOnAnA6000) {
  GpuDevice a6000 = device("rtx4090");
  a6000.blocks_per_multiprocessor = 16, a6000.multiprocessors = 84, a6000.clock_mhz = 1800,
  a6000.memory_gb_per_second = 768, a6000.l2_bytes = 6 << 20;
  GpuDraft draft(a6000);
  struct Kernel {
    test::GpuGemm tile;
    double tflops;
  };
  double before = 0;
  for (const Kernel& kernel : {Kernel{{32, 32, 1, 1, 32}, 2.98}, Kernel{{8, 64, 8, 1, 8}, 8.47},
                               Kernel{{16, 16, 8, 8, 8}, 15.97}, Kernel{{16, 16, 8, 8, 16}, 19.72}}) {
    test::Scheduled program("matmul(M = 4096, N = 4096, K = 4096)", {}, test::gpu_gemm_schedule(kernel.tile));
    double tflops = 2 * std::pow(4096.0, 3) / draft.seconds(program.program()) / 1e12;
    EXPECT_NEAR(tflops / kernel.tflops, 1.15, 0.3) << tflops << " instead of " << kernel.tflops;
    EXPECT_GT(tflops, before);
    before = tflops;
  }
}

// A root that is the same for all four elements of a thread is taken once.
TEST(GpuDraft, WhatDoesNotChangeIsComputedOnce) {
  auto instructions = [](const char* under_the_root) {
    return warp_instructions(
        cat("program scale(X: input f32[4096], S: input f32[8], Y: output f32[4096]) {\n  bind blockIdx.x for g in 8 "
            "{\n  bind threadIdx.x for t in 128 {\n",
            "vectorize for v in 4 { block Y(i: S 4096 = g * 512 + t * 4 + v) { Y[i] = X[i] * S[0] * rsqrt(",
            under_the_root, " / 4.0) } } } } }\n"));
  };
  EXPECT_EQ(instructions("X[i]") - instructions("S[0]"), 3 * (1 + 8)) << "a quotient by a number and a root";
}

// One warp on each scheduler takes as long as four of them in one group.
TEST(GpuDraft, SmallGroupsAreNoFaster) {
  Model model;
  const char* use = "matmul(M = 128, N = 64, K = 2048)";
  auto schedule = [](int threads) {
    return cat("b = get_block(\"C\")\ni, j, k = get_loops(b)\nn = fuse([i, j])\ng, t = split(n, [_, ", threads,
               "])\nreorder([g, t, k])\nbind(g, \"blockIdx.x\")\nbind(t, \"threadIdx.x\")\npromote(b, 0, k)\n");
  };
  double small = model.time(use, schedule(32)), large = model.time(use, schedule(128));
  EXPECT_NEAR(small / large, 1, 0.1);
}

// A sum beside a product is free where both are made as often; a sum of all elements is one for each of them.
TEST(GpuDraft, SumsAreMadeForEachElement) {
  auto instructions = [](const char* value) {
    return warp_instructions(
        cat("program sums(X: input f32[4096], S: input f32[8], Y: output f32[4096]) {\n  bind blockIdx.x for g in 8 "
            "{\n  bind threadIdx.x for t in 8 {\n",
            "unroll for v in 64 { block Y(i: S 4096 = g * 512 + t * 64 + v) { Y[i] = ", value, " } } } } }\n"));
  };
  double copy = instructions("X[i] * 2.0");
  EXPECT_NEAR(instructions("X[i] * 2.0 + S[0]"), copy, 2);
  EXPECT_NEAR(instructions("X[i] + S[0] * S[1]"), copy, 3) << "64 sums";
  EXPECT_NEAR(instructions("f32(f16(X[i]) * f16(2.0) + f16(S[0]))") - copy, 64 * (0.5 + 1 + 0.5 + 1 + 1 + 0.5 + 1), 4)
      << "narrowed; widened, multiplied and narrowed; widened, added and narrowed; widened";
}

// Where an image ends is asked once for four floats that come at once, and no division is made for it.
TEST(GpuDraft, TestsOfCopiesAreFew) {
  auto instructions = [](const char* value) {
    return warp_instructions(
        cat("program copy(X: input f32[4096], Y: output f32[4096]) {\n  bind blockIdx.x for g in 8 {\n  bind "
            "threadIdx.x for t in 128 {\n",
            "vectorize for v in 4 { block Y(i: S 4096 = g * 512 + t * 4 + v) { Y[i] = ", value, " } } } } }\n"));
  };
  double plain = instructions("X[i]"), filled = instructions("if i // 64 % 8 >= 1 then X[i - 64] else 0.0");
  EXPECT_EQ(filled - plain, 2) << "a comparison and a choice";
}

// A warp whose first lanes read padding before the buffer's first element touches as many lines as any other.
TEST(GpuDraft, PaddingHasLinesToo) {
  auto shared = [](const char* from) {
    return estimate_of(
               cat("program copy(X: input f32[8192], Y: output f32[4096]) {\n  bind blockIdx.x for g in 8 {\n  bind "
                   "threadIdx.x for t in 128 {\n  vectorize for v in 4 { block Y(i: S 4096 = g * 512 + t * 4 + v) { "
                   "Y[i] = if i >= 64 then X[",
                   from, "] else 0.0 } } } } }\n"))
        .shared;
  };
  EXPECT_GT(shared("i + 92"), shared("i + 64")) << "five lines, and four";
  EXPECT_EQ(shared("i - 36"), shared("i + 92"));
  EXPECT_EQ(shared("i - 64"), shared("i + 64"));
}

// Blocks are numbered along x first: 8 rows of tiles share columns, so a wave reads less.
TEST(GpuDraft, RastersCutTraffic) {
  auto schedule = [](int rows) {
    return cat("b = get_block(\"C\")\ni, j, k = get_loops(b)\ni0, ir, i1, i2 = split(i, [_, ", rows, R"(, 16, 8])
j0, j1, j2 = split(j, [_, 16, 8])
k0, k1 = split(k, [_, 8])
reorder([i0, j0, ir, k0, i1, j1, k1, i2, j2])
bind(i0, "blockIdx.z")
bind(j0, "blockIdx.y")
bind(ir, "blockIdx.x")
bind(i1, "threadIdx.y")
bind(j1, "threadIdx.x")
promote(b, 0, k0)
unroll(i2)
vectorize(j2)
)");
  };
  Model model;
  const char* use = "matmul(M = 16384, N = 16384, K = 4096)";
  KernelEstimate plain = model(use, schedule(1)), grouped = model(use, schedule(8));
  EXPECT_EQ(plain.grid, (std::array<i64, 3>{1, 128, 128}));
  EXPECT_EQ(grouped.grid, (std::array<i64, 3>{8, 128, 16}));
  EXPECT_LT(grouped.dram_bytes, 0.5 * plain.dram_bytes);
  EXPECT_EQ(grouped.l2_bytes, plain.l2_bytes) << "what a block reads is the same";
}

TEST(GpuDraft, FasterDevicesAreFaster) {
  std::string schedule = test::gpu_gemm_schedule({.ty = 16, .tx = 16, .rows = 8, .columns = 8, .depth = 8});
  double a100 = Model("a100").time(kGemm, schedule), h100 = Model("h100").time(kGemm, schedule),
         ada = Model("rtx4090").time(kGemm, schedule);
  EXPECT_GT(a100, h100);
  EXPECT_GT(a100, ada);
  // What only moves data goes by the bandwidth of memory.
  EXPECT_GT(Model("h100").time("matmul(M = 1, N = 65536, K = 512)", naive(128)),
            Model("h200").time("matmul(M = 1, N = 65536, K = 512)", naive(128)));
}

TEST(GpuDraft, IsDeterministicAndFinite) {
  Model model;
  std::string schedule = test::gpu_gemm_schedule({.ty = 16, .tx = 16, .rows = 4, .columns = 4, .depth = 8});
  double first = model.time(kGemm, schedule);
  model.time("softmax(M = 64, N = 333)", "");
  EXPECT_GT(model.seconds, 0);
  EXPECT_LT(model.seconds, 1e9);
  EXPECT_EQ(model.time(kGemm, schedule), first);
}

// What machine code says of the registers that it reads counts where instructions are what takes the time.
TEST(GpuDraft, RegisterStallsCountWhereInstructionsDo) {
  Model model("h100");
  auto slower = [&](KernelEstimate kernel) {
    double before = kernel.seconds;
    add_register_stalls(kernel, 0.25);
    set_seconds(kernel, device("h100"));
    return kernel.seconds / before;
  };
  KernelEstimate tiled =
      model(kGemm, test::gpu_gemm_schedule({.ty = 16, .tx = 16, .rows = 8, .columns = 8, .depth = 8}));
  EXPECT_LT(slower(tiled), 1.1) << "shared memory is what takes the time";
  tiled.shared = tiled.l2_bytes = 0;
  set_seconds(tiled, device("h100"));
  EXPECT_GT(slower(tiled), 1.15);
  EXPECT_LT(slower(model("matmul(M = 8192, N = 8192, K = 1)", naive(128))), 1.05) << "memory is what takes the time";
}

}  // namespace
}  // namespace tw

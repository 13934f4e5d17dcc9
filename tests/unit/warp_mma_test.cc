// Which nests of a warp's lanes become a matrix instruction: one that does, and what is one step away from it.
#include <gtest/gtest.h>

#include "backends/device_form.h"
#include "backends/gpu_source/source.h"
#include "dsl/base/text.h"
#include "dsl/passes/lower_gpu.h"
#include "support/meaning.h"
#include "support/parsed.h"

namespace tw {
namespace {

struct WarpNest {
  int threads = 32, h = 2, e = 2, k = 8;
  std::string a_type = "f16", b_type = "f16", sum_type = "f32", scope = "register";
  std::string row = "t // 4 % 8 + h * 8", column = "t % 4 * 2 + e", a_k = "k", b_k = "k";
  int mark = 1;
  std::string store = "R[h, e]", update = "";  // "": R[h, e] + sum(A[row, k]) * sum(B[k, column])
};

std::string widened(const std::string& load, const std::string& from, const std::string& to) {
  return from == to ? load : cat(to, "(", load, ")");
}

std::string text_of(const WarpNest& n) {
  std::string a = widened(cat("A[", n.row, ", ", n.a_k, "]"), n.a_type, n.sum_type);
  std::string b = widened(cat("B[", n.b_k, ", ", n.column, "]"), n.b_type, n.sum_type);
  std::string update = n.update.empty() ? cat("R[h, e] + ", a, " * ", b) : n.update;
  for (auto [name, value] : {std::pair{"$a", a}, {"$b", b}}) {
    for (std::size_t at; (at = update.find(name)) != std::string::npos;) update.replace(at, 2, value);
  }
  auto each = [&](const std::string& mark, const std::string& body) {
    return cat("for h in ", n.h, mark, " { for e in ", n.e, " { ", body, " } }\n");
  };
  return cat("program p(A: input ", n.a_type, "[64, 64], B: input ", n.b_type, "[64, 64], C: output ", n.sum_type, "[",
             n.threads, ", ", n.h, ", ", n.e, "]) {\n  local R: ", n.sum_type, "[", n.threads, ", ", n.h, ", ", n.e,
             "] in ", n.scope, "\n", "  local Q: ", n.sum_type, "[", n.threads, ", ", n.h, ", ", n.e, "] in ", n.scope,
             "\n  bind threadIdx.x for t in ", n.threads, " {\n",
             each("", cat("R[t, h, e] = ", n.sum_type, "(0)\nQ[t, h, e] = ", n.sum_type, "(1)")),
             each(cat(" @warp_mma = ", n.mark), cat("for k in ", n.k, " { ", n.store, " = ", update, " }")),
             each("", "C[t, h, e] = R[t, h, e] + Q[t, h, e]"), "  }\n}\n");
}

// In the nest R and Q are the work-item's own; the text has them for all work-items, as programs have.
std::string with_threads(std::string text) {
  for (const char* name : {"R[h", "Q[h", "R[e"}) {
    for (std::size_t at; (at = text.find(name)) != std::string::npos;) text.insert(at + 2, "t, ");
  }
  return text;
}

// "mma" or "loops"; whatever it becomes, the kernel computes what the program does.
std::string form_of(const WarpNest& nest) {
  OwnedProgram program = test::parsed(with_threads(text_of(nest)));
  Arena arena;
  Result<LoweredGpuProgram> kernels = lower_gpu(arena, program.program, {.vector_bits = 128}, {});
  if (!kernels) return "rejected: " + to_string(kernels.rejected());
  EXPECT_EQ(test::difference(program.program, as_interpreted(arena, *kernels), 1), "");
  Result<Kernel> printed = print_device_source(*kernels, SourceLanguage::CudaC, "mm");
  if (!printed) return "rejected: " + to_string(printed.rejected());
  return printed->code.find("mma.sync") != std::string::npos ? "mma" : "loops";
}

TEST(WarpMma, TilesOfAWarp) {
  EXPECT_EQ(form_of({}), "mma");
  EXPECT_EQ(form_of({.a_type = "bf16", .b_type = "bf16"}), "mma");
  EXPECT_EQ(form_of({.scope = "local"}), "mma");
  EXPECT_EQ(form_of({.update = "R[h, e] + $b * $a"}), "mma") << "operands in the other order";
  EXPECT_EQ(form_of({.row = "(t // 4 % 8 + h * 8) * 2", .column = "(t % 4 * 2 + e) * 3"}), "mma")
      << "rows that are apart";
  EXPECT_EQ(form_of({.threads = 64, .row = "t // 32 * 16 + t // 4 % 8 + h * 8"}), "mma") << "two warps";
  EXPECT_EQ(form_of({.threads = 64, .column = "t // 32 * 8 + t % 4 * 2 + e"}), "mma") << "two warps";
}

TEST(WarpMma, EveryTypeHasTwoDepths) {
  for (const char* half : {"f16", "bf16"}) EXPECT_EQ(form_of({.k = 16, .a_type = half, .b_type = half}), "mma") << half;
  for (int k : {4, 8}) {
    EXPECT_EQ(form_of({.k = k, .a_type = "f32", .b_type = "f32", .mark = 2}), "mma") << k;
    EXPECT_EQ(form_of({.k = k, .a_type = "f32", .b_type = "f32"}), "loops") << "which may not round, " << k;
  }
  for (const char* a : {"i8", "u8"}) {
    for (const char* b : {"i8", "u8"}) {
      for (int k : {16, 32})
        EXPECT_EQ(form_of({.k = k, .a_type = a, .b_type = b, .sum_type = "i32"}), "mma") << a << b << k;
      EXPECT_EQ(form_of({.k = 8, .a_type = a, .b_type = b, .sum_type = "i32"}), "loops") << a << b;
    }
  }
}

TEST(WarpMma, OtherLoops) {
  EXPECT_EQ(form_of({.h = 3}), "loops");
  EXPECT_EQ(form_of({.e = 3}), "loops");
  EXPECT_EQ(form_of({.k = 9}), "loops");
  EXPECT_EQ(form_of({.threads = 48, .row = "t // 4 % 8 + h * 8"}), "loops") << "no whole warps";
}

TEST(WarpMma, OtherOperations) {
  EXPECT_EQ(form_of({.update = "R[h, e] - $a * $b"}), "loops");
  EXPECT_EQ(form_of({.update = "R[h, e] + ($a + $b)"}), "loops");
  EXPECT_EQ(form_of({.update = "Q[h, e] + $a * $b"}), "loops") << "adds to another buffer";
  EXPECT_EQ(form_of({.update = "R[e, h] + $a * $b"}), "loops") << "adds to another element";
  EXPECT_EQ(form_of({.store = "R[h, 0]", .update = "R[h, 0] + $a * $b"}), "loops") << "adds two columns to one element";
  EXPECT_EQ(form_of({.store = "R[h, e], Q[h, e]", .update = "R[h, e] + $a * $b, Q[h, e]"}), "loops")
      << "stores two values";
  EXPECT_EQ(form_of({.update = "R[h, e] + $a * 2.0"}), "loops");
  EXPECT_EQ(form_of({.update = "R[h, e] + 2.0 * $b"}), "loops");
}

TEST(WarpMma, OtherTypes) {
  EXPECT_EQ(form_of({.a_type = "f32"}), "loops");
  EXPECT_EQ(form_of({.b_type = "f32"}), "loops");
  EXPECT_EQ(form_of({.a_type = "bf16"}), "loops") << "of two types";
  EXPECT_EQ(form_of({.sum_type = "f64"}), "loops");
}

TEST(WarpMma, OtherRowsAndColumns) {
  EXPECT_EQ(form_of({.row = "h * 8"}), "loops") << "all lanes the same rows";
  EXPECT_EQ(form_of({.row = "t // 4 % 8 + h * 9"}), "loops");
  EXPECT_EQ(form_of({.row = "t // 4 % 8"}), "loops") << "both rows the same";
  EXPECT_EQ(form_of({.row = "t // 4 % 4 + h * 8"}), "loops");
  EXPECT_EQ(form_of({.row = "t // 2 % 8 + h * 8"}), "loops");
  EXPECT_EQ(form_of({.row = "t % 8 + h * 8"}), "loops");
  EXPECT_EQ(form_of({.threads = 64, .row = "t // 16 + t // 4 % 8 + h * 8"}), "loops") << "differs between lanes";
  EXPECT_EQ(form_of({.column = "e"}), "loops");
  EXPECT_EQ(form_of({.column = "t % 4 * 2"}), "loops") << "both columns the same";
  EXPECT_EQ(form_of({.column = "t % 4 * 3 + e"}), "loops");
  EXPECT_EQ(form_of({.column = "t % 4 + e"}), "loops");
  EXPECT_EQ(form_of({.column = "t % 8 * 2 + e"}), "loops");
  EXPECT_EQ(form_of({.column = "t // 2 % 4 * 2 + e"}), "loops");
  EXPECT_EQ(form_of({.column = "t // 16 + t % 4 * 2 + e"}), "loops") << "differs between lanes";
  EXPECT_EQ(form_of({.a_k = "k + e"}), "loops") << "rows depend on the column";
  EXPECT_EQ(form_of({.b_k = "k + h"}), "loops") << "columns depend on the row";
}

}  // namespace
}  // namespace tw

// Schedules for devices as text, for tests.
#pragma once
#include <string>

#include "dsl/base/text.h"

namespace tw::test {

// C = A * B in the way of GPUs: work-groups of ty x tx work-items, each with a tile of rows x columns in registers;
// both operands go through shared memory, fetched by all work-items together. Block "C" with the loops i, j, k.
struct GpuGemm {
  int ty = 2, tx = 2, rows = 2, columns = 4, depth = 4;
};
inline std::string gpu_gemm_schedule(const GpuGemm& g) {
  std::string out = cat("b = get_block(\"C\")\ni, j, k = get_loops(b)\n", "i0, i1, i2 = split(i, [_, ", g.ty, ", ",
                        g.rows, "])\n", "j0, j1, j2 = split(j, [_, ", g.tx, ", ", g.columns, "])\n",
                        "k0, k1 = split(k, [_, ", g.depth, "])\nreorder([i0, j0, k0, i1, j1, k1, i2, j2])\n",
                        "bind(i0, \"blockIdx.y\")\nbind(j0, \"blockIdx.x\")\nbind(i1, \"threadIdx.y\")\nbind(j1, "
                        "\"threadIdx.x\")\npromote(b, 0, k0)\n");
  for (int n = 0; n < 2; ++n)
    out += cat("c", n, " = cache_read(b, ", n, ", \"shared\")\ncompute_at(c", n, ", k0, keep_units = 1)\n");
  for (int n = 0; n < 2; ++n) {  // handles have the operand's number
    out +=
        cat("p", n, ", q", n, ", r", n, ", s", n, ", t", n, " = get_loops(c", n, ")\n", "f", n, " = fuse([s", n, ", t",
            n, "])\nu", n, ", y", n, ", x", n, " = split(f", n, ", [_, ", g.ty, ", ", g.tx, "])\n", "reorder([y", n,
            ", x", n, ", u", n, "])\nbind(y", n, ", \"threadIdx.y\")\nbind(x", n, ", \"threadIdx.x\")\n");
  }
  return out + "unroll(k1)\nunroll(i2)\nvectorize(j2)\n";
}

// A product of halves on tensor cores, by one warp to a group with 32 x 32 sums: both operands copied two passes ahead,
// two steps of 16 to a pass. The sums leave from registers, or through shared memory; `ahead`: the mark operands_ahead.
inline std::string warp_mma_schedule(bool is_staged, int ahead = 0) {
  auto copy = [](const std::string& block, const std::string& at, const std::string& across, const std::string& along,
                 int lanes) {
    auto name = [&](const char* loop) { return cat(block, "_", loop); };
    return cat(at, across, ", ", along, " = get_loops(", block, ")\n", name("l"), ", ", name("v"), " = split(", along,
               ", [_, ", lanes, "])\n", "reorder([", across, ", ", name("l"), ", ", name("v"), "])\n", name("f"),
               " = fuse([", across, ", ", name("l"), "])\n", name("g"), ", ", name("t"), " = split(", name("f"),
               ", [_, 32])\nreorder([", name("t"), ", ", name("g"), ", ", name("v"), "])\nbind(", name("t"),
               ", \"threadIdx.x\")\nvectorize(", name("v"), ")\n");
  };
  std::string out = cat(R"(b = get_block("C_acc")
rows = reindex_cache_read(b, 0, "shared", (p0, p1, p2) -> (p0, p2))
columns = reindex_cache_read(b, 1, "shared", (p0, p1, p2) -> (p2, p1))
i, j, k = get_loops(b)
i0, ip, ih, il = split(i, [_, 2, 2, 8])
j0, jp, jl, je = split(j, [_, 4, 4, 2])
k0, k1, kk = split(k, [_, 2, 16])
reorder([i0, j0, k0, il, jl, k1, ip, jp, ih, je, kk])
bind(i0, "blockIdx.y")
bind(j0, "blockIdx.x")
t = fuse([il, jl])
bind(t, "threadIdx.x")
promote(b, 0, k0)
annotate(ih, "warp_mma", 1)
annotate(ih, "operands_ahead", )",
                        ahead, R"()
)",
                        is_staged ? "sums = get_block(\"C_acc_store\")\nout = stage_epilogue(sums, j0)\n"
                                  : "c = get_block(\"C\")\nreverse_compute_inline(c)\n",
                        R"(
compute_at(rows, k0, keep_units = 1)
compute_at(columns, k0, keep_units = 1)
)");
  out += copy("rows", "r0, r1, r2, ", "ra", "rb", 8) + "q0, q1, q2, qb, qa = get_loops(columns)\n" +
         "reorder([qa, qb])\n" + copy("columns", "s0, s1, s2, ", "sa", "sb", 8);
  out += "pipeline(k0, 2)\nmake_async(rows)\nmake_async(columns)\n";
  if (is_staged) out += copy("out", "o0, o1, ", "oa", "ob", 4);
  return out + "unroll(k1)\nunroll(ip)\nunroll(jp)\n";
}

// A reduction of softmax over rows ("Top": the largest element, "S": the sum), by `side` work-items; `rows` rows to a
// group.
inline std::string shared_rows_schedule(int rows, int side, const char* block = "Top") {
  return cat("b = get_block(\"", block, "\")\ni, j = get_loops(b)\nj0, j1 = split(j, [_, ", side, "])\n",
             R"(p = rfactor(j1, 0)
set_scope(p, 0, "local")
row, part = get_loops(b)
)",
             "r0, r1 = split(row, [_, ", rows, "])\n", R"(compute_at(p, r1, keep_units = 1)
g_p, y_p, i_p, j1_p, j0_p = get_loops(p)
bind(r0, "blockIdx.x")
bind(r1, "threadIdx.y")
bind(j1_p, "threadIdx.x")
bind(part, "threadIdx.x")
)");
}

}  // namespace tw::test

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

// A reduction of softmax over rows ("Top": the largest element, "S": the sum), by `side` work-items; `rows` rows to a group.
inline std::string shared_rows_schedule(int rows, int side, const char* block = "Top") {
  return cat("b = get_block(\"", block, "\")\ni, j = get_loops(b)\nj0, j1 = split(j, [_, ", side, "])\n", R"(p = rfactor(j1, 0)
set_scope(p, 0, "local")
row, part = get_loops(b)
)", "r0, r1 = split(row, [_, ", rows, "])\n", R"(compute_at(p, r1, keep_units = 1)
g_p, y_p, i_p, j1_p, j0_p = get_loops(p)
bind(r0, "blockIdx.x")
bind(r1, "threadIdx.y")
bind(j1_p, "threadIdx.x")
bind(part, "threadIdx.x")
)");
}

}  // namespace tw::test

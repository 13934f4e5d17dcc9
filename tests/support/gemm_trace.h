// The GEMM schedule of 15 instructions by which replay is judged: time in bench/replay_bench.cc, requests to the heap
// in the tests.
#pragma once

namespace tw::test {

// For `matmul` with M = N = K = 1024; the last decision is one of 0 to 3.
inline constexpr const char* kGemmSchedule = R"(c = get_block("C")
i, j, k = get_loops(c)
i0, i1, i2 = sample_perfect_tile(i, 3, max_innermost = 16) @ [16, 8, 8]
j0, j1, j2 = sample_perfect_tile(j, 3, max_innermost = 64) @ [4, 4, 64]
k0, k1 = sample_perfect_tile(k, 2, max_innermost = 16) @ [256, 4]
i_0, i_1, i_2 = split(i, [i0, i1, i2])
j_0, j_1, j_2 = split(j, [j0, j1, j2])
k_0, k_1 = split(k, [k0, k1])
reorder([i_0, j_0, i_1, j_1, k_0, k_1, i_2, j_2])
f = fuse([i_0, j_0])
parallel(f)
vectorize(j_2)
c0 = decompose_reduction(c, k_0)
u = sample_categorical([0, 16, 64, 512]) @ 1
annotate(c, "unroll_max_step", u)
)";

}  // namespace tw::test

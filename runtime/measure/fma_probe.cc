#include "runtime/measure/fma_probe.h"

#include <algorithm>
#include <chrono>

namespace tw {
namespace {

#if defined(__x86_64__)
// One round is one FMA into each of many registers: enough of them that no FMA waits for the one
// before it (latency 4, two a cycle need 8; the rest keeps the loop's own instructions out of the
// way). Assembly, because a compiler may drop or reorder it.
__attribute__((target("avx512f"))) void fma_512(i64 rounds) {
  asm volatile(
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,30,31\n"
      "  vpxord %%zmm\\r, %%zmm\\r, %%zmm\\r\n"
      ".endr\n"
      ".balign 64\n"
      "1:\n"
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n"
      "  vfmadd231ps %%zmm30, %%zmm31, %%zmm\\r\n"
      ".endr\n"
      "  dec %0\n"
      "  jnz 1b\n"
      : "+r"(rounds)
      :
      : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
        "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21", "xmm22", "xmm23", "xmm30",
        "xmm31", "cc");
}

__attribute__((target("avx2,fma"))) void fma_256(i64 rounds) {
  asm volatile(
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,14,15\n"
      "  vxorps %%ymm\\r, %%ymm\\r, %%ymm\\r\n"
      ".endr\n"
      ".balign 64\n"
      "1:\n"
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11\n"
      "  vfmadd231ps %%ymm14, %%ymm15, %%ymm\\r\n"
      ".endr\n"
      "  dec %0\n"
      "  jnz 1b\n"
      "  vzeroupper\n"
      : "+r"(rounds)
      :
      : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",
        "xmm13", "xmm14", "xmm15", "cc");
}
#elif defined(__aarch64__)
void fma_128(i64 rounds) {
  asm volatile(
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,30,31\n"
      "  movi v\\r\\().4s, #0\n"
      ".endr\n"
      ".balign 64\n"
      "1:\n"
      ".irp r,0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23\n"
      "  fmla v\\r\\().4s, v30.4s, v31.4s\n"
      ".endr\n"
      "  subs %0, %0, #1\n"
      "  b.ne 1b\n"
      : "+r"(rounds)
      :
      : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v12", "v13", "v14", "v15", "v16",
        "v17", "v18", "v19", "v20", "v21", "v22", "v23", "v30", "v31", "cc");
}
#endif

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

const std::vector<FmaVariant>& fma_variants() {
  static const std::vector<FmaVariant> all = {
#if defined(__x86_64__)
      // Registers x lanes x 2.
      {512, "AVX-512, 24 accumulators", [] { return __builtin_cpu_supports("avx512f") != 0; }, fma_512, 24 * 16 * 2},
      {256, "AVX2, 12 accumulators",
       [] { return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0; }, fma_256, 12 * 8 * 2},
#elif defined(__aarch64__)
      {128, "Neon, 24 accumulators", [] { return true; }, fma_128, 24 * 4 * 2},
#endif
  };
  return all;
}

double measure_fma_peak(double seconds, int vector_bits) {
  constexpr i64 rounds = 3000;  // some ten microseconds
  double best = 0;
  for (const FmaVariant& variant : fma_variants()) {
    if (!variant.is_present() || variant.bits > vector_bits) continue;
    double begin = now(), end = begin;
    while (end - begin < seconds) {
      double before = end;
      variant.run(rounds);
      end = now();
      best = std::max(best, variant.flops_per_round * static_cast<double>(rounds) / (end - before));
    }
  }
  return best;
}

}  // namespace tw

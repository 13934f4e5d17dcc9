// The FMA peer: how fast this machine can multiply and add f32 at all, right now. `prepare {"op":
// "fma"}` uses the widest vectors that the CPU has, or those of --vector-bits. All other peers'
// figures are read as parts of this one.
#include <sched.h>

#include <atomic>
#include <thread>

#include "bench/peers/library.h"

namespace tw::peers {
namespace {

// About 0.1 ms per call at 100 GFLOP/s.
constexpr i64 kRounds = 30'000;

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
      : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
        "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20",
        "xmm21", "xmm22", "xmm23", "xmm30", "xmm31", "cc");
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
      : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10",
        "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "cc");
}

struct Variant {
  int bits;
  const char* name;
  bool (*present)();
  void (*run)(i64 rounds);
  double flops_per_round;  // registers * lanes * 2
};

// Widest first.
const Variant kVariants[] = {
    {512, "AVX-512, 24 accumulators", [] { return __builtin_cpu_supports("avx512f") != 0; },
     fma_512, 24 * 16 * 2},
    {256, "AVX2, 12 accumulators",
     [] { return __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0; },
     fma_256, 12 * 8 * 2},
};

class Fma : public Library {
 public:
  Fma(int threads, int vector_bits) : threads_(threads), vector_bits_(vector_bits) {
    for (int i = 1; i < threads; ++i) {
      helpers_.emplace_back([this, i] {
        pin(i);
        help();
      });
    }
    pin(0);
  }
  ~Fma() override {
    variant_ = nullptr;
    start();
    for (std::thread& helper : helpers_) helper.join();
  }

  std::string version() const override { return "FMA probe"; }

  Outcome prepare(const Problem&, const Operator& op) override {
    if (!std::holds_alternative<FmaProbe>(op.shape))
      return unsupported("the FMA probe computes nothing");
    for (const Variant& variant : kVariants) {
      if (!variant.present() || (vector_bits_ != 0 && vector_bits_ != variant.bits)) continue;
      variant_ = &variant;
      return ok(variant.name);
    }
    return unsupported("this CPU has no such FMA instructions");
  }

  double flops(const Operator&) const override {
    return variant_->flops_per_round * kRounds * threads_;
  }

  void run() override {
    start();
    variant_->run(kRounds);
    while (running_.load(std::memory_order_acquire) > 0) __builtin_ia32_pause();
  }

  void output(float*) override {}

 private:
  // One CPU for each thread: two on one would wait for each other's time slice.
  void pin(int index) const {
    cpu_set_t allowed, own;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < threads_) return;
    CPU_ZERO(&own);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (CPU_ISSET(cpu, &allowed) && index-- == 0) CPU_SET(cpu, &own);
    }
    sched_setaffinity(0, sizeof own, &own);
  }

  void start() {
    running_.store(static_cast<int>(helpers_.size()), std::memory_order_relaxed);
    call_.fetch_add(1, std::memory_order_release);
    call_.notify_all();
  }

  // Spins a while between calls, so that the calls of one sample follow each other at once, then
  // sleeps.
  void help() {
    unsigned seen = 0;
    while (true) {
      for (int spin = 0; spin < 20'000 && call_.load(std::memory_order_acquire) == seen; ++spin)
        __builtin_ia32_pause();
      call_.wait(seen, std::memory_order_acquire);
      ++seen;
      if (!variant_) return;
      variant_->run(kRounds);
      running_.fetch_sub(1, std::memory_order_release);
    }
  }

  const int threads_, vector_bits_;
  const Variant* variant_ = nullptr;
  std::atomic<unsigned> call_{0};
  std::atomic<int> running_{0};
  std::vector<std::thread> helpers_;
};

}  // namespace

std::unique_ptr<Library> make_library(int threads, int vector_bits) {
  return std::make_unique<Fma>(threads, vector_bits);
}

}  // namespace tw::peers

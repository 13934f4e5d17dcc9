// The FMA peer: how fast this machine can multiply and add f32 at all, right now. `prepare {"op":
// "fma"}` uses the widest vectors that the CPU has, or those of --vector-bits. All other peers'
// figures are read as parts of this one.
#include <sched.h>

#include <atomic>
#include <thread>

#include "bench/peers/library.h"
#include "runtime/measure/fma_probe.h"

namespace tw::peers {
namespace {

// About 0.1 ms per call at 100 GFLOP/s.
constexpr i64 kRounds = 30'000;

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
    if (!std::holds_alternative<FmaProbe>(op.shape)) return unsupported("the FMA probe computes nothing");
    for (const FmaVariant& variant : fma_variants()) {
      if (!variant.is_present() || (vector_bits_ != 0 && vector_bits_ != variant.bits)) continue;
      variant_ = &variant;
      return ok(variant.name);
    }
    return unsupported("this CPU has no such FMA instructions");
  }

  double flops(const Operator&) const override { return variant_->flops_per_round * kRounds * threads_; }

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
      for (int spin = 0; spin < 20'000 && call_.load(std::memory_order_acquire) == seen; ++spin) __builtin_ia32_pause();
      call_.wait(seen, std::memory_order_acquire);
      ++seen;
      if (!variant_) return;
      variant_->run(kRounds);
      running_.fetch_sub(1, std::memory_order_release);
    }
  }

  const int threads_, vector_bits_;
  const FmaVariant* variant_ = nullptr;
  std::atomic<unsigned> call_{0};
  std::atomic<int> running_{0};
  std::vector<std::thread> helpers_;
};

}  // namespace

std::unique_ptr<Library> make_library(int threads, int vector_bits) {
  return std::make_unique<Fma>(threads, vector_bits);
}

}  // namespace tw::peers

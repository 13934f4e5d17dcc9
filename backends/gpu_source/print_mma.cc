// Matrix instructions of a warp.
#include "backends/gpu_source/printer.h"
#include "dsl/analysis/simplify.h"
#include "dsl/base/text.h"
#include "dsl/ir/build.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/warp_mma.h"

namespace tw::gpu {
namespace {

// The lanes exchange what they bring where there is no such instruction.
constexpr const char* kMma = R"(static __device__ __forceinline__ unsigned tw_pair(unsigned short low, unsigned short high) { return low | (unsigned)high << 16; }
#ifndef TW_EMULATED
#define TW_MMA(type, name)                                                                                       \
  static __device__ __forceinline__ void tw_mma_##name(float& c0, float& c1, float& c2, float& c3, unsigned a0,  \
                                                       unsigned a1, unsigned b0) {                               \
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32." #name "." #name ".f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, " \
                 "{%0, %1, %2, %3};"                                                                             \
                 : "+f"(c0), "+f"(c1), "+f"(c2), "+f"(c3) : "r"(a0), "r"(a1), "r"(b0));                          \
  }
#else
#define TW_MMA(type, name)                                                                                       \
  static inline void tw_mma_##name(float& c0, float& c1, float& c2, float& c3, unsigned a0, unsigned a1,         \
                                   unsigned b0) {                                                                \
    for (int k = 0; k < 8; ++k) {                                                                                \
      int lane = tw_emu_lane(), row = lane / 4 * 4 + k / 2, column = lane % 4 * 8 + k / 2, shift = k % 2 * 16;    \
      unsigned x0 = __shfl_sync(0xffffffffu, a0, row), x1 = __shfl_sync(0xffffffffu, a1, row);                   \
      unsigned y0 = __shfl_sync(0xffffffffu, b0, column), y1 = __shfl_sync(0xffffffffu, b0, column + 4);         \
      auto value = [&](unsigned pair) { return tw_float_of(type{(unsigned short)(pair >> shift)}); };            \
      c0 += value(x0) * value(y0), c1 += value(x0) * value(y1);                                                  \
      c2 += value(x1) * value(y0), c3 += value(x1) * value(y1);                                                  \
    }                                                                                                            \
  }
#endif
TW_MMA(tw_f16, f16)
TW_MMA(tw_bf16, bf16)
)";

}  // namespace

// Two halves, k and k + 1, as one register.
std::string KernelPrinter::pair_of(const Load* load, Sum index, i64 step, const Expr* k) {
  Arena arena;
  index.add_atom(k, 2 * step);
  const Expr* first = to_expr(arena, index);
  bool is_aligned = false;
  std::string at = pointer(load->buffer, first, 2, is_aligned);
  if (step == 1 && is_aligned) return cat("*(const unsigned*)(", at, ")");
  index.add_constant(step);
  std::string second = element(load->buffer, to_expr(arena, index), 0);
  return cat("tw_pair(", element(load->buffer, first, 0), ".bits, ", second, ".bits)");
}

bool KernelPrinter::multiply_by_warp(const For* nest) {
  if (!find_annotation(nest->annotations, kWarpMmaMark) || !language_.async_copies || conditions_ > 0 || !threads_) return false;
  if (kernel_.extents.threads_of_group() != threads_->extent) return false;
  Arena arena;
  std::optional<WarpMma> mma = match_warp_mma(arena, nest, threads_, ranges_);
  if (!mma) return false;
  define("tw_mma", kMma);
  Build build{arena};
  const Expr* pair = build.floor_mod(threads_->var, build.integer(4));
  std::vector<std::string> arguments;
  for (i64 place = 0; place < 4; ++place) {
    Substitution at;
    at.set(mma->h, build.integer(place / 2)), at.set(mma->e, build.integer(place % 2));
    const StoreTarget& target = mma->update->targets[0];
    arguments.push_back(element(target.buffer, simplify(arena, substitute(arena, target.indices[0], at), ranges_), 0));
  }
  for (i64 h = 0; h < 2; ++h) {
    Sum row = mma->a_index;
    row.add_constant(h * mma->row_step);
    arguments.push_back(pair_of(mma->a, row, mma->a_step, pair));
  }
  arguments.push_back(pair_of(mma->b, mma->b_index, mma->b_step, pair));
  line(cat("tw_mma_", mma->a->type.dtype == DType::F16 ? "f16" : "bf16", "(", join(arguments, ", "), ");"));
  return true;
}

}  // namespace tw::gpu

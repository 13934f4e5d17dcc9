// Where the elements of a buffer lie that has the layout "xor n" (dsl/ir/program.h).
//
// The layout exchanges pieces by bits of an index, so it is linear: place(a ^ b) = place(a) ^ place(b); and what is a
// multiple of its period, it leaves alone. Of an index v + c + p with multiples p of the period and bits c that v never
// has, the element lies at (place(v) ^ place(c)) + p. Written so, the accesses of a thread share place(v), which does
// not change from pass to pass; compilers, which do not know what is linear, would compute each place anew in each
// pass.
#include <bit>
#include <utility>

#include "backends/gpu_source/printer.h"
#include "dsl/base/text.h"

namespace tw::gpu {
namespace {

// From the lowest bit that is set in `low` to the highest one of numbers up to `high`.
u64 bits_between(i64 low, i64 high) {
  u64 lowest = u64{1} << std::countr_zero(static_cast<u64>(low)),
      above = u64{1} << std::bit_width(static_cast<u64>(high));
  return (above - 1) & ~(lowest - 1);
}

// The bits that a sum of terms may have set; all of them where nothing is known.
u64 bits_of(const Sum& sum, const VarRanges& ranges) {
  u64 bits = 0;
  i64 most = 0, coefficients = 0;
  for (const Sum::Term& term : sum.terms) {
    std::optional<Interval> range = interval_of(term.atom, ranges);
    if (!range || range->min < 0 || range->max > INT32_MAX || term.coefficient < 0 || term.coefficient > INT32_MAX)
      return ~u64{0};
    most += term.coefficient * range->max, coefficients |= term.coefficient;
    u64 own = bits_between(term.coefficient, term.coefficient * range->max);
    bits = (bits & own) == 0 ? bits | own : bits_between(coefficients, most);  // where they share bits, sums carry
  }
  return bits;
}

}  // namespace

// Calls the function that gives an element's place.
std::string KernelPrinter::exchanged(const XorLayout& layout, DType dtype, const std::string& index) {
  // From the bits of a row's number down to those of a piece's, and these.
  int shift = std::countr_zero(static_cast<u64>(layout.span / kXorBytes));
  i64 mask = ((i64{1} << layout.bits) - 1) * (kXorBytes / bytes_of(dtype));
  std::string name = cat("tw_xor_", shift, "_", mask);
  std::string body = cat("return i ^ (i >> ", shift, " & ", mask, ");");
  return cat(helper(name, cat(index_type_, " ", name, "(", index_type_, " i) { ", body, " }\n")), "(", bare(index),
             ")");
}

std::string KernelPrinter::in_memory(const Place& place, DType dtype, const Expr* index, int lane) {
  if (!place.layout) return bare(scalar(index, lane));
  const Ramp* ramp = as<Ramp>(index);
  std::optional<i64> stride = ramp ? constant_of(ramp->stride) : std::optional<i64>(0);
  Sum all = sum_of(ramp ? ramp->base : index);
  if (!all.exact || !stride) return exchanged(*place.layout, dtype, scalar(index, lane));
  all.add_constant(*stride * lane);
  i64 bytes = bytes_of(dtype), period = (place.layout->span << place.layout->bits) / bytes;
  Sum varying, periods;
  for (const Sum::Term& term : all.terms)
    (term.coefficient % period == 0 ? periods : varying).add_atom(term.atom, term.coefficient);
  i64 bits = floor_mod(all.constant, period);
  periods.add_constant(all.constant - bits);
  if ((bits_of(varying, ranges_) & static_cast<u64>(bits)) != 0) varying.add_constant(bits), bits = 0;
  Arena arena;
  std::string out = exchanged(*place.layout, dtype, scalar(to_expr(arena, varying)));
  if (bits != 0) out = cat("(", out, " ^ ", place.layout->place(bits * bytes) / bytes, ")");
  // The constant last, for machine instructions have it as their offset.
  i64 offset = std::exchange(periods.constant, 0);
  if (!periods.terms.empty()) out = cat(out, " + ", scalar(to_expr(arena, periods)));
  return offset != 0 ? cat(out, " + ", offset) : out;
}

}  // namespace tw::gpu

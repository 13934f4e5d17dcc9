// Matrix instructions of a warp. What they multiply comes by ldmatrix where it lies in shared memory as that wants it, else
// each lane loads its own part. It stays in variables until other memory may have changed.
#include <algorithm>

#include "backends/gpu_source/matrix_functions.h"
#include "backends/gpu_source/printer.h"
#include "dsl/analysis/simplify.h"
#include "dsl/base/text.h"
#include "dsl/ir/build.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/warp_mma.h"

namespace tw::gpu {
namespace {

// Lane t's digit t // lower % count.
const Expr* lane_digit(Arena& arena, const Var* t, i64 lower, i64 count) {
  Build build{arena};
  const Expr* from = lower == 1 ? static_cast<const Expr*>(t) : build.binary(BinaryOp::FloorDiv, t, build.integer(lower));
  return build.floor_mod(from, build.integer(count));
}

i64 in_piece(const MmaOperand& operand) { return kMatrixBytes / bytes_of(operand.load->type.dtype); }

// Where the row begins that lane t names, of `blocks` times 8 rows and `pieces` along k: in the order in which the
// instruction wants them, rows first. Nothing if the 16 bytes of a row are none in memory.
struct Rows {
  Sum index;
  bool is_transposed;
};
std::optional<Rows> rows_of(Arena& arena, const MmaOperand& operand, const Var* t, i64 blocks, i64 pieces) {
  bool is_transposed = operand.k_step != 1;
  if (is_transposed && (operand.row_step != 1 || bytes_of(operand.load->type.dtype) != 2)) return std::nullopt;
  Rows out{operand.index, is_transposed};
  out.index.add_atom(lane_digit(arena, t, 1, kMatrixRows), is_transposed ? operand.k_step : operand.row_step);
  if (blocks > 1) out.index.add_atom(lane_digit(arena, t, kMatrixRows, blocks), kMatrixRows * operand.row_step);
  if (pieces > 1) out.index.add_atom(lane_digit(arena, t, kMatrixRows * blocks, pieces), in_piece(operand) * operand.k_step);
  return out;
}

}  // namespace

std::string KernelPrinter::fragment_key(const MmaOperand& operand) {
  Arena arena;
  return cat(place(operand.load->buffer).name, " ", operand.row_step, " ", operand.k_step, " ", scalar(to_expr(arena, operand.index)));
}

const KernelPrinter::Fragment* KernelPrinter::find_fragment(const std::string& key) const {
  auto found = std::find_if(fragments_.begin(), fragments_.end(), [&](const Fragment& fragment) { return fragment.key == key; });
  return found == fragments_.end() ? nullptr : &*found;
}

std::string KernelPrinter::rounded(const std::string& bits) {
  DeviceFunction round = round_function();
  define(round.name, round.definition);
  return cat(round.name, "(", bits, ")");
}

// 4 bytes of a row as one register.
std::string KernelPrinter::packed_elements(const MmaOperand& operand, Sum index) {
  Arena arena;
  DType type = operand.load->type.dtype;
  int count = 4 / bytes_of(type);
  const Buffer* buffer = operand.load->buffer;
  if (type == DType::F32) return rounded(cat("__float_as_uint(", element(buffer, to_expr(arena, index), 0), ")"));
  bool is_aligned = false;
  std::string at = pointer(buffer, to_expr(arena, index), count, is_aligned);
  if (operand.k_step == 1 && is_aligned) return cat("*(const unsigned*)(", at, ")");
  DeviceFunction pack = pack_function(type);
  define(pack.name, pack.definition);
  std::vector<std::string> elements;
  for (int i = 0; i < count; ++i) {
    elements.push_back(element(buffer, to_expr(arena, index), 0) + (is_half(type) ? ".bits" : ""));
    index.add_constant(operand.k_step);
  }
  return cat(pack.name, "(", join(elements, ", "), ")");
}

// Each lane its own part of each piece: 4 bytes of row t // 4 % 8.
std::vector<std::string> KernelPrinter::load_by_lanes(const MmaOperand& operand, i64 blocks, i64 pieces) {
  Arena arena;
  Sum own = operand.index;
  own.add_atom(lane_digit(arena, threads_->var, 4, kMatrixRows), operand.row_step);
  own.add_atom(lane_digit(arena, threads_->var, 1, 4), in_piece(operand) / 4 * operand.k_step);
  std::vector<std::string> out;
  for (i64 piece = 0; piece < pieces; ++piece) {
    for (i64 block = 0; block < blocks; ++block) {
      Sum index = own;
      index.add_constant(block * kMatrixRows * operand.row_step + piece * in_piece(operand) * operand.k_step);
      out.push_back(packed_elements(operand, index));
    }
  }
  return out;
}

// The next operand B that one instruction can bring together with this one: at a constant distance, and not yet here.
std::optional<MmaOperand> KernelPrinter::fragment_behind(const MmaOperand& operand, i64& distance) {
  for (const Stmt* s : behind_) {
    const For* loop = as<For>(s);
    if (!loop || !find_annotation(loop->annotations, kWarpMmaMark)) return std::nullopt;
    std::optional<WarpMma> mma = match_warp_mma(loop, threads_, ranges_);
    if (!mma || mma->b.load->buffer != operand.load->buffer || mma->b.row_step != operand.row_step || mma->b.k_step != operand.k_step)
      return std::nullopt;
    Sum apart = mma->b.index;
    apart.add(operand.index, -1);
    if (!apart.exact || !apart.terms.empty()) return std::nullopt;
    distance = apart.constant;
    if (distance != 0 && !find_fragment(fragment_key(mma->b))) return mma->b;
  }
  return std::nullopt;
}

// By ldmatrix; false where it cannot be done. `partner` comes with it.
bool KernelPrinter::load_by_warp(const MmaOperand& operand, i64 blocks, i64 pieces, const MmaOperand* partner, i64 distance) {
  Arena arena;
  if (operand.load->buffer->scope != Scope::Shared) return false;
  std::optional<Rows> rows = rows_of(arena, operand, threads_->var, blocks, pieces);
  if (!rows) return false;
  i64 registers = blocks * pieces, all = partner ? 2 * registers : registers;
  if (partner) rows->index.add_atom(lane_digit(arena, threads_->var, kMatrixRows * registers, 2), distance);
  bool is_aligned = false;
  std::string at = pointer(operand.load->buffer, to_expr(arena, rows->index), static_cast<int>(in_piece(operand)), is_aligned);
  if (!is_aligned) return false;
  DeviceFunction load = ldmatrix_function(static_cast<int>(all), rows->is_transposed);
  define(load.name, load.definition);
  std::vector<std::string> names;
  for (i64 i = 0; i < all; ++i) names.push_back(fresh(cat("f", temporaries_++)));
  line(cat("unsigned ", join(names, ", "), ";"));
  line(cat(load.name, "(", join(names, ", "), ", ", at, ");"));
  if (operand.load->type.dtype == DType::F32) {
    for (const std::string& name : names) line(cat(name, " = ", rounded(name), ";"));
  }
  auto own = names.begin() + registers;
  fragments_.push_back({fragment_key(operand), indent_, {names.begin(), own}});
  if (partner) fragments_.push_back({fragment_key(*partner), indent_, {own, names.end()}});
  return true;
}

std::vector<std::string> KernelPrinter::fragment(const MmaOperand& operand, i64 blocks, i64 pieces, bool may_have_partner) {
  std::string key = fragment_key(operand);
  if (const Fragment* known = find_fragment(key)) return known->registers;
  i64 distance = 0;
  std::optional<MmaOperand> partner;
  if (may_have_partner) partner = fragment_behind(operand, distance);
  bool is_loaded = (partner && load_by_warp(operand, blocks, pieces, &*partner, distance)) ||
                   load_by_warp(operand, blocks, pieces, nullptr, 0);
  return is_loaded ? find_fragment(key)->registers : load_by_lanes(operand, blocks, pieces);
}

void KernelPrinter::load_operands_ahead(const For* nest) {
  const Annotation* mark = find_annotation(nest->annotations, kOperandsAheadMark);
  if (!mark || mark->value.integer < 1 || static_cast<std::size_t>(mark->value.integer) > behind_.size()) return;
  auto distance = static_cast<std::size_t>(mark->value.integer);
  const For* later = as<For>(behind_[distance - 1]);
  if (!later || !find_annotation(later->annotations, kWarpMmaMark)) return;
  std::optional<WarpMma> mma = match_warp_mma(later, threads_, ranges_);
  if (!mma) return;
  Array<const Stmt*> around = behind_;
  behind_ = around.subspan(distance);
  fragment(mma->a, 2, mma->pieces, false), fragment(mma->b, 1, mma->pieces, true);
  behind_ = around;
}

bool KernelPrinter::multiply_by_warp(const For* nest) {
  if (!find_annotation(nest->annotations, kWarpMmaMark) || !language_.has_matrix_instructions || conditions_ > 0 || !threads_) return false;
  if (kernel_.extents.threads_of_group() != threads_->extent) return false;
  std::optional<WarpMma> mma = match_warp_mma(nest, threads_, ranges_);
  if (!mma) return false;
  Arena arena;
  Build build{arena};
  std::vector<std::string> arguments;
  for (i64 place = 0; place < 4; ++place) {
    Substitution at;
    at.set(mma->h, build.integer(place / 2)), at.set(mma->e, build.integer(place % 2));
    const StoreTarget& target = mma->update->targets[0];
    arguments.push_back(element(target.buffer, simplify(arena, substitute(arena, target.indices[0], at), ranges_), 0));
  }
  for (const std::string& a : fragment(mma->a, 2, mma->pieces, false)) arguments.push_back(a);
  for (const std::string& b : fragment(mma->b, 1, mma->pieces, true)) arguments.push_back(b);
  load_operands_ahead(nest);
  DType type_a = mma->a.load->type.dtype, type_b = mma->b.load->type.dtype;
  DeviceFunction multiply = mma_function(type_a, type_b, mma->pieces);
  define(multiply.name, multiply.definition);
  line(cat(multiply.name, "(", join(arguments, ", "), ");"));
  return true;
}

}  // namespace tw::gpu

// Matrix instructions of a warp. What they multiply comes by ldmatrix where it lies in shared memory as that wants it,
// else each lane loads its own part. It stays in variables until other memory may have changed.
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
  const Expr* from =
      lower == 1 ? static_cast<const Expr*>(t) : build.binary(BinaryOp::FloorDiv, t, build.integer(lower));
  return build.floor_mod(from, build.integer(count));
}

DType type_of(const MmaOperand& operand) { return operand.buffer->dtype; }
i64 registers_of(const MmaOperand& operand) { return registers_of_lane(*operand.intrinsic, operand.parameter); }

// How far an operand moves in memory by these indices.
i64 distance_of(const MmaOperand& operand, const LaneLayout::Index& indices) {
  i64 out = 0;
  for (std::size_t d = 0; d < indices.size(); ++d) out += operand.steps[d] * indices[d];
  return out;
}

// ldmatrix gives 4 bytes to each lane of pieces that have 8 rows of 16 bytes, a register for each piece. Which
// dimensions of an operand are rows and run along them, if its layout is that.
struct Pieces {
  std::size_t row, along;
  std::size_t bits;  // of the number of a lane's element, for those in a register
};
std::optional<Pieces> pieces_of(const MmaOperand& operand) {
  const LaneLayout& layout = operand.layout();
  i64 in_register = elements_of_register(*operand.intrinsic, operand.parameter);
  auto moved = [](const LaneLayout::Index& by) {
    return static_cast<std::size_t>(std::find_if(by.begin(), by.end(), [](i64 x) { return x != 0; }) - by.begin());
  };
  auto moves_by = [](const LaneLayout::Index& by, std::size_t dimension, i64 distance) {
    for (std::size_t d = 0; d < by.size(); ++d) {
      if (by[d] != (d == dimension ? distance : 0)) return false;
    }
    return true;
  };
  if (bytes_of(type_of(operand)) > 4 || layout.lane_bits.size() != 5) return std::nullopt;
  Pieces out{moved(layout.lane_bits[2]), moved(layout.lane_bits[0]), 0};
  bool fits = out.row != out.along;
  for (; i64{1} << out.bits < in_register; ++out.bits)
    fits = fits && moves_by(layout.own_bits[out.bits], out.along, i64{1} << out.bits);
  for (std::size_t b = 0; b < 2; ++b) fits = fits && moves_by(layout.lane_bits[b], out.along, in_register << b);
  for (std::size_t b = 2; b < 5; ++b) fits = fits && moves_by(layout.lane_bits[b], out.row, i64{1} << (b - 2));
  return fits ? std::optional(out) : std::nullopt;
}

// Where the row begins that lane t names, of all pieces in the order of their registers. Nothing if the 16 bytes of a
// row are none in memory, or if there are no such pieces.
struct Rows {
  Sum index;
  bool is_transposed;
};
constexpr i64 kPieceRows = 8, kPieceBytes = 16, kMostPieces = 4;
std::optional<Rows> rows_of(Arena& arena, const MmaOperand& operand, const Var* t) {
  std::optional<Pieces> pieces = pieces_of(operand);
  if (!pieces) return std::nullopt;
  i64 along = operand.steps[pieces->along], row = operand.steps[pieces->row];
  bool is_transposed = along != 1;
  if (is_transposed && (row != 1 || bytes_of(type_of(operand)) != 2)) return std::nullopt;
  Rows out{operand.index, is_transposed};
  out.index.add_atom(lane_digit(arena, t, 1, kPieceRows), is_transposed ? along : row);
  const std::vector<LaneLayout::Index>& own = operand.layout().own_bits;
  for (std::size_t b = pieces->bits; b < own.size(); ++b)
    out.index.add_atom(lane_digit(arena, t, kPieceRows << (b - pieces->bits), 2), distance_of(operand, own[b]));
  return out;
}

}  // namespace

std::string KernelPrinter::fragment_key(const MmaOperand& operand) {
  Arena arena;
  std::string key = cat(operand.intrinsic->name, " ", operand.parameter, " ", place(operand.buffer).name);
  for (i64 step : operand.steps) key += cat(" ", step);
  return cat(key, " ", scalar(to_expr(arena, operand.index)));
}

const KernelPrinter::Fragment* KernelPrinter::find_fragment(const std::string& key) const {
  auto found =
      std::find_if(fragments_.begin(), fragments_.end(), [&](const Fragment& fragment) { return fragment.key == key; });
  return found == fragments_.end() ? nullptr : &*found;
}

std::string KernelPrinter::rounded(const std::string& bits) {
  DeviceFunction round = round_function();
  define(round.name, round.definition);
  return cat(round.name, "(", bits, ")");
}

// A register of elements that lie at these distances from an index.
std::string KernelPrinter::packed_elements(const MmaOperand& operand, const Sum& index,
                                           const std::vector<i64>& distances) {
  Arena arena;
  const Buffer* buffer = operand.buffer;
  DType type = buffer->dtype;
  auto at = [&](i64 distance) {
    Sum one = index;
    one.add_constant(distance);
    return to_expr(arena, one);
  };
  if (bytes_of(type) >= 4) {
    std::string value = element(buffer, at(distances[0]), 0);
    if (type == DType::F64) return value;
    std::string bits = type == DType::F32 ? cat("__float_as_uint(", value, ")") : cat("(unsigned)", value);
    return operand.intrinsic->rounds.empty() ? bits : rounded(bits);
  }
  bool is_aligned = false, is_row = true;
  for (std::size_t i = 0; i < distances.size(); ++i)
    is_row = is_row && distances[i] == distances[0] + static_cast<i64>(i);
  std::string first = pointer(buffer, at(distances[0]), static_cast<int>(distances.size()), is_aligned);
  if (is_row && is_aligned) return cat("*(const unsigned*)(", first, ")");
  DeviceFunction pack = pack_function(type);
  define(pack.name, pack.definition);
  std::vector<std::string> elements;
  for (i64 distance : distances) elements.push_back(element(buffer, at(distance), 0) + (is_half(type) ? ".bits" : ""));
  return cat(pack.name, "(", join(elements, ", "), ")");
}

// Each lane what it holds by the layout, wherever that lies.
std::vector<std::string> KernelPrinter::load_by_lanes(const MmaOperand& operand) {
  Arena arena;
  const LaneLayout& layout = operand.layout();
  Sum own = operand.index;
  for (std::size_t d = 0; d < operand.steps.size(); ++d) {
    for (const LaneLayout::Digit& digit : LaneLayout::digits(layout.lane_bits, d))
      own.add_atom(lane_digit(arena, threads_->var, i64{1} << digit.first, i64{1} << digit.count),
                   digit.step * operand.steps[d]);
  }
  i64 in_register = elements_of_register(*operand.intrinsic, operand.parameter);
  std::vector<std::string> out;
  for (i64 i = 0; i < layout.held(); i += in_register) {
    std::vector<i64> distances;
    for (i64 e = i; e < i + in_register; ++e) distances.push_back(distance_of(operand, layout.at(0, e)));
    out.push_back(packed_elements(operand, own, distances));
  }
  return out;
}

// The next last operand that one instruction can bring together with this one: at a constant distance, and not yet
// here.
std::optional<MmaOperand> KernelPrinter::fragment_behind(const MmaOperand& operand, i64& distance) {
  for (const Stmt* s : behind_) {
    const For* loop = as<For>(s);
    if (!loop || !find_annotation(loop->annotations, kWarpMmaMark)) return std::nullopt;
    std::optional<WarpMma> mma = match_warp_mma(loop, threads_, ranges_, language_.gpu);
    if (!mma || mma->intrinsic != operand.intrinsic) return std::nullopt;
    const MmaOperand& next = mma->inputs.back();
    if (next.buffer != operand.buffer || next.steps != operand.steps) return std::nullopt;
    Sum apart = next.index;
    apart.add(operand.index, -1);
    if (!apart.exact || !apart.terms.empty()) return std::nullopt;
    distance = apart.constant;
    if (distance != 0 && !find_fragment(fragment_key(next))) return next;
  }
  return std::nullopt;
}

// By ldmatrix; false where it cannot be done. `partner` comes with it.
bool KernelPrinter::load_by_warp(const MmaOperand& operand, const MmaOperand* partner, i64 distance) {
  Arena arena;
  i64 registers = registers_of(operand), all = partner ? 2 * registers : registers;
  if (operand.buffer->scope != Scope::Shared || all > kMostPieces) return false;
  std::optional<Rows> rows = rows_of(arena, operand, threads_->var);
  if (!rows) return false;
  if (partner) rows->index.add_atom(lane_digit(arena, threads_->var, kPieceRows * registers, 2), distance);
  bool is_aligned = false;
  std::string at = pointer(operand.buffer, to_expr(arena, rows->index),
                           static_cast<int>(kPieceBytes / bytes_of(type_of(operand))), is_aligned);
  if (!is_aligned) return false;
  DeviceFunction load = ldmatrix_function(static_cast<int>(all), rows->is_transposed);
  define(load.name, load.definition);
  std::vector<std::string> names;
  for (i64 i = 0; i < all; ++i) names.push_back(fresh(cat("f", temporaries_++)));
  line(cat("unsigned ", join(names, ", "), ";"));
  line(cat(load.name, "(", join(names, ", "), ", ", at, ");"));
  if (!operand.intrinsic->rounds.empty()) {
    for (const std::string& name : names) line(cat(name, " = ", rounded(name), ";"));
  }
  auto own = names.begin() + registers;
  fragments_.push_back({fragment_key(operand), indent_, {names.begin(), own}});
  if (partner) fragments_.push_back({fragment_key(*partner), indent_, {own, names.end()}});
  return true;
}

std::vector<std::string> KernelPrinter::fragment(const MmaOperand& operand, bool may_have_partner) {
  std::string key = fragment_key(operand);
  if (const Fragment* known = find_fragment(key)) return known->registers;
  i64 distance = 0;
  std::optional<MmaOperand> partner;
  if (may_have_partner) partner = fragment_behind(operand, distance);
  bool is_loaded = (partner && load_by_warp(operand, &*partner, distance)) || load_by_warp(operand, nullptr, 0);
  return is_loaded ? find_fragment(key)->registers : load_by_lanes(operand);
}

// The registers of all operands, in order. Only the last operand differs between instructions that follow each other,
// so only its registers may be loaded ahead for the next one.
std::vector<std::string> KernelPrinter::fragments(const WarpMma& mma) {
  std::vector<std::string> out;
  for (const MmaOperand& input : mma.inputs) {
    for (const std::string& name : fragment(input, &input == &mma.inputs.back())) out.push_back(name);
  }
  return out;
}

void KernelPrinter::load_operands_ahead(const For* nest) {
  const Annotation* mark = find_annotation(nest->annotations, kOperandsAheadMark);
  if (!mark || mark->value.integer < 1 || static_cast<std::size_t>(mark->value.integer) > behind_.size()) return;
  auto distance = static_cast<std::size_t>(mark->value.integer);
  const For* later = as<For>(behind_[distance - 1]);
  if (!later || !find_annotation(later->annotations, kWarpMmaMark)) return;
  std::optional<WarpMma> mma = match_warp_mma(later, threads_, ranges_, language_.gpu);
  if (!mma) return;
  Array<const Stmt*> around = behind_;
  behind_ = around.subspan(distance);
  fragments(*mma);
  behind_ = around;
}

bool KernelPrinter::multiply_by_warp(const For* nest) {
  if (!find_annotation(nest->annotations, kWarpMmaMark) || !language_.has_matrix_instructions || conditions_ > 0 ||
      !threads_)
    return false;
  if (kernel_.extents.threads_of_group() != threads_->extent) return false;
  std::optional<WarpMma> mma = match_warp_mma(nest, threads_, ranges_, language_.gpu);
  if (!mma) return false;
  Arena arena;
  Build build{arena};
  std::vector<std::string> arguments;
  for (u32 sum = 0; sum < 1u << mma->sum_bits.size(); ++sum) {
    std::map<const Var*, i64> loops;
    for (std::size_t b = 0; b < mma->sum_bits.size(); ++b)
      loops[mma->sum_bits[b].loop] += (sum >> b & 1) * mma->sum_bits[b].value;
    Substitution at;
    for (const auto& [loop, value] : loops) at.set(loop, build.integer(value));
    const StoreTarget& target = mma->update->targets[0];
    arguments.push_back(element(target.buffer, simplify(arena, substitute(arena, target.indices[0], at), ranges_), 0));
  }
  for (const std::string& name : fragments(*mma)) arguments.push_back(name);
  load_operands_ahead(nest);
  DeviceFunction multiply = mma_function(*mma->intrinsic);
  define(multiply.name, multiply.definition);
  line(cat(multiply.name, "(", join(arguments, ", "), ");"));
  return true;
}

}  // namespace tw::gpu

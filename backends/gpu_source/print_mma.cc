#include "backends/gpu_source/print_mma.h"

#include <algorithm>
#include <map>

#include "backends/gpu_source/matrix_functions.h"
#include "dsl/analysis/simplify.h"
#include "dsl/base/text.h"
#include "dsl/ir/build.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/share_storage.h"

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

void MmaPrinter::end_scope() {
  --depth_;
  std::erase_if(fragments_, [&](const Fragment& fragment) { return fragment.depth > depth_; });
}

std::optional<WarpMma> MmaPrinter::match(const Stmt* s, const Around& around) {
  const For* nest = as<For>(s);
  if (!nest || !find_mma_mark(nest)) return std::nullopt;
  return match_warp_mma(arena_, nest, around.threads, around.ranges, language_.gpu);
}

std::string MmaPrinter::fragment_key(const MmaOperand& operand) {
  Arena arena;
  std::string key = cat(operand.intrinsic->name, " ", operand.parameter, " ", text_.name(operand.buffer));
  for (i64 step : operand.steps) key += cat(" ", step);
  return cat(key, " ", text_.scalar(to_expr(arena, operand.index), 0));
}

const MmaPrinter::Fragment* MmaPrinter::find_fragment(const std::string& key) const {
  auto found =
      std::find_if(fragments_.begin(), fragments_.end(), [&](const Fragment& fragment) { return fragment.key == key; });
  return found == fragments_.end() ? nullptr : &*found;
}

std::string MmaPrinter::rounded(const std::string& bits) {
  DeviceFunction round = round_function();
  text_.define(round.name, round.definition);
  return cat(round.name, "(", bits, ")");
}

// A register of elements that lie at these distances from an index.
std::string MmaPrinter::packed_elements(const MmaOperand& operand, const Sum& index,
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
    std::string value = text_.element(buffer, at(distances[0]), 0);
    if (type == DType::F64) return value;
    std::string bits = type == DType::F32 ? cat("__float_as_uint(", value, ")") : cat("(unsigned)", value);
    return operand.intrinsic->rounds.empty() ? bits : rounded(bits);
  }
  bool is_aligned = false, is_row = true;
  for (std::size_t i = 0; i < distances.size(); ++i)
    is_row = is_row && distances[i] == distances[0] + static_cast<i64>(i);
  std::string first = text_.pointer(buffer, at(distances[0]), static_cast<int>(distances.size()), is_aligned);
  if (is_row && is_aligned) return cat("*(const unsigned*)(", first, ")");
  DeviceFunction pack = pack_function(type);
  text_.define(pack.name, pack.definition);
  std::vector<std::string> elements;
  for (i64 distance : distances)
    elements.push_back(text_.element(buffer, at(distance), 0) + (is_half(type) ? ".bits" : ""));
  return cat(pack.name, "(", join(elements, ", "), ")");
}

// Each lane what it holds by the layout, wherever that lies.
std::vector<std::string> MmaPrinter::load_by_lanes(const MmaOperand& operand, const Var* lane) {
  Arena arena;
  const LaneLayout& layout = operand.layout();
  Sum own = operand.index;
  for (std::size_t d = 0; d < operand.steps.size(); ++d) {
    for (const LaneLayout::Digit& digit : LaneLayout::digits(layout.lane_bits, d))
      own.add_atom(lane_digit(arena, lane, i64{1} << digit.first, i64{1} << digit.count),
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
std::optional<MmaOperand> MmaPrinter::fragment_behind(const MmaOperand& operand, const Around& around, i64& distance) {
  for (const Stmt* s : around.behind) {
    std::optional<WarpMma> mma = match(s, around);
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
bool MmaPrinter::load_by_warp(const MmaOperand& operand, const MmaOperand* partner, i64 distance, const Var* lane) {
  Arena arena;
  i64 registers = registers_of(operand), all = partner ? 2 * registers : registers;
  if (operand.buffer->scope != Scope::Shared || all > kMostPieces) return false;
  std::optional<Rows> rows = rows_of(arena, operand, lane);
  if (!rows) return false;
  if (partner) rows->index.add_atom(lane_digit(arena, lane, kPieceRows * registers, 2), distance);
  bool is_aligned = false;
  std::string at = text_.pointer(operand.buffer, to_expr(arena, rows->index),
                                 static_cast<int>(kPieceBytes / bytes_of(type_of(operand))), is_aligned);
  if (!is_aligned) return false;
  DeviceFunction load = ldmatrix_function(static_cast<int>(all), rows->is_transposed);
  text_.define(load.name, load.definition);
  std::vector<std::string> names;
  for (i64 i = 0; i < all; ++i) names.push_back(text_.fresh(cat("f", registers_++)));
  text_.line(cat("unsigned ", join(names, ", "), ";"));
  text_.line(cat(load.name, "(", join(names, ", "), ", ", at, ");"));
  if (!operand.intrinsic->rounds.empty()) {
    for (const std::string& name : names) text_.line(cat(name, " = ", rounded(name), ";"));
  }
  auto own = names.begin() + registers;
  fragments_.push_back({fragment_key(operand), depth_, {names.begin(), own}});
  if (partner) fragments_.push_back({fragment_key(*partner), depth_, {own, names.end()}});
  return true;
}

std::vector<std::string> MmaPrinter::fragment(const MmaOperand& operand, bool may_have_partner, const Around& around) {
  std::string key = fragment_key(operand);
  if (const Fragment* known = find_fragment(key)) return known->registers;
  const Var* lane = around.threads->var;
  i64 distance = 0;
  std::optional<MmaOperand> partner;
  if (may_have_partner) partner = fragment_behind(operand, around, distance);
  bool is_loaded =
      (partner && load_by_warp(operand, &*partner, distance, lane)) || load_by_warp(operand, nullptr, 0, lane);
  return is_loaded ? find_fragment(key)->registers : load_by_lanes(operand, lane);
}

// The registers of all operands, in order. Only the last operand differs between instructions that follow each other,
// so only its registers may be loaded ahead for the next one.
std::vector<std::string> MmaPrinter::fragments(const WarpMma& mma, const Around& around) {
  std::vector<std::string> out;
  for (const MmaOperand& input : mma.inputs) {
    for (const std::string& name : fragment(input, &input == &mma.inputs.back(), around)) out.push_back(name);
  }
  return out;
}

void MmaPrinter::load_operands_ahead(const For* nest, const Around& around) {
  const Annotation* mark = find_annotation(nest->annotations, kOperandsAheadMark);
  if (!mark || mark->value.integer < 1 || static_cast<std::size_t>(mark->value.integer) > around.behind.size()) return;
  auto distance = static_cast<std::size_t>(mark->value.integer);
  Around later{around.threads, around.ranges, around.behind.subspan(distance)};
  if (std::optional<WarpMma> mma = match(around.behind[distance - 1], later)) fragments(*mma, later);
}

// The elements that a lane adds to.
std::vector<std::string> MmaPrinter::sums(const WarpMma& mma, const Around& around) {
  Arena arena;
  Build build{arena};
  std::vector<std::string> out;
  for (u32 sum = 0; sum < 1u << mma.sum_bits.size(); ++sum) {
    std::map<const Var*, i64> loops;
    for (std::size_t b = 0; b < mma.sum_bits.size(); ++b)
      loops[mma.sum_bits[b].loop] += (sum >> b & 1) * mma.sum_bits[b].value;
    Substitution at;
    for (const auto& [loop, value] : loops) at.set(loop, build.integer(value));
    const StoreTarget& target = mma.update->targets[0];
    const Expr* index = simplify(arena, substitute(arena, target.indices[0], at), around.ranges);
    out.push_back(text_.element(target.buffer, index, 0));
  }
  return out;
}

// Rows of 128 bytes, swizzled by 8 of them, at whose multiples the operand begins; or, along them, at multiples of the
// 32 bytes of an instruction.
std::optional<MmaPrinter::SharedMatrix> MmaPrinter::shared_matrix(const MmaOperand& operand) {
  constexpr i64 kRow = MmaOperand::kBlockRows, kSwizzled = 8 * kRow;  // in halves
  i64 rows = operand.intrinsic->description.program.params[operand.parameter].buffer->shape[0],
      along = operand.intrinsic->description.program.params[operand.parameter].buffer->shape[1];
  bool is_across = operand.steps[0] == 1, has_blocks = is_across && rows > kRow;
  if (!operand.is_in_shared() || !is_swizzled_matrix(operand.buffer) || bytes_of(type_of(operand)) != 2 ||
      operand.steps[is_across ? 1 : 0] != kRow || operand.steps[is_across ? 0 : 1] != 1 || !operand.index.exact ||
      has_blocks != (operand.block > 0) || operand.block % kSwizzled != 0)
    return std::nullopt;
  i64 behind = floor_mod(operand.index.constant, kSwizzled);
  bool fits = is_across ? behind == 0 : behind < kRow && behind % along == 0;
  for (const Sum::Term& term : operand.index.terms) fits = fits && term.coefficient % kSwizzled == 0;
  return fits ? std::optional(SharedMatrix{operand.index, is_across, 2 * operand.block}) : std::nullopt;
}

bool MmaPrinter::is_warpgroup_mma(const Stmt* s, const Around& around) {
  std::optional<WarpMma> mma = match(s, around);
  return mma && mma->intrinsic->lanes > kWarpLanes &&
         std::all_of(mma->inputs.begin(), mma->inputs.end(),
                     [](const MmaOperand& operand) { return shared_matrix(operand).has_value(); });
}

void MmaPrinter::call(const DeviceFunction& function) {
  text_.define(function.name, function.definition);
  text_.line(cat(function.name, "();"));
}

bool MmaPrinter::print_warpgroup(const WarpMma& mma, const Around& around) {
  Arena arena;
  std::vector<std::string> arguments = sums(mma, around);
  std::vector<bool> across;
  for (const MmaOperand& input : mma.inputs) {
    std::optional<SharedMatrix> matrix = shared_matrix(input);
    if (!matrix) return false;
    bool is_aligned = false;
    arguments.push_back(text_.pointer(input.buffer, to_expr(arena, matrix->index),
                                      static_cast<int>(kPieceBytes / bytes_of(type_of(input))), is_aligned));
    arguments.push_back(std::to_string(matrix->block_bytes));
    across.push_back(matrix->is_across);
  }
  if (!is_multiplying_) call(warpgroup_begin_function());
  DeviceFunction multiply = warpgroup_mma_function(*mma.intrinsic, across);
  text_.define(multiply.name, multiply.definition);
  text_.line(cat(multiply.name, "(", join(arguments, ", "), ");"));
  is_multiplying_ = !around.behind.empty() &&
                    is_warpgroup_mma(around.behind[0], {around.threads, around.ranges, around.behind.subspan(1)});
  if (is_multiplying_) return true;
  call(warpgroup_commit_function());
  must_wait_ = true;
  return true;
}

void MmaPrinter::await() {
  if (std::exchange(must_wait_, false)) call(warpgroup_wait_function());
}

bool MmaPrinter::print(const For* nest, const Around& around) {
  if (!language_.has_matrix_instructions || around.is_conditional || !around.threads ||
      kernel_.extents.threads_of_group() != around.threads->extent)
    return false;
  std::optional<WarpMma> mma = match(nest, around);
  if (!mma) return false;
  if (mma->intrinsic->lanes > kWarpLanes) return print_warpgroup(*mma, around);
  std::vector<std::string> arguments = sums(*mma, around);
  for (const std::string& name : fragments(*mma, around)) arguments.push_back(name);
  load_operands_ahead(nest, around);
  DeviceFunction multiply = mma_function(*mma->intrinsic);
  text_.define(multiply.name, multiply.definition);
  text_.line(cat(multiply.name, "(", join(arguments, ", "), ");"));
  return true;
}

}  // namespace tw::gpu

#include "dsl/passes/warp_mma.h"

#include <algorithm>
#include <bit>
#include <set>

#include "dsl/analysis/precision.h"
#include "dsl/analysis/region.h"
#include "dsl/ir/build.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

bool is_power_of_two(i64 value) { return value > 0 && std::has_single_bit(static_cast<u64>(value)); }
std::size_t bits_of(i64 count) { return static_cast<std::size_t>(std::countr_zero(static_cast<u64>(count))); }

i64 take(Sum& sum, const Expr* atom) {
  i64 found = 0;
  for (const Sum::Term& term : sum.terms) found = term.atom == atom ? term.coefficient : found;
  sum.add_atom(atom, -found);
  return found;
}

// Takes the lane's number out of a sum: what each of its bits adds. What a term has of the number of the warp, or of
// the group of warps, stays.
std::optional<std::vector<i64>> take_lane_bits(Arena& arena, Sum& sum, const Var* t, i64 lanes,
                                               const VarRanges& ranges) {
  Build build{arena};
  std::vector<i64> out(bits_of(lanes), 0);
  auto terms = sum.terms;
  for (const Sum::Term& term : terms) {
    std::optional<Digit> digit = digit_of(term.atom, ranges);
    if (!digit || digit->source != t || digit->lower >= lanes) continue;
    if (!is_power_of_two(digit->lower) || !is_power_of_two(digit->count)) return std::nullopt;
    i64 of_lane = std::min(digit->count, lanes / digit->lower), of_warp = digit->count / of_lane;
    for (std::size_t b = 0; b < bits_of(of_lane); ++b) out[bits_of(digit->lower) + b] += term.coefficient << b;
    sum.add_atom(term.atom, -term.coefficient);
    const Expr* warp = build.binary(BinaryOp::FloorDiv, t, build.integer(lanes));
    if (of_warp > 1) sum.add_atom(build.floor_mod(warp, build.integer(of_warp)), term.coefficient * of_lane);
  }
  return out;
}

// Of memory of which each lane has its own, where they may find different numbers.
bool loads_own_memory(const Expr* index) {
  bool found = false;
  for_each<Load>(index, [&](const Load* load) {
    found |= load->buffer->scope == Scope::Register || load->buffer->scope == Scope::Local;
  });
  return found;
}

// Is the sum the same for all lanes, and for all that they do here?
bool is_uniform(const Sum& sum, const Var* t, i64 lanes, const VarRanges& ranges) {
  for (const Sum::Term& term : sum.terms) {
    if (loads_own_memory(term.atom)) return false;
    if (!uses(term.atom, t)) continue;
    std::optional<Digit> digit = digit_of(term.atom, ranges);
    if (!digit || digit->source != t || digit->lower % lanes != 0) return false;
  }
  return sum.exact;
}

struct Nest {
  std::vector<const For*> loops;
  const Store* update;
};
std::optional<Nest> nest_of(const For* outer) {
  Nest out{};
  const Stmt* body = outer;
  for (; as<For>(body); body = as<For>(body)->body) {
    out.loops.push_back(as<For>(body));
    if (out.loops.back()->loop_kind != LoopKind::Serial || !is_power_of_two(out.loops.back()->extent) ||
        out.loops.size() > 8)
      return std::nullopt;
  }
  out.update = as<Store>(body);
  bool is_plain = out.update && out.update->targets.size() == 1 && out.update->targets[0].indices.size() == 1;
  return is_plain ? std::optional(out) : std::nullopt;
}

// The description of an intrinsic: the loop over the sum, and which index of the output another loop is.
struct Description {
  const Store* store;
  const For* sum;
  Array<const Expr*> output;

  explicit Description(const Intrinsic& intrinsic) {
    const Stmt* body = intrinsic.description.program.body;
    for (; as<For>(body); body = as<For>(body)->body) sum = as<For>(body);
    store = as<Store>(body);
    output = store->targets[0].indices;
  }
  std::optional<std::size_t> index_of(const Expr* loop) const {
    auto found = std::find(output.begin(), output.end(), loop);
    return found == output.end() ? std::nullopt : std::optional(static_cast<std::size_t>(found - output.begin()));
  }
};

class Matcher {
 public:
  Matcher(Arena& arena, const Nest& nest, const Intrinsic& intrinsic, const For* threads, const VarRanges& ranges)
      : arena_(arena), nest_(nest), intrinsic_(intrinsic), description_(intrinsic), threads_(threads), ranges_(ranges) {
    Array<Param> params = intrinsic.description.program.params;
    for (std::size_t p = 0; p < params.size(); ++p) {
      if (params[p].role == Role::Output) sums_ = &intrinsic.holds[p];
    }
  }

  std::optional<WarpMma> run() {
    i64 points = 1;
    for (const For* loop : nest_.loops) points *= loop->extent;
    if (threads_->extent % intrinsic_.lanes != 0 || points != sums_->held() * description_.sum->extent)
      return std::nullopt;
    for (const std::vector<AccessPair>& accesses : pairings(nest_.update, description_.store)) {
      WarpMma out{&intrinsic_, nest_.update, {}, {}};
      if (find_sums(accesses) && find_inputs(accesses, out) && find_sum_bits(out)) return out;
    }
    return std::nullopt;
  }

 private:
  // The part of the sums is a lane's own, at constant places, each of them another one.
  bool find_sums(const std::vector<AccessPair>& accesses) {
    const AccessPair& target = accesses[0];
    for (const AccessPair& access : accesses) {
      bool is_sum = access.described == target.described;
      if (is_sum && (access.buffer != target.buffer || !same_expr(access.indices[0], target.indices[0]))) return false;
    }
    if (target.buffer->scope != Scope::Register && target.buffer->scope != Scope::Local) return false;
    Sum place = sum_of(target.indices[0]);
    sum_ = nullptr, spatial_.clear();
    std::set<i64> places{0};
    for (const For* loop : nest_.loops) {
      i64 step = take(place, loop->var);
      if (step == 0 && sum_) return false;
      if (step == 0) {
        sum_ = loop;
        continue;
      }
      spatial_.push_back(loop);
      std::set<i64> more;
      for (i64 known : places) {
        for (i64 at = 0; at < loop->extent; ++at) more.insert(known + at * step);
      }
      places = more;
    }
    return sum_ && sum_->extent == description_.sum->extent && place.exact && place.terms.empty() &&
           static_cast<i64>(places.size()) == sums_->held();
  }

  bool find_inputs(const std::vector<AccessPair>& accesses, WarpMma& out) {
    moves_.clear();
    Array<Param> params = intrinsic_.description.program.params;
    for (std::size_t p = 0; p < params.size(); ++p) {
      if (params[p].role == Role::Output) continue;
      auto is_meant = [&](const AccessPair& access) { return access.described == params[p].buffer; };
      if (std::count_if(accesses.begin(), accesses.end(), is_meant) != 1) return false;
      std::optional<MmaOperand> input = input_of(*std::find_if(accesses.begin(), accesses.end(), is_meant), p);
      if (!input) return false;
      out.inputs.push_back(std::move(*input));
    }
    return true;
  }

  std::optional<MmaOperand> input_of(const AccessPair& access, std::size_t parameter) {
    MmaOperand out{access.buffer, &intrinsic_, parameter, sum_of(access.indices[0]), {}};
    i64 along_sum = take(out.index, sum_->var);
    std::vector<i64> moves;  // by each loop over sums
    for (const For* loop : spatial_) moves.push_back(take(out.index, loop->var));
    std::optional<std::vector<i64>> bits = take_lane_bits(arena_, out.index, threads_->var, intrinsic_.lanes, ranges_);
    if (!bits || !is_uniform(out.index, threads_->var, intrinsic_.lanes, ranges_) || uses_loops(out.index))
      return std::nullopt;
    // Of the sums' layout: how far this operand moves with a bit.
    auto expected = [&](const LaneLayout::Index& by) {
      i64 all = 0;
      for (std::size_t d = 0; d < out.steps.size(); ++d) {
        if (std::optional<std::size_t> at = description_.index_of(access.described_indices[d]))
          all += out.distance(d, by[*at]);
      }
      return all;
    };
    for (const Expr* index : access.described_indices) {
      std::optional<std::size_t> at = description_.index_of(index);
      out.steps.push_back(at ? step_of(*at, *bits) : along_sum);
      if (at && out.steps.back() == 0) return std::nullopt;
    }
    if (out.is_in_shared()) out.block = block_of(out, moves);
    for (std::size_t b = 0; b < bits->size(); ++b) {
      if (expected(sums_->lane_bits[b]) != (*bits)[b]) return std::nullopt;
    }
    std::vector<i64> wanted;
    for (const LaneLayout::Index& by : sums_->own_bits) wanted.push_back(expected(by));
    moves_.push_back({moves, wanted});
    return out;
  }

  // How far the next block of rows is: the shortest move of a loop that is no shorter than a row of them.
  static i64 block_of(const MmaOperand& operand, const std::vector<i64>& moves) {
    i64 out = 0;
    for (i64 move : moves) {
      if (move >= MmaOperand::kBlockRows && (out == 0 || move < out)) out = move;
    }
    return operand.steps[0] == 1 ? out : 0;
  }

  // By the first bit of the lane's number that moves this index of the sums; 0 if there is none.
  i64 step_of(std::size_t index, const std::vector<i64>& bits) const {
    for (std::size_t b = 0; b < bits.size(); ++b) {
      i64 by = sums_->lane_bits[b][index];
      if (by != 0) return bits[b] % by == 0 ? bits[b] / by : 0;
    }
    return 0;
  }

  bool uses_loops(const Sum& sum) const {
    return std::any_of(sum.terms.begin(), sum.terms.end(), [&](const Sum::Term& term) {
      return std::any_of(nest_.loops.begin(), nest_.loops.end(),
                         [&](const For* loop) { return uses(term.atom, loop->var); });
    });
  }

  // For each bit of the number of a lane's sum a bit of a loop that moves all operands alike.
  bool find_sum_bits(WarpMma& out) const {
    std::set<std::pair<std::size_t, i64>> taken;
    for (std::size_t b = 0; b < sums_->own_bits.size(); ++b) {
      for (std::size_t l = 0; l < spatial_.size() && out.sum_bits.size() == b; ++l) {
        for (i64 value = 1; value < spatial_[l]->extent && out.sum_bits.size() == b; value *= 2) {
          bool fits = std::all_of(moves_.begin(), moves_.end(),
                                  [&](const Moves& moves) { return moves.by_loop[l] * value == moves.wanted[b]; });
          if (fits && taken.insert({l, value}).second) out.sum_bits.push_back({spatial_[l]->var, value});
        }
      }
      if (out.sum_bits.size() == b) return false;
    }
    return true;
  }

  // Of an input: how far each loop over sums moves it, and how far each bit of the number of a lane's sum has to.
  struct Moves {
    std::vector<i64> by_loop, wanted;
  };

  Arena& arena_;
  const Nest& nest_;
  const Intrinsic& intrinsic_;
  Description description_;
  const For* threads_;
  const VarRanges& ranges_;
  const LaneLayout* sums_ = nullptr;
  const For* sum_ = nullptr;
  std::vector<const For*> spatial_;
  std::vector<Moves> moves_;
};

}  // namespace

const Annotation* find_mma_mark(const For* loop) {
  const Annotation* of_warp = find_annotation(loop->annotations, kWarpMmaMark);
  return of_warp ? of_warp : find_annotation(loop->annotations, kWarpgroupMmaMark);
}

std::optional<WarpMma> match_warp_mma(Arena& arena, const For* outer, const For* threads, const VarRanges& ranges,
                                      std::string_view gpu) {
  std::optional<Nest> nest = nest_of(outer);
  const Annotation* mark = find_mma_mark(outer);
  bool is_of_warp = mark->key == kWarpMmaMark, may_round = is_of_warp && mark->value.integer == kMayRound;
  for (const Intrinsic* intrinsic : nest ? warp_intrinsics() : std::vector<const Intrinsic*>()) {
    if (is_of_warp != (intrinsic->lanes == kWarpLanes) || (!intrinsic->rounds.empty() && !may_round) ||
        !can_do(gpu, *intrinsic))
      continue;
    if (std::optional<WarpMma> found = Matcher(arena, *nest, *intrinsic, threads, ranges).run()) return found;
  }
  return std::nullopt;
}

Status check_rounding(const Program& program) {
  Status status = ok();
  auto check = [&](const Block* block) {
    i64 bits = precision_of(program, block);
    if (!status || bits <= kRoundedBits) return;
    status =
        reject("the products of block `{a}` would be rounded to {0} bits, but the workload's tolerance asks for {1}",
               block->name, kRoundedBits, bits)
            .about_block(block->id.value);
  };
  auto rounds = [](const For* loop) {
    const Annotation* mark = find_annotation(loop->annotations, kWarpMmaMark);
    return mark && mark->value.integer == kMayRound;
  };
  for_each<For>(program.body, [&](const For* loop) {
    if (rounds(loop)) for_each<Block>(loop->body, check);
  });
  // A block of several statements has loops of its own.
  for_each<Block>(program.body, [&](const Block* block) {
    List<const For*> inside = loops_inside(block);
    if (std::any_of(inside.begin(), inside.end(), rounds)) check(block);
  });
  return status;
}

}  // namespace tw

// States in which box a block reads or writes a buffer, where the indices alone do not show it.
//   B[i] = A[min(max(I[i], 2 * i), 2 * i + 3)]     annotate_buffer_access(B, 1, "read", i -> (2 *
//   i, 4))
//   ->   B[i] = A[within(min(max(I[i], 2 * i), 2 * i + 3), 2 * i, 4)]
// The map gives, for the block's iters, minimum and extent of each dimension. Each access must be
// proved to lie in its box, from its indices or by trying every point of the iters (up to 65,536;
// what is looked up in memory may be anything). An extent is a number: 1, unless the index is
// looked up. A claim that was there before is replaced. What a block that accumulates reads of its
// own output counts as written. Source: AnnotateBufferAccess of TensorIR, which believes what it is
// told.
#include <algorithm>
#include <limits>

#include "dsl/analysis/region.h"
#include "dsl/analysis/sum.h"
#include "dsl/schedule/copy.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(annotate_buffer_access, Unit(BlockId block, i64 buffer_index, Str access, IndexMap box))

namespace {

constexpr i64 kMaxPoints = 65536;

// The claim about one access: min and extent per dimension, over the iters of the block.
struct Claim {
  const Block* block;
  const Buffer* buffer;
  AccessKind kind;
  List<Range> box;
};

Result<const Buffer*> buffer_named(const State& state, const Block* block, i64 index, Str access) {
  if (access == "read") return buffer_at(block, buffers_read(block), index, "read");
  if (access == "write") return buffer_at(block, buffers_written(block), index, "written");
  return reject("expected access \"read\" or \"write\", found \"{a}\"", state.arena().text(access));
}

Result<List<Range>> box_of(State& state, const Block* block, const Buffer* buffer, const IndexMap& map) {
  i64 iters = static_cast<i64>(block->iters.size()), rank = static_cast<i64>(buffer->shape.size());
  i64 params = static_cast<i64>(map.params.size()), results = static_cast<i64>(map.results.size());
  if (params != iters) {
    return reject("the map has {0} parameters, but block `{a}` has {1} iters", block->name, params, iters)
        .about_block(block->id.value);
  }
  if (results != 2 * rank) {
    return reject(
        "expected a minimum and an extent for each of the {0} dimensions of `{a}`, found {1} "
        "results",
        buffer->name, rank, results);
  }
  Substitution at;
  for (std::size_t i = 0; i < map.params.size(); ++i) at.set(map.params[i], block->iters[i].var);
  List<Range> box;
  for (std::size_t d = 0; d < buffer->shape.size(); ++d) {
    std::optional<i64> extent = constant_of(map.results[2 * d + 1]);
    if (!extent || *extent < 1) {
      return reject("expected a positive number as the extent of dimension {0} of `{a}`", buffer->name,
                    static_cast<i64>(d));
    }
    box.push_back({substitute(state.arena(), map.results[2 * d], at), *extent});
  }
  return box;
}

// Bounds of an index where a load may give anything.
Interval bounds_at(const Expr* e, const VarRanges& point) {
  constexpr i64 kFar = std::numeric_limits<i64>::max() / 4;
  const Binary* binary = as<Binary>(e);
  bool clamps = binary && (binary->op == BinaryOp::Min || binary->op == BinaryOp::Max);
  if (!clamps) return interval_of(e, point).value_or(Interval{-kFar, kFar});
  Interval a = bounds_at(binary->a, point), b = bounds_at(binary->b, point);
  if (binary->op == BinaryOp::Min) return {std::min(a.min, b.min), std::min(a.max, b.max)};
  return {std::max(a.min, b.min), std::max(a.max, b.max)};
}

bool lies_in(const Expr* index, const Range& range, const VarRanges& ranges) {
  Interval at = bounds_at(index, ranges), min = bounds_at(range.min, ranges);
  return min.max <= at.min && at.max < min.min + range.extent;
}

// From `iter` on, every value of the iters that the index or the box depends on.
bool lies_in_everywhere(const Block* block, std::size_t iter, const Expr* index, const Range& range, VarRanges& point) {
  if (iter == block->iters.size()) return lies_in(index, range, point);
  const IterVar& at = block->iters[iter];
  if (!uses(index, at.var) && !uses(range.min, at.var)) return lies_in_everywhere(block, iter + 1, index, range, point);
  std::size_t known = point.size();
  bool inside = true;
  for (i64 value = 0; value < at.extent && inside; ++value) {
    point.set(at.var, {value, value});
    inside = lies_in_everywhere(block, iter + 1, index, range, point);
    point.shrink(known);
  }
  return inside;
}

bool is_proved(const Block* block, const Expr* index, const Range& range) {
  VarRanges ranges;
  i64 points = 1;
  for (const IterVar& iter : block->iters) {
    ranges.set_extent(iter.var, iter.extent);
    if ((uses(index, iter.var) || uses(range.min, iter.var)) && points <= kMaxPoints) points *= iter.extent;
  }
  std::optional<Interval> offset = interval_of(difference_of(index, range.min), ranges);
  if (offset && offset->min >= 0 && offset->max < range.extent) return true;
  VarRanges point;
  return points <= kMaxPoints && lies_in_everywhere(block, 0, index, range, point);
}

Status all_lie_inside(const Claim& claim) {
  for (const Access& access : accesses_of(claim.block)) {
    if (access.buffer != claim.buffer || access.kind != claim.kind) continue;
    for (std::size_t d = 0; d < claim.box.size(); ++d) {
      bool looked_up = false;
      for_each<Load>(access.indices[d], [&](const Load*) { looked_up = true; });
      if (!looked_up && claim.box[d].extent != 1) {
        return reject(
                   "index {0} of `{b}` in block `{a}` is one place for each point; expected extent "
                   "1",
                   claim.block->name, claim.buffer->name, static_cast<i64>(d))
            .about_block(claim.block->id.value);
      }
      if (is_proved(claim.block, access.indices[d], claim.box[d])) continue;
      return reject("cannot prove that index {0} of `{b}` in block `{a}` stays in the box", claim.block->name,
                    claim.buffer->name, static_cast<i64>(d))
          .about_block(claim.block->id.value);
    }
  }
  return ok();
}

// The indices with the claim about each; one that they had before goes.
Array<const Expr*> claimed(Build build, const Claim& claim, Array<const Expr*> indices) {
  List<const Expr*> out;
  for (std::size_t d = 0; d < indices.size(); ++d) {
    const Call* before = as_within(indices[d]);
    const Expr* extent = build.integer(claim.box[d].extent);
    Array<const Expr*> arguments =
        build.arena.list<const Expr*>({before ? before->arguments[0] : indices[d], claim.box[d].min, extent});
    out.push_back(build.call(Function::Within, arguments));
  }
  return build.arena.copy(out);
}

const Stmt* with_claim(Build build, const Claim& claim, const Stmt* part) {
  auto change = [&](auto* n) {
    if constexpr (std::is_convertible_v<decltype(n), const Expr*>) {
      const Load* load = as<Load>(n);
      bool meant = load && load->buffer == claim.buffer;
      return meant ? build.load(load->buffer, claimed(build, claim, load->indices)) : static_cast<const Expr*>(n);
    } else {
      const Store* store = claim.kind == AccessKind::Write ? as<Store>(n) : nullptr;
      if (!store) return static_cast<const Stmt*>(n);
      List<StoreTarget> targets(store->targets.begin(), store->targets.end());
      for (StoreTarget& target : targets) {
        if (target.buffer == claim.buffer) target.indices = claimed(build, claim, target.indices);
      }
      return build.store(build.arena.copy(targets), store->values);
    }
  };
  return part ? rewrite(build.arena, part, change) : nullptr;
}

}  // namespace

static Result<Unit> apply(State& state, BlockId id, i64 buffer_index, Str access, IndexMap map) {
  TW_TRY(const Block* block, state.block(id));
  TW_TRY(const Buffer* buffer, buffer_named(state, block, buffer_index, access));
  TW_TRY(List<Range> box, box_of(state, block, buffer, map));
  Claim claim{block, buffer, access == "read" ? AccessKind::Read : AccessKind::Write, box};
  TW_TRY_STATUS(all_lie_inside(claim));
  Build build = state.build();
  state.replace(block,
                build.with_body(block, with_claim(build, claim, block->init), with_claim(build, claim, block->body)));
  return Unit{};
}

REGISTER(annotate_buffer_access,
         "States in which box a block reads or writes a buffer, where its indices do not show it.")

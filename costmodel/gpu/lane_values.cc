#include "costmodel/gpu/lane_values.h"

#include "dsl/ir/build.h"

namespace tw {
void LaneValues::start(const FlatProgram& program, const FlatStore& store, const std::array<i64, 3>& threads,
                       u32 variables) {
  slot_.assign(variables, -1);
  values_.clear();
  active_.fill(true);
  for (u32 p = 0; p < store.depth; ++p) {
    const FlatLoop& loop = program.loop_of(store, p);
    if (loop.axis < 3) continue;
    Lanes lanes;
    for (int lane = 0; lane < kLanes; ++lane) {
      i64 place = lane;
      for (int d = 0; d < loop.axis - 3; ++d) place /= threads[static_cast<std::size_t>(d)];
      auto l = static_cast<std::size_t>(lane);
      lanes[l] = place % threads[static_cast<std::size_t>(loop.axis - 3)];
      active_[l] &= lanes[l] < loop.extent;
    }
    slot_[loop.var->id] = static_cast<int>(values_.size());
    values_.push_back(lanes);
  }
  i64 group = threads[0] * threads[1] * threads[2];
  for (i64 lane = group; lane < kLanes; ++lane) active_[static_cast<std::size_t>(lane)] = false;
  for (u32 b = store.first_block; b < store.first_block + store.blocks; ++b) {
    const Block* block = program.blocks[b];
    for (std::size_t i = 0; i < block->iters.size(); ++i) {
      Lanes lanes;
      evaluate(block->bindings[i], lanes);
      slot_[block->iters[i].var->id] = static_cast<int>(values_.size());
      values_.push_back(lanes);
    }
  }
}

void LaneValues::evaluate(const Expr* expr, Lanes& out) const {
  switch (expr->kind) {
    case Kind::IntImm:
      return out.fill(static_cast<const IntImm*>(expr)->value);
    case Kind::Var: {
      int slot = slot_[static_cast<const Var*>(expr)->id];
      return slot < 0 ? out.fill(0) : void(out = values_[static_cast<std::size_t>(slot)]);
    }
    case Kind::Cast:
      return evaluate(static_cast<const Cast*>(expr)->value, out);
    case Kind::Binary:
      return evaluate_binary(static_cast<const Binary*>(expr), out);
    case Kind::Select: {
      auto* select = static_cast<const Select*>(expr);
      Lanes then, otherwise;
      evaluate(select->condition, out);
      evaluate(select->then, then);
      evaluate(select->otherwise, otherwise);
      for (std::size_t l = 0; l < kLanes; ++l) out[l] = out[l] ? then[l] : otherwise[l];
      return;
    }
    default:
      break;
  }
  if (const Call* fact = as_within(expr)) return evaluate(fact->arguments[0], out);
  out.fill(0);
}

void LaneValues::evaluate_binary(const Binary* expr, Lanes& out) const {
  Lanes right;
  evaluate(expr->a, out);
  evaluate(expr->b, right);
  for (std::size_t l = 0; l < kLanes; ++l) out[l] = fold(expr->op, out[l], right[l]).value_or(0);
}

}  // namespace tw

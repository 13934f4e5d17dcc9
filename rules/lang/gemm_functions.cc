#include "rules/lang/gemm_functions.h"

#include <algorithm>

#include "dsl/ir/walk.h"
#include "rules/lang/access_functions.h"

namespace tw::rules {
namespace {

using Tag = RuleValue::Tag;
using Positions = std::vector<std::size_t>;  // of iters in the block

// The iters of a contraction by what they move along: both operands and the output, the rows of the first operand, the
// columns of the second, or the sum.
struct GemmAxes {
  Positions batch, rows, columns, sums;
};

// The only store, if each of its indices is an iter.
const Store* direct_store(const Block* block) {
  const Store* store = as<Store>(block->body);
  if (!store || store->targets.size() != 1 || store->targets[0].indices.empty()) return nullptr;
  Array<const Expr*> indices = store->targets[0].indices;
  bool are_iters = std::all_of(indices.begin(), indices.end(), [](const Expr* index) { return as<Var>(index); });
  return are_iters ? store : nullptr;
}

// The second operand is the one that moves with the last axis of the output, and with nothing that the first one
// shares.
std::optional<GemmAxes> axes_of(const Block* block) {
  const Store* store = direct_store(block);
  std::vector<const Load*> operands = operands_of(block);
  if (!store || operands.size() != 2) return std::nullopt;
  const Var* last = static_cast<const Var*>(store->targets[0].indices.back());
  if (!any_uses(operands[1]->indices, last)) std::swap(operands[0], operands[1]);
  GemmAxes out;
  for (std::size_t i = 0; i < block->iters.size(); ++i) {
    const IterVar& iter = block->iters[i];
    bool first = any_uses(operands[0]->indices, iter.var), second = any_uses(operands[1]->indices, iter.var);
    bool is_sum = iter.kind == IterKind::R;
    if (!is_sum && !first && !second && iter.extent > 1) return std::nullopt;
    (is_sum ? out.sums : first && second ? out.batch : second ? out.columns : out.rows).push_back(i);
  }
  if (out.rows.empty() || out.columns.empty() || out.sums.empty()) return std::nullopt;
  return out;
}

Arg binary(Arena& arena, BinaryOp op, const Arg& a, const Arg& b) {
  return {.tag = Arg::Tag::Binary, .op = op, .items = arena.list<Arg>({a, b})};
}

// One number from several parameters, the last one fastest.
Arg joined(Arena& arena, const std::vector<std::pair<i64, i64>>& params) {  // parameter, extent
  Arg out;
  for (std::size_t i = 0; i < params.size(); ++i) {
    Arg param{.tag = Arg::Tag::Param, .integer = params[i].first};
    out = i == 0
              ? param
              : binary(arena, BinaryOp::Add, binary(arena, BinaryOp::Mul, out, Arg::of_int(params[i].second)), param);
  }
  return out;
}

// The groups of axes in the order of the product's: batch (if any), rows, columns, sums.
std::vector<const Positions*> groups_of(const GemmAxes& axes) {
  std::vector<const Positions*> out;
  if (!axes.batch.empty()) out.push_back(&axes.batch);
  for (const Positions* group : {&axes.rows, &axes.columns, &axes.sums}) out.push_back(group);
  return out;
}

bool is_in_form(const Block* block, const GemmAxes& axes) {
  std::size_t at = 0;
  for (const Positions* group : groups_of(axes)) {
    if (group->size() != 1 || group->front() != at++) return false;
  }
  const Store* store = direct_store(block);
  Array<const Expr*> indices = store->targets[0].indices;
  for (std::size_t d = 0; d < indices.size(); ++d) {
    if (indices[d] != block->iters[d].var) return false;
  }
  return true;
}

RuleValue map_of(Arena& arena, std::size_t params, const std::vector<Arg>& results) {
  return RuleValue::of_open({.tag = Arg::Tag::Map, .integer = static_cast<i64>(params), .items = arena.copy(results)});
}

}  // namespace

FunctionResult is_gemm(const FunctionContext& c, const std::vector<RuleValue>& v) {
  const Block* block = block_of(c, v[0]);
  if (!block) return {{}, "expected a block that exists"};
  return {RuleValue::of(axes_of(block).has_value()), {}};
}

FunctionResult gemm_map(const FunctionContext& c, const std::vector<RuleValue>& v) {
  const Block* block = block_of(c, v[0]);
  if (!block) return {{}, "expected a block that exists"};
  std::optional<GemmAxes> axes = axes_of(block);
  if (!axes || is_in_form(block, *axes)) return {RuleValue::none(), {}};
  Arena& arena = c.state.arena();
  std::vector<Arg> results;
  if (axes->batch.empty()) results.push_back(Arg::of_int(0));
  for (const Positions* group : groups_of(*axes)) {
    std::vector<std::pair<i64, i64>> params;
    for (std::size_t at : *group) params.emplace_back(static_cast<i64>(at), block->iters[at].extent);
    results.push_back(joined(arena, params));
  }
  return {map_of(arena, block->iters.size(), results), {}};
}

}  // namespace tw::rules

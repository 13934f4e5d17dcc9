#include "rules/lang/functions.h"

#include <algorithm>
#include <unordered_map>

#include "dsl/analysis/affine.h"
#include "dsl/analysis/precision.h"
#include "dsl/base/text.h"
#include "dsl/passes/memory_use.h"
#include "rules/lang/access_functions.h"
#include "rules/lang/gemm_functions.h"

namespace tw::rules {
namespace {

using Tag = RuleValue::Tag;
using Values = std::vector<RuleValue>;
using Context = FunctionContext;

FunctionResult fail(std::string why) { return {{}, std::move(why)}; }
FunctionResult give(RuleValue value) { return {std::move(value), {}}; }
FunctionResult yes_or_no(bool value) { return {RuleValue::of(value), {}}; }

// ---- what the functions look at

bool reads(const Block* block, const Buffer* buffer) {
  bool found = false;
  for_each<Load>(block->body, [&](const Load* load) { found |= load->buffer == buffer; });
  return found;
}

// Iters that a loop feeds.
std::vector<const IterVar*> fed_by(const Block* block, const For* loop) {
  std::vector<const IterVar*> fed;
  for (std::size_t i = 0; i < block->iters.size(); ++i) {
    if (uses(block->bindings[i], loop->var)) fed.push_back(&block->iters[i]);
  }
  return fed;
}

bool is_kind(const Block* block, const For* loop, IterKind kind) {
  std::vector<const IterVar*> fed = fed_by(block, loop);
  return !fed.empty() && std::all_of(fed.begin(), fed.end(), [&](const IterVar* iter) { return iter->kind == kind; });
}

bool has_reduction(const Block* block) {
  return std::any_of(block->iters.begin(), block->iters.end(),
                     [](const IterVar& iter) { return iter.kind == IterKind::R; });
}

// The loop that moves through consecutive elements of the output: innermost dimension, step 1.
const For* contiguous_loop_of(const Context& c, const Block* block) {
  const StoreTarget& target = write_of(block);
  if (target.indices.empty()) return nullptr;
  std::optional<LinearForm> last = linear_form(target.indices.back());
  if (!last) return nullptr;
  Array<const For*> loops = loops_of(c, block);
  for (std::size_t l = loops.size(); l-- > 0;) {
    for (const IterVar* iter : fed_by(block, loops[l])) {
      std::size_t index = static_cast<std::size_t>(iter - block->iters.data());
      std::optional<LinearForm> binding = linear_form(block->bindings[index]);
      bool only_here = std::none_of(target.indices.begin(), target.indices.end() - 1,
                                    [&](const Expr* e) { return uses(e, iter->var); });
      if (iter->kind == IterKind::S && last->coefficient(iter->var) == 1 && binding &&
          binding->coefficient(loops[l]->var) == 1 && only_here) {
        return loops[l];
      }
    }
  }
  return nullptr;
}

i64 reuse_of(const Block* block) {
  i64 reuse = 0;
  for (const Load* load : operands_of(block)) {
    for (const IterVar& iter : block->iters)
      reuse += iter.kind == IterKind::S && iter.extent > 1 && !any_uses(load->indices, iter.var);
  }
  return reuse;
}

bool has_trivial_bindings(const Block* block) {
  return std::all_of(block->bindings.begin(), block->bindings.end(),
                     [](const Expr* e) { return as<Var>(e) || constant_of(e); });
}

std::vector<const Block*> neighbours(const Context& c, const Block* block, bool consumers) {
  std::vector<const Block*> found;
  for (const Block* other : c.state.blocks()) {
    if (other == block) continue;
    const Block* writer = consumers ? block : other;
    const Block* reader = consumers ? other : block;
    bool connected = false;
    for_each<Store>(writer->body, [&](const Store* s) {
      for (const StoreTarget& target : s->targets) connected |= reads(reader, target.buffer);
    });
    if (connected) found.push_back(other);
  }
  return found;
}

RuleValue list_of(const std::vector<const Block*>& blocks) {
  Values values;
  for (const Block* block : blocks) values.push_back(RuleValue::of(block->id));
  return RuleValue::of(std::move(values));
}

// ---- the functions

#define TW_BLOCK(name)                   \
  const Block* name = block_of(c, v[0]); \
  if (!name) return fail("expected a block that exists")
#define TW_LOOP(name, at)                                                               \
  const For* name = v[at].tag == Tag::Loop ? c.state.find_loop(v[at].loop()) : nullptr; \
  if (!name) return fail("expected a loop that exists")
#define TW_OPERAND(name, at)                   \
  const Load* name = operand_of(block, v[at]); \
  if (!name) return fail("expected the index of an operand")

FunctionResult is_reduction(const Context& c, const Values& v) {
  TW_BLOCK(block);
  return yes_or_no(has_reduction(block));
}

FunctionResult has_init(const Context& c, const Values& v) {
  TW_BLOCK(block);
  return yes_or_no(block->init != nullptr);
}

FunctionResult has_reuse(const Context& c, const Values& v) {
  TW_BLOCK(block);
  return yes_or_no(reuse_of(block) > 0);
}

FunctionResult is_output_block(const Context& c, const Values& v) {
  TW_BLOCK(block);
  return yes_or_no(is_output(c.state.program(), write_of(block).buffer));
}

FunctionResult exists(const Context& c, const Values& v) {
  return yes_or_no(v[0].tag == Tag::Block ? c.state.find_block(v[0].block()) != nullptr
                                          : v[0].tag == Tag::Loop && c.state.find_loop(v[0].loop()) != nullptr);
}

FunctionResult needs_tiling(const Context& c, const Values& v) {
  TW_BLOCK(block);
  bool tiled = find_annotation(block->annotations, "tiled") != nullptr;
  return yes_or_no(!tiled && has_reduction(block) && has_trivial_bindings(block) && !operands_of(block).empty() &&
                   reuse_of(block) > 0);
}

FunctionResult has_trivial_binding(const Context& c, const Values& v) {
  TW_BLOCK(block);
  return yes_or_no(has_trivial_bindings(block));
}

FunctionResult has_branch(const Context& c, const Values& v) {
  TW_BLOCK(block);
  bool found = false;
  for_each<Select>(block->body, [&](const Select*) { found = true; });
  return yes_or_no(found);
}

// exp, erf, ...: worth computing once only.
FunctionResult is_expensive(const Context& c, const Values& v) {
  TW_BLOCK(block);
  bool found = false;
  for_each<Call>(block->body, [&](const Call* call) { found |= call->function != Function::Abs; });
  return yes_or_no(found);
}

FunctionResult is_elementwise(const Context& c, const Values& v) {
  TW_BLOCK(block);
  bool plain = !has_reduction(block);
  const StoreTarget& target = write_of(block);
  for (const Expr* index : target.indices) plain &= as<Var>(index) || constant_of(index);
  return yes_or_no(plain);
}

FunctionResult consumers(const Context& c, const Values& v) {
  TW_BLOCK(block);
  return give(list_of(neighbours(c, block, true)));
}

FunctionResult producers(const Context& c, const Values& v) {
  TW_BLOCK(block);
  return give(list_of(neighbours(c, block, false)));
}

FunctionResult blocks(const Context& c, const Values&) {
  Array<const Block*> all = c.state.blocks();
  return give(list_of({all.begin(), all.end()}));
}

FunctionResult name_of_block(const Context& c, const Values& v) {
  TW_BLOCK(block);
  return give(RuleValue::of(std::string(block->name)));
}

FunctionResult kind(const Context& c, const Values& v) {
  TW_LOOP(loop, 0);
  bool s = false, r = false;
  for_each<Block>(loop->body, [&](const Block* block) {
    for (const IterVar* iter : fed_by(block, loop)) (iter->kind == IterKind::S ? s : r) = true;
  });
  return give(RuleValue::of(std::string(r ? "R" : s ? "S" : "")));
}

FunctionResult is_serial(const Context& c, const Values& v) {
  TW_LOOP(loop, 0);
  return yes_or_no(loop->loop_kind == LoopKind::Serial);
}

FunctionResult axis(const Context& c, const Values& v) {
  TW_LOOP(loop, 0);
  return give(loop->loop_kind == LoopKind::Bind ? RuleValue::of(std::string(loop->thread)) : RuleValue::none());
}

FunctionResult extent(const Context& c, const Values& v) {
  TW_LOOP(loop, 0);
  if (!c.is_open_loop(loop->id)) return give(RuleValue::of(loop->extent));
  // The evaluator turns the loop id into a handle.
  return give(RuleValue::of_open({.tag = Arg::Tag::Extent, .integer = loop->id.value}));
}

FunctionResult is_open(const Context& c, const Values& v) {
  TW_LOOP(loop, 0);
  return yes_or_no(c.is_open_loop(loop->id));
}

FunctionResult vector_axis(const Context& c, const Values& v) {
  TW_BLOCK(block);
  const For* loop = contiguous_loop_of(c, block);
  return give(loop && loop->loop_kind == LoopKind::Serial ? RuleValue::of(loop->id) : RuleValue::none());
}

template <IterKind Kind>
FunctionResult loops_of_kind(const Context& c, const Values& v) {
  TW_BLOCK(block);
  Values found;
  for (const For* loop : loops_of(c, block)) {
    if (is_kind(block, loop, Kind)) found.push_back(RuleValue::of(loop->id));
  }
  return give(RuleValue::of(std::move(found)));
}

FunctionResult bits(const Context& c, const Values& v) {
  TW_BLOCK(block);
  return give(RuleValue::of(static_cast<i64>(bytes_of(write_of(block).buffer->dtype)) * 8));
}

FunctionResult precision(const Context& c, const Values& v) {
  TW_BLOCK(block);
  return give(RuleValue::of(precision_of(c.state.program(), block)));
}

FunctionResult reads_count(const Context& c, const Values& v) {
  TW_BLOCK(block);
  return give(RuleValue::of(static_cast<i64>(operands_of(block).size())));
}

// Index of the first operand that `wanted` accepts and that moves with the loop.
template <class Wanted>
FunctionResult operand_with(const Context& c, const Values& v, Wanted wanted) {
  TW_BLOCK(block);
  TW_LOOP(loop, 1);
  std::vector<const Load*> operands = operands_of(block);
  for (std::size_t i = 0; i < operands.size(); ++i) {
    bool moves = false;
    for (const IterVar* iter : fed_by(block, loop)) moves |= any_uses(operands[i]->indices, iter->var);
    if (moves && wanted(operands[i]->buffer)) return give(RuleValue::of(static_cast<i64>(i)));
  }
  return give(RuleValue::none());
}

FunctionResult prepackable_operand_with(const Context& c, const Values& v) {
  return operand_with(c, v, [&](const Buffer* b) { return tw::is_prepackable(c.state.program(), b); });
}

FunctionResult run_time_operand_with(const Context& c, const Values& v) {
  return operand_with(c, v, [&](const Buffer* b) { return !tw::is_prepackable(c.state.program(), b); });
}

// Does the loop step through consecutive elements of that operand (innermost dimension, step 1, nowhere else)?
FunctionResult is_contiguous_in(const Context& c, const Values& v) {
  TW_BLOCK(block);
  TW_LOOP(loop, 2);
  TW_OPERAND(operand, 1);
  Array<const Expr*> indices = operand->indices;
  for (const IterVar* iter : fed_by(block, loop)) {
    for (std::size_t d = 0; d < indices.size(); ++d) {
      if (!uses(indices[d], iter->var)) continue;
      std::optional<LinearForm> form = linear_form(indices[d]);
      if (d + 1 != indices.size() || !form || form->coefficient(iter->var) != 1) return yes_or_no(false);
    }
  }
  return yes_or_no(true);
}

FunctionResult operand_type(const Context& c, const Values& v) {
  TW_BLOCK(block);
  TW_OPERAND(operand, 1);
  return give(RuleValue::of(std::string(name_of(operand->type.dtype))));
}

FunctionResult operand_bits(const Context& c, const Values& v) {
  TW_BLOCK(block);
  TW_OPERAND(operand, 1);
  return give(RuleValue::of(static_cast<i64>(bytes_of(operand->type.dtype)) * 8));
}

FunctionResult is_parameter(const Context& c, const Values& v) {
  TW_BLOCK(block);
  TW_OPERAND(operand, 1);
  return yes_or_no(is_param(c.state.program(), operand->buffer));
}

FunctionResult moves_with(const Context& c, const Values& v) {
  TW_BLOCK(block);
  TW_LOOP(loop, 2);
  TW_OPERAND(operand, 1);
  Array<const Expr*> indices = operand->indices;
  std::vector<const IterVar*> fed = fed_by(block, loop);
  return yes_or_no(
      std::any_of(fed.begin(), fed.end(), [&](const IterVar* iter) { return any_uses(indices, iter->var); }));
}

// Does every operand of the block, and what it writes, move with the iter?
bool is_batch_iter(const Block* block, const std::vector<const Load*>& operands, const IterVar& iter) {
  bool everywhere = true;
  for (const Load* operand : operands) everywhere &= any_uses(operand->indices, iter.var);
  for_each<Store>(block->body, [&](const Store* store) {
    for (const StoreTarget& target : store->targets) everywhere &= any_uses(target.indices, iter.var);
  });
  return everywhere;
}

// The dimensions of an operand along which a loop moves.
std::vector<std::size_t> axes_of(const Block* block, const Load* operand, const For* loop) {
  std::vector<const IterVar*> fed = fed_by(block, loop);
  std::vector<std::size_t> axes;
  for (std::size_t d = 0; d < operand->indices.size(); ++d) {
    auto is_in = [&](const IterVar* iter) { return uses(operand->indices[d], iter->var); };
    if (std::ranges::any_of(fed, is_in)) axes.push_back(d);
  }
  return axes;
}

FunctionResult axis_of(const Context& c, const Values& v) {
  TW_BLOCK(block);
  TW_LOOP(loop, 2);
  TW_OPERAND(operand, 1);
  std::vector<std::size_t> axes = axes_of(block, operand, loop);
  return give(axes.size() == 1 ? RuleValue::of(static_cast<i64>(axes[0])) : RuleValue::none());
}

// The number of loops down to the innermost one that moves along a dimension with this index; 0: none does.
std::size_t loops_to_mover(const Array<const For*>& loops, const Block* block, const Expr* index) {
  for (std::size_t l = loops.size(); l-- > 0;) {
    for (const IterVar* iter : fed_by(block, loops[l])) {
      if (uses(index, iter->var)) return l + 1;
    }
  }
  return 0;
}

// (p0, ...) -> (batch dimensions, p_axis // f, other dimensions, p_axis % f) for an operand: panels of f consecutive
// elements of the axis that the loop moves along. Other dimensions are in the order of the loops that move along them,
// so that a panel is read from its begin to its end.
FunctionResult panel_map(const Context& c, const Values& v) {
  TW_BLOCK(block);
  TW_LOOP(loop, 2);
  TW_OPERAND(operand, 1);
  if (v[3].tag != Tag::Int && v[3].tag != Tag::Open) return fail("expected the width of a panel");
  std::vector<const Load*> operands = operands_of(block);
  Array<const Expr*> indices = operand->indices;
  std::vector<std::size_t> axes = axes_of(block, operand, loop);
  if (axes.size() > 1) return fail("the loop moves along two dimensions of the operand");
  if (axes.empty()) return fail("the loop does not move along the operand");
  Arena& arena = c.state.arena();
  std::vector<Arg> batch, others;
  Arg axis;
  for (std::size_t d = 0; d < indices.size(); ++d) {
    Arg param{.tag = Arg::Tag::Param, .integer = static_cast<i64>(d)};
    bool is_batch = std::any_of(block->iters.begin(), block->iters.end(), [&](const IterVar& iter) {
      return uses(indices[d], iter.var) && is_batch_iter(block, operands, iter);
    });
    if (d == axes[0])
      axis = param;
    else
      (is_batch ? batch : others).push_back(param);
  }
  Array<const For*> loops = loops_of(c, block);
  std::ranges::stable_sort(others, {}, [&](const Arg& dimension) {
    return loops_to_mover(loops, block, indices[static_cast<std::size_t>(dimension.integer)]);
  });
  Arg factor = v[3].tag == Tag::Open ? v[3].open : Arg::of_int(v[3].integer);
  std::vector<Arg> results = batch;
  results.push_back({.tag = Arg::Tag::Binary, .op = BinaryOp::FloorDiv, .items = arena.list<Arg>({axis, factor})});
  results.insert(results.end(), others.begin(), others.end());
  results.push_back({.tag = Arg::Tag::Binary, .op = BinaryOp::FloorMod, .items = arena.list<Arg>({axis, factor})});
  return give(RuleValue::of_open(
      {.tag = Arg::Tag::Map, .integer = static_cast<i64>(indices.size()), .items = arena.copy(results)}));
}

RuleValue value_of(const Literal& literal) {
  std::vector<RuleValue> items;
  for (const Literal& item : literal.items) items.push_back(value_of(item));
  switch (literal.tag) {
    case Literal::Tag::Int:
      return RuleValue::of(literal.integer);
    case Literal::Tag::Text:
      return RuleValue::of(std::string(literal.text));
    case Literal::Tag::Number:
      return RuleValue::of_number(literal.number);
    case Literal::Tag::List:
      return RuleValue::of(std::move(items));
    case Literal::Tag::Dictionary:
      break;
  }
  return RuleValue::of(std::vector<std::string>(literal.keys.begin(), literal.keys.end()), std::move(items));
}

FunctionResult mark(const Context& c, const Values& v) {
  const For* loop = v[0].tag == Tag::Loop ? c.state.find_loop(v[0].loop()) : nullptr;
  const Block* block = block_of(c, v[0]);
  if (!block && !loop) return fail("expected a block or a loop that exists");
  if (v[1].tag != Tag::Text) return fail("expected the name of a mark");
  const Annotation* found = find_annotation(block ? block->annotations : loop->annotations, v[1].text);
  if (!found) return give(RuleValue::none());
  return give(value_of(found->value));
}

// The loop that contains both blocks and nothing deeper does: the innermost common one, or none.
FunctionResult common_loop(const Context& c, const Values& v) {
  TW_BLOCK(a);
  const Block* b = block_of(c, v[1]);
  if (!b) return fail("expected a block that exists");
  Array<const For*> x = loops_of(c, a), y = loops_of(c, b);
  const For* common = nullptr;
  for (std::size_t i = 0; i < std::min(x.size(), y.size()) && x[i] == y[i]; ++i) common = x[i];
  return give(common ? RuleValue::of(common->id) : RuleValue::none());
}

FunctionResult is_only_child(const Context& c, const Values& v) {
  TW_LOOP(loop, 0);
  return yes_or_no(!as<Seq>(loop->body));
}

FunctionResult writes_register(const Context& c, const Values& v) {
  TW_BLOCK(block);
  bool found = write_of(block).buffer->scope == tw::Scope::Register;
  for_each<Load>(block->body, [&](const Load* load) { found |= load->buffer->scope == tw::Scope::Register; });
  return yes_or_no(found);
}

// Where lowering rejects the program, it says so itself.
FunctionResult vtcm_bytes(const Context& c, const Values&) {
  Result<i64> bytes = vtcm_bytes_of(c.state.arena(), c.state.program(), static_cast<int>(c.target.threads));
  return give(RuleValue::of(bytes ? *bytes : i64{0}));
}

FunctionResult copies_are_contiguous(const Context& c, const Values&) {
  Result<bool> are = copies_ahead_are_contiguous(c.state.arena(), c.state.program());
  return yes_or_no(!are || *are);
}

#undef TW_BLOCK
#undef TW_LOOP
#undef TW_OPERAND

}  // namespace

const std::vector<AnalysisFunction>& analysis_functions() {
  static const std::vector<AnalysisFunction> table = {
      {"axis", "(loop) -> text?", "The axis of a device's grid that the loop is bound to, e.g. \"threadIdx.x\".", 1,
       axis},
      {"axis_of", "(block, int, loop) -> int?",
       "The dimension of that operand along which the loop moves; none if it is none of them, or several.", 3, axis_of},
      {"bits", "(block) -> int", "Bits of one element of what the block writes.", 1, bits},
      {"blocks", "() -> [block]", "All blocks, in program order.", 0, blocks},
      {"calls", "(block, text) -> bool", "Does the body call that function, e.g. \"exp\"?", 2, calls},
      {"common_loop", "(block, block) -> loop?", "The innermost loop around both.", 2, common_loop},
      {"consumers", "(block) -> [block]", "Blocks that read what the block writes.", 1, consumers},
      {"consecutive", "(block, int, loop) -> int",
       "How many iterations of the loop, from multiples of it on, read consecutive elements of that operand, which "
       "begin at multiples of it.",
       3, consecutive},
      {"contiguous_loops", "(block) -> int",
       "How many innermost loops step through consecutive elements of all buffers.", 1, contiguous_loops},
      {"copies_ahead_are_contiguous", "() -> bool",
       "Does each copy of a pipeline read and write consecutive elements, once the program is lowered?", 0,
       copies_are_contiguous},
      {"exists", "(block or loop) -> bool", "Is it still in the program?", 1, exists},
      {"extent", "(loop) -> int", "How many iterations; open if the loop depends on a sample.", 1, extent},
      {"gemm_map", "(block) -> map?",
       "How the iters of a contraction of two operands become those of a product of matrices: batch (0 if there is "
       "none), row, column and sum; none if they are that already, with a batch or without.",
       1, gemm_map},
      {"group_size", "(block, loop) -> int?",
       "How many consecutive iterations read the same group of an operand, as channels of a grouped convolution do; "
       "none if there are no groups.",
       2, group_size},
      {"has_branch", "(block) -> bool", "Does the body contain `if`?", 1, has_branch},
      {"has_init", "(block) -> bool", "Is it a reduction that still sets its start value itself?", 1, has_init},
      {"has_reuse", "(block) -> bool", "Does some operand stay the same while an output axis moves?", 1, has_reuse},
      {"has_trivial_bindings", "(block) -> bool", "Is each iter bound to one loop variable or a constant?", 1,
       has_trivial_binding},
      {"is_contiguous_in", "(block, int, loop) -> bool",
       "Does the loop step through consecutive elements of that operand?", 3, is_contiguous_in},
      {"is_direct", "(block, int) -> bool",
       "Is that operand indexed by iters of the output alone, without constants and offsets?", 2, is_direct},
      {"is_elementwise", "(block) -> bool", "No reduction, and the output is indexed by the iters themselves.", 1,
       is_elementwise},
      {"is_expensive", "(block) -> bool", "Does the body call exp, erf, ...?", 1, is_expensive},
      {"is_gemm", "(block) -> bool",
       "Is it a contraction of two operands, each of which has axes that the other one lacks?", 1, is_gemm},
      {"is_injective", "(block, int) -> bool", "Is that operand indexed by iters of the output, none of them twice?", 2,
       is_injective},
      {"is_only_child", "(loop) -> bool", "Is the body of the loop one statement?", 1, is_only_child},
      {"is_open", "(loop) -> bool", "Does the extent depend on a sample?", 1, is_open},
      {"is_ordered", "(block, int) -> bool", "Is that operand indexed by iters of the output, in its order?", 2,
       is_ordered},
      {"is_output", "(block) -> bool", "Does the block write an output of the program?", 1, is_output_block},
      {"is_parameter", "(block, int) -> bool",
       "Is that operand a parameter of the program, no result of another block?", 2, is_parameter},
      {"is_prepackable", "(block, int) -> bool",
       "May that operand be laid out before the kernel runs: is it constant, or its layout free?", 2,
       tw::rules::is_prepackable},
      {"is_reduction", "(block) -> bool", "Does the block have reduction iters?", 1, is_reduction},
      {"is_serial", "(loop) -> bool", "Is the loop neither parallel, vectorized, unrolled nor bound?", 1, is_serial},
      {"kind", "(loop) -> text", "\"S\" if the loop feeds data-parallel iters only, \"R\" if it feeds a reduction.", 1,
       kind},
      {"loop_order_map", "(block, int) -> map?",
       "The layout in which that operand lies in the order in which the loops read it; none if it does.", 2,
       loop_order_map},
      {"mark", "(block or loop, text) -> value?", "What annotate() put there; open if it depends on a sample.", 2,
       mark},
      {"moves_with", "(block, int, loop) -> bool", "Does that operand's index move with the loop?", 3, moves_with},
      {"n_elements", "(block) -> int", "Elements of the buffer that the block writes.", 1, n_elements},
      {"n_reads", "(block) -> int", "How many buffers the block reads besides its own output.", 1, reads_count},
      {"n_writes", "(block) -> int", "How many buffers the block writes.", 1, n_writes},
      {"name", "(block) -> text", "The block's name.", 1, name_of_block},
      {"needs_tiling", "(block) -> bool",
       "A reduction with reuse that no rule has tiled: the reference's test for multi-level tiling.", 1, needs_tiling},
      {"operand_bits", "(block, int) -> int", "Bits of one element of that operand.", 2, operand_bits},
      {"operand_type", "(block, int) -> text", "The element type of that operand, e.g. \"f16\".", 2, operand_type},
      {"panel_map", "(block, int, loop, int) -> map", "Layout of an operand in panels along the loop's axis.", 4,
       panel_map},
      {"prepackable_operand_with", "(block, loop) -> int?",
       "Index of the first operand that moves with the loop and may be laid out before the kernel runs: a constant, or "
       "an input whose layout is free.",
       2, prepackable_operand_with},
      {"phases", "(block, loop) -> int?",
       "The period of a condition on a remainder of this loop, as in transposed convolutions (their stride); none if "
       "there is no such condition.",
       2, phases},
      {"precision", "(block) -> int",
       "Bits that products of a reduction must have right, by the workload's tolerance; 24 where it states none.", 1,
       precision},
      {"producers", "(block) -> [block]", "Blocks that write what the block reads.", 1, producers},
      {"reduction_loops", "(block) -> [loop]", "The loops that feed reduction iters only, outermost first.", 1,
       loops_of_kind<IterKind::R>},
      {"run_time_operand_with", "(block, loop) -> int?",
       "Index of the first operand that moves with the loop and can only be laid out while the kernel runs.", 2,
       run_time_operand_with},
      {"spatial_loops", "(block) -> [loop]", "The loops that feed data-parallel iters only, outermost first.", 1,
       loops_of_kind<IterKind::S>},
      {"step_of", "(block, int, loop) -> int?",
       "How many elements of that operand lie between what two consecutive iterations read; none if that is not "
       "linear, "
       "or open.",
       3, step_of},
      {"uses_register", "(block) -> bool", "Does the block touch a register buffer?", 1, writes_register},
      {"vector_axis", "(block) -> loop?", "The serial loop that steps through consecutive elements of the output.", 1,
       vector_axis},
      {"vtcm_bytes", "() -> int",
       "Bytes of memory in scope global.vtcm that the program holds at once when it is lowered.", 0, vtcm_bytes},
  };
  return table;
}

const AnalysisFunction* find_function(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, const AnalysisFunction*> out;
    for (const AnalysisFunction& function : analysis_functions()) out.emplace(function.name, &function);
    return out;
  }();
  auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

}  // namespace tw::rules

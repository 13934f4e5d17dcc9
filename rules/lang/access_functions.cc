#include "rules/lang/access_functions.h"

#include <algorithm>
#include <numeric>

#include "dsl/analysis/affine.h"
#include "dsl/analysis/block_info.h"
#include "dsl/analysis/region.h"
#include "dsl/analysis/simplify.h"
#include "dsl/analysis/sum.h"
#include "dsl/base/text.h"
#include "dsl/ir/walk.h"

namespace tw::rules {
namespace {

using Tag = RuleValue::Tag;
using Values = std::vector<RuleValue>;
using Context = FunctionContext;

FunctionResult fail(std::string why) { return {{}, std::move(why)}; }
FunctionResult yes_or_no(bool value) { return {RuleValue::of(value), {}}; }

// How an operand is indexed in terms of the output's dimensions (the pattern analysis of TVM's
// AutoInline).
struct Pattern {
  bool exists = false;    // each index is an iter that indexes the output, plus or minus a constant,
                          // or a constant
  bool injective = true;  // no dimension of the output twice
  bool ordered = true;    // in the order of the output
  bool direct = true;     // neither constants nor offsets
};

Pattern pattern_of(const Block* block, const Load* load) {
  Pattern pattern;
  const StoreTarget& target = write_of(block);
  std::vector<const Var*> dims;
  for (const Expr* index : target.indices) {
    const Var* var = as<Var>(index);
    if (!var && !constant_of(index)) return pattern;
    dims.push_back(var);
  }
  int last = -1;
  std::vector<bool> used(dims.size(), false);
  for (const Expr* index : load->indices) {
    std::optional<LinearForm> form = linear_form(index);
    if (!form || form->terms.size() > 1) return pattern;
    pattern.direct &= form->terms.size() == 1 && form->constant == 0;
    if (form->terms.size() == 0) continue;
    auto [var, coefficient] = form->terms[0];
    auto at = std::find(dims.begin(), dims.end(), var);
    if (coefficient != 1 || at == dims.end()) return pattern;
    int dim = static_cast<int>(at - dims.begin());
    pattern.injective &= !used[dim];
    pattern.ordered &= dim > last;
    used[dim] = true;
    last = dim;
  }
  pattern.exists = true;
  return pattern;
}

template <bool Pattern::* What>
FunctionResult ask_pattern(const Context& c, const Values& v) {
  const Block* block = block_of(c, v[0]);
  const Load* load = block ? operand_of(block, v[1]) : nullptr;
  if (!load) return fail("expected a block that exists, and the index of an operand");
  Pattern pattern = pattern_of(block, load);
  return yes_or_no(pattern.exists && pattern.*What);
}

// An index in terms of loop variables; nothing if it is not linear in them. That of a buffer in tiles, as co // 8 % 4,
// often is where the loops cut the dimension in the same way.
std::optional<LinearForm> over_loops(const Context& c, const Block* block, Array<const For*> loops, const Expr* index) {
  Arena& arena = c.state.arena();
  Substitution bindings;
  for (std::size_t i = 0; i < block->iters.size(); ++i) bindings.set(block->iters[i].var, block->bindings[i]);
  const Expr* bound = substitute(arena, index, bindings);
  if (std::optional<LinearForm> form = linear_form(bound)) return form;
  VarRanges ranges;
  for (const For* loop : loops) ranges.set_extent(loop->var, loop->extent);
  return linear_form(simplify(arena, bound, ranges));
}

// By how many elements of a buffer each loop moves an access: of more loops than a LinearForm has. Nothing if an index
// is not linear in them.
std::optional<std::vector<i64>> steps_of_loops(const Context& c, const Block* block, Array<const For*> loops,
                                               const Buffer* buffer, Array<const Expr*> indices) {
  std::vector<i64> steps(loops.size(), 0);
  i64 stride = 1;
  for (std::size_t d = indices.size(); d-- > 0; stride *= buffer->shape[d]) {
    std::optional<LinearForm> form = over_loops(c, block, loops, indices[d]);
    if (!form) return {};
    for (std::size_t l = 0; l < loops.size(); ++l) steps[l] += form->coefficient(loops[l]->var) * stride;
  }
  return steps;
}

// How many innermost loops step through an access without a gap: the first with step 1, each next
// one with what the ones inside cover. Loops that the access does not depend on count.
int contiguous_in(const Context& c, const Block* block, Array<const For*> loops, const Buffer* buffer,
                  Array<const Expr*> indices) {
  std::optional<std::vector<i64>> steps = steps_of_loops(c, block, loops, buffer, indices);
  if (!steps) return 0;
  int count = 0;
  i64 covered = 1;
  for (std::size_t l = loops.size(); l-- > 0; ++count) {
    if ((*steps)[l] == 0) continue;
    if ((*steps)[l] != covered) break;
    covered *= loops[l]->extent;
  }
  return count;
}

// Part of a dimension that one loop moves through: (index // lower) % extent.
struct Piece {
  std::size_t loop, dim;
  i64 lower, extent;
};

// The pieces of one dimension, if its loops cut it into exactly these.
bool cut_dimension(const LinearForm& form, Array<const For*> loops, std::size_t dim, i64 size,
                   std::vector<Piece>& pieces) {
  if (form.constant != 0) return false;
  std::vector<Piece> own;
  for (auto [var, coefficient] : form.terms) {
    std::size_t l = 0;
    while (l < loops.size() && loops[l]->var != var) ++l;
    if (l == loops.size()) return false;
    if (loops[l]->extent > 1) own.push_back({l, dim, coefficient, loops[l]->extent});
  }
  std::sort(own.begin(), own.end(), [](const Piece& a, const Piece& b) {
    return a.lower != b.lower ? a.lower < b.lower : a.extent < b.extent;
  });
  i64 covered = 1;
  for (const Piece& piece : own) {
    if (piece.lower != covered) return false;
    covered *= piece.extent;
  }
  pieces.insert(pieces.end(), own.begin(), own.end());
  return covered == size;
}

}  // namespace

const Block* block_of(const Context& c, const RuleValue& v) {
  return v.tag == Tag::Block ? c.state.find_block(v.block()) : nullptr;
}

Array<const For*> loops_of(const Context& c, const Block* block) {
  auto loops = c.state.loops_around(block->id);
  return loops ? *loops : Array<const For*>{};
}

const StoreTarget& write_of(const Block* block) {
  const Store* store = nullptr;
  for_each<Store>(block->body, [&](const Store* s) { store = store ? store : s; });
  TW_CHECK(store, "block without a store");
  return store->targets[0];
}

const Load* operand_of(const Block* block, const RuleValue& v) {
  std::vector<const Load*> operands = operands_of(block);
  bool is_there = v.tag == Tag::Int && v.integer >= 0 && v.integer < static_cast<i64>(operands.size());
  return is_there ? operands[v.integer] : nullptr;
}

std::vector<const Load*> operands_of(const Block* block) {
  std::vector<const Load*> found;
  for_each<Load>(block->body, [&](const Load* load) {
    bool known = writes_buffer(block, load->buffer) || std::any_of(found.begin(), found.end(), [&](const Load* other) {
                   return other->buffer == load->buffer;
                 });
    if (!known) found.push_back(load);
  });
  return found;
}

FunctionResult is_injective(const Context& c, const Values& v) { return ask_pattern<&Pattern::injective>(c, v); }
FunctionResult is_ordered(const Context& c, const Values& v) { return ask_pattern<&Pattern::ordered>(c, v); }
FunctionResult is_direct(const Context& c, const Values& v) { return ask_pattern<&Pattern::direct>(c, v); }

FunctionResult calls(const Context& c, const Values& v) {
  const Block* block = block_of(c, v[0]);
  if (!block) return fail("expected a block that exists");
  bool found = false;
  for_each<Call>(block->body, [&](const Call* call) { found |= name_of(call->function) == v[1].text; });
  return yes_or_no(found);
}

FunctionResult is_prepackable(const Context& c, const Values& v) {
  const Block* block = block_of(c, v[0]);
  const Load* load = block ? operand_of(block, v[1]) : nullptr;
  if (!load) return fail("expected a block that exists, and the index of an operand");
  return yes_or_no(tw::is_prepackable(c.state.program(), load->buffer));
}

FunctionResult n_writes(const Context& c, const Values& v) {
  const Block* block = block_of(c, v[0]);
  if (!block) return fail("expected a block that exists");
  return {RuleValue::of(static_cast<i64>(buffers_written(block).size())), {}};
}

FunctionResult n_elements(const Context& c, const Values& v) {
  const Block* block = block_of(c, v[0]);
  if (!block) return fail("expected a block that exists");
  i64 count = 1;
  for (i64 extent : write_of(block).buffer->shape) count *= extent;
  return {RuleValue::of(count), {}};
}

FunctionResult contiguous_loops(const Context& c, const Values& v) {
  const Block* block = block_of(c, v[0]);
  if (!block) return fail("expected a block that exists");
  Array<const For*> loops = loops_of(c, block);
  int count = static_cast<int>(loops.size());
  for (const Access& access : accesses_of(block))
    count = std::min(count, contiguous_in(c, block, loops, access.buffer, access.indices));
  return {RuleValue::of(static_cast<i64>(count)), {}};
}

// The elements of an operand in the order in which the loops read them (SuggestIndexMap of TVM).
// None where loops do not cut its dimensions into boxes, and where the order is that already.
FunctionResult loop_order_map(const Context& c, const Values& v) {
  const Block* block = block_of(c, v[0]);
  const Load* load = block ? operand_of(block, v[1]) : nullptr;
  if (!load) return fail("expected a block that exists, and the index of an operand");
  Array<const For*> loops = loops_of(c, block);
  std::vector<Piece> pieces;
  const FunctionResult none{RuleValue::none(), {}};
  for (std::size_t d = 0; d < load->indices.size(); ++d) {
    std::optional<LinearForm> form = over_loops(c, block, loops, load->indices[d]);
    if (!form || !cut_dimension(*form, loops, d, load->buffer->shape[d], pieces)) return none;
  }
  for (const Piece& piece : pieces) {
    if (c.is_open_loop(loops[piece.loop]->id)) return none;
  }
  std::stable_sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.loop < b.loop; });
  bool is_same = pieces.size() == load->indices.size();
  Arena& arena = c.state.arena();
  std::vector<Arg> results;
  for (const Piece& piece : pieces) {
    is_same &= piece.dim == results.size();
    Arg part{.tag = Arg::Tag::Param, .integer = static_cast<i64>(piece.dim)};
    auto with = [&](BinaryOp op, i64 by) {
      return Arg{.tag = Arg::Tag::Binary, .op = op, .items = arena.list<Arg>({part, Arg::of_int(by)})};
    };
    if (piece.lower > 1) part = with(BinaryOp::FloorDiv, piece.lower);
    if (piece.lower * piece.extent < load->buffer->shape[piece.dim]) part = with(BinaryOp::FloorMod, piece.extent);
    results.push_back(part);
  }
  if (is_same || results.empty()) return none;
  return {RuleValue::of_open(
              {.tag = Arg::Tag::Map, .integer = static_cast<i64>(load->indices.size()), .items = arena.copy(results)}),
          {}};
}

namespace {

// How many values of the variable, from multiples of that number on, an expression takes for one: the divisors of its
// quotients. 0 = it does not occur.
i64 values_at_once(const Expr* e, const Var* var) {
  if (e == var) return 1;
  const Binary* quotient = as<Binary>(e);
  std::optional<i64> divisor =
      quotient && quotient->op == BinaryOp::FloorDiv && quotient->a == var ? constant_of(quotient->b) : std::nullopt;
  if (divisor) return *divisor;
  i64 out = 0;
  for_each_child(e,
                 [&](const Node* child) { out = std::gcd(out, values_at_once(static_cast<const Expr*>(child), var)); });
  return out;
}

// Of an atom that steps through elements: var, or var % n, whose steps end after n values. Else 0.
i64 steps_of(const Expr* atom, const Var* var, i64 extent) {
  if (atom == var) return extent;
  const Binary* rest = as<Binary>(atom);
  return rest && rest->op == BinaryOp::FloorMod && rest->a == var ? constant_of(rest->b).value_or(0) : 0;
}

// The iter that a loop alone moves; null = none.
const Var* iter_of(const Block* block, const For* loop) {
  for (std::size_t i = 0; i < block->iters.size(); ++i) {
    if (block->bindings[i] == loop->var) return block->iters[i].var;
  }
  return nullptr;
}

// The block and the iter of a loop with a fixed extent that alone moves one; nulls if it has none.
struct Asked {
  const Block* block = nullptr;
  const For* loop = nullptr;
  const Var* iter = nullptr;
  std::string error;
};

Asked asked(const Context& c, const RuleValue& block, const RuleValue& loop) {
  Asked out{.block = block_of(c, block), .loop = loop.tag == Tag::Loop ? c.state.find_loop(loop.loop()) : nullptr};
  out.error = !out.block ? "expected a block that exists" : !out.loop ? "expected a loop that exists" : "";
  if (out.error.empty() && !c.is_open_loop(out.loop->id)) out.iter = iter_of(out.block, out.loop);
  return out;
}

FunctionResult none_or(i64 value, const For* loop) {
  return {value > 1 && value < loop->extent ? RuleValue::of(value) : RuleValue::none(), {}};
}

}  // namespace

FunctionResult group_size(const Context& c, const Values& v) {
  Asked of = asked(c, v[0], v[1]);
  if (!of.error.empty()) return fail(of.error);
  i64 size = 0;
  for (const Load* operand : operands_of(of.block)) {
    for (const Expr* index : operand->indices) {
      i64 own = of.iter ? values_at_once(index, of.iter) : 0;
      if (own > 1) size = std::gcd(size, own);
    }
  }
  return none_or(size, of.loop);
}

FunctionResult step_of(const Context& c, const Values& v) {
  Asked of = asked(c, v[0], v[2]);
  if (!of.error.empty()) return fail(of.error);
  const Load* operand = operand_of(of.block, v[1]);
  if (!operand) return fail("expected the index of an operand");
  if (!of.iter) return {RuleValue::none(), {}};
  Array<const For*> loops = loops_of(c, of.block);
  std::optional<std::vector<i64>> steps = steps_of_loops(c, of.block, loops, operand->buffer, operand->indices);
  if (!steps) return {RuleValue::none(), {}};
  return {RuleValue::of((*steps)[static_cast<std::size_t>(std::ranges::find(loops, of.loop) - loops.begin())]), {}};
}

FunctionResult phases(const Context& c, const Values& v) {
  Asked of = asked(c, v[0], v[1]);
  if (!of.error.empty()) return fail(of.error);
  i64 all = 0;
  for_each<Select>(of.block->body, [&](const Select* select) {
    for_each<Binary>(select->condition, [&](const Binary* rest) {
      std::optional<LinearForm> sum = of.iter && rest->op == BinaryOp::FloorMod ? linear_form(rest->a) : std::nullopt;
      if (sum && sum->coefficient(of.iter) == 1) all = std::gcd(all, constant_of(rest->b).value_or(1));
    });
  });
  return none_or(all, of.loop);
}

// How many iterations of a loop, from multiples of that number on, read consecutive elements of an operand which begin
// at multiples of it, too; 1 if that is not understood.
FunctionResult consecutive(const Context& c, const Values& v) {
  Asked of = asked(c, v[0], v[2]);
  if (!of.error.empty()) return fail(of.error);
  const Load* operand = operand_of(of.block, v[1]);
  if (!operand) return fail("expected the index of an operand");
  const Var* var = of.iter;
  FunctionResult unknown{RuleValue::of(i64{1}), {}};
  if (!var) return unknown;
  i64 run = of.loop->extent;
  bool steps = false;
  for (std::size_t d = 0; d < operand->indices.size(); ++d) {
    Sum sum = sum_of(operand->indices[d]);
    if (!sum.exact) return unknown;
    bool is_last = d + 1 == operand->indices.size();
    // Rows, and what else is added to an index in them, are multiples.
    if (is_last) run = std::gcd(run, sum.constant);
    if (is_last && d > 0) run = std::gcd(run, operand->buffer->shape[d]);
    for (const Sum::Term& term : sum.terms) {
      i64 own = is_last && term.coefficient == 1 ? steps_of(term.atom, var, of.loop->extent) : 0;
      if (own > 0 && steps) return unknown;
      steps |= own > 0;
      run = std::gcd(run, own > 0 ? own : values_at_once(term.atom, var));
      if (is_last && own == 0) run = std::gcd(run, term.coefficient * known_divisor(term.atom));
    }
  }
  return steps ? FunctionResult{RuleValue::of(run), {}} : unknown;
}

}  // namespace tw::rules

#include "costmodel/gpu/thread_work.h"

#include <algorithm>

#include "dsl/analysis/affine.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

// Of a float division: what depends on the divisor alone, and the rest.
constexpr double kReciprocal = 6, kQuotient = 2;
constexpr double kIntegerDivision = 8;
constexpr double kWidened = 1, kNarrowed = 0.5;  // conversions of halves; two go into one word at once

// Instructions of a function of CUDA's, as its machine code has them; signs are part of what follows.
double instructions_of(Function function) {
  switch (function) {
    case Function::Abs:
    case Function::Within:
      return 0;
    case Function::Floor:
    case Function::Ceil:
    case Function::Round:
      return 1;
    case Function::ReduceAdd:
    case Function::ReduceMul:
    case Function::ReduceMin:
    case Function::ReduceMax:
      return 4;
    case Function::Exp:
    case Function::Sqrt:
    case Function::Rsqrt:
      return 8;
    case Function::Log:
      return 15;
    case Function::Sigmoid:
      return 16;
    case Function::Tanh:
    case Function::Erf:
      return 20;
    case Function::Pow:
      return 45;
  }
  return 1;
}

bool is_number(const Expr* e) { return as<IntImm>(e) || as<FloatImm>(e); }
const Binary* product(const Expr* e) {
  const Binary* binary = as<Binary>(e);
  return binary && binary->op == BinaryOp::Mul ? binary : nullptr;
}

class Counter {
 public:
  explicit Counter(const StoreLoops& store) : program_(store.program), store_(store.flat), around_(store) {}

  // Adds the work of an expression. The result: the loops that change it, a bit for each.
  u64 visit(const Expr* e) {
    switch (e->kind) {
      case Kind::IntImm:
      case Kind::FloatImm:
        return 0;
      case Kind::Var:
        return changes(as<Var>(e));
      case Kind::Load: {
        const FlatAccess* access = access_of(as<Load>(e));
        return access && !is_target(as<Load>(e)->buffer) ? moved(*access) : kAll;
      }
      case Kind::Cast: {
        const Expr* value = as<Cast>(e)->value;
        u64 by = visit(value);
        if (around_.is_mma || is_half(e->type.dtype) == is_half(value->type.dtype)) return by;
        return add(is_half(value->type.dtype) ? kWidened : kNarrowed, by);
      }
      case Kind::Unary:
        return add(as<Unary>(e)->op == UnaryOp::Not ? 1 : 0, visit(as<Unary>(e)->value));
      case Kind::Binary:
        return visit_binary(as<Binary>(e));
      case Kind::Select: {
        const Select* select = as<Select>(e);
        const Load* padded = is_number(select->otherwise) ? as<Load>(select->then) : nullptr;
        if (const FlatAccess* access = padded ? access_of(padded) : nullptr)
          return visit_padded(select->condition, *access);
        return add(1, visit(select->condition) | visit(select->then) | visit(select->otherwise));
      }
      case Kind::Call: {
        u64 by = 0;
        for (const Expr* argument : as<Call>(e)->arguments) by |= visit(argument);
        return add(instructions_of(as<Call>(e)->function), by);
      }
      default:
        return kAll;
    }
  }
  double work() const { return work_; }

 private:
  static constexpr u64 kAll = ~u64{0};

  u64 visit_binary(const Binary* e) {
    u64 a = visit(e->a), b = same_expr(e->a, e->b) ? a : visit(e->b), by = a | b;
    bool is_sum = e->op == BinaryOp::Add || e->op == BinaryOp::Sub;
    if (is_half(e->a->type.dtype)) {  // computed with as floats, and rounded
      if (!is_number(e->a)) add(kWidened, a);
      if (!is_number(e->b)) add(kWidened, b);
      if (is_half(e->type.dtype)) add(kNarrowed, by);
    } else if (is_sum && is_float(e->type.dtype) && (product(e->a) || product(e->b))) {
      // The product adds where it is made as often.
      return work_ += std::max(0.0, runs(by) - runs(product(e->a) ? a : b)), by;
    }
    if (e->op == BinaryOp::FloorDiv || e->op == BinaryOp::FloorMod) return add(kIntegerDivision, by);
    if (e->op != BinaryOp::Div || is_number(e->b)) return add(1, by);
    add(kReciprocal, b);
    return add(kQuotient, by);
  }

  u64 add(double instructions, u64 by) {
    work_ += instructions * runs(by);
    return by;
  }

  // How often a thread computes what these loops change.
  double runs(u64 by) const {
    double out = 1;
    u32 deepest = store_.depth;
    auto changes_it = [&](u32 p) { return p >= 64 ? by == kAll : (by >> p & 1) != 0; };
    while (deepest > 0 && !changes_it(deepest - 1)) --deepest;
    for (u32 p = 0; p < deepest; ++p) {
      if (!is_unrolled(p) || changes_it(p)) out *= passes(p);
    }
    return out;
  }

  bool is_unrolled(u32 p) const { return around_.roles[p] == LoopRole::Body; }
  // Of the loop as a thread sees it.
  double passes(u32 p) const {
    bool is_bound = around_.roles[p] == LoopRole::Block || around_.roles[p] == LoopRole::Thread;
    return is_bound ? 1.0 : around_.extent(p);
  }

  // Elements that are padded on their way: windows share them, and each has one test, which joins those of its
  // dimensions.
  u64 visit_padded(const Expr* condition, const FlatAccess& access) {
    u64 by = visit_tests(condition) | moved(access);
    double elements = elements_in(program_, store_, access, around_.body());
    for (u32 p = 0; p < store_.depth; ++p) elements *= is_unrolled(p) ? 1 : passes(p);
    work_ += elements;
    return by;
  }

  u64 visit_tests(const Expr* condition) {
    const Binary* both = as<Binary>(condition);
    return both && both->op == BinaryOp::And ? visit_tests(both->a) | visit_tests(both->b) : visit(condition);
  }

  const FlatAccess* access_of(const Load* load) const {
    auto begin = program_.accesses.begin() + store_.first_access, end = begin + store_.accesses;
    auto found = std::find_if(begin, end,
                              [&](const FlatAccess& access) { return access.indices.data() == load->indices.data(); });
    return found == end ? nullptr : &*found;
  }

  // Sums: each step changes them.
  bool is_target(const Buffer* buffer) const {
    const auto& targets = store_.node->targets;
    return std::any_of(targets.begin(), targets.end(),
                       [&](const StoreTarget& target) { return target.buffer == buffer; });
  }

  u64 moved(const FlatAccess& access) const {
    u64 out = 0;
    if (access.is_irregular || store_.depth > 64) return kAll;
    for (u32 p = 0; p < store_.depth; ++p) out |= u64{moves(program_, access, p)} << p;
    return out;
  }

  // The loops that change a variable: it is one of them, or an iter of a block around the store.
  u64 changes(const Var* var) const {
    if (store_.depth > 64) return kAll;
    for (u32 p = 0; p < store_.depth; ++p) {
      if (program_.loop_of(store_, p).var == var) return u64{1} << p;
    }
    for (u32 b = store_.first_block; b < store_.first_block + store_.blocks; ++b) {
      const Block* block = program_.blocks[b];
      for (std::size_t i = 0; i < block->iters.size(); ++i) {
        if (block->iters[i].var != var) continue;
        u64 out = 0;
        for_each<Var>(block->bindings[i], [&](const Var* outer) { out |= changes(outer); });
        return out;
      }
    }
    return 0;  // a loop of one iteration
  }

  const FlatProgram& program_;
  const FlatStore& store_;
  const StoreLoops& around_;
  double work_ = 0;
};

// What one test of a copy takes. Its divisions see the work-item or the pass alone, so compilers move them out of the
// loop or to the whole warp, and comparisons take others in; in machine code of an implicit product there are 4 to 5
// instructions for each padded copy.
double test_of(const OpCounts& ops) { return at(ops, Op::IntAddSub) + at(ops, Op::IntCmp) + at(ops, Op::Select); }

// Does a store carry elements as they are, or zeros where tests say so?
bool is_copy(const Expr* value) {
  if (auto* select = as<Select>(value)) return is_copy(select->then) && is_copy(select->otherwise);
  return as<Load>(value) || as<IntImm>(value) || as<FloatImm>(value);
}

double tests_of_copy(const StoreLoops& store) {
  std::optional<i64> width;  // of the narrowest load; registers are not loaded
  for (const FlatAccess& access : store.accesses()) {
    if (access.is_write || is_in_registers(store.program, access)) continue;
    i64 here = store.width_of(access);
    width = std::min(width.value_or(here), here);
  }
  return store.outer * store.runs * store.points * test_of(store.flat.ops) / static_cast<double>(width.value_or(1));
}

}  // namespace

double thread_work(const StoreLoops& store) {
  const auto& values = store.flat.node->values;
  if (std::all_of(values.begin(), values.end(), is_copy)) return tests_of_copy(store);
  Counter counter(store);
  for (const Expr* value : values) counter.visit(value);
  return counter.work();
}

}  // namespace tw

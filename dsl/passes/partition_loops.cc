#include "dsl/passes/partition_loops.h"

#include <algorithm>

#include "dsl/analysis/simplify.h"
#include "dsl/analysis/sum.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/check_intrinsics.h"
#include "dsl/passes/conditions.h"
#include "dsl/passes/cost.h"
#include "dsl/passes/stage_copies.h"
#include "dsl/passes/thread_axes.h"

namespace tw {
namespace {

constexpr i64 kHotOperations = 64;  // a test around at least this much work does not matter
constexpr std::size_t kMaxCuts = 6;
constexpr i64 kMaxVisits = 4000;  // stores looked at, all copies together; beyond, no further loop is cut

i64 ceil_div(i64 a, i64 b) { return -floor_div(-a, b); }

// Where conditions change over a loop: sorted, each c with first < c <= last of the loop's range.
struct Cuts {
  FixedList<i64, kMaxCuts> at;
  void add(i64 position, Interval range) {
    if (position <= range.min || position > range.max) return;
    if (std::find(at.begin(), at.end(), position) == at.end()) (void)at.push_back(position);
  }
};

// A group's copy of what lies inside of a matrix and a constant outside: one test for each piece, which costs less than
// the code of what is then computed a second time.
bool fills_group_memory(const Store* store) {
  const Select* fill = store->targets.size() == 1 ? as<Select>(store->values[0]) : nullptr;
  bool is_constant = fill && (as<FloatImm>(fill->otherwise) || as<IntImm>(fill->otherwise));
  return is_constant && as<Load>(fill->then) && store->targets[0].buffer->scope == Scope::Shared;
}

// Finds the cuts of one loop from the conditions in its body.
class CutFinder {
 public:
  CutFinder(const Var* var, Interval range, const VarRanges& outer, const LoweringOptions& options)
      : var_(var), range_(range), ranges_(outer), options_(options) {}

  Cuts find(const Stmt* body) {
    visit(body);
    std::sort(cuts_.at.begin(), cuts_.at.end());
    return cuts_;
  }

 private:
  void visit(const Node* node) {
    std::size_t known = ranges_.size();
    std::size_t copied = copied_.size();
    if (const For* loop = as<For>(node)) {
      ranges_.set_extent(loop->var, loop->extent);
      if (loop->loop_kind == LoopKind::Unroll || loop->loop_kind == LoopKind::Vectorize) copied_.push_back(loop->var);
    }
    if (const If* branch = as<If>(node)) consider(branch->condition, is_hot(branch));
    if (const Select* select = as<Select>(node)) consider(select->condition, true);
    if (const Store* store = as<Store>(node); store && options_.is_device && fills_group_memory(store)) return;
    for_each_child(node, [&](const Node* child) { visit(child); });
    ranges_.shrink(known);
    copied_.resize(copied);
  }

  // Is the test a noticeable part of what it guards? A test that depends on an unrolled or vectorized loop always is.
  bool is_hot(const If* branch) const {
    for (const Var* var : copied_) {
      if (uses(branch->condition, var)) return true;
    }
    return cost_of(branch->then, options_).executed < kHotOperations;
  }

  void consider(const Expr* condition, bool hot) {
    const Binary* op = as<Binary>(condition);
    if (!hot || !op) return;
    if (op->op == BinaryOp::And || op->op == BinaryOp::Or) {
      consider(op->a, hot);
      return consider(op->b, hot);
    }
    if (op->a->type != Type{DType::I64, 1} || !uses(op, var_)) return;
    Sum sum = difference_of(op->a, op->b);
    switch (op->op) {  // sum < 0 or not
      case BinaryOp::Lt:
      case BinaryOp::Ge:
        break;
      case BinaryOp::Le:
      case BinaryOp::Gt:
        sum.add_constant(-1);
        break;
      default:
        return;
    }
    cut_where_sign_changes(sum);
  }

  // coefficient * var + rest < 0: decided for var where the bounds of `rest` decide it.
  void cut_where_sign_changes(const Sum& sum) {
    Sum rest;
    i64 coefficient = 0;
    rest.add_constant(sum.constant);
    for (const Sum::Term& term : sum.terms) {
      if (term.atom == var_)
        coefficient = term.coefficient;
      else if (uses(term.atom, var_))
        return;
      else
        rest.add_atom(term.atom, term.coefficient);
    }
    std::optional<Interval> bounds = interval_of(rest, ranges_);
    if (coefficient == 0 || !sum.exact || !bounds) return;
    for (i64 bound : {bounds->min, bounds->max}) {
      if (coefficient > 0)
        cuts_.add(ceil_div(-bound, coefficient), range_);
      else
        cuts_.add(floor_div(bound, -coefficient) + 1, range_);
    }
  }

  const Var* var_;
  Interval range_;
  VarRanges ranges_;
  const LoweringOptions& options_;
  std::vector<const Var*> copied_;
  Cuts cuts_;
};

// Two halves: top-down, loops are cut and conditions decided with what is known about the variables then; a loop
// variable keeps its meaning until its loop has been rebuilt around the finished body.
class Partition {
 public:
  Partition(Arena& arena, const LoweringOptions& options, u32& next_var)
      : arena_(arena), build_{arena}, options_(options), next_var_(next_var) {}

  // The outermost loops are not cut: tests inside of them choose between the bodies, of which there is one for each way
  // a tile can be. Cut loops have one for each piece of each loop, and tiles of tiles end in two places.
  const Stmt* guarded(const For* outermost) {
    is_guarded_ = true;
    return chosen_inside(outermost, true);
  }

  const Stmt* stmt(const Stmt* s) {
    visits_ += s->kind == Kind::Store;
    switch (s->kind) {
      case Kind::For:
        return loop(static_cast<const For*>(s));
      case Kind::If:
        return branch(static_cast<const If*>(s));
      default:
        return with_children(arena_, s, map());
    }
  }

 private:
  ChildMap map() {
    return {this, [](void* self, const Expr* e) { return static_cast<Partition*>(self)->expr(e); },
            [](void* self, const Stmt* s) { return static_cast<Partition*>(self)->stmt(s); }};
  }

  const Expr* expr(const Expr* e) {
    return rewrite_exprs(arena_, e, [&](const Expr* node) {
      const Select* select = as<Select>(node);
      std::optional<bool> known = select ? decide(select->condition, ranges_) : std::nullopt;
      return known ? (*known ? select->then : select->otherwise) : node;
    });
  }

  const Stmt* branch(const If* branch) {
    Conjunction all, open;
    split_conjunction(branch->condition, all);
    for (const Expr* part : all) {
      std::optional<bool> known = decide(part, ranges_);
      if (known == false) return branch->otherwise ? stmt(branch->otherwise) : nullptr;
      if (!known) open.push_back(part);
    }
    if (open.empty()) return stmt(branch->then);
    const Expr* condition = open.size() == all.size() ? branch->condition : join_conjunction(arena_, open);
    const Stmt* then = under(condition, true, branch->then);
    const Stmt* otherwise = branch->otherwise ? under(condition, false, branch->otherwise) : nullptr;
    if (condition == branch->condition && then == branch->then && otherwise == branch->otherwise) return branch;
    if (!then) return otherwise ? build_.if_then(build_.unary(UnaryOp::Not, condition), otherwise) : nullptr;
    return build_.if_then(condition, then, otherwise);
  }

  const Stmt* under(const Expr* condition, bool holds, const Stmt* s) {
    std::size_t known = ranges_.size();
    const Stmt* out = assume(condition, holds, ranges_) ? stmt(s) : nullptr;
    ranges_.shrink(known);
    return out;
  }

  // A body for each part of [range.min, range.max], with its variable's range.
  struct Piece {
    Interval range;
    const Stmt* body;  // null: nothing to do
  };

  const Stmt* loop(const For* loop) {
    if (is_concurrent(loop)) return concurrent(loop);
    Interval range{0, loop->extent - 1};
    std::vector<Piece> parts = pieces(loop->var, range, loop->body);
    bool is_cut = std::count_if(parts.begin(), parts.end(), [](const Piece& piece) { return piece.body; }) > 1;
    if (is_cut && becomes_masks(loop)) {
      // Iterations at the end in which nothing runs are no lanes: a register has no room for them.
      while (!parts.back().body) parts.pop_back();
      parts = cut_at(loop->var, {range.min, parts.back().range.max}, {}, loop->body);
    }
    std::vector<const Stmt*> out;
    for (const Piece& piece : parts) out.push_back(rebuild(loop, piece));
    return out.size() == 1 ? out[0] : build_.seq(out);
  }

  // Do the lanes of its vectors test what its iterations would?
  bool becomes_masks(const For* loop) const {
    if (loop->loop_kind != LoopKind::Vectorize || !options_.has_lane_masks) return false;
    bool selects = false;
    for_each<Select>(loop->body, [&](const Select* select) { selects |= uses(select->condition, loop->var); });
    return !selects;
  }

  // The loop over one piece, counted from 0 again.
  const Stmt* rebuild(const For* loop, const Piece& piece) {
    if (!piece.body) return nullptr;
    i64 extent = piece.range.max - piece.range.min + 1;
    if (extent == loop->extent && extent > 1) return build_.with_body(loop, piece.body);
    Substitution shift;
    const Expr* first = build_.integer(piece.range.min);
    shift.set(loop->var, extent == 1 ? first : build_.add(loop->var, first));
    const Stmt* body = piece.range.min == 0 && extent > 1 ? piece.body : substitute(arena_, piece.body, shift);
    bool is_marked =
        find_annotation(loop->annotations, "hide_address") || find_annotation(loop->annotations, kStagedMark);
    if (extent == 1 && !is_marked && !is_one_instruction(loop)) return body;
    For* copy = arena_.make<For>(*loop);
    copy->extent = extent;
    copy->body = body;
    return copy;
  }

  // Cutting tries a loop cut and, where that is too much code, whole: the number of visits bounds the time.
  Cuts find_cuts(const Var* var, Interval range, const Stmt* body) const {
    return visits_ < kMaxVisits ? CutFinder(var, range, ranges_, options_).find(body) : Cuts{};
  }

  std::vector<Piece> pieces(const Var* var, Interval range, const Stmt* body) {
    Cuts cuts = find_cuts(var, range, body);
    if (!cuts.at.empty()) {
      std::vector<Piece> cut = cut_at(var, range, cuts, body);
      i64 code = 0;
      for (const Piece& piece : cut) code += piece.body ? cost_of(piece.body, options_).code : 0;
      if (code <= options_.max_instructions) return cut;
    }
    return cut_at(var, range, {}, body);
  }

  std::vector<Piece> cut_at(const Var* var, Interval range, const Cuts& cuts, const Stmt* body) {
    std::vector<Piece> out;
    i64 begin = range.min;
    auto finish = [&](i64 end) {
      std::size_t known = ranges_.size();
      ranges_.set(var, {begin, end - 1});
      out.push_back({{begin, end - 1}, stmt(body)});
      ranges_.shrink(known);
      begin = end;
    };
    for (i64 cut : cuts.at) finish(cut);
    finish(range.max + 1);
    return out;
  }

  // What the choice of a piece may ask about a concurrent loop: its variable, or a digit of it (a quotient or remainder
  // by a constant: the loops that were fused), which has a variable of its own while the body is partitioned.
  struct Axis {
    const Var* var;
    i64 extent;
    bool holds_steps;  // see holds_steps()
  };

  // Parallel and bound loops that are directly inside each other stay so: the choice of the piece is made in the
  // innermost body.
  const Stmt* concurrent(const For* outermost) { return chosen_inside(outermost, false); }

  // Serial loops that are directly inside of these as well, if `with_serial`; then loops that are parts of one are seen
  // as one.
  const Stmt* chosen_inside(const For* outermost, bool with_serial) {
    std::vector<const For*> nest;
    std::vector<Axis> axes;
    const Stmt* inner = outermost;
    auto belongs = [&](const For* loop) {
      return is_concurrent(loop) || (with_serial && loop->loop_kind == LoopKind::Serial && loop->annotations.empty());
    };
    for (const For* loop = outermost; loop && belongs(loop); loop = as<For>(inner)) {
      nest.push_back(loop);
      axes.push_back({loop->var, loop->extent, holds_steps(loop)});
      inner = loop->body;
    }
    Substitution digits;
    inner = name_digits(inner, axes, digits);
    if (with_serial) inner = name_sums(inner, axes, digits);
    std::size_t known = ranges_.size();
    for (const Axis& axis : axes) ranges_.set_extent(axis.var, axis.extent);
    const Stmt* body = choose(axes, 0, inner);
    ranges_.shrink(known);
    for (std::size_t i = digits.entries.size(); body && i-- > 0;) {
      Substitution digit;
      digit.entries.push_back(digits.entries[i]);
      body = substitute(arena_, body, digit);
    }
    for (std::size_t i = nest.size(); body && i-- > 0;) body = build_.with_body(nest[i], body);
    return body;
  }

  // Each digit of a variable in `axes` becomes a variable, an axis too; `digits` holds what they stand for, those of
  // digits last.
  const Stmt* name_digits(const Stmt* body, std::vector<Axis>& axes, Substitution& digits) {
    return rewrite_exprs(arena_, body, [&](const Expr* e) -> const Expr* {
      const Binary* op = as<Binary>(e);
      std::optional<i64> by = op ? constant_of(op->b) : std::nullopt;
      if (!by || *by <= 1 || (op->op != BinaryOp::FloorDiv && op->op != BinaryOp::FloorMod)) return e;
      auto axis = std::find_if(axes.begin(), axes.end(), [&](const Axis& a) { return a.var == op->a; });
      if (axis == axes.end() || *by >= axis->extent) return e;
      for (const auto& [var, value] : digits.entries) {
        const Binary* known = as<Binary>(value);
        if (known->op == op->op && known->a == op->a && is_constant(known->b, *by)) return var;
      }
      i64 extent = op->op == BinaryOp::FloorDiv ? ceil_div(axis->extent, *by) : *by;
      const Var* digit = build_.var(next_var_++, axis->var->name);
      digits.set(digit, e);
      axes.push_back({digit, extent, axis->holds_steps});
      return digit;
    });
  }

  // Two axes that occur only as outer * extent + inner become one, which the digits, too, are found for.
  const Stmt* name_sums(const Stmt* body, std::vector<Axis>& axes, Substitution& digits) {
    for (std::size_t inner = 0; inner < axes.size(); ++inner) {
      for (std::size_t outer = 0; outer < axes.size(); ++outer) {
        const Axis low = axes[inner], high = axes[outer];
        if (inner == outer || low.holds_steps || high.holds_steps || !uses(body, low.var) || !uses(body, high.var))
          continue;
        const Var* whole = build_.var(next_var_, low.var->name);
        const Expr* step = build_.mul(high.var, build_.integer(low.extent));
        Substitution parts;
        parts.set(low.var, build_.sub(whole, step));
        const Stmt* merged = simplify(arena_, substitute(arena_, body, parts));
        if (!merged || uses(merged, high.var)) continue;
        ++next_var_;
        body = merged;
        digits.set(whole, build_.add(step, low.var));
        axes.push_back({whole, (high.extent - 1) * low.extent + low.extent, false});
        return name_sums(body, axes, digits);
      }
    }
    return body;
  }

  const Stmt* choose(const std::vector<Axis>& axes, std::size_t depth, const Stmt* body) {
    if (depth == axes.size()) return stmt(body);
    const Axis& axis = axes[depth];
    Cuts cuts = axis.holds_steps ? Cuts{} : find_cuts(axis.var, {0, axis.extent - 1}, body);
    if (!cuts.at.empty()) {
      const Stmt* out = choose_piece(axes, depth, cuts, body);
      if (!out || cost_of(out, options_).code <= options_.max_instructions) return out;
    }
    return choose(axes, depth + 1, body);
  }

  // What runs seldom is not unrolled, but for the loops that select registers.
  const Stmt* rolled(const Stmt* body) {
    return rewrite_stmts(arena_, body, [&](const Stmt* s) -> const Stmt* {
      const For* loop = as<For>(s);
      bool is_unrolled = loop && loop->loop_kind == LoopKind::Unroll && loop->annotations.empty();
      return is_unrolled && !selects_register(loop) ? build_.with_kind(loop, LoopKind::Serial) : s;
    });
  }

  // Barriers between steps must not stand under a condition: not every driver gets that right (PoCL 3.1 does not).
  static bool holds_steps(const For* groups) { return !is_thread_loop(groups) && holds_thread_loops(groups->body); }

  const Stmt* choose_piece(const std::vector<Axis>& axes, std::size_t depth, const Cuts& cuts, const Stmt* body) {
    const Axis& axis = axes[depth];
    std::vector<const Stmt*> bodies;
    auto begin_of = [&](std::size_t piece) { return piece == 0 ? 0 : cuts.at[piece - 1]; };
    auto end_of = [&](std::size_t piece) { return piece == cuts.at.size() ? axis.extent : cuts.at[piece]; };
    i64 most = 0;
    for (std::size_t i = 0; i <= cuts.at.size(); ++i) most = std::max(most, end_of(i) - begin_of(i));
    for (std::size_t i = 0; i <= cuts.at.size(); ++i) {
      i64 begin = begin_of(i), end = end_of(i);
      std::size_t known = ranges_.size();
      ranges_.set(axis.var, {begin, end - 1});
      const Stmt* piece = choose(axes, depth + 1, is_guarded_ && end - begin < most ? rolled(body) : body);
      ranges_.shrink(known);
      Substitution only;
      only.set(axis.var, build_.integer(begin));
      bodies.push_back(end == begin + 1 && piece ? substitute(arena_, piece, only) : piece);
    }
    const Stmt* out = bodies.back();
    for (std::size_t i = cuts.at.size(); i-- > 0;) {
      const Expr* before = build_.lt(axis.var, cuts.at[i]);
      if (bodies[i])
        out = build_.if_then(before, bodies[i], out);
      else if (out)
        out = build_.if_then(build_.binary(BinaryOp::Ge, axis.var, build_.integer(cuts.at[i])), out);
    }
    return out;
  }

  Arena& arena_;
  Build build_;
  const LoweringOptions& options_;
  VarRanges ranges_;
  u32& next_var_;
  i64 visits_ = 0;
  bool is_guarded_ = false;  // see guarded()
};

// Each nest of loops has its own visits.
const Stmt* partition_nests(Arena& arena, const Stmt* s, const LoweringOptions& options, u32& next_var) {
  if (s->kind == Kind::Seq || s->kind == Kind::Alloc) {
    struct Below {
      Arena& arena;
      const LoweringOptions& options;
      u32& next_var;
    } below{arena, options, next_var};
    return with_children(arena, s, {&below, nullptr, [](void* context, const Stmt* child) {
                                      auto* b = static_cast<Below*>(context);
                                      return partition_nests(b->arena, child, b->options, b->next_var);
                                    }});
  }
  const Stmt* out = Partition(arena, options, next_var).stmt(s);
  const For* loop = as<For>(s);
  bool is_too_much = out && cost_of(out, options).code > options.max_instructions;
  return is_too_much && loop ? Partition(arena, options, next_var).guarded(loop) : out;
}

}  // namespace

Program partition_loops(Arena& arena, Program program, const LoweringOptions& options) {
  if (!program.body) return program;
  const Stmt* body = partition_nests(arena, program.body, options, program.next_var);
  program.body = body == program.body ? body : simplify(arena, body);
  return program;
}

}  // namespace tw

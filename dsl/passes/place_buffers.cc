#include "dsl/passes/place_buffers.h"

#include <algorithm>
#include <bit>

#include "dsl/analysis/bounds.h"
#include "dsl/analysis/simplify.h"
#include "dsl/analysis/sum.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/conditions.h"
#include "dsl/passes/lifetimes.h"
#include "dsl/passes/thread_axes.h"

namespace tw {
namespace {

constexpr i64 kAlignment = 64;     // bytes; of scratch slots
constexpr i64 kStackBytes = 1024;  // a buffer up to this size lives on the stack

using MaybeInterval = std::optional<Interval>;

MaybeInterval hull(MaybeInterval a, MaybeInterval b) {
  return a && b ? Interval{std::min(a->min, b->min), std::max(a->max, b->max)} : a ? a : b;
}

// One dimension of the region that is touched in one iteration of the shared loops: base + [min, max], base over their
// variables.
struct Span {
  bool whole = false;  // the dimension as it is
  bool moves = false;  // a whole dimension in which the shared loops select different parts
  bool seen = false;
  Sum base;
  MaybeInterval read, written;
  Interval touched() const { return hull(read, written).value_or(Interval{0, 0}); }
};

struct Usage {
  const Buffer* buffer;
  std::vector<const For*> loops;  // around all accesses, outermost first
  bool seen = false;
  std::size_t first_nest, last_nest;  // once seen: which statements of the program's body
  std::vector<Span> spans;
  const Buffer* shrunk = nullptr;
  std::optional<std::size_t> ring;  // the dimension whose indices become remainders
  const For* carrier = nullptr;     // of a ring: the loop inside of `loops` whose iterations hand elements on

  bool is_worker() const { return std::any_of(loops.begin(), loops.end(), is_concurrent); }
};

class BufferPlacement {
 public:
  BufferPlacement(Arena& arena, Program program, const LoweringOptions& options)
      : arena_(arena), build_{arena}, program_(program), options_(options) {
    for (const Buffer* local : program.locals) usages_.push_back({.buffer = local, .ring = ring_axis(local)});
  }

  Result<PlacedProgram> run() {
    for_each_nest([&](const Stmt* nest, std::size_t at) { find_loops(nest, at, nullptr); });
    for (Usage& usage : usages_) usage.spans.resize(usage.buffer->shape.size());
    for_each_nest([&](const Stmt* nest, std::size_t) { find_regions(nest); });
    for (Usage& usage : usages_) {
      if (usage.seen) TW_TRY_STATUS(check_ring(usage));
      if (!is_rewritten(usage)) keep_whole(usage);
      usage.shrunk = shrink(usage);
    }
    TW_TRY_STATUS(check_sizes());
    PlacedProgram out{program_};
    assign_slots(out);
    if (out.vtcm_bytes > options_.vtcm_bytes)
      return reject("buffers in scope global.vtcm need {0} bytes at once, but there are {1}", out.vtcm_bytes,
                    options_.vtcm_bytes);
    if (program_.body) out.program.body = wrap(rewrite_stmt(program_.body), nullptr);
    return out;
  }

 private:
  template <class Visit>
  void for_each_nest(Visit visit) {
    if (const Seq* seq = as<Seq>(program_.body)) {
      for (std::size_t i = 0; i < seq->stmts.size(); ++i) visit(seq->stmts[i], i);
    } else if (program_.body) {
      visit(program_.body, std::size_t{0});
    }
  }
  Usage* find(const Buffer* buffer) {
    for (Usage& usage : usages_) {
      if (usage.buffer == buffer) return &usage;
    }
    return nullptr;
  }

  // ---- which loops do all accesses of a buffer share?

  // In order of execution: a store's values, then its targets. `nest` = number of the top-level one, `condition` = the
  // innermost If around.
  void find_loops(const Node* node, std::size_t nest, const If* condition) {
    if (const For* loop = as<For>(node)) {
      loops_.push_back(loop);
      find_loops(loop->body, nest, condition);
      loops_.pop_back();
      return;
    }
    if (const If* branch = as<If>(node)) condition = branch;
    for_each_child(node, [&](const Node* child) { find_loops(child, nest, condition); });
    if (const Load* load = as<Load>(node)) touch(load->buffer, nest, condition, true);
    if (const Store* store = as<Store>(node)) {
      for (const StoreTarget& target : store->targets) touch(target.buffer, nest, condition, false);
    }
  }

  void touch(const Buffer* buffer, std::size_t nest, const If* condition, bool is_read) {
    Usage* usage = find(buffer);
    if (!usage) return;
    usage->last_nest = nest;
    if (!usage->seen) {
      usage->seen = true;
      usage->first_nest = nest;
      usage->loops = private_loops(condition, is_read);
      usage->carrier = loop_inside(usage->loops.size());
      return;
    }
    std::size_t common = 0;
    while (common < usage->loops.size() && common < loops_.size() && usage->loops[common] == loops_[common]) ++common;
    usage->loops.resize(common);
    if (loop_inside(common) != usage->carrier) usage->carrier = nullptr;
  }
  const For* loop_inside(std::size_t depth) const { return depth < loops_.size() ? loops_[depth] : nullptr; }

  // The loops of which each iteration may have a buffer of its own: from the outside in, up to one that carries values
  // from iteration to iteration (its first access is a read, or a write in the first iteration only), or whose
  // iterations run at once in the lanes of a vector.
  std::vector<const For*> private_loops(const If* condition, bool is_read) const {
    std::vector<const For*> out;
    for (const For* loop : loops_) {
      bool carries = is_read || (condition && compares_for_equality(condition->condition, loop->var));
      if (carries || loop->loop_kind == LoopKind::Vectorize) break;
      out.push_back(loop);
    }
    return out;
  }
  static bool compares_for_equality(const Expr* condition, const Var* var) {
    bool found = false;
    for_each<Binary>(condition, [&](const Binary* e) { found |= e->op == BinaryOp::Eq && uses(e, var); });
    return found;
  }

  // ---- which region is touched inside of them?

  void find_regions(const Node* node) {
    if (const If* branch = as<If>(node)) return find_regions_under(branch);
    const For* loop = as<For>(node);
    std::size_t known = ranges_.size();
    if (loop) {
      ranges_.set_extent(loop->var, loop->extent);
      loops_.push_back(loop);
    }
    for_each_child(node, [&](const Node* child) { find_regions(child); });
    if (const Load* load = as<Load>(node)) extend(load->buffer, load->indices, true);
    if (const Store* store = as<Store>(node)) {
      for (const StoreTarget& target : store->targets) extend(target.buffer, target.indices, false);
    }
    if (loop) loops_.pop_back();
    ranges_.shrink(known);
  }

  void find_regions_under(const If* branch) {
    find_regions(branch->condition);
    std::size_t outside = guards_.size();
    Conjunction parts;
    split_conjunction(branch->condition, parts);
    for (const Expr* part : parts) {
      if (std::optional<Sum> guard = negative_where(part)) guards_.push_back(*guard);
    }
    find_regions(branch->then);
    guards_.resize(outside);
    if (branch->otherwise) find_regions(branch->otherwise);
  }

  // The bounds of a sum, also by the guards around: where guard <= -1, sum = (sum - m * guard) + m * guard <= max(sum -
  // m * guard) - m.
  MaybeInterval bounds_of(const Sum& sum) const {
    MaybeInterval bounds = interval_of(sum, ranges_);
    for (const Sum& guard : guards_) {
      for (const Sum::Term& term : sum.terms) {
        auto same = std::find_if(guard.terms.begin(), guard.terms.end(),
                                 [&](const Sum::Term& t) { return t.atom == term.atom; });
        if (same == guard.terms.end() || term.coefficient % same->coefficient != 0) continue;
        i64 m = term.coefficient / same->coefficient;
        Sum rest = sum;
        rest.add(guard, -m);
        MaybeInterval other = interval_of(rest, ranges_);
        if (!bounds || !other) continue;
        if (m > 0)
          bounds->max = std::min(bounds->max, other->max - m);
        else
          bounds->min = std::max(bounds->min, other->min - m);
        break;
      }
    }
    if (bounds && !guards_.empty()) lower_quotients(sum, *bounds);
    return bounds;
  }

  // Quotients `x // c` end where guards let x end.
  void lower_quotients(const Sum& sum, Interval& bounds) const {
    for (const Sum::Term& term : sum.terms) {
      const Binary* quotient = as<Binary>(term.atom);
      std::optional<i64> c = quotient && quotient->op == BinaryOp::FloorDiv ? constant_of(quotient->b) : std::nullopt;
      MaybeInterval whole = c && *c > 0 ? interval_of(term.atom, ranges_) : std::nullopt;
      MaybeInterval inside = whole ? bounds_of(sum_of(quotient->a)) : std::nullopt;
      i64 less = inside ? whole->max - std::max(whole->min, floor_div(inside->max, *c)) : 0;
      if (less > 0) (term.coefficient > 0 ? bounds.max : bounds.min) -= term.coefficient * less;
    }
  }

  void extend(const Buffer* buffer, Array<const Expr*> indices, bool is_read) {
    Usage* usage = find(buffer);
    if (!usage) return;
    for (std::size_t d = 0; d < indices.size(); ++d) extend(*usage, d, indices[d], is_read);
  }

  void extend(Usage& usage, std::size_t dimension, const Expr* index, bool is_read) {
    Span& span = usage.spans[dimension];
    Sum base, inner;
    Sum sum = sum_of(index);
    if (usage.ring != dimension) remove_constants(sum, ranges_);  // loops of one iteration that a mark keeps
    inner.add_constant(sum.constant);
    const For* carrier = usage.ring == dimension ? usage.carrier : nullptr;
    for (const Sum::Term& term : sum.terms) {
      bool is_base = is_outside(term.atom, usage.loops) || (carrier && term.atom == carrier->var);
      (is_base ? base : inner).add_atom(term.atom, term.coefficient);
    }
    MaybeInterval constants = sum.exact ? bounds_of(inner) : std::nullopt;
    // What runs stays inside of the buffer.
    if (constants && base.terms.empty())
      constants =
          Interval{std::max<i64>(constants->min, 0), std::min(constants->max, usage.buffer->shape[dimension] - 1)};
    if (constants && constants->min > constants->max) constants.reset();
    Sum difference = base;
    difference.add(span.base, -1);
    bool same_base = !span.seen || (difference.exact && difference.terms.empty());
    if (!constants || !same_base) span.whole = true;
    for (const For* loop : usage.loops)
      span.moves |= span.whole && (uses(index, loop->var) || !span.base.terms.empty());
    if (span.whole) return;
    MaybeInterval& side = is_read ? span.read : span.written;
    side = hull(side, constants);
    span.base = base;
    span.seen = true;
  }

  // Is everything that an iteration of the shared loops reads written in that same iteration? Else values pass from
  // iteration to iteration, and the buffer must stay whole, outside of these loops.
  static bool is_rewritten(const Usage& usage) {
    return std::all_of(usage.spans.begin(), usage.spans.end(), [](const Span& span) {
      if (span.whole) return !span.moves;
      return !span.read || (span.written && span.written->min <= span.read->min && span.read->max <= span.written->max);
    });
  }

  // A ring holds what one iteration of the carrier touches, all of which is written by then. The boxes of iterations
  // move forward, so whatever is still needed lies in each box between its first and its last use, where no two
  // elements have equal remainders.
  Status check_ring(const Usage& usage) const {
    if (!usage.ring) return ok();
    const Span& span = usage.spans[*usage.ring];
    bool in_order = usage.carrier && !is_concurrent(usage.carrier) && usage.carrier->loop_kind != LoopKind::Vectorize;
    bool moves_forward =
        in_order && std::any_of(span.base.terms.begin(), span.base.terms.end(), [&](const Sum::Term& term) {
          return term.atom == usage.carrier->var && term.coefficient > 0;
        });
    if (!span.whole && moves_forward && is_rewritten(usage)) return ok();
    return reject(
        "buffer `{a}` is a ring along dimension {0}, but its accesses are not in one loop whose iterations move "
        "forward there",
        usage.buffer->name, static_cast<i64>(*usage.ring));
  }

  // Do all variables of the atom belong to the shared loops?
  static bool is_outside(const Expr* atom, const std::vector<const For*>& loops) {
    bool outside = true;
    walk(atom, [&](const Node* node) {
      const Var* var = as<Var>(node);
      outside &= node->kind != Kind::Load;
      outside &= !var || std::any_of(loops.begin(), loops.end(), [&](const For* loop) { return loop->var == var; });
      return outside;
    });
    return outside;
  }

  // The whole buffer, one per iteration of a parallel loop, since values do not pass between these.
  static void keep_whole(Usage& usage) {
    while (!usage.loops.empty() && !is_concurrent(usage.loops.back())) usage.loops.pop_back();
    for (Span& span : usage.spans) span.whole = true;
  }

  const Buffer* shrink(Usage& usage) {
    std::vector<i64> shape(usage.buffer->shape.begin(), usage.buffer->shape.end());
    for (std::size_t d = 0; d < shape.size(); ++d) {
      Span& span = usage.spans[d];
      i64 extent = span.touched().max - span.touched().min + 1;
      span.whole |= extent >= shape[d];
      if (!span.whole) shape[d] = extent;
    }
    if (usage.buffer->scope == Scope::Register && !options_.is_device) fill_vectors(shape, usage.buffer->dtype);
    if (std::equal(shape.begin(), shape.end(), usage.buffer->shape.begin())) return usage.buffer;
    Buffer* copy = arena_.make<Buffer>(*usage.buffer);
    copy->shape = arena_.copy(shape);
    return copy;
  }

  // A row of registers has room for the lanes of its last vector that nobody uses.
  void fill_vectors(std::vector<i64>& shape, DType dtype) const {
    auto row = std::find_if(shape.rbegin(), shape.rend(), [](i64 extent) { return extent > 1; });
    if (row == shape.rend() || std::has_single_bit(static_cast<u64>(*row))) return;
    i64 lanes = std::max<i64>(1, options_.vector_bits / (8 * bytes_of(dtype)));
    *row = (*row + lanes - 1) / lanes * lanes;
  }

  // ---- where does it live?

  static bool is_vtcm(const Usage& usage) { return usage.buffer->scope == Scope::Vtcm; }

  bool is_stack(const Usage& usage) const {
    bool is_small = bytes_of(usage.shrunk) <= kStackBytes && !is_vtcm(usage);
    return usage.shrunk->scope == Scope::Register || is_small || options_.is_device;
  }

  // A register holds part of one row: the last dimension that is not 1 is the vectorized one.
  i64 registers_of(const Buffer* buffer) const {
    i64 lanes = std::max<i64>(1, options_.vector_bits / (8 * bytes_of(buffer->dtype)));
    i64 rows = 1, last = 1;
    for (i64 extent : buffer->shape) {
      if (extent == 1) continue;
      rows *= last;
      last = extent;
    }
    return rows * ((last + lanes - 1) / lanes);
  }

  // Of a register buffer and those around it, which live at the same time.
  i64 live_registers(const Usage& usage) const {
    i64 total = 0;
    for (const Usage& other : usages_) {
      bool around = other.loops.size() <= usage.loops.size() &&
                    std::equal(other.loops.begin(), other.loops.end(), usage.loops.begin());
      if (other.seen && around && other.shrunk->scope == Scope::Register) total += registers_of(other.shrunk);
    }
    return total;
  }

  Status check_sizes() const {
    for (const Usage& usage : usages_) {
      const Buffer* buffer = usage.shrunk;
      if (!usage.seen) continue;
      bool is_missing = is_vtcm(usage)
                            ? options_.is_device || options_.vtcm_bytes == 0
                            : !options_.is_device && (buffer->scope == Scope::Shared || buffer->scope == Scope::Local);
      if (is_missing) {
        return reject("buffer `{a}` is in scope {b}, which this backend does not have", buffer->name,
                      Str(name_of(buffer->scope)));
      }
      if (options_.is_device) continue;  // device_scopes has limits of its own
      if (buffer->scope == Scope::Register && live_registers(usage) + 1 > options_.vector_registers) {
        return reject(
            "register buffer `{a}`: it and those around it need {0} vector registers and one to spare, but there are "
            "{1}",
            buffer->name, live_registers(usage), options_.vector_registers);
      }
    }
    return ok();
  }

  void assign_slots(PlacedProgram& out) {
    std::vector<StorageNeed> needs[2][2];  // by is_vtcm, is_worker
    std::vector<const Usage*> stored;
    for (const Usage& usage : usages_) {
      if (!usage.seen || is_stack(usage)) continue;
      Lifetime lifetime{static_cast<i64>(usage.first_nest), static_cast<i64>(usage.last_nest)};
      needs[is_vtcm(usage)][usage.is_worker()].push_back({lifetime, bytes_of(usage.shrunk)});
      stored.push_back(&usage);
    }
    StoragePlan plans[2][2];
    for (bool vtcm : {false, true}) {
      for (bool worker : {false, true}) plans[vtcm][worker] = first_fit(needs[vtcm][worker], kAlignment);
    }
    std::vector<const Buffer*> locals;
    std::size_t next[2][2] = {};
    for (const Usage* usage : stored) {
      bool vtcm = is_vtcm(*usage), worker = usage->is_worker();
      i64 offset = plans[vtcm][worker].offsets[next[vtcm][worker]++];
      locals.push_back(usage->shrunk);
      out.slots.push_back(
          {worker ? Place::WorkerScratch : Place::SharedScratch, offset + (vtcm ? plans[false][worker].bytes : 0)});
    }
    out.shared_bytes = plans[false][false].bytes + plans[true][false].bytes;
    out.worker_bytes = plans[false][true].bytes + plans[true][true].bytes;
    out.vtcm_bytes = plans[true][false].bytes + options_.threads * plans[true][true].bytes;
    out.program.locals = arena_.copy(locals);
  }

  // ---- rewriting

  // Statement `s` inside `loop` (null: the program's body), with the buffers that live there.
  const Stmt* wrap(const Stmt* s, const For* loop) {
    for (std::size_t i = usages_.size(); s && i-- > 0;) {
      const Usage& usage = usages_[i];
      const For* innermost = usage.loops.empty() ? nullptr : usage.loops.back();
      if (usage.seen && is_stack(usage) && innermost == loop) s = build_.alloc(usage.shrunk, s);
    }
    return s;
  }

  const Stmt* rewrite_stmt(const Stmt* s) {
    ChildMap map{
        this, [](void* self, const Expr* e) { return static_cast<BufferPlacement*>(self)->rewrite_expr(e); },
        [](void* self, const Stmt* child) { return static_cast<BufferPlacement*>(self)->rewrite_stmt(child); }};
    if (const For* loop = as<For>(s)) {
      std::size_t known = ranges_.size();
      ranges_.set_extent(loop->var, loop->extent);
      const Stmt* body = wrap(rewrite_stmt(loop->body), loop);
      ranges_.shrink(known);
      return build_.with_body(loop, body);
    }
    const Store* store = as<Store>(s);
    if (!store) return with_children(arena_, s, map);
    const Stmt* rebuilt = with_children(arena_, s, map);
    return relocate_targets(as<Store>(rebuilt));
  }

  const Stmt* relocate_targets(const Store* store) {
    std::vector<StoreTarget> targets(store->targets.begin(), store->targets.end());
    bool changed = false;
    for (StoreTarget& target : targets) {
      const Usage* usage = find(target.buffer);
      if (!usage || usage->shrunk == usage->buffer) continue;
      target = {usage->shrunk, relative(*usage, target.indices)};
      changed = true;
    }
    return changed ? build_.store(arena_.copy(targets), store->values) : store;
  }

  const Expr* rewrite_expr(const Expr* e) {
    ChildMap map{this,
                 [](void* self, const Expr* child) { return static_cast<BufferPlacement*>(self)->rewrite_expr(child); },
                 nullptr};
    const Expr* out = with_children(arena_, e, map);
    const Load* load = as<Load>(out);
    const Usage* usage = load ? find(load->buffer) : nullptr;
    if (!usage || usage->shrunk == usage->buffer) return out;
    return build_.load(usage->shrunk, relative(*usage, load->indices));
  }

  Array<const Expr*> relative(const Usage& usage, Array<const Expr*> indices) {
    std::vector<const Expr*> out;
    for (std::size_t d = 0; d < indices.size(); ++d) {
      const Span& span = usage.spans[d];
      if (span.whole) {
        out.push_back(indices[d]);
        continue;
      }
      if (usage.ring == d) {
        out.push_back(build_.floor_mod(indices[d], build_.integer(usage.shrunk->shape[d])));
        continue;
      }
      Sum sum = sum_of(indices[d]);
      sum.add(span.base, -1);
      sum.add_constant(-span.touched().min);
      out.push_back(simplify(arena_, to_expr(arena_, sum), ranges_));
    }
    return arena_.copy(out);
  }

  Arena& arena_;
  Build build_;
  Program program_;
  const LoweringOptions& options_;
  std::vector<Usage> usages_;
  std::vector<const For*> loops_;
  VarRanges ranges_;
  std::vector<Sum> guards_;  // negative where the accesses at hand run
};

}  // namespace

Result<PlacedProgram> place_buffers(Arena& arena, Program program, const LoweringOptions& options) {
  return BufferPlacement(arena, program, options).run();
}

}  // namespace tw

#include "dsl/passes/vectorize_loops.h"

#include <algorithm>
#include <bit>
#include <set>

#include "dsl/analysis/simplify.h"
#include "dsl/analysis/sum.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/cost.h"
#include "dsl/passes/register_use.h"

namespace tw {
namespace {

// What becomes of the iterations at the end that do not fill a vector.
enum class Rest : u8 {
  Narrower,  // vectors of half the width, of a quarter, and so on: 15 lanes as 8, 4, 2 and 1
  Masked,    // a vector that leaves out lanes
  Computed,  // a vector whose other lanes are computed, too: it writes to registers only, which have room for them
};

// Iterations [offset, offset + active) of the loop, at once, in the first lanes of a vector.
struct Chunk {
  const Expr* offset;
  int lanes;
  int active;
};

// Register buffers whose last vectors cannot have all lanes in some loop. All loops then take narrower ones, so that no
// lane is read that was not written, and no register in parts.
using NarrowBuffers = std::set<const Buffer*>;

// The vector form of the body of one loop.
class VectorBody {
 public:
  VectorBody(Arena& arena, const For* loop, const Var* lane, const VarRanges& ranges, const RegisterUse& use,
             const NarrowBuffers& narrow, Rest rest)
      : arena_(arena),
        build_{arena},
        loop_(loop),
        var_(loop->var),
        lane_(lane),
        ranges_(ranges),
        use_(use),
        narrow_(narrow),
        rest_(rest) {
    ranges_.set_extent(var_, loop->extent);
  }

  bool has_form() const { return has_form_; }
  const std::optional<Reject>& race() const { return race_; }

  // Loops inside stay outside of the vectors.
  const Stmt* stmt(const Stmt* s, const std::vector<Chunk>& chunks) {
    switch (s->kind) {
      case Kind::For: {
        auto* loop = static_cast<const For*>(s);
        std::size_t known = ranges_.size();
        ranges_.set_extent(loop->var, loop->extent);
        const Stmt* body = stmt(loop->body, chunks);
        ranges_.shrink(known);
        return build_.with_body(loop, body);
      }
      case Kind::If: {
        auto* branch = static_cast<const If*>(s);
        if (uses(branch->condition, var_)) return tested_by_lane(branch, chunks);
        return build_.if_then(branch->condition, stmt(branch->then, chunks),
                              branch->otherwise ? stmt(branch->otherwise, chunks) : nullptr);
      }
      case Kind::Seq:
        return sequence(static_cast<const Seq*>(s), chunks);
      case Kind::Store:
        return by_chunk({&s, 1}, chunks);
      default:
        return fail(s);  // an Alloc would need one buffer per lane
    }
  }

 private:
  template <class T>
  const T* fail(const T* node) {
    has_form_ = false;
    return node;
  }

  const Stmt* tested_by_lane(const If* branch, const std::vector<Chunk>& chunks) {
    if (rest_ != Rest::Masked) return fail(branch);
    ++tests_;
    std::vector<const Stmt*> out;
    for (const Chunk& chunk : chunks) {
      const Expr* condition = expr(branch->condition, chunk);
      out.push_back(build_.if_then(condition, stmt(branch->then, {chunk}),
                                   branch->otherwise ? stmt(branch->otherwise, {chunk}) : nullptr));
    }
    --tests_;
    return build_.seq(out);
  }

  const Stmt* sequence(const Seq* seq, const std::vector<Chunk>& chunks) {
    bool only_stores =
        std::all_of(seq->stmts.begin(), seq->stmts.end(), [](const Stmt* s) { return s->kind == Kind::Store; });
    if (only_stores) return by_chunk(seq->stmts, chunks);
    std::vector<const Stmt*> out;
    for (const Stmt* s : seq->stmts) out.push_back(stmt(s, chunks));
    return build_.seq(out);
  }

  // All stores of the first chunk, then of the next one: what one store leaves in a register the next may use.
  const Stmt* by_chunk(Array<const Stmt*> stores, const std::vector<Chunk>& chunks) {
    std::vector<const Stmt*> out;
    if (find_annotation(loop_->annotations, "horizontal")) {
      for (const Stmt* s : stores) out.push_back(horizontal(static_cast<const Store*>(s), stores, chunks));
      return std::find(out.begin(), out.end(), nullptr) == out.end() ? build_.seq(out) : fail(stores[0]);
    }
    for (const Chunk& chunk : chunks) {
      std::vector<const Stmt*> of_chunk;
      for (const Stmt* s : stores) {
        auto* one = static_cast<const Store*>(s);
        if (!is_uniform(one))
          of_chunk.push_back(store(one, chunk));
        else if (tests_ > 0)
          return fail(s);
        else if (&chunk == &chunks[0])
          out.push_back(one);
      }
      bool is_masked = rest_ == Rest::Masked && chunk.active < chunk.lanes;
      if (!of_chunk.empty()) out.push_back(is_masked ? masked(of_chunk, chunk) : build_.seq(of_chunk));
    }
    return build_.seq(out);
  }

  // The other lanes neither read nor write.
  const Stmt* masked(Array<const Stmt*> stores, const Chunk& chunk) {
    const Expr* lanes = build_.ramp(build_.integer(0), build_.integer(1), chunk.lanes);
    const Expr* is_active = build_.lt(lanes, build_.broadcast(build_.integer(chunk.active), chunk.lanes));
    return build_.if_then(is_active, build_.seq(stores), nullptr);
  }

  // The same values to the same places in every iteration: once is enough.
  bool is_uniform(const Store* store) const {
    if (uses(store, var_)) return false;
    bool accumulates = false;
    for_each<Load>(store, [&](const Load* load) {
      for (const StoreTarget& target : store->targets) accumulates |= load->buffer == target.buffer;
    });
    return !accumulates;
  }

  // C[x] = C[x] + f(j) with x free of j: the terms of the chunks are combined first, vectors with vectors, then lanes
  // with lanes. The order of the terms changes, as a loop that is annotated `horizontal` allows.
  const Stmt* horizontal(const Store* store, Array<const Stmt*> body, const std::vector<Chunk>& chunks) {
    const StoreTarget& target = store->targets[0];
    const Binary* update = as<Binary>(store->values[0]);
    std::optional<Function> reduce = update ? reduction_by(update->op) : std::nullopt;
    if (!reduce || store->targets.size() != 1) return nullptr;
    auto is_own = [&](const Expr* e) {
      const Load* load = as<Load>(e);
      return load && load->buffer == target.buffer &&
             is_constant(simplify(arena_, build_.sub(load->indices[0], target.indices[0]), ranges_), 0);
    };
    const Expr* own = is_own(update->a) ? update->a : is_own(update->b) ? update->b : nullptr;
    const Expr* term = own == update->a ? update->b : update->a;
    bool reads_sums = false;  // how far they are would show
    for_each<Load>(term, [&](const Load* load) {
      for (const Stmt* s : body) reads_sums |= load->buffer == static_cast<const Store*>(s)->targets[0].buffer;
    });
    if (!own || reads_sums || uses(own, var_)) return nullptr;
    const Expr* value = own;
    for (std::size_t i = 0; i < chunks.size();) {
      std::vector<const Expr*> terms;
      int lanes = chunks[i].lanes;
      for (; i < chunks.size() && chunks[i].lanes == lanes; ++i) terms.push_back(wide(expr(term, chunks[i]), lanes));
      const Expr* combined = in_tree(update->op, std::move(terms));
      if (lanes > 1) combined = build_.call(*reduce, arena_.list<const Expr*>({combined}));
      value = build_.binary(update->op, value, combined);
    }
    return build_.store(target.buffer, target.indices, value);
  }

  const Expr* in_tree(BinaryOp op, std::vector<const Expr*> terms) {
    while (terms.size() > 1) {
      std::vector<const Expr*> halves;
      for (std::size_t i = 0; i + 1 < terms.size(); i += 2) halves.push_back(build_.binary(op, terms[i], terms[i + 1]));
      if (terms.size() % 2) halves.push_back(terms.back());
      terms = std::move(halves);
    }
    return terms[0];
  }

  const Stmt* store(const Store* store, const Chunk& chunk) {
    std::vector<StoreTarget> targets;
    std::vector<const Expr*> values;
    for (const StoreTarget& target : store->targets) {
      const Expr* index = expr(target.indices[0], chunk);
      if (!uses(target.indices[0], var_)) report_race(target.buffer);
      bool may_write_all = !computes_rest(chunk) || may_write(target.buffer, index, chunk);
      if (!has_room(target.buffer, index, chunk) || !may_write_all) fail(store);
      targets.push_back({target.buffer, arena_.list<const Expr*>({as_address(index)})});
    }
    for (const Expr* value : store->values) values.push_back(wide(expr(value, chunk), chunk.lanes));
    return build_.store(arena_.copy(targets), arena_.copy(values));
  }

  // A register has all lanes, those that are left out too: they must lie in the buffer, and those of no iteration where
  // no other vector begins.
  bool has_room(const Buffer* buffer, const Expr* index, const Chunk& chunk) const {
    const Ramp* ramp = as<Ramp>(index);
    if (buffer->scope != Scope::Register || !ramp) return true;
    if (tests_ > 0 && !lies_inside(buffer, ramp)) return false;
    if (chunk.active == chunk.lanes) return true;
    return is_aligned(buffer, ramp);
  }

  // Is the buffer a row of such vectors? Then all lanes lie inside where one does.
  static bool is_aligned(const Buffer* buffer, const Ramp* ramp) {
    int lanes = ramp->type.lanes;
    Sum base = sum_of(ramp->base);
    bool is_aligned =
        base.exact && is_constant(ramp->stride, 1) && base.constant % lanes == 0 && buffer->shape[0] % lanes == 0;
    for (const Sum::Term& term : base.terms) is_aligned &= term.coefficient % lanes == 0;
    return is_aligned;
  }

  // The other lanes may be written: nobody uses them.
  bool may_write(const Buffer* buffer, const Expr* index, const Chunk& chunk) const {
    const Ramp* ramp = as<Ramp>(index);
    return buffer->scope == Scope::Register && ramp && !narrow_.contains(buffer) &&
           use_.is_unused(buffer, ramp->base, chunk.active, chunk.lanes, ranges_);
  }

  bool computes_rest(const Chunk& chunk) const { return rest_ == Rest::Computed && chunk.active < chunk.lanes; }

  // The lanes that nobody uses are read, too: from a buffer that has them, at once.
  bool may_read(const Buffer* buffer, const Expr* index, const Chunk& chunk) const {
    if (!computes_rest(chunk) || index->type.lanes == 1) return true;
    if (buffer->scope == Scope::Register) return !narrow_.contains(buffer);
    const Ramp* ramp = as<Ramp>(index);
    return ramp && is_constant(ramp->stride, 1) && (is_aligned(buffer, ramp) || lies_inside(buffer, ramp));
  }

  void report_race(const Buffer* buffer) {
    race_ =
        reject("vectorize: every iteration of loop `{a}` stores to the same place of `{b}`", var_->name, buffer->name)
            .about_loop(loop_->id.value);
  }

  const Expr* wide(const Expr* e, int lanes) { return e->type.lanes == 1 ? build_.broadcast(e, lanes) : e; }
  const Expr* as_address(const Expr* index) {
    return index->type.lanes == 1 || index->kind == Kind::Ramp || index->kind == Kind::Broadcast ? index : fail(index);
  }

  // This integer is a value, such as the index that argmax computes, not an index into a buffer.
  static bool is_data(const Expr* e) {
    bool loads = e->kind == Kind::Cast || e->kind == Kind::Select;
    for_each<Load>(e, [&](const Load*) { loads = true; });
    return loads;
  }

  // The expression for all iterations of the chunk: a scalar where they agree.
  const Expr* expr(const Expr* e, const Chunk& chunk) {
    if (e->type == Type{DType::I64, 1} && !is_data(e)) return index(e, chunk);
    switch (e->kind) {
      case Kind::Cast: {
        auto* n = static_cast<const Cast*>(e);
        const Expr* value = expr(n->value, chunk);
        return value == n->value ? e : build_.cast(n->type.dtype, value);
      }
      case Kind::Unary: {
        auto* n = static_cast<const Unary*>(e);
        const Expr* value = expr(n->value, chunk);
        return value == n->value ? e : build_.unary(n->op, value);
      }
      case Kind::Binary: {
        auto* n = static_cast<const Binary*>(e);
        const Expr *a = expr(n->a, chunk), *b = expr(n->b, chunk);
        if (a == n->a && b == n->b) return e;
        if (leaves_out_lanes(chunk) && may_divide_by_zero(n)) return fail(e);
        int lanes = std::max(a->type.lanes, b->type.lanes);
        return build_.binary(n->op, wide(a, lanes), wide(b, lanes));
      }
      case Kind::Select:
        return select(static_cast<const Select*>(e), chunk);
      case Kind::Call:
        return call(static_cast<const Call*>(e), chunk);
      case Kind::Load: {
        auto* n = static_cast<const Load*>(e);
        const Expr* at = as_address(expr(n->indices[0], chunk));
        if (!has_room(n->buffer, at, chunk) || !may_read(n->buffer, at, chunk)) return fail(e);
        return at == n->indices[0] ? e : build_.load(n->buffer, arena_.list<const Expr*>({at}));
      }
      default:
        return e->type.lanes == 1 ? e : fail(e);
    }
  }

  bool leaves_out_lanes(const Chunk& chunk) const { return chunk.active < chunk.lanes || tests_ > 0; }

  // In lanes that are left out, where any number may stand.
  static bool may_divide_by_zero(const Binary* n) {
    if (n->op != BinaryOp::FloorDiv && n->op != BinaryOp::FloorMod) return false;
    return constant_of(n->b).value_or(0) == 0;
  }

  const Expr* call(const Call* e, const Chunk& chunk) {
    std::vector<const Expr*> arguments;
    int lanes = 1;
    for (const Expr* argument : e->arguments) {
      arguments.push_back(expr(argument, chunk));
      lanes = std::max<int>(lanes, arguments.back()->type.lanes);
    }
    if (std::equal(arguments.begin(), arguments.end(), e->arguments.begin())) return e;
    for (const Expr*& argument : arguments) argument = wide(argument, lanes);
    return build_.call(e->function, arena_.copy(arguments));
  }

  const Expr* select(const Select* e, const Chunk& chunk) {
    const Expr *condition = expr(e->condition, chunk), *then = expr(e->then, chunk),
               *otherwise = expr(e->otherwise, chunk);
    if (condition == e->condition && then == e->then && otherwise == e->otherwise) return e;
    if (condition->type.lanes > 1 && !(loads_are_safe(e->then) && loads_are_safe(e->otherwise))) return fail(e);
    int lanes = std::max({condition->type.lanes, then->type.lanes, otherwise->type.lanes});
    return build_.select(condition, wide(then, lanes), wide(otherwise, lanes));
  }

  // Does every load stay inside its buffer for all iterations of all loops, whatever conditions say?
  bool loads_are_safe(const Expr* e) const {
    bool safe = true;
    for_each<Load>(e, [&](const Load* load) { safe &= lies_inside(load->buffer, load->indices[0]); });
    return safe;
  }

  bool lies_inside(const Buffer* buffer, const Expr* index) const {
    std::optional<Interval> range = interval_of(index, ranges_);
    return range && range->min >= 0 && range->max < buffer->shape[0];
  }
  bool lies_inside(const Buffer* buffer, const Ramp* lanes) const {
    const Expr* last = build_.mul(lanes->stride, lanes->type.lanes - 1);
    return lies_inside(buffer, lanes->base) && lies_inside(buffer, build_.add(lanes->base, last));
  }

  // An integer, usually an address: base + stride * lane.
  const Expr* index(const Expr* e, const Chunk& chunk) {
    if (!uses(e, var_)) return e;
    Sum sum = sum_of(e);
    if (std::optional<i64> stride = take(sum, var_)) {
      sum.collect(chunk.offset, *stride);
      return ramp(sum, *stride, chunk);
    }
    // Not linear in the loop's variable, but perhaps in this chunk: (j // 16) for 8 lanes.
    Substitution by_lane;
    by_lane.set(var_, build_.add(chunk.offset, lane_));
    std::size_t known = ranges_.size();
    ranges_.set_extent(lane_, chunk.lanes);
    sum = sum_of(simplify(arena_, substitute(arena_, e, by_lane), ranges_));
    ranges_.shrink(known);
    std::optional<i64> stride = take(sum, lane_);
    return stride ? ramp(sum, *stride, chunk) : fail(e);
  }

  // Removes the variable's term and returns its coefficient; nothing if other terms depend on it too.
  static std::optional<i64> take(Sum& sum, const Var* var) {
    i64 coefficient = 0;
    for (const Sum::Term& term : sum.terms) {
      if (term.atom == var)
        coefficient = term.coefficient;
      else if (uses(term.atom, var))
        return std::nullopt;
    }
    sum.add_atom(var, -coefficient);
    return sum.exact ? std::optional(coefficient) : std::nullopt;
  }

  const Expr* ramp(const Sum& base, i64 stride, const Chunk& chunk) {
    const Expr* first = to_expr(arena_, base);
    return stride == 0 ? first : build_.ramp(first, build_.integer(stride), chunk.lanes);
  }

  Arena& arena_;
  Build build_;
  const For* loop_;
  const Var *var_, *lane_;
  VarRanges ranges_;
  const RegisterUse& use_;
  const NarrowBuffers& narrow_;
  Rest rest_;
  int tests_ = 0;  // around the statement at hand, by lane
  bool has_form_ = true;
  std::optional<Reject> race_;
};

class Vectorization {
 public:
  Vectorization(Arena& arena, Program& program, const LoweringOptions& options, const NarrowBuffers& narrow)
      : arena_(arena),
        build_{arena},
        options_(options),
        lane_(build_.var(program.next_var++, "lane")),
        use_(program.body),
        narrow_(narrow),
        found_narrow_(narrow) {}

  const Stmt* stmt(const Stmt* s) {
    const For* loop = as<For>(s);
    std::size_t known = ranges_.size();
    if (loop) ranges_.set_extent(loop->var, loop->extent);
    ChildMap map{this, nullptr,
                 [](void* self, const Stmt* child) { return static_cast<Vectorization*>(self)->stmt(child); }};
    const Stmt* out = with_children(arena_, s, map);
    ranges_.shrink(known);
    loop = as<For>(out);
    bool wanted = loop && (loop->loop_kind == LoopKind::Vectorize || find_annotation(loop->annotations, "horizontal"));
    return wanted ? vectorize(loop) : out;
  }
  const std::optional<Reject>& rejected() const { return rejected_; }
  // Those given, and more that the loops show. The program is right if there are no more.
  const NarrowBuffers& narrow() const { return found_narrow_; }

 private:
  const Stmt* vectorize(const For* loop) {
    auto widest = static_cast<i64>(std::bit_floor(static_cast<u64>(lanes_of(loop->body, options_))));
    Rest whole = options_.has_lane_masks ? Rest::Masked : Rest::Computed;
    bool may_be_whole = !options_.is_device && !find_annotation(loop->annotations, "horizontal");
    // As values of two or four registers such functions are interleaved in the machine code.
    i64 interleaved = 0;
    if (may_be_whole && has_long_chain(loop->body)) {
      for (i64 lanes : {2 * widest, 4 * widest}) {
        if (loop->extent % lanes == 0) interleaved = lanes;
      }
    }
    if (const Stmt* out = interleaved > 0 ? in_vectors(loop, interleaved, whole) : nullptr) return out;
    for (i64 lanes = widest; lanes > 1; lanes /= 2) {
      if (may_be_whole && lanes < 2 * loop->extent) {
        if (const Stmt* out = in_vectors(loop, lanes, whole)) return out;
        if (whole == Rest::Computed) note_narrow(loop);
      }
      if (lanes > loop->extent) continue;
      if (const Stmt* out = in_vectors(loop, lanes, Rest::Narrower)) return out;
    }
    return build_.with_kind(loop, selects_register(loop) ? LoopKind::Unroll : LoopKind::Serial);
  }

  // Functions that are computed by polynomials, each step of which waits for the one before it.
  static bool has_long_chain(const Stmt* body) {
    bool found = false;
    for_each<Call>(body, [&](const Call* call) {
      constexpr Function kChains[] = {Function::Exp, Function::Log, Function::Tanh, Function::Erf, Function::Sigmoid};
      found |= std::ranges::find(kChains, call->function) != std::end(kChains) && call->type.dtype == DType::F32;
    });
    return found;
  }

  void note_narrow(const For* loop) {
    for_each<Store>(loop->body, [&](const Store* store) {
      for (const StoreTarget& target : store->targets) {
        if (target.buffer->scope == Scope::Register) found_narrow_.insert(target.buffer);
      }
    });
  }

  // Null if there is no such form.
  const Stmt* in_vectors(const For* loop, i64 lanes, Rest of_rest) {
    VectorBody body(arena_, loop, lane_, ranges_, use_, narrow_, of_rest);
    const Stmt* out = with_lanes(body, loop, lanes, of_rest);
    if (!body.has_form()) return nullptr;
    if (body.race() && !rejected_) rejected_ = body.race();
    return out;
  }

  const Stmt* with_lanes(VectorBody& body, const For* loop, i64 lanes, Rest of_rest) {
    std::vector<Chunk> chunks;
    i64 full = loop->extent / lanes, done = 0;
    const Stmt* counted = nullptr;
    // Interleaved code is long, and what comes behind it would undo the order.
    bool is_interleaved = lanes > lanes_of(loop->body, options_);
    if (full > (is_interleaved ? 1 : kUnrolledVectors) && !selects_register(loop)) {
      For* copy = arena_.make<For>(*loop);
      copy->extent = full;
      copy->loop_kind = LoopKind::Serial;
      Chunk chunk{build_.mul(loop->var, lanes), static_cast<int>(lanes), static_cast<int>(lanes)};
      copy->body = body.stmt(loop->body, {chunk});
      counted = copy;
      done = full * lanes;
    }
    while (done < loop->extent) {
      auto rest = static_cast<u64>(loop->extent - done);
      bool fills_vectors = static_cast<i64>(rest) >= lanes || std::has_single_bit(rest);
      if (of_rest == Rest::Narrower || fills_vectors) lanes = std::min(lanes, static_cast<i64>(std::bit_floor(rest)));
      i64 active = std::min(lanes, static_cast<i64>(rest));
      chunks.push_back({build_.integer(done), static_cast<int>(lanes), static_cast<int>(active)});
      done += active;
    }
    return chunks.empty() ? counted : build_.seq({counted, body.stmt(loop->body, chunks)});
  }

  Arena& arena_;
  Build build_;
  const LoweringOptions& options_;
  const Var* lane_;
  const RegisterUse use_;
  const NarrowBuffers& narrow_;
  NarrowBuffers found_narrow_;
  VarRanges ranges_;
  std::optional<Reject> rejected_;
};

}  // namespace

Result<Program> vectorize_loops(Arena& arena, Program program, const LoweringOptions& options) {
  if (!program.body) return program;
  for (NarrowBuffers narrow;;) {
    Vectorization vectorization(arena, program, options, narrow);
    const Stmt* body = vectorization.stmt(program.body);
    if (vectorization.narrow() != narrow) {
      narrow = vectorization.narrow();
      continue;
    }
    if (vectorization.rejected()) return *vectorization.rejected();
    program.body = body;
    return program;
  }
}

}  // namespace tw

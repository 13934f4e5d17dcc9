#include "dsl/passes/rounding_error.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "dsl/analysis/block_info.h"
#include "dsl/analysis/reducer.h"
#include "dsl/base/text.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

// Half the distance of the smallest numbers; for floats and bfloats the smallest normal one, because processors may
// flush what is below.
double smallest_error(DType type) { return type == DType::F16 ? 0x1p-25 : 0x1p-126; }

constexpr double kSumRoundings = 4, kCommonCause = 64, kFunctionRoundings = 4;

double squared(double x) { return x * x; }

// Variances as expressions in F64; null is 0, exactly.
class Variances {
 public:
  Variances(Arena& arena, Program& program) : build_{arena}, program_(program) {}

  // What a load of the buffer has, given the buffer that holds it for each element; `sum_roundoff`: of a sum, what is
  // added times the square of its value. Of a product that, too, what the other buffer holds is relative.
  void set(const Buffer* buffer, const Buffer* variance, double sum_roundoff, bool is_relative) {
    known_[buffer] = {variance, sum_roundoff, is_relative};
  }

  // What stores of `value` leave in the buffer is whole, if the value is.
  void note_stored(const Buffer* buffer, const Expr* value) { is_whole_[buffer] = may_be_whole(value); }

  const Expr* of(const Expr* e) {
    if (e->type.dtype == DType::Bool) return nullptr;
    // Integers of 64 bits are indices, and what is computed of them is exact; a float that is cut off to one is not.
    if (e->type.dtype == DType::I64 && e->kind != Kind::Cast && e->kind != Kind::Load) return nullptr;
    auto [at, is_new] = memo_.try_emplace(e, nullptr);
    if (is_new) {
      const Expr* variance = compute(e);
      memo_[e] = variance;
      return variance;
    }
    return at->second;
  }

  const Expr* wide(const Expr* e) const { return build_.cast(DType::F64, e); }
  const Expr* number(double value) const { return build_.number(value, DType::F64); }
  const Expr* square(const Expr* e) const { return build_.mul(wide(e), wide(e)); }
  const Expr* scaled(double factor, const Expr* e) const {
    return e && factor != 0 ? build_.mul(number(factor), e) : nullptr;
  }
  const Expr* times(const Expr* a, const Expr* b) const { return a && b ? build_.mul(a, b) : nullptr; }
  const Expr* sum(const Expr* a, const Expr* b) const { return !a ? b : !b ? a : build_.add(a, b); }

 private:
  struct Known {
    const Buffer* variance = nullptr;
    double sum_roundoff = 0;
    bool is_relative = false;
  };

  const Expr* compute(const Expr* e) {
    switch (e->kind) {
      case Kind::FloatImm:
        return of_literal(static_cast<const FloatImm*>(e));
      case Kind::Cast:
        return of_cast(static_cast<const Cast*>(e));
      case Kind::Unary:
        return of(static_cast<const Unary*>(e)->value);
      case Kind::Binary:
        return of_binary(static_cast<const Binary*>(e));
      case Kind::Select:
        return of_select(static_cast<const Select*>(e));
      case Kind::Call:
        return of_call(static_cast<const Call*>(e));
      case Kind::Load:
        return of_load(static_cast<const Load*>(e));
      default:
        return nullptr;
    }
  }

  const Expr* of_literal(const FloatImm* imm) const {
    bool is_exact = imm->type.dtype == DType::F64 || imm->value == static_cast<double>(static_cast<float>(imm->value));
    return is_exact ? nullptr : number(squared(unit_roundoff(imm->type.dtype) * imm->value));
  }

  const Expr* of_cast(const Cast* cast) {
    DType from = cast->value->type.dtype, to = cast->type.dtype;
    if (!is_float(to)) {
      const Expr* error = of(cast->value);
      return error && is_float(from) ? of_cut_off(cast->value, error) : error;
    }
    bool is_narrower = is_float(from) ? unit_roundoff(to) > unit_roundoff(from) : bytes_of(from) >= bytes_of(to);
    const Expr* before = of(cast->value);
    return is_narrower ? sum(before, rounding(cast->value, to, 1)) : before;
  }

  // One rounding or several of the value to the type.
  const Expr* rounding(const Expr* value, DType type, double count) const {
    if (!is_float(type)) return nullptr;
    return sum(scaled(squared(count * unit_roundoff(type)), square(value)), number(squared(smallest_error(type))));
  }

  const Expr* of_binary(const Binary* e) {
    const Expr *a = of(e->a), *b = of(e->b);
    DType type = e->type.dtype;
    switch (e->op) {
      case BinaryOp::Add:
      case BinaryOp::Sub:
        return sum(sum(a, b), rounding(e, type, 1));
      case BinaryOp::Mul:
        return sum(sum(times(a, square(e->b)), times(b, square(e->a))), sum(times(a, b), rounding(e, type, 1)));
      case BinaryOp::Div: {
        const Expr* top = sum(a, times(b, square(e)));
        return sum(top ? build_.binary(BinaryOp::Div, top, square(e->b)) : nullptr,
                   rounding(e, type, kFunctionRoundings));
      }
      case BinaryOp::FloorDiv:
      case BinaryOp::FloorMod:
        return sum(a, b);
      // Near each other either may be taken.
      case BinaryOp::Min:
      case BinaryOp::Max:
        if (a && b) return build_.binary(BinaryOp::Max, a, b);
        return a ? limited(e, e->a, a) : b ? limited(e, e->b, b) : nullptr;
      default:
        return nullptr;
    }
  }

  // Far beyond an exact limit the result is the limit, without error.
  const Expr* limited(const Binary* e, const Expr* value, const Expr* before) const {
    constexpr double kFar = 8;  // standard deviations
    const Expr* beyond = build_.sub(wide(value), wide(e));
    const Expr* is_far =
        build_.binary(BinaryOp::Gt, build_.mul(beyond, beyond), build_.mul(number(squared(kFar)), before));
    return build_.select(is_far, number(0), before);
  }

  // Is it an integer if those operands are that it is made of without division or functions?
  bool may_be_whole(const Expr* e) const {
    if (!is_float(e->type.dtype)) return true;
    switch (e->kind) {
      case Kind::FloatImm:
        return static_cast<const FloatImm*>(e)->value == std::floor(static_cast<const FloatImm*>(e)->value);
      case Kind::Load: {
        auto stored = is_whole_.find(static_cast<const Load*>(e)->buffer);
        return stored == is_whole_.end() || stored->second;
      }
      case Kind::Cast:
        return may_be_whole(static_cast<const Cast*>(e)->value);
      case Kind::Unary:
        return may_be_whole(static_cast<const Unary*>(e)->value);
      case Kind::Binary: {
        auto* both = static_cast<const Binary*>(e);
        return both->op != BinaryOp::Div && may_be_whole(both->a) && may_be_whole(both->b);
      }
      case Kind::Select: {
        auto* either = static_cast<const Select*>(e);
        return may_be_whole(either->then) && may_be_whole(either->otherwise);
      }
      case Kind::Call: {
        auto* call = static_cast<const Call*>(e);
        if (call->function == Function::Abs) return may_be_whole(call->arguments[0]);
        return call->function == Function::Floor || call->function == Function::Ceil ||
               call->function == Function::Round;
      }
      default:
        return false;
    }
  }

  // What is an integer already, as what was rounded, stays that. A quotient that is one by chance does not.
  const Expr* of_cut_off(const Expr* value, const Expr* before) const {
    if (!may_be_whole(value)) return jump(Function::Floor, value, before);
    const Expr* x = wide(value);
    const Expr* below = build_.call(Function::Floor, build_.arena.list<const Expr*>({x}));
    return build_.select(build_.binary(BinaryOp::Eq, x, below), before, jump(Function::Floor, value, before));
  }

  const Expr* of_select(const Select* e) {
    const Expr *then = of(e->then), *otherwise = of(e->otherwise);
    if (!then && !otherwise) return nullptr;
    return build_.select(e->condition, then ? then : number(0), otherwise ? otherwise : number(0));
  }

  const Expr* of_load(const Load* load) {
    auto found = known_.find(load->buffer);
    if (found == known_.end()) return nullptr;
    const Expr* stored = found->second.variance ? build_.load(found->second.variance, load->indices) : nullptr;
    const Expr* own = scaled(found->second.sum_roundoff, square(load));
    return sum(found->second.is_relative ? times(stored, square(load)) : stored, own);
  }

  const Expr* of_call(const Call* e) {
    const Expr* argument = e->arguments[0];
    const Expr* before = of(argument);
    switch (e->function) {
      case Function::Abs:
        return before;
      case Function::Floor:
      case Function::Ceil:
      case Function::Round:
        return before ? jump(e->function, argument, before) : nullptr;
      case Function::Exp: {  // of minus infinity it is 0, exactly, and 0 times infinity is no number
        const Expr* is_zero = build_.binary(BinaryOp::Eq, wide(e), number(0));
        const Expr* variance = sum(times(before, squared_slope(e)), own_error(e));
        return build_.select(is_zero, number(squared(smallest_error(e->type.dtype))), variance);
      }
      default:
        return sum(times(before, squared_slope(e)), own_error(e));
    }
  }

  const Expr* squared_slope(const Call* e) const {
    const Expr *f = wide(e), *x = wide(e->arguments[0]), *one = number(1);
    auto divided = [&](const Expr* a, const Expr* b) { return build_.binary(BinaryOp::Div, a, b); };
    auto no_less = [&](const Expr* a) { return build_.binary(BinaryOp::Max, a, number(1e-60)); };
    const Expr* slope = one;  // tanh and erf are no steeper than 1.13
    switch (e->function) {
      case Function::Exp:
        slope = f;
        break;
      case Function::Log:
        slope = divided(one, x);
        break;
      case Function::Sqrt:
        slope = divided(number(0.5), no_less(f));
        break;
      case Function::Rsqrt:
        slope = build_.mul(number(0.5), build_.mul(f, build_.mul(f, f)));
        break;
      case Function::Sigmoid:
        slope = build_.mul(f, build_.sub(one, f));
        break;
      case Function::Erf:
        slope = number(1.13);
        break;
      case Function::Pow:
        slope = divided(build_.mul(wide(e->arguments[1]), f), x);
        break;
      default:
        break;
    }
    return build_.mul(slope, slope);
  }

  // exp and what is made of it rounds its argument, too; tanh and erf near 0 and log near 1 may have an absolute error.
  const Expr* own_error(const Call* e) const {
    DType type = e->type.dtype;
    const Expr* own = rounding(e, type, kFunctionRoundings);
    double u2 = squared(kFunctionRoundings * unit_roundoff(type));
    switch (e->function) {
      case Function::Exp:
        return sum(own, scaled(u2, build_.mul(square(e), square(e->arguments[0]))));
      case Function::Pow:
        return sum(own, scaled(u2, build_.mul(square(e), square(e->arguments[1]))));
      case Function::Tanh:
      case Function::Erf:
      case Function::Log:
        return sum(own, number(u2));
      default:
        return own;
    }
  }

  // A step function: half of what its values two standard deviations to either side differ by. One step is added, so
  // that a single element on the other side does not make the whole too far from the exact values.
  const Expr* jump(Function step, const Expr* argument, const Expr* before) const {
    constexpr double kHalf = 0.49999;  // a little less, so that twice this does not reach one step further
    const Expr* x = wide(argument);
    const Expr* reach = build_.mul(number(2), build_.call(Function::Sqrt, build_.arena.list<const Expr*>({before})));
    auto at = [&](const Expr* place) { return build_.call(step, build_.arena.list<const Expr*>({place})); };
    const Expr* difference = build_.sub(at(build_.add(x, reach)), at(build_.sub(x, reach)));
    const Expr* error = build_.mul(number(kHalf), build_.add(difference, number(1)));
    return build_.select(build_.binary(BinaryOp::Gt, difference, number(0)), square(error), number(0));
  }

  Build build_;
  Program& program_;
  std::unordered_map<const Buffer*, Known> known_;
  std::unordered_map<const Expr*, const Expr*> memo_;
  std::unordered_map<const Buffer*, bool> is_whole_;  // of buffers that are stored
};

class WithVariances {
 public:
  WithVariances(Arena& arena, const Program& program, std::string_view suffix)
      : suffix_(suffix),
        arena_(arena),
        build_{arena},
        program_(program),
        variances_(arena, program_),
        params_(program.params.begin(), program.params.end()),
        locals_(program.locals.begin(), program.locals.end()) {}

  std::optional<Program> run() {
    for (const Block* block : blocks_in(program_.body)) {
      if (!is_plain(block) || !visit(block)) return std::nullopt;
    }
    for (std::size_t i = 0, count = params_.size(); i < count; ++i) {
      if (params_[i].role == Role::Output) finish(params_[i].buffer);
    }
    std::vector<const Stmt*> statements{program_.body};
    statements.insert(statements.end(), added_.begin(), added_.end());
    program_.body = build_.seq(arena_.copy(statements));
    program_.params = arena_.copy(params_);
    program_.locals = arena_.copy(locals_);
    return program_;
  }

 private:
  struct Term {
    const Expr* value = nullptr;  // null: nothing to store
    double sum_roundoff = 0;
    BinaryOp op = BinaryOp::Add;  // of a reduction
    bool is_relative = false;
  };

  // One store, which writes each element of a buffer that nobody else writes, at indices that are iters.
  bool is_plain(const Block* block) const {
    const Store* store = as<Store>(block->body);
    if (!store || !has_trivial_bindings(block) || block->predicate) return false;
    for (const StoreTarget& target : store->targets) {
      if (writers_of(program_.body, target.buffer).size() != 1) return false;
      std::optional<List<int>> iters = iters_as_indices(block, target.indices);
      if (!iters) return false;
    }
    return true;
  }

  bool visit(const Block* block) {
    const Store* store = as<Store>(block->body);
    std::optional<Reducer> reducer = block->init ? reducer_of(block) : std::nullopt;
    bool reads_itself = std::any_of(store->targets.begin(), store->targets.end(), [&](const StoreTarget& target) {
      bool found = false;
      for_each<Load>(store, [&](const Load* load) { found |= load->buffer == target.buffer; });
      return found;
    });
    if (block->init ? !reducer : reads_itself) return false;
    for (std::size_t i = 0; i < store->targets.size(); ++i) {
      const StoreTarget& target = store->targets[i];
      variances_.note_stored(target.buffer, reducer ? reducer->terms[i] : store->values[i]);
      Term term = reducer ? of_reduction(block, reducer->values[i], reducer->terms[i])
                          : Term{.value = variances_.of(store->values[i])};
      const Buffer* variance = term.value ? add_block(block, target, term) : nullptr;
      if (variance || term.sum_roundoff > 0)
        variances_.set(target.buffer, variance, term.sum_roundoff, term.is_relative);
    }
    return true;
  }

  Term of_reduction(const Block* block, const Expr* update, const Expr* term) {
    const Expr* before = variances_.of(term);
    const Binary* combined = as<Binary>(update);
    // Of an index and a value, the value.
    BinaryOp op = combined ? combined->op : BinaryOp::Max;
    double n = 1;
    for (const IterVar& iter : block->iters) n *= iter.kind == IterKind::R ? static_cast<double>(iter.extent) : 1.0;
    if (op != BinaryOp::Add && op != BinaryOp::Mul) return {before, 0, BinaryOp::Max};
    double u2 = squared(kSumRoundings * unit_roundoff(update->type.dtype)) * n;
    // Factors have relative errors; 0 has none.
    if (op == BinaryOp::Mul) {
      const Expr* size = build_.binary(BinaryOp::Max, variances_.square(term), variances_.number(1e-60));
      return {before ? build_.binary(BinaryOp::Div, before, size) : nullptr, u2, BinaryOp::Add, true};
    }
    if (n == 1) return {before, 0, BinaryOp::Add};
    return {
        variances_.sum(variances_.scaled(1 + n / kCommonCause, before), variances_.scaled(u2, variances_.square(term))),
        u2, BinaryOp::Add};
  }

  // A nest over the iters of `block`, in their order, that stores `term` where the block stores its target.
  const Buffer* add_block(const Block* block, const StoreTarget& target, const Term& term) {
    bool is_output = !block->init && find_param(program_, target.buffer);
    const Buffer* variance = make_buffer(target.buffer, is_output ? suffix_ : ".terms", is_output);
    Substitution map;
    std::vector<IterVar> iters(block->iters.begin(), block->iters.end());
    for (IterVar& iter : iters) {
      const Var* fresh = build_.var(program_.next_var++, iter.var->name);
      map.set(iter.var, fresh);
      iter.var = fresh;
    }
    std::vector<const Expr*> indices;
    for (const Expr* index : target.indices) indices.push_back(substitute(arena_, index, map));
    Array<const Expr*> at = arena_.copy(indices);
    const Expr* value = substitute(arena_, term.value, map);
    if (block->init) value = build_.binary(term.op, build_.load(variance, at), value);
    const Stmt* init = block->init ? build_.store(variance, at, variances_.number(0)) : nullptr;
    add_nest(variance, iters, init, build_.store(variance, at, value));
    return variance;
  }

  const Buffer* make_buffer(const Buffer* like, std::string_view suffix, bool is_output) {
    Buffer* made = arena_.make<Buffer>(*like);
    made->id = {program_.next_buffer++};
    made->name = arena_.text(cat(like->name, suffix));
    made->dtype = DType::F64;
    if (is_output)
      params_.push_back({made, Role::Output});
    else
      locals_.push_back(made);
    return made;
  }

  void add_nest(const Buffer* named, const std::vector<IterVar>& iters, const Stmt* init, const Stmt* body) {
    std::vector<const Var*> vars;
    std::vector<const Expr*> bindings;
    for (const IterVar& iter : iters) vars.push_back(build_.var(program_.next_var++, iter.var->name));
    for (std::size_t i = 0; i < iters.size(); ++i) bindings.push_back(vars[i]);
    const Stmt* nest =
        arena_.make<Block>(Stmt{{Kind::Block}}, BlockId{program_.next_block++}, named->name, arena_.copy(iters),
                           arena_.copy(bindings), nullptr, init, body, Array<Annotation>{});
    for (std::size_t i = iters.size(); i-- > 0;)
      nest = build_.loop({program_.next_loop++}, vars[i], iters[i].extent, nest);
    added_.push_back(nest);
  }

  // What a reduction leaves for whoever loads it is put together for an output.
  void finish(const Buffer* output) {
    Str name = arena_.text(cat(output->name, suffix_));
    if (std::any_of(params_.begin(), params_.end(), [&](const Param& param) { return param.buffer->name == name; }))
      return;
    std::vector<IterVar> iters;
    std::vector<const Expr*> indices;
    for (i64 extent : output->shape) {
      iters.push_back({build_.var(program_.next_var++, arena_.text(cat("i", iters.size()))), extent, IterKind::S});
      indices.push_back(iters.back().var);
    }
    Array<const Expr*> at = arena_.copy(indices);
    const Expr* value = variances_.of(build_.load(output, at));
    if (!value) return;
    const Buffer* variance = make_buffer(output, suffix_, true);
    add_nest(variance, iters, nullptr, build_.store(variance, at, value));
  }

  std::string_view suffix_;
  Arena& arena_;
  Build build_;
  Program program_;
  Variances variances_;
  std::vector<Param> params_;
  std::vector<const Buffer*> locals_;
  std::vector<const Stmt*> added_;
};

}  // namespace

double unit_roundoff(DType type) {
  switch (type) {
    case DType::F64:
      return 0x1p-53;
    case DType::F32:
      return 0x1p-24;
    case DType::F16:
      return 0x1p-11;
    case DType::BF16:
      return 0x1p-8;
    default:
      return 0;
  }
}

std::optional<Program> with_error_variances(Arena& arena, const Program& program, std::string_view suffix) {
  return WithVariances(arena, program, suffix).run();
}

}  // namespace tw

#include "dsl/passes/device_scopes.h"

#include <algorithm>

#include "dsl/analysis/region.h"
#include "dsl/analysis/simplify.h"
#include "dsl/analysis/sum.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/combining.h"
#include "dsl/passes/outer_dimension.h"
#include "dsl/passes/thread_axes.h"

namespace tw {
namespace {

constexpr i64 kMaxGroupScratch = i64{256} << 20;  // bytes

// What a part of threadIdx adds to an index: coefficient * ((threadIdx // lower) % count).
struct ThreadDigit {
  int axis;
  i64 lower, count, coefficient;
  bool operator==(const ThreadDigit&) const = default;
};
bool is_lower(const ThreadDigit& a, const ThreadDigit& b) {
  return a.axis != b.axis ? a.axis < b.axis : a.lower < b.lower;
}

// One dimension of a private buffer as its accesses index it: the sum of digits, and [min, max].
struct PrivateDim {
  std::vector<ThreadDigit> digits;
  Interval inner{0, 0};
  bool is_packed = true;  // every access packs: the digits are left out, what is above them moves down
  Interval packed{0, 0};
  const Interval& kept() const { return is_packed ? packed : inner; }
  i64 width() const { return kept().max - kept().min + 1; }
};

// The index of an access, with what the threads select taken out.
struct SplitIndex {
  std::vector<ThreadDigit> digits;
  Sum inner;
};

Interval hull(Interval a, Interval b) { return {std::min(a.min, b.min), std::max(a.max, b.max)}; }

// The index without the places of the thread digits, as 4 * i + 2 * thread + j becomes 2 * i + j; nothing where a digit
// has no place of its own.
std::optional<Sum> packed(const SplitIndex& index, const VarRanges& ranges) {
  std::vector<ThreadDigit> digits = index.digits;
  std::sort(digits.begin(), digits.end(),
            [](const ThreadDigit& a, const ThreadDigit& b) { return a.coefficient > b.coefficient; });
  Sum out = index.inner;
  for (std::size_t i = 0; i < digits.size() && out.exact; ++i) {
    i64 place = digits[i].coefficient, above = place * digits[i].count, below = 0;
    if (place <= 0) return std::nullopt;
    for (std::size_t lower = i + 1; lower < digits.size(); ++lower)
      below += digits[lower].coefficient * (digits[lower].count - 1);
    Sum high, low;
    i64 rest = floor_mod(out.constant, above);
    low.add_constant(rest + below);
    for (const Sum::Term& term : out.terms) {
      bool is_above = term.coefficient % above == 0;
      (is_above ? high : low).add_atom(term.atom, is_above ? term.coefficient / digits[i].count : term.coefficient);
    }
    std::optional<Interval> least = interval_of(low, ranges);
    if (!least || least->min < below || least->max >= place) return std::nullopt;
    low.add_constant((out.constant - rest) / digits[i].count - below);
    low.add(high, 1);
    out = low;
  }
  return out;
}

// Loops around a place, by variable.
class ThreadVars {
 public:
  explicit ThreadVars(const LaunchExtents& extents) : extents_(extents) {}
  void push(const For* loop) { loops_.push_back(loop); }
  void pop() { loops_.pop_back(); }
  SplitIndex split(const Expr* index, const VarRanges& ranges) const {
    SplitIndex out;
    Sum sum = sum_of(index);
    out.inner.exact = sum.exact;
    out.inner.add_constant(sum.constant);
    for (const Sum::Term& term : sum.terms) {
      std::optional<Digit> digit = digit_of(term.atom, ranges);
      if (const For* loop = digit ? thread_loop(digit->source) : nullptr)
        out.digits.push_back(thread_digit(*digit, axis_of(loop)->dimension, term.coefficient));
      else
        out.inner.add_atom(term.atom, term.coefficient);
    }
    std::sort(out.digits.begin(), out.digits.end(), is_lower);
    return out;
  }

 private:
  // The highest digit has as many values as the group needs, also where a step leaves work-items idle.
  ThreadDigit thread_digit(const Digit& digit, int axis, i64 coefficient) const {
    bool is_top = digit.lower * digit.count >= digit.total;
    i64 all = extents_.threads[static_cast<std::size_t>(axis)];
    return {axis, digit.lower, is_top ? (all + digit.lower - 1) / digit.lower : digit.count, coefficient};
  }
  const For* thread_loop(const Expr* atom) const {
    for (const For* loop : loops_) {
      if (loop->var == atom) return loop;
    }
    return nullptr;
  }
  LaunchExtents extents_;
  std::vector<const For*> loops_;  // threadIdx loops only
};

// Looks at every access of one buffer.
class PrivateRegion {
 public:
  PrivateRegion(const Buffer* buffer, VarRanges ranges, const LaunchExtents& extents)
      : buffer_(buffer), ranges_(std::move(ranges)), extents_(extents), threads_(extents), dims(buffer->shape.size()) {}

  void visit(const Node* node) {
    const For* loop = as<For>(node);
    std::size_t known = ranges_.size();
    if (loop) ranges_.set_extent(loop->var, loop->extent);
    if (loop && is_thread_loop(loop)) threads_.push(loop);
    for_each_child(node, [&](const Node* child) { visit(child); });
    if (const Load* load = as<Load>(node); load && load->buffer == buffer_) extend(load->indices);
    if (const Store* store = as<Store>(node)) {
      for (const StoreTarget& target : store->targets) {
        if (target.buffer == buffer_) extend(target.indices);
      }
    }
    if (loop && is_thread_loop(loop)) threads_.pop();
    ranges_.shrink(known);
  }

  // Has every work-item elements of its own, whatever it does with them?
  bool is_private() const {
    if (!agrees_) return false;
    for (int axis = 0; axis < 3; ++axis) {
      if (known_part(axis) < extents_.threads[static_cast<std::size_t>(axis)]) return false;
    }
    return std::all_of(dims.begin(), dims.end(), [](const PrivateDim& dim) { return has_places(dim); });
  }

 private:
  // The digits of all dimensions together say what threadIdx % n is; the largest such n.
  i64 known_part(int axis) const {
    std::vector<ThreadDigit> digits;
    for (const PrivateDim& dim : dims) {
      std::copy_if(dim.digits.begin(), dim.digits.end(), std::back_inserter(digits),
                   [&](const ThreadDigit& digit) { return digit.axis == axis; });
    }
    std::sort(digits.begin(), digits.end(), is_lower);
    i64 known = 1;
    for (const ThreadDigit& digit : digits) {
      if (known % digit.lower == 0) known = std::max(known, digit.lower * digit.count);
    }
    return known;
  }

  // Each value of the sum comes from one combination of digits only.
  static bool has_places(const PrivateDim& dim) {
    if (dim.is_packed) return true;
    std::vector<std::pair<i64, i64>> digits;  // coefficient, count
    for (const ThreadDigit& digit : dim.digits) digits.emplace_back(digit.coefficient, digit.count);
    std::sort(digits.begin(), digits.end());
    i64 width = dim.width();
    for (const auto& [coefficient, count] : digits) {
      if (coefficient < width) return false;
      width += coefficient * (count - 1);
    }
    return true;
  }

  void extend(Array<const Expr*> indices) {
    for (std::size_t d = 0; d < indices.size(); ++d) {
      SplitIndex index = threads_.split(indices[d], ranges_);
      std::optional<Interval> inner = index.inner.exact ? interval_of(index.inner, ranges_) : std::nullopt;
      if (!inner || (seen_ && index.digits != dims[d].digits)) {
        agrees_ = false;
        continue;
      }
      // A tail may reach over the end of the whole buffer; what runs does not.
      if (index.digits.empty())
        inner = Interval{std::max<i64>(inner->min, 0), std::min(inner->max, buffer_->shape[d] - 1)};
      dims[d].digits = index.digits;
      dims[d].inner = seen_ ? hull(dims[d].inner, *inner) : *inner;
      std::optional<Sum> closer = index.digits.empty() ? std::nullopt : packed(index, ranges_);
      std::optional<Interval> own = closer ? interval_of(*closer, ranges_) : std::nullopt;
      dims[d].is_packed = dims[d].is_packed && own;
      if (own) dims[d].packed = seen_ ? hull(dims[d].packed, *own) : *own;
    }
    seen_ = true;
  }

  const Buffer* buffer_;
  VarRanges ranges_;
  LaunchExtents extents_;
  ThreadVars threads_;
  bool seen_ = false, agrees_ = true;

 public:
  std::vector<PrivateDim> dims;
};

class ScopeAssignment {
 public:
  ScopeAssignment(Arena& arena, const Stmt* kernel, const GpuLimits& limits)
      : arena_(arena),
        build_{arena},
        limits_(limits),
        extents_(extents_of(kernel)),
        threads_(extents_),
        rooms_(kernel, combining_bytes(kernel, extents_, limits.has_shuffles)) {}

  const Stmt* stmt(const Stmt* s) {
    if (const For* loop = as<For>(s)) return this->loop(loop);
    if (const Alloc* alloc = as<Alloc>(s)) return this->alloc(alloc);
    const Stmt* rebuilt = with_children(arena_, s, map());
    const Store* store = as<Store>(rebuilt);
    return store ? retarget(store) : rebuilt;
  }
  const std::optional<Reject>& rejected() const { return rejected_; }
  const std::vector<const Buffer*>& group_scratch() const { return group_scratch_; }
  const SharedRooms& rooms() const { return rooms_; }

 private:
  struct Change {
    const Buffer *from, *to;
    std::vector<PrivateDim> dims;  // empty: indices stay
    const Expr* group = nullptr;   // not null: the first index, in front of them
  };

  ChildMap map() {
    return {this, [](void* self, const Expr* e) { return static_cast<ScopeAssignment*>(self)->expr(e); },
            [](void* self, const Stmt* s) { return static_cast<ScopeAssignment*>(self)->stmt(s); }};
  }

  const Stmt* loop(const For* loop) {
    bool is_thread = is_thread_loop(loop);
    std::size_t known = ranges_.size();
    ranges_.set_extent(loop->var, loop->extent);
    if (is_thread)
      threads_.push(loop), ++thread_depth_;
    else if (axis_of(loop))
      groups_.push_back(loop);
    const Stmt* body = stmt(loop->body);
    if (is_thread)
      threads_.pop(), --thread_depth_;
    else if (axis_of(loop))
      groups_.pop_back();
    ranges_.shrink(known);
    return build_.with_body(loop, body);
  }

  const Stmt* alloc(const Alloc* alloc) {
    bool alone = extents_.threads_of_group() == 1;
    Change change{alloc->buffer, alloc->buffer, {}};
    Scope scope = alloc->buffer->scope;
    bool fits = rooms_.bytes_with(alloc->buffer) <= limits_.shared_bytes;
    if (thread_depth_ > 0 ||
        (alone && (scope == Scope::Register || bytes_of(alloc->buffer) <= limits_.private_bytes / 2))) {
      change.to = with(alloc->buffer, scope == Scope::Register ? scope : Scope::Local, alloc->buffer->shape);
    } else if (scope == Scope::Global && !fits) {
      move_to_scratch(alloc->buffer, change);
    } else if (alone || scope == Scope::Global || scope == Scope::Shared) {
      change.to = with(alloc->buffer, Scope::Shared, alloc->buffer->shape);
    } else {
      make_private(alloc, change);
    }
    if (!change.group) account(alloc->buffer, change.to);
    changes_.push_back(change);
    const Stmt* body = stmt(alloc->body);
    changes_.pop_back();
    return change.group ? body : build_.alloc(change.to, body);
  }

  void move_to_scratch(const Buffer* buffer, Change& change) {
    i64 groups = 1;
    change.group = build_.integer(0);
    for (const For* loop : groups_) {
      change.group = build_.add(build_.mul(change.group, loop->extent), loop->var);
      groups *= loop->extent;
    }
    Buffer* copy = with_outer_dimension(arena_, buffer, groups);
    if (bytes_of(copy) > kMaxGroupScratch)
      rejected_ =
          reject("`{a}` would need {0} bytes of scratch memory for all work-groups", buffer->name, bytes_of(copy));
    change.to = copy;
    group_scratch_.push_back(copy);
  }

  void make_private(const Alloc* alloc, Change& change) {
    PrivateRegion region(alloc->buffer, ranges_, extents_);
    region.visit(alloc->body);
    if (!region.is_private()) {
      rejected_ = reject("work-items would share elements of `{a}`, which is in scope {b}", alloc->buffer->name,
                         Str(name_of(alloc->buffer->scope)));
      return;
    }
    std::vector<i64> shape;
    for (const PrivateDim& dim : region.dims) shape.push_back(dim.width());
    change.dims = std::move(region.dims);
    change.to = with(alloc->buffer, alloc->buffer->scope, arena_.copy(shape));
  }

  const Buffer* with(const Buffer* buffer, Scope scope, Array<i64> shape) {
    if (buffer->scope == scope && std::equal(shape.begin(), shape.end(), buffer->shape.begin(), buffer->shape.end()))
      return buffer;
    Buffer* copy = arena_.make<Buffer>(*buffer);
    copy->scope = scope;
    copy->shape = shape;
    return copy;
  }

  // Allocs of private buffers beside each other could share memory; that they do not is on the safe side.
  void account(const Buffer* original, const Buffer* buffer) {
    bool is_shared = buffer->scope == Scope::Shared;
    i64 limit = is_shared ? limits_.shared_bytes : limits_.private_bytes;
    i64 total = is_shared ? rooms_.add(original) : private_bytes_ += bytes_of(buffer);
    if (total > limit)
      rejected_ = reject("with `{a}` a kernel has {0} bytes in scope {b}, more than {1}", buffer->name,
                         Str(name_of(buffer->scope)), total, limit);
  }

  const Change* find(const Buffer* buffer) const {
    for (std::size_t i = changes_.size(); i-- > 0;) {
      if (changes_[i].from == buffer) return &changes_[i];
    }
    return nullptr;
  }

  Array<const Expr*> inner_indices(const Change& change, Array<const Expr*> indices) {
    if (change.dims.empty() && !change.group) return indices;
    std::vector<const Expr*> out;
    if (change.group) {
      out.push_back(change.group);
      out.insert(out.end(), indices.begin(), indices.end());
      return arena_.copy(out);
    }
    for (std::size_t d = 0; d < indices.size(); ++d) {
      SplitIndex split = threads_.split(indices[d], ranges_);
      Sum inner = change.dims[d].is_packed ? *packed(split, ranges_) : split.inner;
      inner.add_constant(-change.dims[d].kept().min);
      out.push_back(simplify(arena_, to_expr(arena_, inner), ranges_));
    }
    return arena_.copy(out);
  }

  const Stmt* retarget(const Store* store) {
    std::vector<StoreTarget> targets(store->targets.begin(), store->targets.end());
    for (StoreTarget& target : targets) {
      if (const Change* change = find(target.buffer)) target = {change->to, inner_indices(*change, target.indices)};
    }
    return build_.store(arena_.copy(targets), store->values);
  }

  const Expr* expr(const Expr* e) {
    ChildMap below{this, [](void* self, const Expr* child) { return static_cast<ScopeAssignment*>(self)->expr(child); },
                   nullptr};
    const Expr* out = with_children(arena_, e, below);
    const Load* load = as<Load>(out);
    const Change* change = load ? find(load->buffer) : nullptr;
    return change ? build_.load(change->to, inner_indices(*change, load->indices)) : out;
  }

  Arena& arena_;
  Build build_;
  const GpuLimits& limits_;
  LaunchExtents extents_;
  VarRanges ranges_;
  ThreadVars threads_;
  int thread_depth_ = 0;
  std::vector<Change> changes_;
  std::vector<const For*> groups_;  // blockIdx loops around
  std::vector<const Buffer*> group_scratch_;
  SharedRooms rooms_;
  i64 private_bytes_ = 0;
  std::optional<Reject> rejected_;
};

}  // namespace

Result<ScopedProgram> device_scopes(Arena& arena, Program program, const GpuLimits& limits) {
  ScopeAssignment assignment(arena, program.body, limits);
  program.body = assignment.stmt(program.body);
  if (assignment.rejected()) return *assignment.rejected();
  return ScopedProgram{program, assignment.rooms().rooms(), assignment.rooms().places(),
                       arena.copy(assignment.group_scratch())};
}

}  // namespace tw

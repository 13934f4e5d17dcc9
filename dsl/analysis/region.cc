#include "dsl/analysis/region.h"

#include <algorithm>

#include "dsl/analysis/bounds.h"
#include "dsl/analysis/simplify.h"
#include "dsl/analysis/sum.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

bool divides(const Expr* expr) {
  bool found = false;
  for_each<Binary>(expr, [&](const Binary* b) { found |= b->op == BinaryOp::FloorDiv || b->op == BinaryOp::FloorMod; });
  return found;
}

bool mentions(const Expr* expr, const VarRanges& vars) {
  bool found = false;
  walk(expr, [&](const Node* n) {
    const Var* var = as<Var>(n);
    found |= var && vars.find(var);
    return !found;
  });
  return found;
}

// What is looked up in memory is known to nobody outside of the block: no box can begin there, unless it is said where
// it lies.
bool reads_memory(const Expr* expr) {
  if (const Call* claim = as_within(expr)) return reads_memory(claim->arguments[1]);
  bool found = false;
  for_each<Load>(expr, [&](const Load*) { found = true; });
  return found;
}

bool mentions_only(const Expr* expr, const VarRanges& vars) {
  bool only = true;
  for_each<Var>(expr, [&](const Var* var) { only &= vars.find(var) != nullptr; });
  return only;
}

// One access seen from outside the relaxed loops.
class Relaxation {
 public:
  // `implied`: further bounds, on relaxed variables alone.
  Relaxation(Arena& arena, const VarRanges& inner, const VarRanges& all, const List<Bound>& bounds,
             const List<Bound>& implied)
      : arena_(arena), inner_(inner), all_(all), bounds_(bounds), implied_(implied) {}

  Range relax(const Expr* index, i64 dimension) {
    Sum sum = sum_of(index);
    remove_constants(sum, all_);
    indices_.push_back(sum);
    dimensions_.push_back(dimension);
    std::optional<Part> part = relax_sum(sum);
    if (!part) return whole(dimension);
    exact_ = exact_ && part->dense;
    Range range = range_of(*part);
    if (std::optional<i64> constant = constant_of(range.min)) {
      i64 low = std::max<i64>(*constant, 0), high = std::min(*constant + range.extent, dimension);
      return {Build{arena_}.integer(low), std::max<i64>(high - low, 1)};
    }
    return range.extent > dimension ? whole(dimension) : range;
  }
  // Were all boxes free of elements that are not touched? Digits of one variable in two places must be different
  // digits.
  bool exact() const {
    auto is_domain = [&](const Bound& bound) { return cuts_only_the_domain(bound); };
    return exact_ && digits_are_independent() && std::all_of(bounds_.begin(), bounds_.end(), is_domain);
  }

 private:
  // outer + [interval], where outer holds only fixed variables.
  struct Part {
    Sum outer;
    Interval interval{0, 0};
    bool dense = true;  // every value of the interval is taken
  };

  Range whole(i64 dimension) {
    exact_ = false;
    return {Build{arena_}.integer(0), dimension};
  }
  Range range_of(Part& part) {
    part.outer.add_constant(part.interval.min);
    return {to_expr(arena_, part.outer), part.interval.max - part.interval.min + 1};
  }

  std::optional<Part> relax_sum(const Sum& sum) {
    if (!sum.exact) return std::nullopt;
    Part out;
    out.outer.constant = sum.constant;
    Sum inside;
    for (const Sum::Term& term : sum.terms) {
      if (reads_memory(term.atom)) return std::nullopt;
      if (const Call* claim = as_within(term.atom)) {
        std::optional<Part> said = relax_sum(sum_of(claim->arguments[1]));
        if (!said) return std::nullopt;
        said->interval.max += *constant_of(claim->arguments[2]) - 1;
        add_mixed(out, *said, term.coefficient);
      } else if (!mentions(term.atom, inner_)) {
        out.outer.add_atom(term.atom, term.coefficient);
      } else if (mentions_only(term.atom, inner_) && interval_of(term.atom, inner_)) {
        inside.add_atom(term.atom, term.coefficient);
        note_digit(term.atom);
      } else if (std::optional<Part> mixed = relax_mixed(term.atom)) {
        add_mixed(out, *mixed, term.coefficient);
      } else {
        return std::nullopt;
      }
    }
    std::optional<Interval> interval = bounded_interval(inside, inner_, bounds_);
    if (!interval || !out.outer.exact) return std::nullopt;
    if (!implied_.empty()) interval->max = std::min(interval->max, bounded_interval(inside, inner_, implied_)->max);
    if (out.outer.terms.empty()) {  // nothing is fixed: what the predicate says about the whole applies too
      if (std::optional<Interval> total = bounded_interval(sum, all_, bounds_))
        interval->max = std::min(interval->max, total->max - sum.constant);
    }
    out.interval.min += interval->min;
    out.interval.max += interval->max;
    out.dense = out.dense && is_dense(inside, inner_, bounds_);
    return out;
  }

  // factor * part, of which it is not known which values are taken.
  static void add_mixed(Part& out, const Part& part, i64 factor) {
    out.outer.add(part.outer, factor);
    i64 a = part.interval.min * factor, b = part.interval.max * factor;
    out.interval.min += std::min(a, b);
    out.interval.max += std::max(a, b);
    out.dense = false;
  }

  // x // c and x % c where x has fixed and relaxed variables.
  std::optional<Part> relax_mixed(const Expr* atom) {
    const Binary* binary = as<Binary>(atom);
    std::optional<i64> c = binary ? constant_of(binary->b) : std::nullopt;
    if (!c || *c <= 0) return std::nullopt;
    Part out;
    if (binary->op == BinaryOp::FloorMod) {
      out.interval = {0, *c - 1};
      return out;
    }
    if (binary->op != BinaryOp::FloorDiv) return std::nullopt;
    std::optional<Part> inside = relax_sum(sum_of(binary->a));
    if (!inside) return std::nullopt;
    Range range = range_of(*inside);
    Build build{arena_};
    out.outer.collect(simplify(arena_, build.floor_div(range.min, build.integer(*c)), all_), 1);
    out.interval = {0, (range.extent - 1 + *c - 1) / *c};
    return out;
  }

  // Is it made of variables, sums, // and % alone, whose values are taken one after the other?
  static bool is_digits(const Expr* atom) {
    if (atom->kind == Kind::Var) return true;
    bool plain = true;
    walk(atom, [&](const Node* node) {
      const Binary* binary = as<Binary>(node);
      bool is_leaf = node->kind == Kind::Var || node->kind == Kind::IntImm;
      plain &= is_leaf || (binary && binary->op != BinaryOp::Min && binary->op != BinaryOp::Max);
      return plain;
    });
    return plain;
  }
  void note_digit(const Expr* atom) {
    std::optional<Digit> digit = is_digits(atom) ? digit_of(atom, inner_) : std::nullopt;
    if (!digit) {
      exact_ = false;
    } else if (digit->count > 1) {
      digits_.push_back(*digit);
      digit_dimensions_.push_back(dimensions_.back());
    }
  }
  bool digits_are_independent() const {
    for (std::size_t i = 0; i < digits_.size(); ++i) {
      for (std::size_t j = i + 1; j < digits_.size(); ++j) {
        if (!independent(digits_[i], digits_[j])) return false;
      }
    }
    return true;
  }
  // Does a bound only take away whole iterations of the fixed loops, points of loops that no index depends on (a
  // reduction), values that the box leaves out too, or values beyond the end of an index? A bound on something else
  // makes holes.
  bool cuts_only_the_domain(const Bound& bound) const {
    std::size_t relaxed = 0, indexing = 0;
    for (const Sum::Term& term : bound.sum.terms) {
      if (!mentions(term.atom, inner_)) continue;
      ++relaxed;
      indexing +=
          std::any_of(indices_.begin(), indices_.end(), [&](const Sum& index) { return depends(index, term.atom); });
    }
    if (indexing == 0) return true;
    bool inside = relaxed == bound.sum.terms.size();
    auto is_index = [&](const Sum& index) {
      std::optional<i64> factor = factor_of(index, bound.sum);
      return factor && (inside || same_size(index, bound.sum) || is_quotient(index, bound.sum, *factor));
    };
    auto is_source = [&](const Digit& digit) {
      return is_index(sum_of(digit.source)) && stands_alone(digit.source) && cuts_whole_digits(digit.source, bound);
    };
    for (std::size_t d = 0; d < indices_.size(); ++d) {
      if (is_index(indices_[d]) && (inside || ends_with(indices_[d], bound, dimensions_[d]))) return true;
    }
    return std::any_of(digits_.begin(), digits_.end(), is_source);
  }
  // Does the bound leave as many values of a source as its digits make a box of, the whole box that the buffer has?
  bool cuts_whole_digits(const Expr* source, const Bound& bound) const {
    std::optional<Interval> reach = bounded_interval(sum_of(source), all_, {bound});
    if (!reach) return false;
    i64 left = reach->max + 1;
    for (std::size_t i = 0; i < digits_.size(); ++i) {
      const Digit& digit = digits_[i];
      if (!same_expr(digit.source, source)) continue;
      if (left % digit.lower != 0 || left / digit.lower < std::min(digit.count, digit_dimensions_[i])) return false;
    }
    return true;
  }
  // Are the indices that the source reaches nothing but digits, so that values which are cut away are never touched at
  // all?
  bool stands_alone(const Expr* source) const {
    return std::all_of(indices_.begin(), indices_.end(),
                       [&](const Sum& index) { return index.terms.size() == 1 || !depends(index, source); });
  }
  static bool depends(const Sum& index, const Expr* atom) {
    return std::any_of(index.terms.begin(), index.terms.end(),
                       [&](const Sum::Term& term) { return share_variables(term.atom, atom); });
  }
  // Is the index factor * part + something below the factor? Then a bound on the part cuts the end of the index.
  bool is_quotient(const Sum& index, const Sum& part, i64 factor) const {
    Sum rest = index;
    rest.add(part, -factor);
    std::optional<Interval> range = interval_of(rest, all_);
    return range && range->min >= 0 && range->max < factor;
  }
  // Does the bound cut the index where the buffer ends, where every box is cut? Below it some boxes would have holes.
  bool ends_with(const Sum& index, const Bound& bound, i64 dimension) const {
    std::optional<Interval> reach = bounded_interval(index, all_, {bound});
    return reach && reach->max >= dimension - 1;
  }
  static bool same_size(const Sum& a, const Sum& b) { return a.terms.size() == b.terms.size(); }
  static bool independent(const Digit& a, const Digit& b) {
    if (!same_expr(a.source, b.source)) return !share_variables(a.source, b.source);
    if (a.lower > b.lower) return independent(b, a);
    return a.total % b.lower == 0 && b.lower % (a.lower * a.count) == 0;
  }
  static bool share_variables(const Expr* a, const Expr* b) {
    bool shared = false;
    for_each<Var>(a, [&](const Var* var) { shared |= uses(b, var); });
    return shared;
  }

  Arena& arena_;
  const VarRanges& inner_;
  const VarRanges& all_;
  const List<Bound>& bounds_;
  const List<Bound>& implied_;
  List<Digit> digits_;
  List<i64> digit_dimensions_;  // of the buffer, where they index it
  List<Sum> indices_;
  List<i64> dimensions_;  // of the buffer, for each index
  bool exact_ = true;
};

// The smallest box around both that can be expressed.
void unite(Arena& arena, Region& into, const Region& other, const VarRanges& ranges) {
  Build build{arena};
  bool into_covers = contains(into, other, ranges), other_covers = !into_covers && contains(other, into, ranges);
  if (into_covers) return;
  if (other_covers) {
    into = other;
    return;
  }
  into.exact = false;
  for (std::size_t d = 0; d < into.dims.size(); ++d) {
    Range& a = into.dims[d];
    const Range& b = other.dims[d];
    std::optional<Interval> apart = interval_of(difference_of(b.min, a.min), ranges);  // b.min - a.min
    i64 dimension = into.buffer->shape[d];
    if (!apart) {
      a = {build.integer(0), dimension};
      continue;
    }
    i64 low = std::min<i64>(apart->min, 0), high = std::max(a.extent, apart->max + b.extent);
    a = {build.add(a.min, low), high - low};
    if (a.extent > dimension) a = {build.integer(0), dimension};
  }
}

// Walks a subtree and unites the regions of its accesses.
class RegionFinder {
 public:
  // `only`: the blocks that count; none = all.
  RegionFinder(Arena& arena, const Buffer* buffer, AccessKind kind, const VarRanges& around, Array<const Block*> only)
      : arena_(arena), buffer_(buffer), kind_(kind), all_(around), only_(only) {}

  void visit(const Stmt* stmt) {
    if (const Block* block = as<Block>(stmt)) return visit_block(block);
    const For* loop = as<For>(stmt);
    if (loop) push(loop->var, loop->extent);
    for_each_child(stmt, Overload{this});
    if (loop) pop();
  }
  void visit_block(const Block* block) {
    if (!only_.empty() && std::find(only_.begin(), only_.end(), block) == only_.end()) return;
    Substitution bindings;
    bool ready = false;
    List<Bound> bounds;
    List<const For*> inside = loops_inside(block);
    add_ranges(inner_, inside);
    add_ranges(all_, inside);
    for (const Access& access : accesses_of(block)) {
      if (access.buffer != buffer_ || access.kind != kind_) continue;
      if (!ready) {
        for (std::size_t i = 0; i < block->iters.size(); ++i) bindings.set(block->iters[i].var, block->bindings[i]);
        bounds = bounds_of(block->predicate, all_);
        ready = true;
      }
      add(access, bindings, bounds, understands(block->predicate));
    }
    inner_.shrink(inner_.size() - inside.size());
    all_.shrink(all_.size() - inside.size());
  }
  // The block alone: its iters are symbols.
  void visit_inside(const Block* block) {
    for (const IterVar& iter : block->iters) all_.set_extent(iter.var, iter.extent);
    List<const For*> inside = loops_inside(block);
    add_ranges(inner_, inside);
    add_ranges(all_, inside);
    for (const Access& access : accesses_of(block)) {
      if (access.buffer == buffer_ && access.kind == kind_) add(access, {}, {}, true);
    }
  }
  std::optional<Region> found() const { return found_; }

 private:
  struct Overload {
    RegionFinder* self;
    void operator()(const Stmt* s) const { self->visit(s); }
    void operator()(const Expr*) const {}
  };
  void push(const Var* var, i64 extent) {
    inner_.set_extent(var, extent);
    all_.set_extent(var, extent);
  }
  void pop() {
    inner_.shrink(inner_.size() - 1);
    all_.shrink(all_.size() - 1);
  }
  // What bounds on fixed and relaxed variables say about the relaxed ones, whatever the values of the others.
  List<Bound> implied_by(const List<Bound>& bounds) const {
    List<Bound> out;
    for (const Bound& bound : bounds) {
      Sum relaxed, fixed;
      for (const Sum::Term& term : bound.sum.terms)
        (mentions(term.atom, inner_) ? relaxed : fixed).add_atom(term.atom, term.coefficient);
      std::optional<Interval> reach = fixed.terms.empty() ? std::nullopt : interval_of(fixed, all_);
      if (reach && !relaxed.terms.empty()) out.push_back({relaxed, bound.bound - reach->min});
    }
    return out;
  }
  void add(const Access& access, const Substitution& bindings, const List<Bound>& bounds, bool understood) {
    List<Bound> implied = implied_by(bounds);
    Relaxation relaxation(arena_, inner_, all_, bounds, implied);
    Region region{buffer_, {}, false};
    for (std::size_t d = 0; d < access.indices.size(); ++d) {
      const Expr* index = substitute(arena_, access.indices[d], bindings);
      if (index != access.indices[d] && divides(index)) index = simplify(arena_, index, all_);
      region.dims.push_back(relaxation.relax(index, buffer_->shape[d]));
    }
    region.exact = understood && relaxation.exact();
    if (found_)
      unite(arena_, *found_, region, all_);
    else
      found_ = region;
  }

  Arena& arena_;
  const Buffer* buffer_;
  AccessKind kind_;
  VarRanges inner_, all_;
  Array<const Block*> only_;
  std::optional<Region> found_;
};

List<Region> regions(Arena& arena, const Block* block, AccessKind kind) {
  List<Region> out;
  for (const Buffer* buffer : kind == AccessKind::Read ? buffers_read(block) : buffers_written(block)) {
    RegionFinder finder(arena, buffer, kind, {}, {});
    finder.visit_inside(block);
    out.push_back(*finder.found());
  }
  return out;
}

}  // namespace

List<Region> reads(Arena& arena, const Block* block) { return regions(arena, block, AccessKind::Read); }
List<Region> writes(Arena& arena, const Block* block) { return regions(arena, block, AccessKind::Write); }

std::optional<Region> region_of(Arena& arena, const Stmt* subtree, const Buffer* buffer, AccessKind kind,
                                const VarRanges& around, const Block* only) {
  RegionFinder finder(arena, buffer, kind, around, {&only, only ? 1u : 0u});
  finder.visit(subtree);
  return finder.found();
}

std::optional<Region> region_of(Arena& arena, const Stmt* subtree, const Buffer* buffer, AccessKind kind,
                                const VarRanges& around, const List<const Block*>& only) {
  RegionFinder finder(arena, buffer, kind, around, {only.data(), only.size()});
  finder.visit(subtree);
  return finder.found();
}

bool is_whole_dimension(const Range& range, i64 extent) { return is_constant(range.min, 0) && range.extent >= extent; }

bool contains(const Region& whole, const Region& part, const VarRanges& ranges) {
  for (std::size_t d = 0; d < whole.dims.size(); ++d) {
    if (is_whole_dimension(whole.dims[d], whole.buffer->shape[d])) continue;
    std::optional<Interval> offset = interval_of(difference_of(part.dims[d].min, whole.dims[d].min), ranges);
    if (!offset || offset->min < 0 || offset->max + part.dims[d].extent > whole.dims[d].extent) return false;
  }
  return true;
}

std::optional<Digit> digit_of(const Expr* expr, const VarRanges& ranges) {
  const Binary* binary = as<Binary>(expr);
  std::optional<i64> c = binary ? constant_of(binary->b) : std::nullopt;
  bool divides = binary && c && *c > 0 && (binary->op == BinaryOp::FloorDiv || binary->op == BinaryOp::FloorMod);
  if (!divides) {
    Sum sum = sum_of(expr);
    std::optional<Interval> known = interval_of(sum, ranges);
    if (!known || known->min != 0 || !is_dense(sum, ranges)) return std::nullopt;
    return Digit{expr, 1, known->max + 1, known->max + 1};
  }
  std::optional<Digit> of = digit_of(binary->a, ranges);
  if (!of) return std::nullopt;
  bool exactly = of->count % *c == 0, is_top = of->lower * of->count >= of->total;
  if (binary->op == BinaryOp::FloorDiv && (exactly || is_top))
    return Digit{of->source, of->lower * *c, (of->count + *c - 1) / *c, of->total};
  if (binary->op == BinaryOp::FloorMod && (exactly || is_top))
    return Digit{of->source, of->lower, std::min(of->count, *c), of->total};
  return std::nullopt;
}

}  // namespace tw

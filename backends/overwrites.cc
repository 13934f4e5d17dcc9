#include "backends/overwrites.h"

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "backends/device_form.h"
#include "backends/expr_evaluator.h"
#include "dsl/analysis/affine.h"
#include "dsl/intrinsics/intrinsic.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/thread_axes.h"
#include "dsl/passes/warp_mma.h"

namespace tw {
namespace {

// Conditions over loop variables.
class LoopTests : ExprEvaluator<LoopTests> {
  friend ExprEvaluator<LoopTests>;

 public:
  explicit LoopTests(const std::vector<const For*>& loops) {
    for (const For* loop : loops) values_.push_back({loop->var, 0});
  }
  void set(std::size_t loop, i64 value) { values_[loop].second = value; }
  bool holds(const Expr* condition, int lane) { return eval(condition, lane).i != 0; }
  bool has_failed() const { return has_failed_; }  // as where a condition depends on data

 private:
  Scalar variable(const Var* var) {
    for (const auto& [known, value] : values_) {
      if (known == var) return {value};
    }
    has_failed_ = true;
    return {};
  }
  Scalar load(const Load*, int) {
    has_failed_ = true;
    return {};
  }
  bool step() const { return !has_failed_; }
  template <class... Parts>
  void fail(const Parts&...) {
    has_failed_ = true;
  }

  std::vector<std::pair<const Var*, i64>> values_;
  bool has_failed_ = false;
};

// Counts stores to a buffer. All elements are stored, so as many stores as elements means that each is stored once.
class Writes {
 public:
  explicit Writes(const Buffer* buffer) : buffer_(buffer), most_(elements_of(buffer)) {}

  bool are_as_many_as_elements(const Stmt* body) {
    visit(body);
    return is_known_ && written_ == most_;
  }

 private:
  struct Test {
    const Expr* condition;
    bool holds;
  };

  void visit(const Stmt* s) {
    if (!s || !is_known_) return;
    switch (s->kind) {
      case Kind::Store:
        return store(static_cast<const Store*>(s));
      case Kind::Seq:
        for (const Stmt* part : static_cast<const Seq*>(s)->stmts) visit(part);
        return;
      case Kind::Alloc:
        return visit(static_cast<const Alloc*>(s)->body);
      case Kind::For: {
        auto* loop = static_cast<const For*>(s);
        loops_.push_back(loop);
        inside(loop->body);
        loops_.pop_back();
        return;
      }
      case Kind::If: {
        auto* branch = static_cast<const If*>(s);
        for (bool holds : {true, false}) {
          tests_.push_back({branch->condition, holds});
          inside(holds ? branch->then : branch->otherwise);
          tests_.pop_back();
        }
        return;
      }
      default:
        is_known_ = false;
    }
  }
  void inside(const Stmt* body) {
    runs_.reset();
    visit(body);
    runs_.reset();
  }

  void store(const Store* store) {
    for (const StoreTarget& target : store->targets) {
      if (target.buffer != buffer_) continue;
      if (!runs_) runs_ = count_runs();
      i64 lanes = target.indices[0]->type.lanes, masked = lanes_of_tests();
      bool is_countable = masked == 1 || masked == lanes;
      if (!runs_ || !is_countable || *runs_ > most_) is_known_ = false;
      if (is_known_) written_ += masked == 1 ? *runs_ * lanes : *runs_;
      is_known_ &= written_ <= most_;
    }
  }

  i64 lanes_of_tests() const {
    i64 lanes = 1;
    for (const Test& test : tests_) lanes = std::max<i64>(lanes, test.condition->type.lanes);
    return lanes;
  }

  // How often the current statement runs; under a vector mask, the number of active lanes. Nothing if that is more than
  // the buffer has elements, depends on data or takes long to find out.
  std::optional<i64> count_runs() {
    std::vector<const For*> tested;
    i64 lanes = lanes_of_tests(), points = lanes, free = 1;
    for (const For* loop : loops_) {
      bool is_tested = std::ranges::any_of(tests_, [&](const Test& t) { return uses(t.condition, loop->var); });
      i64& product = is_tested ? points : free;
      i64 most = is_tested ? points_left_ : most_;
      if (loop->extent <= 0 || loop->extent > most / product) return std::nullopt;
      product *= loop->extent;
      if (is_tested) tested.push_back(loop);
    }
    if (tests_.empty()) return free;
    if (points > points_left_) return std::nullopt;
    points_left_ -= points;
    i64 held = 0;
    LoopTests values(tested);
    for (i64 point = 0; point < points; ++point) {
      i64 rest = point / lanes;
      for (std::size_t i = 0; i < tested.size(); ++i) {
        values.set(i, rest % tested[i]->extent);
        rest /= tested[i]->extent;
      }
      auto lane = static_cast<int>(point % lanes);
      held += std::ranges::all_of(tests_, [&](const Test& t) { return values.holds(t.condition, lane) == t.holds; });
    }
    if (values.has_failed() || held > most_ / free) return std::nullopt;
    return held * free;
  }

  const Buffer* buffer_;
  i64 most_, written_ = 0;
  i64 points_left_ = 1 << 15;  // for which conditions are still evaluated: a few milliseconds
  bool is_known_ = true;
  std::vector<const For*> loops_;
  std::vector<Test> tests_;
  std::optional<i64> runs_;  // of what stands directly in them
};

// Does the statement write exactly one element of the buffer, at this index?
bool writes_there(const Store* store, const Buffer* buffer, const Expr* index) {
  int targets = 0;
  bool is_same = false;
  for (const StoreTarget& target : store->targets) {
    if (target.buffer != buffer) continue;
    ++targets;
    is_same = same_expr(target.indices[0], index);
  }
  return targets == 1 && is_same;
}

class Overwrites {
 public:
  explicit Overwrites(const LoweredProgram& program) : program_(program) {
    for (std::size_t output = 0; output < program.run_arguments.size(); ++output) {
      for (std::size_t input = 0; input < program.run_arguments.size(); ++input) {
        if (program.run_arguments[output].is_output && is_input(program.run_arguments[input]) &&
            are_alike(output, input))
          pairs_.push_back({output, input});
      }
    }
  }

  std::vector<Overwrite> run() {
    if (pairs_.empty()) return {};
    walk(program_.run.body, [&](const Node* node) { return visit(node); });
    std::map<std::size_t, bool> is_written_once;  // by output
    std::erase_if(pairs_, [&](const Overwrite& pair) {
      auto [at, is_new] = is_written_once.try_emplace(pair.output);
      if (is_new) at->second = Writes(buffer(pair.output)).are_as_many_as_elements(program_.run.body);
      return !at->second;
    });
    return std::move(pairs_);
  }

 private:
  const Buffer* buffer(std::size_t argument) const { return program_.run.arguments[argument].buffer; }
  static bool is_input(const LoweredArgument& a) { return !a.is_output && !a.is_packed && !a.is_constant; }
  bool are_alike(std::size_t output, std::size_t input) const {
    return elements_of(buffer(output)) == elements_of(buffer(input)) &&
           bytes_of(buffer(output)->dtype) == bytes_of(buffer(input)->dtype);
  }

  bool visit(const Node* node) {
    if (pairs_.empty()) return false;
    if (const Store* store = as<Store>(node)) {
      for_each<Load>(store, [&](const Load* load) { drop_unless_read_there(load, store); });
      return false;
    }
    if (const Load* load = as<Load>(node)) drop(load->buffer);  // of a condition
    const For* loop = as<For>(node);
    if (loop && (find_annotation(loop->annotations, kIntrinsicMark) || find_mma_mark(loop))) {
      // Instructions may read and write in another order than the loops that they stand for.
      for_each<Load>(loop, [&](const Load* load) { drop(load->buffer); });
      for_each<Store>(loop, [&](const Store* store) {
        for (const StoreTarget& target : store->targets) drop(target.buffer);
      });
    }
    return true;
  }

  void drop(const Buffer* used) {
    std::erase_if(pairs_, [&](const Overwrite& p) { return buffer(p.output) == used || buffer(p.input) == used; });
  }
  void drop_unless_read_there(const Load* load, const Store* store) {
    std::erase_if(pairs_, [&](const Overwrite& pair) {
      if (load->buffer == buffer(pair.output)) return true;
      return load->buffer == buffer(pair.input) && !writes_there(store, buffer(pair.output), load->indices[0]);
    });
  }

  const LoweredProgram& program_;
  std::vector<Overwrite> pairs_;
};

// Along which axes of a device's grid several groups (0 to 2) or work-items (3 to 5) do the same in a statement.
using Alike = std::array<bool, 6>;
std::size_t number_of(const ThreadAxis& axis) { return static_cast<std::size_t>(axis.dimension + 3 * axis.is_thread); }

// Is there a store to the buffer in which several groups or work-items do the same? Groups along an axis do the same
// where no loop is bound to it. So do work-items in a step that has a loop along the axis elsewhere; a step without
// one is executed by the first of them alone.
bool is_stored_alike(const Stmt* s, const Buffer* buffer, Alike alike, bool in_step) {
  if (!in_step && is_step(s)) {
    in_step = true;
    for_each<For>(s, [&](const For* loop) {
      if (is_thread_loop(loop)) alike[number_of(*axis_of(loop))] = true;
    });
  }
  if (const Store* store = as<Store>(s)) {
    return std::ranges::count(alike, true) > 0 &&
           std::ranges::any_of(store->targets, [&](const StoreTarget& target) { return target.buffer == buffer; });
  }
  const For* loop = as<For>(s);
  if (std::optional<ThreadAxis> axis = loop ? axis_of(loop) : std::nullopt) alike[number_of(*axis)] = false;
  bool found = false;
  for_each_child(s, [&](const Node* child) {
    if (child->kind >= Kind::Store) found |= is_stored_alike(static_cast<const Stmt*>(child), buffer, alike, in_step);
  });
  return found;
}

// Is there an output as large as an input, so that a closer look is worth it?
bool has_alike_arguments(Array<LoweredArgument> arguments) {
  auto elements = [](const LoweredArgument& a) {
    return std::accumulate(a.shape.begin(), a.shape.end(), i64{1}, std::multiplies<i64>());
  };
  return std::ranges::any_of(arguments, [&](const LoweredArgument& output) {
    return output.is_output && std::ranges::any_of(arguments, [&](const LoweredArgument& input) {
             return !input.is_output && input.dtype == output.dtype && elements(input) == elements(output);
           });
  });
}

bool is_stored_alike(const GpuKernel& kernel, std::size_t argument) {
  Alike alike{};
  for (std::size_t d = 0; d < 3; ++d) alike[d] = kernel.extents.groups[d] > 1;
  return std::ranges::any_of(kernel.params, [&](const KernelParam& param) {
    return !param.is_scratch && param.at == static_cast<i64>(argument) &&
           is_stored_alike(kernel.body, param.buffer, alike, false);
  });
}

}  // namespace

std::vector<Overwrite> overwrites_of(const LoweredProgram& program) { return Overwrites(program).run(); }

std::vector<Overwrite> overwrites_of(const LoweredGpuProgram& program) {
  if (!has_alike_arguments(program.run_arguments)) return {};
  Arena arena;
  std::vector<Overwrite> pairs = overwrites_of(as_interpreted(arena, program));
  std::erase_if(pairs, [&](const Overwrite& pair) {
    return program.run_arguments[pair.output].dtype != program.run_arguments[pair.input].dtype ||
           std::ranges::any_of(program.run, [&](const GpuKernel& k) { return is_stored_alike(k, pair.output); });
  });
  return pairs;
}

}  // namespace tw

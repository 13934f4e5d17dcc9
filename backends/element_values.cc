#include "backends/element_values.h"

#include <algorithm>
#include <unordered_map>

#include "backends/expr_evaluator.h"
#include "dsl/analysis/affine.h"
#include "dsl/analysis/block_info.h"
#include "dsl/analysis/points.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

constexpr int kDeepest = 200;           // elements that wait for one another
constexpr i64 kStepsUnasked = 1 << 18;  // between two questions whether to stop

// The block that computes a buffer, and which of its targets the buffer is.
struct Writer {
  const Block* block = nullptr;
  const Store* update = nullptr;
  std::size_t target = 0;
};

// Where the elements of a buffer come from.
struct Origin {
  const HostArray* input = nullptr;
  Writer writer;  // without a block: it has none
  std::unordered_map<i64, Scalar> known;
};

// Does each spatial iter stand at one index of the target, and run over all of its dimension?
bool covers_all(const StoreTarget& target, const Block* block) {
  std::size_t found = 0;
  for (const IterVar& iter : block->iters) {
    if (iter.kind != IterKind::S) continue;
    auto at = std::find(target.indices.begin(), target.indices.end(), static_cast<const Expr*>(iter.var));
    if (at == target.indices.end() ||
        target.buffer->shape[static_cast<std::size_t>(at - target.indices.begin())] != iter.extent)
      return false;
    ++found;
  }
  return found == target.indices.size();
}

// Are the loops around the block its iters, each with its extent, and no others that repeat it?
bool runs_once_for_each_point(const Block* block, const std::vector<const For*>& loops) {
  if (block->predicate || !has_trivial_bindings(block)) return false;
  double runs = 1;
  for (const For* loop : loops) {
    runs *= static_cast<double>(loop->extent);
    for (std::size_t i = 0; i < block->iters.size(); ++i) {
      if (block->bindings[i] == loop->var && block->iters[i].extent != loop->extent) return false;
    }
  }
  return runs == points_of(block);
}

bool has_targets_of(const Store* init, const Store* update) {
  if (!init) return false;
  auto same = [](const StoreTarget& a, const StoreTarget& b) {
    return a.buffer == b.buffer && same_exprs(a.indices, b.indices);
  };
  return std::equal(init->targets.begin(), init->targets.end(), update->targets.begin(), update->targets.end(), same);
}

}  // namespace

class ElementValues::Evaluation : ExprEvaluator<Evaluation> {
  friend ExprEvaluator<Evaluation>;

 public:
  Evaluation(const Program& program, std::vector<const HostArray*> arguments, i64 max_steps, std::function<bool()> stop)
      : origins_(program.next_buffer), steps_left_(max_steps), stop_(std::move(stop)) {
    for (std::size_t i = 0; i < program.params.size(); ++i) {
      if (program.params[i].role != Role::Output) origin(program.params[i].buffer).input = arguments[i];
    }
    if (program.body) find_writers(program.body);
    // Of two stores to a buffer one has to be the other's init.
    std::unordered_map<const Buffer*, int> stores;
    for_each<Store>(program.body, [&](const Store* store) {
      for (const StoreTarget& target : store->targets) ++stores[target.buffer];
    });
    for (const auto& [buffer, count] : stores) {
      Origin& own = origin(buffer);
      if (own.writer.block && count != (own.writer.block->init ? 2 : 1)) own.writer = {};
    }
  }

  std::optional<double> at(const Buffer* buffer, i64 position) {
    has_failed_ = false;
    Scalar value = element(buffer, position);
    if (has_failed_) return {};
    return is_float(buffer->dtype) ? value.f : static_cast<double>(value.i);
  }

 private:
  // What a block computes at once: the targets of one point of its spatial iters.
  struct Accumulators {
    const Block* block;
    std::vector<i64> positions;
    std::vector<Scalar> values;
    bool has_begun;  // is there anything to go on with?
  };

  // Blocks below nothing but loops.
  void find_writers(const Stmt* stmt) {
    if (const For* loop = as<For>(stmt)) {
      loops_.push_back(loop);
      find_writers(loop->body);
      loops_.pop_back();
    }
    if (const Seq* seq = as<Seq>(stmt)) {
      for (const Stmt* child : seq->stmts) find_writers(child);
    }
    const Block* block = as<Block>(stmt);
    const Store* update = block ? as<Store>(block->body) : nullptr;
    if (!update || !runs_once_for_each_point(block, loops_) ||
        (block->init && !has_targets_of(as<Store>(block->init), update)))
      return;
    for (const IterVar& iter : block->iters) values_.resize(std::max<std::size_t>(values_.size(), iter.var->id + 1));
    for (std::size_t t = 0; t < update->targets.size(); ++t) {
      if (covers_all(update->targets[t], block)) origin(update->targets[t].buffer).writer = {block, update, t};
    }
  }

  Origin& origin(const Buffer* buffer) { return origins_[buffer->id.value]; }

  bool step() {
    has_failed_ |= steps_left_ <= 0;
    if (--steps_left_ % kStepsUnasked == 0 && stop_ && stop_()) steps_left_ = 0;
    return !has_failed_;
  }
  template <class... Parts>
  void fail(const Parts&...) {
    has_failed_ = true;
  }

  Scalar variable(const Var* var) const { return {values_[var->id]}; }

  Scalar load(const Load* n, int lane) {
    i64 position = 0;
    for (std::size_t i = 0; i < n->indices.size(); ++i) {
      i64 index = eval(n->indices[i], lane).i;
      if (index < 0 || index >= n->buffer->shape[i]) fail("out of bounds");
      position = position * n->buffer->shape[i] + index;
    }
    if (has_failed_) return {};
    if (const HostArray* input = origin(n->buffer).input)
      return read_element(n->buffer->dtype, input->bytes.data() + position * bytes_of(n->buffer->dtype));
    if (const Scalar* accumulated = accumulator(n->buffer, position)) return *accumulated;
    return element(n->buffer, position);
  }

  const Scalar* accumulator(const Buffer* buffer, i64 position) {
    if (open_.empty()) return nullptr;
    const Accumulators& now = *open_.back();
    const auto& targets = as<Store>(now.block->body)->targets;
    for (std::size_t t = 0; t < targets.size(); ++t) {
      if (targets[t].buffer != buffer || now.positions[t] != position) continue;
      if (!now.has_begun) fail("a sum without a beginning");
      return &now.values[t];
    }
    return nullptr;
  }

  Scalar element(const Buffer* buffer, i64 position) {
    const Origin& from = origin(buffer);
    if (auto found = from.known.find(position); found != from.known.end()) return found->second;
    if (!from.writer.block || open_.size() >= kDeepest) return fail("unknown"), Scalar{};
    std::vector<i64> around = values_;  // of the block that asks, which may be this one
    Scalar value = compute(from.writer, buffer, position);
    values_ = std::move(around);
    if (!has_failed_) origin(buffer).known[position] = value;
    return value;
  }

  // All terms of one element, in the order in which the program takes them.
  Scalar compute(const Writer& writer, const Buffer* buffer, i64 position) {
    const Block* block = writer.block;
    set_spatial(writer, buffer, position);
    for (const IterVar& iter : block->iters) {
      if (iter.kind == IterKind::R) values_[iter.var->id] = 0;
    }
    Accumulators sums{block, {}, std::vector<Scalar>(writer.update->targets.size()), block->init != nullptr};
    for (const StoreTarget& target : writer.update->targets) sums.positions.push_back(flat(target));
    if (const Store* init = as<Store>(block->init)) find_values(init, sums.values);
    open_.push_back(&sums);
    std::vector<Scalar> next(sums.values.size());
    do {
      find_values(writer.update, next);
      std::swap(sums.values, next);
      sums.has_begun = true;
    } while (!has_failed_ && next_term(block));
    open_.pop_back();
    return sums.values[writer.target];
  }

  void set_spatial(const Writer& writer, const Buffer* buffer, i64 position) {
    Array<const Expr*> indices = writer.update->targets[writer.target].indices;
    for (std::size_t i = indices.size(); i-- > 0; position /= buffer->shape[i]) {
      values_[static_cast<const Var*>(indices[i])->id] = position % buffer->shape[i];
    }
  }

  i64 flat(const StoreTarget& target) {
    i64 position = 0;
    for (std::size_t i = 0; i < target.indices.size(); ++i)
      position = position * target.buffer->shape[i] + eval(target.indices[i]).i;
    return position;
  }

  void find_values(const Store* store, std::vector<Scalar>& out) {
    for (std::size_t t = 0; t < store->values.size(); ++t) out[t] = eval(store->values[t]);
  }

  // The last reduction iter runs fastest. False behind the last term.
  bool next_term(const Block* block) {
    for (std::size_t i = block->iters.size(); i-- > 0;) {
      const IterVar& iter = block->iters[i];
      if (iter.kind != IterKind::R) continue;
      if (++values_[iter.var->id] < iter.extent) return true;
      values_[iter.var->id] = 0;
    }
    return false;
  }

  std::vector<Origin> origins_;  // by the buffer's id
  std::vector<i64> values_;      // of iters, by the id of their variable
  std::vector<Accumulators*> open_;
  std::vector<const For*> loops_;  // around what find_writers looks at
  i64 steps_left_;
  std::function<bool()> stop_;
  bool has_failed_ = false;
};

ElementValues::ElementValues(const Program& program, std::vector<const HostArray*> arguments, i64 max_steps,
                             std::function<bool()> stop)
    : evaluation_(std::make_unique<Evaluation>(program, std::move(arguments), max_steps, std::move(stop))) {}
ElementValues::~ElementValues() = default;

std::optional<double> ElementValues::at(const Buffer* output, i64 position) {
  return evaluation_->at(output, position);
}

}  // namespace tw

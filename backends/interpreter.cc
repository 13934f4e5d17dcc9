#include "backends/interpreter.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

#include "backends/expr_evaluator.h"
#include "backends/interpreter_memory.h"
#include "dsl/analysis/reducer.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

bool is_concurrent(LoopKind kind) {
  return kind == LoopKind::Parallel || kind == LoopKind::Vectorize || kind == LoopKind::Bind;
}

// A buffer's place in memory.
struct View {
  Memory* memory = nullptr;
  i64 offset = 0;  // bytes
  bool writable = true;
};

std::string index_text(const std::vector<i64>& index) { return cat("[", join(index, ", "), "]"); }

// How often each point of a block's domain has run.
struct Coverage {
  const Block* block;
  std::vector<u32> counts;
};

i64 points_of(const Block* block) {
  i64 points = 1;
  for (const IterVar& iter : block->iters) points *= iter.extent;
  return points;
}

class Interpreter : ExprEvaluator<Interpreter> {
  friend ExprEvaluator<Interpreter>;

 public:
  explicit Interpreter(const InterpretOptions& options) : options_(options), rng_(options.seed) {}

  void bind(const Buffer* buffer, View view) { views_[buffer] = view; }
  Memory* new_memory(i64 bytes, bool initialised = false) {
    return memories_.emplace_back(std::make_unique<Memory>(bytes, initialised)).get();
  }
  // Memory that is uninitialised again in each iteration of the loop.
  void make_private(const For* loop, Memory* memory) { private_[loop].push_back(memory); }
  void make_private_to_parallel(Memory* memory) { worker_memory_.push_back(memory); }

  std::string run(const Stmt* body) {
    for_each<For>(body, [&](const For* loop) { reserve(loop->var); });
    for_each<Block>(body, [&](const Block* block) {
      for (const IterVar& iter : block->iters) reserve(iter.var);
    });
    if (options_.exact_coverage) expect_coverage(body);
    stmt(body);
    if (options_.steps_taken) *options_.steps_taken = steps_;
    if (error_.empty()) check_coverage();
    return error_;
  }

 private:
  // ---- errors; the first one counts, and everything returns at once after it

  template <class... Parts>
  void fail(const Parts&... parts) {
    if (!error_.empty()) return;
    error_ = block_ ? cat("block `", block_->name, "`: ", parts...) : cat(parts...);
  }
  bool failed() const { return !error_.empty(); }
  bool step() {
    if (++steps_ > options_.max_steps) fail("gave up after ", options_.max_steps, " steps");
    return !failed();
  }

  // ---- variables

  void reserve(const Var* var) {
    if (var->id >= values_.size()) values_.resize(var->id + 1);
  }
  void set(const Var* var, i64 value) { values_[var->id] = {var, value}; }
  void unset(const Var* var) { values_[var->id] = {}; }

  // ---- expressions, as the ExprEvaluator asks for them

  Scalar variable(const Var* var) {
    if (var->id >= values_.size() || values_[var->id].first != var) {
      fail("variable `", var->name, "` has no value here");
      return {};
    }
    return {values_[var->id].second};
  }

  // ---- memory

  // The byte offset of an element; -1 after an error.
  i64 locate(const Buffer* buffer, Array<const Expr*> indices, int lane, std::vector<i64>& at) {
    at.clear();
    i64 flat = 0;
    if (indices.size() != buffer->shape.size())
      fail("`", buffer->name, "` has ", buffer->shape.size(), " dimensions, found ", indices.size(), " indices");
    for (std::size_t i = 0; i < indices.size() && !failed(); ++i) {
      i64 index = eval(indices[i], indices[i]->type.lanes == 1 ? 0 : lane).i;
      at.push_back(index);
      if (index < 0 || index >= buffer->shape[i]) {
        fail("index ", i, " of `", buffer->name, "` is ", index, ", outside of [0, ", buffer->shape[i], ")");
      }
      flat = flat * buffer->shape[i] + index;
    }
    return failed() ? -1 : flat * bytes_of(buffer->dtype);
  }

  const View* view_of(const Buffer* buffer) {
    auto found = views_.find(buffer);
    if (found != views_.end()) return &found->second;
    fail("buffer `", buffer->name, "` has no memory here");
    return nullptr;
  }

  Scalar load(const Load* n, int lane) {
    std::vector<i64> at;
    i64 offset = locate(n->buffer, n->indices, lane, at);
    const View* view = failed() ? nullptr : view_of(n->buffer);
    if (!view) return {};
    offset += view->offset;
    report(view->memory->note_read(offset, bytes_of(n->buffer->dtype), place_, places_), n->buffer, at, "reads");
    return read_element(n->buffer->dtype, view->memory->data() + offset);
  }

  void report(Conflict conflict, const Buffer* buffer, const std::vector<i64>& at, const char* does) {
    std::string element = cat("`", buffer->name, "` at ", index_text(at));
    if (conflict == Conflict::Uninitialised) fail("reads ", element, ", which was never written");
    if (conflict == Conflict::WriteWrite)
      fail(does, " ", element, ", which another iteration of a concurrent loop writes too");
    if (conflict == Conflict::ReadWrite) {
      fail(does, " ", element, ", which another iteration of a concurrent loop ", *does == 'r' ? "writes" : "reads");
    }
  }

  struct Pending {
    const Buffer* buffer;
    View view;
    i64 offset;
    std::vector<i64> at;
    Scalar value;
  };

  // All values of all lanes and targets are computed before anything is written.
  void store(const Store* n) {
    std::vector<Pending> pending;
    for (std::size_t t = 0; t < n->targets.size(); ++t) {
      const StoreTarget& target = n->targets[t];
      int lanes = n->values[t]->type.lanes;
      for (const Expr* index : target.indices) lanes = std::max<int>(lanes, index->type.lanes);
      for (int lane = 0; lane < lanes; ++lane) {
        if (!active_.empty() && !active_[static_cast<std::size_t>(lane)]) continue;
        Pending one{target.buffer, {}, 0, {}, {}};
        one.value = eval(n->values[t], n->values[t]->type.lanes == 1 ? 0 : lane);
        one.offset = locate(target.buffer, target.indices, lane, one.at);
        const View* view = failed() ? nullptr : view_of(target.buffer);
        if (!view) return;
        if (!view->writable) return fail("writes `", target.buffer->name, "`, which is no output");
        one.view = *view;
        one.offset += view->offset;
        for (const Pending& other : pending) {
          bool same = other.view.memory == one.view.memory && other.offset == one.offset;
          if (same)
            return fail("writes `", target.buffer->name, "` at ", index_text(one.at), " twice in one statement");
        }
        pending.push_back(std::move(one));
      }
    }
    for (const Pending& one : pending) {
      report(one.view.memory->note_write(one.offset, bytes_of(one.buffer->dtype), place_, places_), one.buffer, one.at,
             "writes");
      if (failed()) return;
      write_element(one.buffer->dtype, one.value, one.view.memory->data() + one.offset);
    }
  }

  // ---- statements

  void stmt(const Stmt* s) {
    if (!s || !step()) return;
    switch (s->kind) {
      case Kind::Store:
        return store(static_cast<const Store*>(s));
      case Kind::Seq:
        for (const Stmt* child : static_cast<const Seq*>(s)->stmts) stmt(child);
        return;
      case Kind::If: {
        auto* n = static_cast<const If*>(s);
        if (n->condition->type.lanes > 1) return by_lane(n);
        i64 holds = eval(n->condition, 0).i;
        return failed() ? void() : stmt(holds ? n->then : n->otherwise);
      }
      case Kind::For:
        return loop(static_cast<const For*>(s));
      case Kind::Block:
        return block(static_cast<const Block*>(s));
      case Kind::Alloc: {
        auto* n = static_cast<const Alloc*>(s);
        Memory fresh(bytes_of(n->buffer));
        views_[n->buffer] = {&fresh};
        stmt(n->body);
        views_.erase(n->buffer);
        return;
      }
      default:
        return fail("a statement of an unknown kind");
    }
  }

  // Each side for the lanes that choose it. The condition is evaluated once.
  void by_lane(const If* n) {
    std::vector<bool> outside = active_, then, otherwise;
    for (int lane = 0; lane < n->condition->type.lanes && !failed(); ++lane) {
      bool holds = eval(n->condition, lane).i != 0;
      bool is_active = outside.empty() || outside[static_cast<std::size_t>(lane)];
      then.push_back(is_active && holds), otherwise.push_back(is_active && !holds);
    }
    if (failed()) return;
    active_ = std::move(then);
    stmt(n->then);
    active_ = std::move(otherwise);
    stmt(n->otherwise);
    active_ = std::move(outside);
  }

  void loop(const For* n) {
    if (!is_concurrent(n->loop_kind) || combines_work_items(n)) {
      for (i64 i = 0; i < n->extent && !failed(); ++i) {
        set(n->var, i);
        stmt(n->body);
      }
      return unset(n->var);
    }
    std::vector<i64> order(static_cast<std::size_t>(n->extent));
    std::iota(order.begin(), order.end(), 0);
    for (std::size_t i = order.size(); i > 1; --i)
      std::swap(order[i - 1], order[static_cast<std::size_t>(rng_.below(static_cast<i64>(i)))]);
    ConcurrentPlaces::Place around = place_;
    u32 run = places_.new_run();
    for (std::size_t i = 0; i < order.size() && !failed(); ++i) {
      place_ = places_.enter(around, run, order[i]);
      forget_private(n);
      set(n->var, order[i]);
      stmt(n->body);
    }
    place_ = around;
    unset(n->var);
    forget_private(n);
  }

  void forget_private(const For* n) {
    auto found = private_.find(n);
    if (found != private_.end()) {
      for (Memory* memory : found->second) memory->forget();
    }
    if (n->loop_kind != LoopKind::Parallel) return;
    for (Memory* memory : worker_memory_) memory->forget();
  }

  void block(const Block* n) {
    const Block* around = std::exchange(block_, n);
    if (!n->predicate || eval(n->predicate, 0).i) block_instance(n, around);
    if (!failed()) block_ = around;
  }

  void block_instance(const Block* n, const Block* around) {
    std::vector<i64> values;
    bool first = true;
    for (const Expr* binding : n->bindings) values.push_back(eval(binding, 0).i);
    for (std::size_t i = 0; i < n->iters.size() && !failed(); ++i) {
      const IterVar& iter = n->iters[i];
      if (values[i] < 0 || values[i] >= iter.extent) {
        return fail("iter `", iter.var->name, "` is ", values[i], ", outside of [0, ", iter.extent, ")");
      }
      first = first && (iter.kind == IterKind::S || values[i] == 0);
      set(iter.var, values[i]);
    }
    if (failed()) return;
    if (!around) count(n, values);
    if (n->init && first) stmt(n->init);
    stmt(n->body);
    for (const IterVar& iter : n->iters) unset(iter.var);
  }

  // ---- coverage

  void expect_coverage(const Stmt* body) {
    walk(body, [&](const Node* node) {
      const Block* block = as<Block>(node);
      if (block && points_of(block) <= options_.max_steps) {
        coverage_.push_back({block, std::vector<u32>(static_cast<std::size_t>(points_of(block)))});
      }
      return !block;  // not the blocks inside blocks
    });
  }

  void count(const Block* n, const std::vector<i64>& values) {
    auto at = std::find_if(coverage_.begin(), coverage_.end(), [&](const Coverage& c) { return c.block == n; });
    if (at == coverage_.end()) return;
    i64 flat = 0;
    for (std::size_t i = 0; i < values.size(); ++i) flat = flat * n->iters[i].extent + values[i];
    ++at->counts[static_cast<std::size_t>(flat)];
  }

  void check_coverage() {
    for (const Coverage& coverage : coverage_) {
      auto wrong = std::find_if(coverage.counts.begin(), coverage.counts.end(), [](u32 count) { return count != 1; });
      if (wrong == coverage.counts.end()) continue;
      std::string point = point_text(coverage.block, wrong - coverage.counts.begin());
      return fail("block `", coverage.block->name, "`: the point ", point, " ran ",
                  *wrong == 0 ? "never" : cat(*wrong, " times"));
    }
  }

  static std::string point_text(const Block* block, i64 flat) {
    std::vector<std::string> parts(block->iters.size());
    for (std::size_t i = parts.size(); i-- > 0;) {
      parts[i] = cat(block->iters[i].var->name, " = ", flat % block->iters[i].extent);
      flat /= block->iters[i].extent;
    }
    return join(parts, ", ");
  }

  const InterpretOptions& options_;
  Rng rng_;
  std::string error_;
  std::vector<bool> active_;  // lanes, inside of a condition on them; empty = all
  i64 steps_ = 0;
  const Block* block_ = nullptr;
  std::vector<std::pair<const Var*, i64>> values_;
  std::vector<std::unique_ptr<Memory>> memories_;
  std::unordered_map<const Buffer*, View> views_;
  std::unordered_map<const For*, std::vector<Memory*>> private_;
  std::vector<Memory*> worker_memory_;
  std::vector<Coverage> coverage_;
  ConcurrentPlaces places_;
  ConcurrentPlaces::Place place_ = ConcurrentPlaces::kRoot;
};

// For each local buffer the innermost concurrent loop that holds all its accesses.
class PrivateBuffers {
 public:
  void visit(const Node* node) {
    const For* loop = as<For>(node);
    bool concurrent = loop && is_concurrent(loop->loop_kind) && !combines_work_items(loop);
    if (concurrent) path_.push_back(loop);
    if (const Load* load = as<Load>(node)) access(load->buffer);
    if (const Store* store = as<Store>(node)) {
      for (const StoreTarget& target : store->targets) access(target.buffer);
    }
    for_each_child(node, [&](const Node* child) { visit(child); });
    if (concurrent) path_.pop_back();
  }
  const For* loop_of(const Buffer* buffer) const {
    auto at = paths_.find(buffer);
    return at == paths_.end() || at->second.empty() ? nullptr : at->second.back();
  }

 private:
  void access(const Buffer* buffer) {
    auto [at, added] = paths_.try_emplace(buffer, path_);
    if (added) return;
    auto& common = at->second;
    auto parts = std::mismatch(common.begin(), common.end(), path_.begin(), path_.end()).first;
    common.erase(parts, common.end());
  }
  std::vector<const For*> path_;
  std::unordered_map<const Buffer*, std::vector<const For*>> paths_;
};

// Takes the results out; an output that is not written everywhere is an error.
std::string results(std::string error, const std::vector<Memory*>& memories, const std::vector<std::string>& names,
                    std::vector<HostArray>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    std::copy(memories[i]->data(), memories[i]->data() + memories[i]->size(), arguments[i].bytes.begin());
    i64 missing = memories[i]->first_uninitialised();
    if (error.empty() && missing >= 0)
      error = cat("output `", names[i], "` was never written at position ", missing / bytes_of(arguments[i].dtype));
  }
  return error;
}

std::string mismatch(const Buffer* buffer, const HostArray& array) {
  bool same = buffer->dtype == array.dtype &&
              std::equal(buffer->shape.begin(), buffer->shape.end(), array.shape.begin(), array.shape.end());
  bool whole = static_cast<i64>(array.bytes.size()) == bytes_of(buffer);
  return same && whole ? "" : cat("the array for `", buffer->name, "` has another type or shape");
}

}  // namespace

HostArray HostArray::zeros(DType dtype, std::vector<i64> shape) {
  i64 elements = std::accumulate(shape.begin(), shape.end(), i64{1}, std::multiplies<>());
  return {dtype, std::move(shape), std::vector<u8>(static_cast<std::size_t>(elements * bytes_of(dtype)))};
}

double HostArray::get(i64 position) const {
  Scalar value = read_element(dtype, bytes.data() + position * bytes_of(dtype));
  return is_float(dtype) ? value.f : static_cast<double>(value.i);
}

void HostArray::set(i64 position, double value) {
  write_element(dtype, convert_scalar(dtype, DType::F64, {0, value}), bytes.data() + position * bytes_of(dtype));
}

i64 bytes_of(const Program& program) {
  i64 bytes = 0;
  for (const Param& param : program.params) bytes += bytes_of(param.buffer);
  for (const Buffer* local : program.locals) bytes += bytes_of(local);
  return bytes;
}

std::string too_large(i64 bytes, const InterpretOptions& options) {
  return bytes <= options.max_bytes ? ""
                                    : cat("gave up: its arrays have ", bytes, " bytes, more than ", options.max_bytes);
}

std::string interpret(const Program& program, std::vector<HostArray>& arguments, const InterpretOptions& options) {
  if (arguments.size() != program.params.size())
    return cat("expected ", program.params.size(), " arrays, found ", arguments.size());
  if (std::string large = too_large(bytes_of(program), options); !large.empty()) return large;
  Interpreter interpreter(options);
  std::vector<Memory*> memories;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const Param& param = program.params[i];
    if (std::string wrong = mismatch(param.buffer, arguments[i]); !wrong.empty()) return wrong;
    bool is_output = param.role == Role::Output;
    memories.push_back(interpreter.new_memory(bytes_of(param.buffer), !is_output));
    if (!is_output) std::copy(arguments[i].bytes.begin(), arguments[i].bytes.end(), memories[i]->data());
    interpreter.bind(param.buffer, {memories[i], 0, is_output});
  }
  PrivateBuffers privates;
  if (program.body) privates.visit(program.body);
  for (const Buffer* local : program.locals) {
    Memory* memory = interpreter.new_memory(bytes_of(local));
    interpreter.bind(local, {memory});
    if (const For* loop = privates.loop_of(local)) interpreter.make_private(loop, memory);
  }
  std::vector<std::string> names;
  for (const Param& param : program.params) names.push_back(std::string(param.buffer->name));
  return results(program.body ? interpreter.run(program.body) : "", memories, names, arguments);
}

std::string interpret(const LoweredProgram& program, EntryPoint entry, std::vector<HostArray>& arguments,
                      const InterpretOptions& options) {
  const LoweredFunction& function = entry == EntryPoint::Run ? program.run : program.prepack;
  Array<LoweredArgument> wanted = entry == EntryPoint::Run ? program.run_arguments : program.prepack_arguments;
  if (arguments.size() != wanted.size()) return cat("expected ", wanted.size(), " arrays, found ", arguments.size());
  i64 bytes = program.scratch_shared_bytes + program.scratch_worker_bytes;
  for (const HostArray& argument : arguments) bytes += static_cast<i64>(argument.bytes.size());
  if (std::string large = too_large(bytes, options); !large.empty()) return large;
  Interpreter interpreter(options);
  std::vector<Memory*> memories;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    memories.push_back(interpreter.new_memory(static_cast<i64>(arguments[i].bytes.size()), !wanted[i].is_output));
    if (!wanted[i].is_output) std::copy(arguments[i].bytes.begin(), arguments[i].bytes.end(), memories[i]->data());
  }
  for (const Placement& argument : function.arguments) {
    auto position = static_cast<std::size_t>(argument.offset);
    if (position >= memories.size() || memories[position]->size() < bytes_of(argument.buffer)) {
      return cat("argument ", position, " is too small for `", argument.buffer->name, "`");
    }
    interpreter.bind(argument.buffer, {memories[position], 0, wanted[position].is_output});
  }
  Memory* shared = interpreter.new_memory(program.scratch_shared_bytes);
  Memory* worker = interpreter.new_memory(program.scratch_worker_bytes);
  interpreter.make_private_to_parallel(worker);
  for (const Placement& scratch : function.scratch) {
    Memory* memory = scratch.place == Place::SharedScratch ? shared : worker;
    if (scratch.offset < 0 || scratch.offset + bytes_of(scratch.buffer) > memory->size()) {
      return cat("`", scratch.buffer->name, "` lies outside of the scratch memory");
    }
    interpreter.bind(scratch.buffer, {memory, scratch.offset});
  }
  std::vector<std::string> names;
  for (const LoweredArgument& argument : wanted) names.push_back(std::string(argument.name));
  return results(function.body ? interpreter.run(function.body) : "", memories, names, arguments);
}

}  // namespace tw

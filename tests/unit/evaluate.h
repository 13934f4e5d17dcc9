// Runs programs and lowered programs in the interpreter, for the tests of the passes: same inputs by buffer id, outputs as doubles.
#pragma once
#include <gtest/gtest.h>

#include <map>

#include "backends/interpreter.h"
#include "dsl/base/rng.h"

namespace tw {

<<<<<<< HEAD
class Evaluator {
 public:
  using Values = std::vector<double>;
  std::map<const Buffer*, Values> memory;
  // Scratch memory: place and offset of the buffers in it, and its elements (one type per area is all that the tests need).
  std::map<const Buffer*, std::pair<Place, i64>> slots;
  Values shared, worker;

  void allocate(const Buffer* buffer) {
    memory[buffer].assign(static_cast<std::size_t>(elements_of(buffer)), std::numeric_limits<double>::quiet_NaN());
  }

  void run(const Stmt* s) {
    switch (s->kind) {
      case Kind::Store: return store(static_cast<const Store*>(s));
      case Kind::Seq:
        for (const Stmt* child : static_cast<const Seq*>(s)->stmts) run(child);
        return;
      case Kind::If: {
        auto* n = static_cast<const If*>(s);
        if (scalar(n->condition) != 0) run(n->then);
        else if (n->otherwise) run(n->otherwise);
        return;
      }
      case Kind::For: {
        auto* n = static_cast<const For*>(s);
        bool backwards = n->loop_kind == LoopKind::Parallel || n->loop_kind == LoopKind::Vectorize;
        for (i64 i = 0; i < n->extent; ++i) {
          vars_[n->var] = backwards ? n->extent - 1 - i : i;
          run(n->body);
        }
        return;
      }
      case Kind::Alloc: {
        auto* n = static_cast<const Alloc*>(s);
        allocate(n->buffer);
        run(n->body);
        memory.erase(n->buffer);
        return;
      }
      case Kind::Block: return block(static_cast<const Block*>(s));
      default: TW_CHECK(false, "no statement");
    }
  }

 private:
  void block(const Block* n) {
    if (n->predicate && scalar(n->predicate) == 0) return;
    bool first = true;
    for (std::size_t i = 0; i < n->iters.size(); ++i) {
      auto value = static_cast<i64>(scalar(n->bindings[i]));
      if (value < 0 || value >= n->iters[i].extent) ADD_FAILURE() << n->name << ": iter out of its domain";
      first &= n->iters[i].kind == IterKind::S || value == 0;
      vars_[n->iters[i].var] = value;
    }
    if (n->init && first) run(n->init);
    run(n->body);
  }

  double& at(const Buffer* buffer, Array<const Expr*> indices, std::size_t lane) {
    i64 flat = 0;
    for (std::size_t d = 0; d < indices.size(); ++d) {
      Values index = eval(indices[d]);
      auto i = static_cast<i64>(index[index.size() == 1 ? 0 : lane]);
      if (i < 0 || i >= buffer->shape[d]) {
        ADD_FAILURE() << buffer->name << ": index " << i << " of " << buffer->shape[d] << ": " << print(indices[d]);
        return dummy_;
      }
      flat = flat * buffer->shape[d] + i;
    }
    if (auto slot = slots.find(buffer); slot != slots.end()) {
      Values& area = slot->second.first == Place::SharedScratch ? shared : worker;
      return area.at(static_cast<std::size_t>(slot->second.second / bytes_of(buffer->dtype) + flat));
    }
    auto found = memory.find(buffer);
    TW_CHECK(found != memory.end(), "access to a buffer that does not live here");
    return found->second[static_cast<std::size_t>(flat)];
  }

  void store(const Store* s) {
    std::vector<Values> values;
    for (const Expr* value : s->values) values.push_back(eval(value));
    for (std::size_t t = 0; t < s->targets.size(); ++t) {
      const StoreTarget& target = s->targets[t];
      std::size_t lanes = 1;
      for (const Expr* index : target.indices) lanes = std::max<std::size_t>(lanes, index->type.lanes);
      if (lanes != values[t].size()) ADD_FAILURE() << "store of " << values[t].size() << " values to " << lanes << " places";
      for (std::size_t lane = 0; lane < lanes; ++lane) at(target.buffer, target.indices, lane) = values[t][lane];
    }
  }

  double scalar(const Expr* e) {
    Values values = eval(e);
    if (values.size() != 1) ADD_FAILURE() << "not a scalar: " << print(e);
    return values[0];
  }

  template <class F>
  Values map(const Expr* e, const Expr* a, const Expr* b, F f) {
    Values x = eval(a), y = eval(b);
    if (x.size() != e->type.lanes || y.size() != e->type.lanes) ADD_FAILURE() << "lanes differ: " << print(e);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = f(x[i], y[i]);
    return x;
  }

  Values eval(const Expr* e) {
    auto lanes = static_cast<std::size_t>(e->type.lanes);
    switch (e->kind) {
      case Kind::IntImm: return {static_cast<double>(static_cast<const IntImm*>(e)->value)};
      case Kind::FloatImm: return {static_cast<const FloatImm*>(e)->value};
      case Kind::Var: return {static_cast<double>(vars_.at(static_cast<const Var*>(e)))};
      case Kind::Cast: return eval(static_cast<const Cast*>(e)->value);
      case Kind::Broadcast: return Values(lanes, scalar(static_cast<const Broadcast*>(e)->value));
      case Kind::Unary: {
        auto* n = static_cast<const Unary*>(e);
        Values x = eval(n->value);
        for (double& v : x) v = n->op == UnaryOp::Neg ? -v : v == 0;
        return x;
      }
      case Kind::Ramp: {
        auto* n = static_cast<const Ramp*>(e);
        double base = scalar(n->base), stride = scalar(n->stride);
        Values x(lanes);
        for (std::size_t i = 0; i < lanes; ++i) x[i] = base + stride * static_cast<double>(i);
        return x;
      }
      case Kind::Select: return select(static_cast<const Select*>(e));
      case Kind::Load: {
        auto* n = static_cast<const Load*>(e);
        Values x(lanes);
        for (std::size_t i = 0; i < lanes; ++i) x[i] = at(n->buffer, n->indices, i);
        return x;
      }
      case Kind::Binary: return binary(static_cast<const Binary*>(e));
      case Kind::Call: return call(static_cast<const Call*>(e));
      default: TW_CHECK(false, "an expression that the tests do not make");
    }
  }

  Values select(const Select* n) {
    Values condition = eval(n->condition);
    if (condition.size() == 1) return eval(condition[0] != 0 ? n->then : n->otherwise);
    Values a = eval(n->then), b = eval(n->otherwise);
    for (std::size_t i = 0; i < a.size(); ++i) a[i] = condition[i] != 0 ? a[i] : b[i];
    return a;
  }

  static double combined(BinaryOp op, const Values& lanes) {
    double all = lanes[0];
    for (std::size_t i = 1; i < lanes.size(); ++i) {
      all = op == BinaryOp::Add ? all + lanes[i] : op == BinaryOp::Mul ? all * lanes[i] : op == BinaryOp::Min ? std::min(all, lanes[i]) : std::max(all, lanes[i]);
    }
    return all;
  }

  Values call(const Call* n) {
    if (std::optional<BinaryOp> op = combined_by(n->function)) return {combined(*op, eval(n->arguments[0]))};
    Values x = eval(n->arguments[0]), y = n->arguments.size() > 1 ? eval(n->arguments[1]) : x;
    for (std::size_t i = 0; i < x.size(); ++i) {
      switch (n->function) {
        case Function::Exp: x[i] = std::exp(x[i]); break;
        case Function::Log: x[i] = std::log(x[i]); break;
        case Function::Sqrt: x[i] = std::sqrt(x[i]); break;
        case Function::Rsqrt: x[i] = 1 / std::sqrt(x[i]); break;
        case Function::Tanh: x[i] = std::tanh(x[i]); break;
        case Function::Erf: x[i] = std::erf(x[i]); break;
        case Function::Sigmoid: x[i] = 1 / (1 + std::exp(-x[i])); break;
        case Function::Abs: x[i] = std::abs(x[i]); break;
        case Function::Floor: x[i] = std::floor(x[i]); break;
        case Function::Ceil: x[i] = std::ceil(x[i]); break;
        case Function::Round: x[i] = std::nearbyint(x[i]); break;
        case Function::Pow: x[i] = std::pow(x[i], y[i]); break;
        case Function::ReduceAdd: case Function::ReduceMul: case Function::ReduceMin: case Function::ReduceMax: break;  // above
      }
    }
    return x;
  }

  Values binary(const Binary* n) {
    if (n->type.lanes == 1 && n->op == BinaryOp::And) return {scalar(n->a) != 0 && scalar(n->b) != 0 ? 1.0 : 0.0};
    if (n->type.lanes == 1 && n->op == BinaryOp::Or) return {scalar(n->a) != 0 || scalar(n->b) != 0 ? 1.0 : 0.0};
    return map(n, n->a, n->b, [&](double a, double b) -> double {
      switch (n->op) {
        case BinaryOp::Add: return a + b;
        case BinaryOp::Sub: return a - b;
        case BinaryOp::Mul: return a * b;
        case BinaryOp::Div: return a / b;
        case BinaryOp::FloorDiv: return std::floor(a / b);
        case BinaryOp::FloorMod: return a - std::floor(a / b) * b;
        case BinaryOp::Min: return std::min(a, b);
        case BinaryOp::Max: return std::max(a, b);
        case BinaryOp::Lt: return a < b;
        case BinaryOp::Le: return a <= b;
        case BinaryOp::Gt: return a > b;
        case BinaryOp::Ge: return a >= b;
        case BinaryOp::Eq: return a == b;
        case BinaryOp::Ne: return a != b;
        case BinaryOp::And: return a != 0 && b != 0;
        case BinaryOp::Or: return a != 0 || b != 0;
      }
      return 0;
    });
  }

  std::map<const Var*, i64> vars_;
  double dummy_ = 0;
};
=======
using OutputValues = std::vector<std::vector<double>>;
>>>>>>> refs/heads/passes

// Small integers, so that sums are exact in any order.
inline HostArray test_data(const Buffer* buffer, const std::vector<i64>& shape, u64 seed) {
  Rng rng(seed, buffer->id.value);
  HostArray array = HostArray::zeros(buffer->dtype, shape);
  for (i64 i = 0; i < array.elements(); ++i) array.set(i, static_cast<double>(rng.below(9) - 4));
  return array;
}

inline std::vector<double> values_of(const HostArray& array) {
  std::vector<double> out;
  for (i64 i = 0; i < array.elements(); ++i) out.push_back(array.get(i));
  return out;
}

// The outputs of a program, in order.
inline OutputValues outputs_of(const Program& program, u64 seed) {
  std::vector<HostArray> arguments;
  for (const Param& param : program.params) {
    bool is_output = param.role == Role::Output;
    std::vector<i64> shape(param.buffer->shape.begin(), param.buffer->shape.end());
    arguments.push_back(is_output ? HostArray::like(param.buffer) : test_data(param.buffer, shape, seed));
  }
  EXPECT_EQ(interpret(program, arguments), "");
  OutputValues out;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (program.params[i].role == Role::Output) out.push_back(values_of(arguments[i]));
  }
  return out;
}

// The same of a lowered program: prepack first, its outputs passed on by name.
inline OutputValues outputs_of(const LoweredProgram& program, u64 seed) {
  std::map<Str, HostArray> packed;
  OutputValues out;
  auto call = [&](EntryPoint entry, const LoweredFunction& function, Array<LoweredArgument> declared) {
    std::vector<HostArray> arguments;
    for (std::size_t i = 0; i < declared.size(); ++i) {
      std::vector<i64> shape(declared[i].shape.begin(), declared[i].shape.end());
      if (declared[i].is_output) arguments.push_back(HostArray::zeros(declared[i].dtype, shape));
      else if (declared[i].is_packed) arguments.push_back(packed.at(declared[i].name));
      else arguments.push_back(test_data(function.arguments[i].buffer, shape, seed));
    }
    EXPECT_EQ(interpret(program, entry, arguments), "");
    for (std::size_t i = 0; i < declared.size(); ++i) {
      if (!declared[i].is_output) continue;
      if (declared[i].is_packed) packed[declared[i].name] = arguments[i];
      else out.push_back(values_of(arguments[i]));
    }
  };
  if (program.prepack.body) call(EntryPoint::Prepack, program.prepack, program.prepack_arguments);
  call(EntryPoint::Run, program.run, program.run_arguments);
  return out;
}

}  // namespace tw

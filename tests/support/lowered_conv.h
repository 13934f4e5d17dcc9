// A direct 3x3 convolution, stride 1, as lowering would write it, made by hand: input [ci][h + 2][w + 2] padded,
// weights [co / nv][ci][3][3][nv], output [co / nv][h][w][nv]; a register tile is `columns` pixels by `vectors` vectors
// of channels, the window is unrolled. Used by the tests and the benchmark of code generation.
#pragma once
#include <vector>

#include "dsl/ir/build.h"
#include "dsl/passes/lower.h"

namespace tw {

struct ConvPlan {
  i64 channels = 64, size = 56;  // in and out, height and width
  int vectors = 2, columns = 4, lanes = 8;
  bool hides_addresses = true;  // of each copy of the window
  int panel() const { return vectors * lanes; }
};

class LoweredConv {
 public:
  LoweredConv(Arena& arena, const ConvPlan& plan) : build_{arena}, plan_(plan) {
    i64 padded = plan.size + 2;
    in_ = buffer("in", plan.channels * padded * padded);
    weights_ = buffer("weights", plan.channels * plan.channels * 9);
    out_ = buffer("out", plan.channels * plan.size * plan.size);
  }

  LoweredProgram program() {
    Arena& arena = build_.arena;
    LoweredProgram lowered;
    lowered.run.arguments =
        arena.list<Placement>({{in_, Place::Argument, 0}, {weights_, Place::Argument, 1}, {out_, Place::Argument, 2}});
    lowered.run_arguments = arena.list<LoweredArgument>({{"in", false, false, false, DType::F32, in_->shape},
                                                         {"weights", false, true, false, DType::F32, weights_->shape},
                                                         {"out", true, false, false, DType::F32, out_->shape}});
    const Var *row = var("oh"), *block = var("ob"), *column = var("ow");
    i64 whole = plan_.size / plan_.columns, rest = plan_.size % plan_.columns;
    const Stmt* main = loop(column, whole, tile(row, block, build_.mul(column, plan_.columns), plan_.columns));
    const Stmt* tail = rest ? tile(row, block, build_.integer(whole * plan_.columns), rest) : nullptr;
    const Stmt* blocks = loop(block, plan_.channels / plan_.panel(), build_.seq({main, tail}));
    lowered.run.body = loop(row, plan_.size, blocks);
    return lowered;
  }

 private:
  const Buffer* buffer(Str name, i64 elements, Scope scope = Scope::Global) {
    Array<i64> shape = build_.arena.list<i64>({elements});
    return build_.arena.make<Buffer>(BufferId{++buffers_}, name, DType::F32, shape, scope, Str{});
  }
  const Var* var(Str name) { return build_.var(++vars_, name); }
  const Stmt* loop(const Var* var, i64 extent, const Stmt* body) {
    return build_.loop(LoopId{var->id}, var, extent, body);
  }
  const Expr* wide(const Expr* base) { return build_.ramp(base, build_.integer(1), plan_.lanes); }
  const Expr* load(const Buffer* from, const Expr* index) {
    return build_.load(from, build_.arena.list<const Expr*>({index}));
  }
  const Stmt* store(const Buffer* to, const Expr* index, const Expr* value) {
    return build_.store(to, build_.arena.list<const Expr*>({index}), value);
  }
  const Expr* sum_at(const i64 column, int vector) {
    return wide(build_.integer(column * plan_.panel() + vector * plan_.lanes));
  }

  const Stmt* tile(const Expr* row, const Expr* block, const Expr* column, i64 columns) {
    const Buffer* sums = buffer("acc", columns * plan_.panel(), Scope::Register);
    std::vector<const Stmt*> before, after;
    const Expr* line = build_.add(build_.mul(build_.add(build_.mul(block, plan_.size), row), plan_.size), column);
    for (i64 c = 0; c < columns; ++c) {
      for (int v = 0; v < plan_.vectors; ++v) {
        before.push_back(store(sums, sum_at(c, v), build_.broadcast(build_.number(0, DType::F32), plan_.lanes)));
        const Expr* place = build_.add(build_.mul(build_.add(line, c), plan_.panel()), v * plan_.lanes);
        after.push_back(store(out_, wide(place), load(sums, sum_at(c, v))));
      }
    }
    const Var* channel = var("ci");
    std::vector<const Stmt*> windows;
    for (int kh = 0; kh < 3; ++kh) {
      for (int kw = 0; kw < 3; ++kw) windows.push_back(window(sums, row, block, column, columns, channel, kh, kw));
    }
    before.push_back(loop(channel, plan_.channels, build_.seq(windows)));
    before.insert(before.end(), after.begin(), after.end());
    return build_.alloc(sums, build_.seq(before));
  }

  const Stmt* window(const Buffer* sums, const Expr* row, const Expr* block, const Expr* column, i64 columns,
                     const Expr* channel, int kh, int kw) {
    i64 padded = plan_.size + 2;
    const Expr* line = build_.mul(build_.add(build_.add(build_.mul(channel, padded), row), kh), padded);
    const Expr* pixel = build_.add(build_.add(line, column), kw);
    const Expr* weight = build_.mul(
        build_.add(build_.mul(build_.add(build_.mul(block, plan_.channels), channel), 9), kh * 3 + kw), plan_.panel());
    std::vector<const Stmt*> steps;
    for (i64 c = 0; c < columns; ++c) {
      const Expr* value = build_.broadcast(load(in_, build_.add(pixel, c)), plan_.lanes);
      for (int v = 0; v < plan_.vectors; ++v) {
        const Expr* product = build_.mul(value, load(weights_, wide(build_.add(weight, v * plan_.lanes))));
        steps.push_back(store(sums, sum_at(c, v), build_.add(load(sums, sum_at(c, v)), product)));
      }
    }
    const Stmt* body = build_.seq(steps);
    if (!plan_.hides_addresses) return body;
    For* marked = build_.arena.make<For>(*as<For>(loop(var("w"), 1, body)));
    marked->annotations = build_.arena.list<Annotation>({{"hide_address", Literal::of(1)}});
    return marked;
  }

  Build build_;
  ConvPlan plan_;
  const Buffer *in_, *weights_, *out_;
  u32 buffers_ = 0, vars_ = 0;
};

}  // namespace tw

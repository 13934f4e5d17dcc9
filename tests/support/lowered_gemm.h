// A register-tiled matrix product as lowering would write it, made by hand: C[m, n] = A[m, k] * B, with B packed as
// [ceil(n / nv)][k][nv], nv = vectors * lanes. Used by the tests and the benchmark of code generation.
#pragma once
#include <algorithm>

#include "dsl/ir/build.h"
#include "dsl/passes/lower.h"

namespace tw {

struct GemmPlan {
  i64 m = 64, n = 64, k = 64;
  int rows = 6, vectors = 2, lanes = 16, unroll = 4;
  bool panels_outside = true;  // loop over the panels of B outside the loop over row blocks
  bool is_parallel = false;    // the outer loop
  i64 a_stride = 0;            // between rows of A in elements; 0 = k
  int panel() const { return vectors * lanes; }
  i64 panels() const { return (n + panel() - 1) / panel(); }
};

class LoweredGemm {
 public:
  LoweredGemm(Arena& arena, const GemmPlan& plan) : build_{arena}, plan_(plan) {
    if (plan_.a_stride == 0) plan_.a_stride = plan_.k;
    a_ = buffer("A", plan.m * plan_.a_stride);
    b_ = buffer("B", plan.panels() * plan.k * plan.panel());
    c_ = buffer("C", plan.m * plan.n);
  }

  LoweredProgram program() {
    Arena& arena = build_.arena;
    LoweredProgram lowered;
    lowered.run.arguments =
        arena.list<Placement>({{a_, Place::Argument, 0}, {b_, Place::Argument, 1}, {c_, Place::Argument, 2}});
    lowered.run_arguments = arena.list<LoweredArgument>({{"A", false, false, false, DType::F32, a_->shape},
                                                         {"B", false, true, false, DType::F32, b_->shape},
                                                         {"C", true, false, false, DType::F32, c_->shape}});
    lowered.run.body = plan_.panels_outside ? over_panels(nullptr) : over_rows(nullptr);
    lowered.parallel = plan_.is_parallel;
    return lowered;
  }

 private:
  const Buffer* buffer(Str name, i64 elements, Scope scope = Scope::Global) {
    Array<i64> shape = build_.arena.list<i64>({elements});
    return build_.arena.make<Buffer>(BufferId{++buffers_}, name, DType::F32, shape, scope, Str{});
  }
  const Var* var(Str name) { return build_.var(++vars_, name); }
  const Expr* at(const Expr* base, int lanes) { return build_.ramp(base, build_.integer(1), lanes); }
  const Expr* load(const Buffer* from, const Expr* index) {
    return build_.load(from, build_.arena.list<const Expr*>({index}));
  }
  const Stmt* store(const Buffer* to, const Expr* index, const Expr* value) {
    return build_.store(to, build_.arena.list<const Expr*>({index}), value);
  }
  const Stmt* loop(const Var* var, i64 extent, const Stmt* body, bool is_outer = false) {
    LoopKind kind = is_outer && plan_.is_parallel ? LoopKind::Parallel : LoopKind::Serial;
    return extent > 0 ? build_.loop(LoopId{var->id}, var, extent, body, kind) : nullptr;
  }

  // Main part and tail of one axis: f(first index as an expression, size of the tile).
  template <class Tile>
  const Stmt* split(Str name, i64 extent, i64 size, bool is_outer, Tile tile) {
    const Var* index = var(name);
    const Stmt* main = loop(index, extent / size, tile(build_.mul(index, size), size), is_outer);
    const Stmt* tail = extent % size ? tile(build_.integer(extent - extent % size), extent % size) : nullptr;
    return build_.seq({main, tail});
  }
  const Stmt* over_rows(const Expr* column, i64 width = 0) {
    return split("i", plan_.m, plan_.rows, column == nullptr, [&](const Expr* row, i64 rows) {
      return column ? tile(row, rows, column, width) : rows_then_panels(row, rows);
    });
  }
  const Stmt* rows_then_panels(const Expr* row, i64 rows) {
    return split("j", plan_.n, plan_.panel(), false,
                 [&](const Expr* column, i64 width) { return tile(row, rows, column, width); });
  }
  const Stmt* over_panels(const Expr*) {
    return split("j", plan_.n, plan_.panel(), true,
                 [&](const Expr* column, i64 width) { return over_rows(column, width); });
  }

  // Columns of a tile as pieces of `lanes` and, at the end, of single ones.
  std::vector<std::pair<i64, int>> pieces(i64 width) {
    std::vector<std::pair<i64, int>> list;
    i64 at = 0;
    for (; at + plan_.lanes <= width; at += plan_.lanes) list.emplace_back(at, plan_.lanes);
    for (; at < width; ++at) list.emplace_back(at, 1);
    return list;
  }

  const Stmt* tile(const Expr* row, i64 rows, const Expr* column, i64 width) {
    const Buffer* sums = buffer("acc", rows * width, Scope::Register);
    std::vector<const Stmt*> before, after;
    for (i64 r = 0; r < rows; ++r) {
      for (auto [c, lanes] : pieces(width)) {
        const Expr* sum = at(build_.integer(r * width + c), lanes);
        before.push_back(store(sums, sum, build_.broadcast(build_.number(0, DType::F32), lanes)));
        const Expr* place = build_.add(build_.add(build_.mul(build_.add(row, r), plan_.n), column), build_.integer(c));
        after.push_back(store(c_, at(place, lanes), load(sums, sum)));
      }
    }
    const Var* k = var("k");
    i64 whole = plan_.k / plan_.unroll;
    const Stmt* main = loop(k, whole, steps(sums, row, rows, column, width, build_.mul(k, plan_.unroll), plan_.unroll));
    const Var* rest = var("k");
    const Expr* last = build_.add(rest, whole * plan_.unroll);
    const Stmt* tail = loop(rest, plan_.k % plan_.unroll, steps(sums, row, rows, column, width, last, 1));
    before.insert(before.end(), {main, tail});
    before.insert(before.end(), after.begin(), after.end());
    return build_.alloc(sums, build_.seq(before));
  }

  const Stmt* steps(const Buffer* sums, const Expr* row, i64 rows, const Expr* column, i64 width, const Expr* k,
                    int count) {
    std::vector<const Stmt*> list;
    for (int u = 0; u < count; ++u) {
      const Expr* step = build_.add(k, u);
      // column is a multiple of the panel: its panel starts at column * k.
      const Expr* panel = build_.add(build_.mul(column, plan_.k), build_.mul(step, plan_.panel()));
      for (i64 r = 0; r < rows; ++r) {
        const Expr* a = load(a_, build_.add(build_.mul(build_.add(row, r), plan_.a_stride), step));
        for (auto [c, lanes] : pieces(width)) {
          const Expr* sum = at(build_.integer(r * width + c), lanes);
          const Expr* product = build_.mul(build_.broadcast(a, lanes), load(b_, at(build_.add(panel, c), lanes)));
          list.push_back(store(sums, sum, build_.add(load(sums, sum), product)));
        }
      }
    }
    return build_.seq(list);
  }

  Build build_;
  GemmPlan plan_;
  const Buffer *a_, *b_, *c_;
  u32 buffers_ = 0, vars_ = 0;
};

}  // namespace tw

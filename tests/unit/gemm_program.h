// A scheduled matrix product with a tile of accumulators, for the tests of the passes.
#pragma once
#include "tests/unit/program_maker.h"

namespace tw {

inline i64 tiles(i64 extent, i64 tile) { return (extent + tile - 1) / tile; }

struct GemmShape {
  i64 M, N, K, mr, nr, kr;
  Scope accumulators = Scope::Register;
};

// Y = X W with an mr x nr tile of accumulators and k unrolled by kr.
inline Program gemm(ProgramMaker& m, const GemmShape& g) {
  const Build& b = m.build;
  const Buffer *X = m.param("X", {g.M, g.K}, Role::Input), *W = m.param("W", {g.K, g.N}, Role::Input);
  const Buffer *Y = m.param("Y", {g.M, g.N}, Role::Output), *D = m.local("D", {g.M, g.N}, g.accumulators);
  auto tile = [&](const Var* i0, const Var* j0, const std::function<const Stmt*(const Expr*, const Expr*)>& body) {
    return m.loop("ir", g.mr, LoopKind::Unroll, [&](const Var* ir) {
      return m.loop("jv", g.nr, LoopKind::Vectorize,
                    [&](const Var* jv) { return body(b.add(b.mul(i0, g.mr), ir), b.add(b.mul(j0, g.nr), jv)); });
    });
  };
  auto nest = [&](const Var* i0, const Var* j0) {
    const Stmt* init = tile(i0, j0, [&](const Expr* i, const Expr* j) {
      return m.block("init", {{"i", g.M, IterKind::S, i}, {"j", g.N, IterKind::S, j}}, true,
                     [&](const Exprs& v) { return m.store(D, v, m.number(0)); });
    });
    const Stmt* update = m.loop("k0", tiles(g.K, g.kr), [&](const Var* k0) {
      return m.loop("k1", g.kr, LoopKind::Unroll, [&](const Var* k1) {
        return tile(i0, j0, [&](const Expr* i, const Expr* j) {
          return m.block("D",
                         {{"i", g.M, IterKind::S, i},
                          {"j", g.N, IterKind::S, j},
                          {"k", g.K, IterKind::R, b.add(b.mul(k0, g.kr), k1)}},
                         true, [&](const Exprs& v) {
                           return m.store(
                               D, {v[0], v[1]},
                               b.add(m.load(D, {v[0], v[1]}), b.mul(m.load(X, {v[0], v[2]}), m.load(W, {v[2], v[1]}))));
                         });
        });
      });
    });
    const Stmt* write = tile(i0, j0, [&](const Expr* i, const Expr* j) {
      return m.block("Y", {{"i", g.M, IterKind::S, i}, {"j", g.N, IterKind::S, j}}, true,
                     [&](const Exprs& v) { return m.store(Y, v, m.load(D, v)); });
    });
    return b.seq({init, update, write});
  };
  return m.finish(m.loop("i0", tiles(g.M, g.mr), LoopKind::Parallel, [&](const Var* i0) {
    return m.loop("j0", tiles(g.N, g.nr), LoopKind::Parallel, [&](const Var* j0) { return nest(i0, j0); });
  }));
}

}  // namespace tw

// Lowering, random programs: split (also imperfectly), fused, reordered, padded, vectorized, parallel nests with stages
// computed at loops of their consumers. Data are small integers, so that the lowered program must give the very same
// results.
#include <gtest/gtest.h>

#include "dsl/ir/print.h"
#include "dsl/ir/walk.h"
#include "tests/unit/evaluate.h"
#include "tests/unit/gemm_program.h"

namespace tw {
namespace {

struct LoopPlan {
  const Var* var;
  i64 extent;
  LoopKind kind = LoopKind::Serial;
  bool spatial;
};

// A block's iters, spread over randomly split, fused, permuted and marked loops.
class RandomNest {
 public:
  RandomNest(ProgramMaker& m, Rng& rng) : m_(m), rng_(rng) {}

  // `offset` shifts an iter: it covers [offset, offset + covered) of its domain, or what of that is inside.
  void iter(Str name, i64 extent, IterKind kind, const Expr* offset = nullptr, i64 covered = 0) {
    const Build& b = m_.build;
    i64 rest = covered ? covered : extent;
    const Expr* value = nullptr;
    for (int part = 0; part < 3 && (part == 0 || rest > 1); ++part) {
      i64 factor = part == 2 || rng_.below(2) ? rest : 1 + rng_.below(rest);
      const Var* var = m_.var(name);
      i64 outer = tiles(rest, factor);
      i64 taken = outer == 1 ? factor : outer;
      value = value ? b.add(b.mul(value, taken), var) : var;
      loops_.push_back({var, taken, LoopKind::Serial, kind == IterKind::S});
      rest = outer == 1 ? 1 : factor;
    }
    const Expr* where = offset ? b.lt(value, covered) : nullptr;
    if (offset) value = b.add(value, offset);
    iters_.push_back({name, extent, kind, value, where});
  }

  const Stmt* make(Str name, const ProgramMaker::Body& body, const ProgramMaker::Body& init = nullptr) {
    for (std::size_t i = loops_.size(); i-- > 1;)
      std::swap(loops_[i], loops_[static_cast<std::size_t>(rng_.below(static_cast<i64>(i) + 1))]);
    if (loops_.size() > 2 && rng_.below(3) == 0) fuse_first_two();
    mark();
    // Where nothing can leave its domain the simplifier will drop the guard.
    const Stmt* out = m_.block(name, iters_, true, body, init);
    for (std::size_t i = loops_.size(); i-- > 0;) {
      out = m_.build.loop({m_.program.next_loop++}, loops_[i].var, loops_[i].extent, out, loops_[i].kind);
    }
    return out;
  }

 private:
  void fuse_first_two() {
    const Build& b = m_.build;
    LoopPlan fused{m_.var("f"), loops_[0].extent * loops_[1].extent, LoopKind::Serial,
                   loops_[0].spatial && loops_[1].spatial};
    Substitution parts;
    parts.set(loops_[0].var, b.floor_div(fused.var, b.integer(loops_[1].extent)));
    parts.set(loops_[1].var, b.floor_mod(fused.var, b.integer(loops_[1].extent)));
    for (ProgramMaker::Iter& iter : iters_) {
      iter.binding = substitute(m_.arena, iter.binding, parts);
      iter.where = substitute(m_.arena, iter.where, parts);
    }
    loops_.erase(loops_.begin());
    loops_[0] = fused;
  }

  void mark() {
    for (LoopPlan& loop : loops_) {
      if (loop.extent <= 4 && rng_.below(4) == 0) loop.kind = LoopKind::Unroll;
    }
    if (rng_.below(2)) {
      for (LoopPlan& loop : loops_) {
        if (!loop.spatial || rng_.below(3) == 0) break;
        loop.kind = LoopKind::Parallel;
      }
    }
    std::size_t vector =
        loops_.size() - 1 -
        static_cast<std::size_t>(rng_.below(static_cast<i64>(std::min<std::size_t>(2, loops_.size()))));
    if (loops_[vector].spatial && rng_.below(3)) loops_[vector].kind = LoopKind::Vectorize;
  }

  ProgramMaker& m_;
  Rng& rng_;
  std::vector<ProgramMaker::Iter> iters_;
  std::vector<LoopPlan> loops_;
};

// T = padded X; D[h, w] = sum over a window of T; Y = D + 1. With `tiled`, all three are computed per tile of rows of
// Y.
class RandomPipeline {
 public:
  RandomPipeline(ProgramMaker& m, Rng& rng) : m_(m), rng_(rng) {}

  Program make() {
    stride_ = 1 + rng_.below(2);
    window_ = 1 + rng_.below(3);
    pad_ = rng_.below(window_);
    rows_ = 1 + rng_.below(9);
    columns_ = 1 + rng_.below(20);
    in_rows_ = std::max<i64>(1, (rows_ - 1) * stride_ + window_ - 2 * pad_);
    in_columns_ = std::max<i64>(1, (columns_ - 1) * stride_ + window_ - 2 * pad_);
    X_ = m_.param("X", {in_rows_, in_columns_}, Role::Input);
    W_ = m_.param("W", {window_, window_}, Role::Constant);
    Y_ = m_.param("Y", {rows_, columns_}, Role::Output);
    T_ = m_.local("T", {(rows_ - 1) * stride_ + window_, (columns_ - 1) * stride_ + window_});
    D_ = m_.local("D", {rows_, columns_});
    bool tiled = rng_.below(2);
    if (!tiled) return m_.finish(stages(nullptr, rows_));
    i64 tile = 1 + rng_.below(rows_);
    LoopKind kind = rng_.below(2) ? LoopKind::Parallel : LoopKind::Serial;
    return m_.finish(
        m_.loop("t", tiles(rows_, tile), kind, [&](const Var* t) { return stages(m_.build.mul(t, tile), tile); }));
  }

 private:
  const Stmt* stages(const Expr* row, i64 tile) {
    return m_.build.seq({pad(row, tile), convolve(row, tile), finish(row, tile)});
  }

  const Stmt* pad(const Expr* row, i64 tile) {
    const Build& b = m_.build;
    RandomNest nest(m_, rng_);
    nest.iter("h", T_->shape[0], IterKind::S, row ? b.mul(row, stride_) : nullptr,
              row ? (tile - 1) * stride_ + window_ : 0);
    nest.iter("w", T_->shape[1], IterKind::S);
    return nest.make("T", [&](const Exprs& v) {
      const Expr *h = b.add(v[0], -pad_), *w = b.add(v[1], -pad_);
      const Expr* inside = b.both(b.binary(BinaryOp::Ge, h, b.integer(0)), b.lt(h, in_rows_));
      inside = b.both(inside, b.both(b.binary(BinaryOp::Ge, w, b.integer(0)), b.lt(w, in_columns_)));
      return m_.store(T_, v, b.select(inside, m_.load(X_, {h, w}), m_.number(0)));
    });
  }

  const Stmt* convolve(const Expr* row, i64 tile) {
    const Build& b = m_.build;
    RandomNest nest(m_, rng_);
    nest.iter("h", rows_, IterKind::S, row, row ? tile : 0);
    nest.iter("w", columns_, IterKind::S);
    nest.iter("kh", window_, IterKind::R);
    nest.iter("kw", window_, IterKind::R);
    return nest.make(
        "D",
        [&](const Exprs& v) {
          const Expr* in = m_.load(T_, {b.add(b.mul(v[0], stride_), v[2]), b.add(b.mul(v[1], stride_), v[3])});
          return m_.store(D_, {v[0], v[1]}, b.add(m_.load(D_, {v[0], v[1]}), b.mul(in, m_.load(W_, {v[2], v[3]}))));
        },
        [&](const Exprs& v) { return m_.store(D_, {v[0], v[1]}, m_.number(0)); });
  }

  const Stmt* finish(const Expr* row, i64 tile) {
    RandomNest nest(m_, rng_);
    nest.iter("h", rows_, IterKind::S, row, row ? tile : 0);
    nest.iter("w", columns_, IterKind::S);
    return nest.make("Y", [&](const Exprs& v) { return m_.store(Y_, v, m_.build.add(m_.load(D_, v), m_.number(1))); });
  }

  ProgramMaker& m_;
  Rng& rng_;
  i64 stride_ = 1, window_ = 1, pad_ = 0, rows_ = 1, columns_ = 1, in_rows_ = 1, in_columns_ = 1;
  const Buffer *X_ = nullptr, *W_ = nullptr, *Y_ = nullptr, *T_ = nullptr, *D_ = nullptr;
};

// Rejects are allowed, but counted.
struct Tally {
  int lowered = 0, rejected = 0;
};

void compare(Arena& arena, const Program& program, const LoweringOptions& options, u64 seed, Tally& tally) {
  Result<LoweredProgram> lowered = lower(arena, program, options);
  if (!lowered) {
    ++tally.rejected;
    return;
  }
  ++tally.lowered;
  for_each<For>(lowered->run.body, [](const For* loop) {
    ASSERT_TRUE(loop->loop_kind == LoopKind::Serial || loop->loop_kind == LoopKind::Parallel);
  });
  ASSERT_EQ(outputs_of(*lowered, seed), outputs_of(program, seed)) << "seed " << seed << "\n"
                                                                   << print(program) << "\nlowered:\n"
                                                                   << print(lowered->run.body);
}

TEST(LowerProperty, RandomPipelines) {
  Tally tally;
  for (u64 seed = 1; seed <= 1500 && !testing::Test::HasFailure(); ++seed) {
    Rng rng(5, seed);
    ProgramMaker m;
    Program program = RandomPipeline(m, rng).make();
    constexpr i64 caps[] = {0, 60, 300, 2000};
    LoweringOptions options{.vector_bits = 128 << rng.below(3), .max_instructions = caps[rng.below(4)]};
    if (options.max_instructions == 0) options.max_instructions = 2000;
    options.has_lane_masks = rng.below(2);
    compare(m.arena, program, options, seed, tally);
  }
  EXPECT_GT(tally.lowered, 10 * tally.rejected);
}

TEST(LowerProperty, RandomTiledProducts) {
  Tally tally;
  for (u64 seed = 1; seed <= 400 && !testing::Test::HasFailure(); ++seed) {
    Rng rng(6, seed);
    ProgramMaker m;
    GemmShape shape{1 + rng.below(14), 1 + rng.below(40), 1 + rng.below(9),
                    1 + rng.below(6),  1 + rng.below(24), 1 + rng.below(4)};
    if (rng.below(4) == 0) shape.accumulators = Scope::Global;
    Program program = gemm(m, shape);
    LoweringOptions options{.max_instructions = rng.below(3) ? 2000 : 400};
    options.has_lane_masks = rng.below(2);
    compare(m.arena, program, options, seed, tally);
  }
  EXPECT_GT(tally.lowered, 3 * tally.rejected);
}

}  // namespace
}  // namespace tw

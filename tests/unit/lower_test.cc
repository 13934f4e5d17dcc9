// Lowering: what each pass makes of small programs, what it rejects, and that lowered programs compute what the
// originals do.
#include "dsl/passes/lower.h"

#include <gtest/gtest.h>

#include "dsl/ir/print.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/widen.h"
#include "tests/unit/evaluate.h"
#include "tests/unit/gemm_program.h"
#include "tests/unit/program_maker.h"

namespace tw {
namespace {

constexpr IterKind S = IterKind::S, R = IterKind::R;
constexpr LoopKind Serial = LoopKind::Serial, Parallel = LoopKind::Parallel, Vectorize = LoopKind::Vectorize,
                   Unroll = LoopKind::Unroll;

int count(const Stmt* body, Kind kind) {
  int found = 0;
  walk(body, [&](const Node* node) {
    found += node->kind == kind;
    return true;
  });
  return found;
}

// Lowers, checks the promised form, and compares the results.
void expect_same_results(Arena& arena, const Program& program, const LoweringOptions& options = {}) {
  std::vector<PassDump> dumps;
  Result<LoweredProgram> lowered = lower(arena, program, options, &dumps);
  ASSERT_TRUE(lowered) << to_string(lowered.rejected()) << "\n" << print(program);
  for_each<For>(lowered->run.body, [](const For* loop) {
    EXPECT_TRUE(loop->loop_kind == Serial || loop->loop_kind == Parallel) << print(loop);
    EXPECT_GT(loop->extent, 1);
  });
  EXPECT_EQ(count(lowered->run.body, Kind::Block), 0);
  EXPECT_EQ(outputs_of(*lowered, 1), outputs_of(program, 1))
      << print(program) << (dumps.empty() ? "" : dumps.back().text);
}

TEST(Lower, GemmTileHasNoTestsAndConstantRegisterIndices) {
  ProgramMaker m;
  Program program = gemm(m, {16, 32, 8, 4, 16, 2});
  Result<LoweredProgram> lowered = lower(m.arena, program, {});
  ASSERT_TRUE(lowered);
  const Stmt* body = lowered->run.body;
  EXPECT_EQ(count(body, Kind::If), 0);
  EXPECT_EQ(count(body, Kind::For), 2);  // the fused parallel loop and k0
  EXPECT_EQ(count(body, Kind::Store), 8 + 2 * 8 + 8);
  EXPECT_TRUE(lowered->parallel);
  EXPECT_EQ(lowered->scratch_shared_bytes + lowered->scratch_worker_bytes, 0);
  expect_same_results(m.arena, program);
}

TEST(Lower, TailsAreCutInBothDimensions) {
  ProgramMaker m;
  Program program = gemm(m, {9, 20, 7, 4, 16, 2});
  Result<LoweredProgram> lowered = lower(m.arena, program, {});
  ASSERT_TRUE(lowered) << to_string(lowered.rejected());
  // Only the two tests that choose between main and tail code, at the top of the parallel loop; k is cut, too.
  int tests = 0;
  for_each<If>(lowered->run.body, [&](const If* branch) {
    ++tests;
    EXPECT_GE(count(branch->then, Kind::For), 1) << "a test inside of the reduction:\n" << print(branch);
  });
  EXPECT_EQ(tests, 3);
  expect_same_results(m.arena, program);
}

TEST(Lower, CodeCapLeavesTheTest) {
  ProgramMaker m;
  Program program = gemm(m, {7, 16, 8, 4, 16, 4});
  LoweringOptions options;
  options.max_instructions = 120;
  expect_same_results(m.arena, program, options);
  Result<LoweredProgram> capped = lower(m.arena, program, options), free = lower(m.arena, program, {});
  ASSERT_TRUE(capped && free);
  EXPECT_GT(count(free->run.body, Kind::Store), count(capped->run.body, Kind::Store));
  EXPECT_GT(count(capped->run.body, Kind::If), count(free->run.body, Kind::If));
}

TEST(Lower, RejectsSayWhy) {
  {
    ProgramMaker m;
    Result<LoweredProgram> lowered = lower(m.arena, gemm(m, {16, 64, 8, 8, 32, 1}), {});
    ASSERT_FALSE(lowered);
    EXPECT_EQ(
        to_string(lowered.rejected()),
        "register buffer `D`: it and those around it need 32 vector registers and one to spare, but there are 16");
  }
  {
    ProgramMaker m;
    Result<LoweredProgram> lowered = lower(m.arena, gemm(m, {16, 64, 64, 4, 16, 64}), {.max_instructions = 500});
    ASSERT_FALSE(lowered);
    EXPECT_EQ(to_string(lowered.rejected()),
              "unrolled code of a nest of loops of `test` would have 1040 vector operations; at most 500 are allowed");
  }
  {
    ProgramMaker m;
    const Buffer *X = m.param("X", {64}, Role::Input), *Y = m.param("Y", {1}, Role::Output);
    const Stmt* sum = m.loop("k", 64, Vectorize, [&](const Var* k) {
      const Expr* zero = m.build.integer(0);
      return m.store(Y, {zero}, m.build.add(m.load(Y, {zero}), m.load(X, {k})));
    });
    Result<LoweredProgram> lowered = lower(m.arena, m.finish(sum), {});
    ASSERT_FALSE(lowered);
    EXPECT_EQ(to_string(lowered.rejected()), "vectorize: every iteration of loop `k` stores to the same place of `Y`");
  }
}

TEST(Lower, UndecomposedReductionRunsItsInitFirst) {
  for (bool k_outside : {false, true}) {
    ProgramMaker m;
    const Build& b = m.build;
    const Buffer *X = m.param("X", {5, 7}, Role::Input), *Y = m.param("Y", {5}, Role::Output);
    auto body = [&](const Var* i, const Var* k) {
      return m.block(
          "Y", {{"i", 5, S, i}, {"k", 7, R, k}}, false,
          [&](const Exprs& v) { return m.store(Y, {v[0]}, b.add(m.load(Y, {v[0]}), m.load(X, {v[0], v[1]}))); },
          [&](const Exprs& v) { return m.store(Y, {v[0]}, m.number(0)); });
    };
    Program program =
        k_outside ? m.finish(m.loop(
                        "k", 7, [&](const Var* k) { return m.loop("i", 5, [&](const Var* i) { return body(i, k); }); }))
                  : m.finish(m.loop("i", 5, [&](const Var* i) {
                      return m.loop("k", 7, [&](const Var* k) { return body(i, k); });
                    }));
    Result<LoweredProgram> lowered = lower(m.arena, program, {});
    ASSERT_TRUE(lowered);
    EXPECT_EQ(count(lowered->run.body, Kind::If), 0) << print(lowered->run.body);
    expect_same_results(m.arena, program);
  }
}

// T = X + 1 computed per tile of the consumer Y[i, j] = T[i, j] + T[i + 1, j].
Program stencil(ProgramMaker& m, LoopKind outer, i64 width) {
  const Build& b = m.build;
  const Buffer *X = m.param("X", {9, width}, Role::Input), *Y = m.param("Y", {8, width}, Role::Output),
               *T = m.local("T", {9, width});
  return m.finish(m.loop("i0", 4, outer, [&](const Var* i0) {
    const Stmt* producer = m.loop("a", 3, [&](const Var* a) {
      return m.loop("b", width, Vectorize, [&](const Var* j) {
        return m.block("T", {{"i", 9, S, b.add(b.mul(i0, 2), a)}, {"j", width, S, j}}, false,
                       [&](const Exprs& v) { return m.store(T, v, b.add(m.load(X, v), m.number(1))); });
      });
    });
    const Stmt* consumer = m.loop("i1", 2, [&](const Var* i1) {
      return m.loop("j", width, Vectorize, [&](const Var* j) {
        return m.block("Y", {{"i", 8, S, b.add(b.mul(i0, 2), i1)}, {"j", width, S, j}}, false, [&](const Exprs& v) {
          return m.store(Y, v, b.add(m.load(T, v), m.load(T, {b.add(v[0], 1), v[1]})));
        });
      });
    });
    return b.seq({producer, consumer});
  }));
}

TEST(Lower, ComputedAtStagesShrinkToTheirTile) {
  {
    ProgramMaker m;
    Program program = stencil(m, Parallel, 100);
    Result<LoweredProgram> lowered = lower(m.arena, program, {});
    ASSERT_TRUE(lowered);
    EXPECT_EQ(lowered->scratch_worker_bytes, 1216);  // 3 rows of 100 floats, rounded up to 64
    ASSERT_EQ(lowered->run.scratch.size(), 1u);
    EXPECT_EQ(lowered->run.scratch[0].place, Place::WorkerScratch);
    expect_same_results(m.arena, program);
  }
  {
    ProgramMaker m;
    Program program = stencil(m, Serial, 16);
    Result<LoweredProgram> lowered = lower(m.arena, program, {});
    ASSERT_TRUE(lowered);
    EXPECT_EQ(lowered->run.scratch.size(), 0u);  // 192 bytes: on the stack
    EXPECT_EQ(count(lowered->run.body, Kind::Alloc), 1);
    expect_same_results(m.arena, program);
  }
}

TEST(Lower, ValuesCarriedFromIterationToIterationKeepTheirBuffer) {
  ProgramMaker m;
  const Build& b = m.build;
  const Buffer *X = m.param("X", {8}, Role::Input), *Y = m.param("Y", {8}, Role::Output), *T = m.local("T", {9});
  Program program = m.finish(m.loop("i", 8, [&](const Var* i) {
    const Stmt* first = b.if_then(b.binary(BinaryOp::Eq, i, b.integer(0)), m.store(T, {i}, m.number(3)));
    const Stmt* next = m.store(T, {b.add(i, 1)}, b.add(m.load(T, {i}), m.load(X, {i})));
    return b.seq({first, next, m.store(Y, {i}, m.load(T, {b.add(i, 1)}))});
  }));
  expect_same_results(m.arena, program);
}

TEST(Lower, ScratchIsReused) {
  ProgramMaker m;
  const Build& b = m.build;
  const i64 n = 1024;
  const Buffer *X = m.param("X", {n}, Role::Input), *Y = m.param("Y", {n}, Role::Output);
  std::vector<const Buffer*> chain{X, m.local("A", {n}), m.local("B", {n}), m.local("C", {n}), Y};
  std::vector<const Stmt*> stages;
  for (std::size_t s = 1; s < chain.size(); ++s) {
    stages.push_back(m.loop("i", n, Vectorize, [&](const Var* i) {
      return m.store(chain[s], {i}, b.add(m.load(chain[s - 1], {i}), m.number(1)));
    }));
  }
  Program program = m.finish(b.seq(stages));
  Result<LoweredProgram> lowered = lower(m.arena, program, {});
  ASSERT_TRUE(lowered);
  EXPECT_EQ(lowered->scratch_shared_bytes, 2 * 4 * n);  // A and C share a slot
  expect_same_results(m.arena, program);
}

TEST(Lower, PaddingIsCutIntoBorderAndInterior) {
  ProgramMaker m;
  const Build& b = m.build;
  const i64 n = 32;
  const Buffer *X = m.param("X", {n}, Role::Input), *Y = m.param("Y", {n}, Role::Output);
  Program program = m.finish(m.loop("i", n, [&](const Var* i) {
    return m.loop("k", 3, Unroll, [&](const Var* k) {
      const Expr* at = b.add(b.add(i, k), -1);
      const Expr* inside = b.both(b.binary(BinaryOp::Ge, at, b.integer(0)), b.lt(at, n));
      const Expr* padded = b.select(inside, m.load(X, {at}), m.number(0));
      return m.block(
          "Y", {{"i", n, S, i}, {"k", 3, R, k}}, false,
          [&](const Exprs& v) { return m.store(Y, {v[0]}, b.add(m.load(Y, {v[0]}), padded)); },
          [&](const Exprs& v) { return m.store(Y, {v[0]}, m.number(0)); });
    });
  }));
  Result<LoweredProgram> lowered = lower(m.arena, program, {});
  ASSERT_TRUE(lowered);
  EXPECT_EQ(count(lowered->run.body, Kind::Select), 0) << print(lowered->run.body);
  expect_same_results(m.arena, program);
}

TEST(Lower, PackedConstantsBecomeArguments) {
  ProgramMaker m;
  const Build& b = m.build;
  const Buffer *X = m.param("X", {12}, Role::Input), *W = m.param("W", {12}, Role::Constant),
               *V = m.param("V", {12}, Role::Constant);
  const Buffer *Y = m.param("Y", {12}, Role::Output), *P = m.local("P", {3, 4});
  auto pack = [&](const Expr* from) {
    return m.loop("i", 12, [&](const Var* i) {
      return m.block("P", {{"i", 12, S, i}}, false,
                     [&](const Exprs& v) {
                       return m.store(P, {b.floor_div(v[0], b.integer(4)), b.floor_mod(v[0], b.integer(4))},
                                      b.add(m.load(W, {v[0]}), from));
                     },
                     nullptr, {{"prepack", Literal::of(1)}});
    });
  };
  auto use = [&] {
    return m.loop("i0", 3, [&](const Var* i0) {
      return m.loop("i1", 4, Vectorize, [&](const Var* i1) {
        return m.block("Y", {{"i", 12, S, b.add(b.mul(i0, 4), i1)}}, false, [&](const Exprs& v) {
          const Expr* packed = m.load(P, {b.floor_div(v[0], b.integer(4)), b.floor_mod(v[0], b.integer(4))});
          return m.store(Y, v, b.add(b.mul(m.load(X, v), packed), m.load(V, v)));
        });
      });
    });
  };
  Program program = m.finish(b.seq({pack(m.number(1)), use()}));
  Result<LoweredProgram> lowered = lower(m.arena, program, {});
  ASSERT_TRUE(lowered) << to_string(lowered.rejected());
  std::vector<std::string> names;
  for (const LoweredArgument& a : lowered->run_arguments)
    names.push_back(std::string(a.name) + (a.is_packed ? "!" : "") + (a.is_constant ? "=" : ""));
  EXPECT_EQ(names, (std::vector<std::string>{"X", "V=", "P!", "Y"}));
  ASSERT_EQ(lowered->prepack_arguments.size(), 2u);
  EXPECT_TRUE(lowered->prepack_arguments[1].is_output && lowered->prepack_arguments[1].is_packed);
  expect_same_results(m.arena, program);
  Program wrong = m.finish(b.seq({pack(m.load(X, {b.integer(0)})), use()}));
  Result<LoweredProgram> rejected = lower(m.arena, wrong, {});
  ASSERT_FALSE(rejected);
  EXPECT_EQ(to_string(rejected.rejected()), "prepack: reads `X`, which is not constant and has no free layout");
}

// An input whose layout is the kernel's choice arrives as a copy; arithmetic on it belongs to the run.
TEST(Lower, InputsWithAFreeLayoutMayBeCopiedBefore) {
  ProgramMaker m;
  const Build& b = m.build;
  const Buffer *X = m.param("X", {12}, Role::Input), *Y = m.param("Y", {12}, Role::Output), *P = m.local("P", {3, 4});
  auto program = [&](auto value_of, bool free) {
    const Stmt* pack = m.loop("i", 12, [&](const Var* i) {
      return m.block("P", {{"i", 12, S, i}}, false,
                     [&](const Exprs& v) {
                       return m.store(P, {b.floor_div(v[0], b.integer(4)), b.floor_mod(v[0], b.integer(4))},
                                      value_of(m.load(X, {v[0]})));
                     },
                     nullptr, {{"prepack", Literal::of(1)}});
    });
    const Stmt* use = m.loop("i", 12, [&](const Var* i) {
      return m.block("Y", {{"i", 12, S, i}}, false, [&](const Exprs& v) {
        return m.store(
            Y, v, b.add(m.load(P, {b.floor_div(v[0], b.integer(4)), b.floor_mod(v[0], b.integer(4))}), m.number(1)));
      });
    });
    Program made = m.finish(b.seq({pack, use}));
    if (free) made.annotations = m.arena.list<Annotation>({{"layout_free", Literal::of(1)}});
    return made;
  };
  auto copied = [](const Expr* x) { return x; };
  auto doubled = [&](const Expr* x) { return b.add(x, x); };
  Result<LoweredProgram> lowered = lower(m.arena, program(copied, true), {});
  ASSERT_TRUE(lowered) << to_string(lowered.rejected());
  std::vector<std::string> names;
  for (const LoweredArgument& a : lowered->run_arguments)
    names.push_back(std::string(a.name) + (a.is_packed ? "!" : ""));
  EXPECT_EQ(names, (std::vector<std::string>{"P!", "Y"}));
  expect_same_results(m.arena, program(copied, true));
  Result<LoweredProgram> fixed = lower(m.arena, program(copied, false), {}),
                         computed = lower(m.arena, program(doubled, true), {});
  ASSERT_FALSE(fixed);
  ASSERT_FALSE(computed);
  EXPECT_EQ(to_string(fixed.rejected()), "prepack: reads `X`, which is not constant and has no free layout");
  EXPECT_EQ(to_string(computed.rejected()),
            "prepack: block `P` computes with an input; of inputs with a free layout it may only make copies");
}

TEST(Lower, VectorRemaindersStridesAndLongLoops) {
  for (i64 n : {1, 2, 7, 8, 13, 31, 64, 65, 77, 300}) {
    ProgramMaker m;
    const Build& b = m.build;
    const Buffer *X = m.param("X", {2 * n}, Role::Input), *Y = m.param("Y", {n}, Role::Output);
    Program program = m.finish(m.loop("i", n, Vectorize, [&](const Var* i) {
      const Expr* half = m.load(X, {b.floor_div(i, b.integer(8))});
      return m.store(Y, {i}, b.add(b.mul(m.load(X, {b.mul(i, 2)}), half), m.load(X, {b.integer(0)})));
    }));
    expect_same_results(m.arena, program);
  }
}

TEST(Lower, VectorLoopsWithoutVectorFormBecomeSerial) {
  ProgramMaker m;
  const Build& b = m.build;
  const Buffer *X = m.param("X", {8}, Role::Input), *Y = m.param("Y", {8}, Role::Output);
  Program program = m.finish(m.loop("i", 8, Vectorize, [&](const Var* i) {
    return m.store(Y, {i}, m.load(X, {b.floor_mod(b.mul(i, 3), b.integer(8))}));
  }));
  expect_same_results(m.arena, program);
}

TEST(Lower, SameInputSameOutput) {
  auto text = [] {
    ProgramMaker m;
    return print(lower(m.arena, gemm(m, {49, 50, 33, 5, 16, 4}), {})->run.body);
  };
  EXPECT_EQ(text(), text());
}

TEST(Lower, DumpsShowEveryPassThatChangedSomething) {
  ProgramMaker m;
  std::vector<PassDump> dumps;
  ASSERT_TRUE(lower(m.arena, gemm(m, {9, 20, 7, 4, 16, 2}), {}, &dumps));
  std::vector<std::string> passes;
  for (const PassDump& dump : dumps) passes.push_back(dump.pass);
  EXPECT_EQ(passes, (std::vector<std::string>{"lower_blocks", "place_buffers", "partition_loops", "fuse_parallel_loops",
                                              "flatten_buffers", "vectorize_loops", "unroll_loops"}));
}

TEST(Widen, ArithmeticAndOutputsAreDouble) {
  ProgramMaker m;
  Program program = gemm(m, {9, 20, 7, 4, 16, 2, Scope::Global});
  Program wide = widen_to_f64(m.arena, program);
  EXPECT_EQ(wide.params[0].buffer->dtype, DType::F32);
  EXPECT_EQ(wide.params[2].buffer->dtype, DType::F64);
  EXPECT_EQ(wide.locals[0]->dtype, DType::F64);
  walk(wide.body, [](const Node* node) {
    const Binary* op = as<Binary>(node);
    EXPECT_TRUE(!op || op->type.dtype != DType::F32) << print(op);
    return true;
  });
  EXPECT_EQ(outputs_of(wide, 1), outputs_of(program, 1));
  expect_same_results(m.arena, wide, {.vector_bits = 512});
}

}  // namespace
}  // namespace tw

// Each lowering pass alone, as text before and after.
#include <gtest/gtest.h>

#include "dsl/base/text.h"
#include "dsl/ir/print.h"
#include "dsl/passes/cost.h"
#include "dsl/passes/flatten_buffers.h"
#include "dsl/passes/lower_blocks.h"
#include "dsl/passes/parallel_loops.h"
#include "dsl/passes/partition_loops.h"
#include "dsl/passes/place_buffers.h"
#include "dsl/passes/register_loops.h"
#include "dsl/passes/skip_identity_terms.h"
#include "dsl/passes/unroll_loops.h"
#include "dsl/passes/vectorize_loops.h"
#include "support/parsed.h"

namespace tw {
namespace {

// A program from its parameters and its body, and what a pass makes of it, without head and indentation.
class PassTest : public testing::Test {
 protected:
  Program parse(const std::string& head, const std::string& body) {
    parsed_.push_back(test::parsed("program p(" + head + ") {\n" + body + "\n}\n"));
    return parsed_.back().program;
  }
  Arena& arena() { return arena_; }
  static std::string body(const Program& program) { return program.body ? print(program.body) : ""; }
  static std::string body(const Result<Program>& program) {
    return program ? body(*program) : to_string(program.rejected()) + "\n";
  }

  std::vector<OwnedProgram> parsed_;
  Arena arena_;
};

// Padding of a sum and of a maximum; the test of a term that is not zero elsewhere, or of another operation, stays a
// value.
TEST_F(PassTest, SkipIdentityTermsMakesPaddingATest) {
  Program p = parse("X: input f32[8], F: input f32[8], Y: output f32[8], Z: output f32[8]", R"(
    for i in 8 {
      Y[i] = Y[i] + (if i >= 1 then X[i - 1] else 0.0) * F[i]
      Y[i] = (if i >= 2 then X[i - 2] else 0.0) * F[i] + Y[i]
      Y[i] = max(Y[i], if i >= 3 then X[i - 3] else -inf)
      Y[i] = max(Y[i], if i >= 4 then X[i - 4] else 0.0)
      Y[i] = Y[i] + (if i >= 5 then X[i - 5] else 1.0) * F[i]
      Y[i] = Y[i] * (if i >= 6 then X[i - 6] else 0.0)
      Z[i] = Y[i] + (if i >= 7 then X[i - 7] else 0.0)
    })");
  EXPECT_EQ(body(skip_identity_terms(arena(), p)), R"(for i in 8 {
  if i >= 1 {
    Y[i] = Y[i] + X[i - 1] * F[i]
  }
  if i >= 2 {
    Y[i] = X[i - 2] * F[i] + Y[i]
  }
  if i >= 3 {
    Y[i] = max(Y[i], X[i - 3])
  }
  Y[i] = max(Y[i], if i >= 4 then X[i - 4] else 0.0)
  Y[i] = Y[i] + (if i >= 5 then X[i - 5] else 1.0) * F[i]
  Y[i] = Y[i] * (if i >= 6 then X[i - 6] else 0.0)
  Z[i] = Y[i] + (if i >= 7 then X[i - 7] else 0.0)
}
)");
}

TEST_F(PassTest, LowerBlocksPutsGuardsOutside) {
  Program p = parse("X: input f32[49, 8], Y: output f32[49, 8]", R"(
    for i0 in 9 {
      for i1 in 6 {
        for j in 8 {
          block Y(i: S 49 = i0 * 6 + i1, j: S 8 = j) where i0 * 6 + i1 < 49 {
            Y[i, j] = X[i, j] + 1.0
          }
        }
      }
    })");
  EXPECT_EQ(body(lower_blocks(arena(), p)), R"(for i0 in 9 {
  for i1 in 6 {
    if i0 * 6 + i1 < 49 {
      for j in 8 {
        Y[i0 * 6 + i1, j] = X[i0 * 6 + i1, j] + 1.0
      }
    }
  }
}
)");
}

TEST_F(PassTest, LowerBlocksRunsInitBeforeTheReduction) {
  Program p = parse("X: input f32[8, 12], Y: output f32[8]", R"(
    for k0 in 4 {
      for i in 8 {
        for k1 in 3 {
          block Y(i: S 8 = i, k: R 12 = k0 * 3 + k1) {
            init {
              Y[i] = 0.0
            }
            Y[i] = Y[i] + X[i, k]
          }
        }
      }
    })");
  EXPECT_EQ(body(lower_blocks(arena(), p)), R"(for i in 8 {
  Y[i] = 0.0
}
for k0 in 4 {
  for i in 8 {
    for k1 in 3 {
      Y[i] = Y[i] + X[i, k0 * 3 + k1]
    }
  }
}
)");
}

TEST_F(PassTest, LowerBlocksKeepsInitUnderATestWhereTheNestIsNotPerfect) {
  Program p = parse("X: input f32[8, 12], Y: output f32[8], Z: output f32[12]", R"(
    for k in 12 {
      block Z(k: S 12 = k) {
        Z[k] = 1.0
      }
      for i in 8 {
        block Y(i: S 8 = i, k: R 12 = k) {
          init {
            Y[i] = 0.0
          }
          Y[i] = Y[i] + X[i, k]
        }
      }
    })");
  EXPECT_EQ(body(lower_blocks(arena(), p)), R"(for k in 12 {
  Z[k] = 1.0
  for i in 8 {
    if k == 0 {
      Y[i] = 0.0
    }
    Y[i] = Y[i] + X[i, k]
  }
}
)");
}

TEST_F(PassTest, PlaceBuffersShrinksToTheTile) {
  Program p = parse("X: input f32[64, 400], Y: output f32[64, 400]", R"(
    local T: f32[64, 400]
    parallel for i in 64 {
      for j in 400 {
        T[i, j] = X[i, j] + 1.0
      }
      for j in 400 {
        Y[i, j] = T[i, j] * 2.0
      }
    })");
  Result<PlacedProgram> placed = place_buffers(arena(), p, {});
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->worker_bytes, 1600);
  EXPECT_EQ(placed->shared_bytes, 0);
  EXPECT_EQ(body(placed->program), R"(parallel for i in 64 {
  for j in 400 {
    T[0, j] = X[i, j] + 1.0
  }
  for j in 400 {
    Y[i, j] = T[0, j] * 2.0
  }
}
)");
}

TEST_F(PassTest, PlaceBuffersLeavesWhatIsCarriedAlone) {
  Program p = parse("X: input f32[512], Y: output f32[512]", R"(
    local T: f32[513]
    T[0] = 0.0
    for i in 512 {
      T[i + 1] = T[i] + X[i]
      Y[i] = T[i + 1]
    })");
  Result<PlacedProgram> placed = place_buffers(arena(), p, {});
  ASSERT_TRUE(placed);
  EXPECT_EQ(placed->shared_bytes, 2112);
  EXPECT_EQ(body(placed->program), body(p));
}

TEST_F(PassTest, PartitionLoopsCutsTheTail) {
  Program p = parse("X: input f32[49], Y: output f32[49]", R"(
    for i0 in 9 {
      vectorize for i1 in 6 {
        if i0 * 6 + i1 < 49 {
          Y[i0 * 6 + i1] = X[i0 * 6 + i1]
        }
      }
    })");
  EXPECT_EQ(body(partition_loops(arena(), p, {})), R"(for i0 in 8 {
  vectorize for i1 in 6 {
    Y[i0 * 6 + i1] = X[i0 * 6 + i1]
  }
}
Y[48] = X[48]
)");
}

TEST_F(PassTest, PartitionLoopsCutsPaddingAndKeepsParallelLoopsWhole) {
  Program p = parse("X: input f32[30, 30], Y: output f32[32, 32]", R"(
    parallel for h in 32 {
      for w in 32 {
        Y[h, w] = if h >= 1 and h < 31 and (w >= 1 and w < 31) then X[h - 1, w - 1] else 0.0
      }
    })");
  EXPECT_EQ(body(partition_loops(arena(), p, {})), R"(parallel for h in 32 {
  if h < 1 {
    Y[0, 0] = 0.0
    for w in 30 {
      Y[0, w + 1] = 0.0
    }
    Y[0, 31] = 0.0
  } else {
    if h < 31 {
      Y[h, 0] = 0.0
      for w in 30 {
        Y[h, w + 1] = X[h + -1, w]
      }
      Y[h, 31] = 0.0
    } else {
      Y[31, 0] = 0.0
      for w in 30 {
        Y[31, w + 1] = 0.0
      }
      Y[31, 31] = 0.0
    }
  }
}
)");
}

TEST_F(PassTest, PartitionLoopsLeavesTestsAroundMuchWork) {
  Program p = parse("X: input f32[49, 900], Y: output f32[49, 900]", R"(
    for i0 in 9 {
      for i1 in 6 {
        if i0 * 6 + i1 < 49 {
          for j in 900 {
            Y[i0 * 6 + i1, j] = X[i0 * 6 + i1, j] * 2.0
          }
        }
      }
    })");
  EXPECT_EQ(partition_loops(arena(), p, {}).body, p.body);
}

// Two loops of tiles with a remainder each, fused: the tests are of quotient and remainder, none is left at the
// elements.
TEST_F(PassTest, PartitionLoopsAsksForTheDigitsOfFusedLoops) {
  Program p = parse("X: input f32[20, 22], Y: output f32[20, 22]", R"(
    parallel for f in 9 {
      unroll for i in 8 {
        vectorize for j in 8 {
          if f // 3 * 8 + i < 20 and f % 3 * 8 + j < 22 { Y[f // 3 * 8 + i, f % 3 * 8 + j] = X[f // 3 * 8 + i, f % 3 * 8 + j] }
        }
      }
    })");
  EXPECT_EQ(body(partition_loops(arena(), p, {})), R"(parallel for f in 9 {
  if f // 3 < 2 {
    if f % 3 < 2 {
      unroll for i in 8 {
        vectorize for j in 8 {
          Y[f // 3 * 8 + i, f % 3 * 8 + j] = X[f // 3 * 8 + i, f % 3 * 8 + j]
        }
      }
    } else {
      unroll for i in 8 {
        vectorize for j in 6 {
          Y[f // 3 * 8 + i, j + 16] = X[f // 3 * 8 + i, j + 16]
        }
      }
    }
  } else {
    if f % 3 < 2 {
      unroll for i in 4 {
        vectorize for j in 8 {
          Y[i + 16, f % 3 * 8 + j] = X[i + 16, f % 3 * 8 + j]
        }
      }
    } else {
      unroll for i in 4 {
        vectorize for j in 6 {
          Y[i + 16, j + 16] = X[i + 16, j + 16]
        }
      }
    }
  }
}
)");
}

TEST_F(PassTest, ParallelLoopsAreFusedOrSerial) {
  Program p = parse("X: input f32[4, 6, 5], Y: output f32[4, 6, 5]", R"(
    parallel for i in 4 {
      parallel for j in 6 {
        parallel for one in 1 {
          for k in 5 {
            parallel for l in 1 {
              Y[i, j, k] = X[i, j, k]
            }
          }
        }
      }
    })");
  Program serial = serialize_inner_parallel(arena(), p, true);
  EXPECT_EQ(body(fuse_parallel_loops(arena(), serial)), R"(parallel for i in 24 {
  for one in 1 {
    for k in 5 {
      for l in 1 {
        Y[i // 6, i % 6, k] = X[i // 6, i % 6, k]
      }
    }
  }
}
)");
}

TEST_F(PassTest, RegisterLoopsAreUnrolledAndNeverParallel) {
  const char* text = R"(
    alloc R: f32[4] in register {
      KIND for i in 4 {
        R[i] = 0.0
      }
      for j in 4 {
        Y[j] = R[3]
      }
    })";
  auto with = [&](const std::string& kind) {
    std::string changed = text;
    return parse("Y: output f32[4]", changed.replace(changed.find("KIND "), 5, kind));
  };
  Program p = with("");
  EXPECT_EQ(body(unroll_register_loops(arena(), p)), body(with("unroll ")));
  // A row that goes to consecutive places, though the place of the row is not linear in the loops.
  Program rows = parse("Y: output f32[8, 32]", R"(
    local R: f32[2, 8] in register
    for f in 16 { unroll for i in 2 { unroll for j in 8 { Y[f // 4 * 2 + i, f % 4 * 8 + j] = R[i, j] } } })");
  EXPECT_EQ(body(unroll_register_loops(arena(), rows)), R"(for f in 16 {
  unroll for i in 2 {
    vectorize for j in 8 {
      Y[f // 4 * 2 + i, f % 4 * 8 + j] = R[i, j]
    }
  }
}
)");
  Program wrong = with("parallel ");
  EXPECT_EQ(body(unroll_register_loops(arena(), wrong)),
            "loop `i` is parallel and selects a register; a register buffer must lie inside of it\n");
}

TEST_F(PassTest, FlattenBuffersPutsConstantsOutside) {
  Program p = parse("X: input f32[8, 20], Y: output f32[8, 20]", R"(
    for i in 4 {
      unroll for u in 2 {
        for j in 18 {
          Y[i * 2 + u, j + 2] = X[i * 2 + u, j + 1]
        }
      }
    })");
  EXPECT_EQ(body(flatten_buffers(arena(), p)), R"(for i in 4 {
  unroll for u in 2 {
    for j in 18 {
      Y[i * 40 + j + u * 20 + 2] = X[i * 40 + j + u * 20 + 1]
    }
  }
}
)");
}

TEST_F(PassTest, VectorizeLoopsSinksBelowInnerLoopsAndTakesRemainders) {
  Program p = parse("X: input f32[11], W: input f32[44], Y: output f32[11]", R"(
    vectorize for j in 11 {
      for k in 4 {
        Y[j] = Y[j] + X[k] * W[k * 11 + j]
      }
    })");
  EXPECT_EQ(body(vectorize_loops(arena(), p, {})), R"(for k in 4 {
  Y[ramp(0, 1, 8)] = Y[ramp(0, 1, 8)] + broadcast(X[k], 8) * W[ramp(k * 11, 1, 8)]
  Y[ramp(8, 1, 2)] = Y[ramp(8, 1, 2)] + broadcast(X[k], 2) * W[ramp(k * 11 + 8, 1, 2)]
  Y[10] = Y[10] + X[k] * W[k * 11 + 10]
}
)");
}

TEST_F(PassTest, VectorizeLoopsCountsManyVectors) {
  Program p = parse("X: input f32[203], Y: output f32[101]", R"(
    vectorize for j in 101 {
      Y[j] = X[j * 2] + X[j // 8]
    })");
  EXPECT_EQ(body(vectorize_loops(arena(), p, {})), R"(for j in 12 {
  Y[ramp(j * 8, 1, 8)] = X[ramp(j * 16, 2, 8)] + broadcast(X[j], 8)
}
Y[ramp(96, 1, 4)] = X[ramp(192, 2, 4)] + broadcast(X[12], 4)
Y[100] = X[200] + X[12]
)");
}

// Each step of exp waits for the one before it: two or four registers are computed together.
TEST_F(PassTest, FunctionsOfSeveralVectorsAreInterleaved) {
  auto vectors = [&](const std::string& type, int extent, const std::string& function) {
    std::string tensor = cat(type, "[", extent, "]");
    Program p = parse(cat("X: input ", tensor, ", Y: output ", tensor),
                      cat("vectorize for j in ", extent, " {\n  Y[j] = ", function, "(X[j])\n}\n"));
    return body(vectorize_loops(arena(), p, {}));
  };
  EXPECT_EQ(vectors("f32", 16, "exp"), "Y[ramp(0, 1, 16)] = exp(X[ramp(0, 1, 16)])\n");
  EXPECT_EQ(vectors("f32", 64, "erf"), "for j in 2 {\n  Y[ramp(j * 32, 1, 32)] = erf(X[ramp(j * 32, 1, 32)])\n}\n");
  std::string two = "Y[ramp(0, 1, 8)] = exp(X[ramp(0, 1, 8)])\nY[ramp(8, 1, 8)] = exp(X[ramp(8, 1, 8)])\n";
  EXPECT_EQ(vectors("f32", 24, "exp"), two + "Y[ramp(16, 1, 8)] = exp(X[ramp(16, 1, 8)])\n");
  EXPECT_EQ(vectors("f32", 16, "sqrt"),
            "Y[ramp(0, 1, 8)] = sqrt(X[ramp(0, 1, 8)])\nY[ramp(8, 1, 8)] = sqrt(X[ramp(8, 1, 8)])\n");
  EXPECT_EQ(vectors("f64", 8, "exp"),
            "Y[ramp(0, 1, 4)] = exp(X[ramp(0, 1, 4)])\nY[ramp(4, 1, 4)] = exp(X[ramp(4, 1, 4)])\n");
}

TEST_F(PassTest, VectorSelectsReadOnlyWhatMayBeRead) {
  const std::string loop = R"(
    vectorize for j in 8 {
      Y[j] = if j < 5 then X[j] else 0.0
    })";
  Program safe = parse("X: input f32[8], Y: output f32[8]", loop);
  EXPECT_EQ(body(vectorize_loops(arena(), safe, {})),
            "Y[ramp(0, 1, 8)] = if ramp(0, 1, 8) < broadcast(5, 8) then X[ramp(0, 1, 8)] else broadcast(0.0, 8)\n");
  Program unsafe = parse("X: input f32[5], Y: output f32[8]", loop);
  EXPECT_EQ(body(vectorize_loops(arena(), unsafe, {})), "for j in 8 {\n  Y[j] = if j < 5 then X[j] else 0.0\n}\n");
}

TEST_F(PassTest, PartitionLoopsKnowsHowMuchWorkIsMuch) {
  auto nest = [&](int extent) {
    std::string k = std::to_string(extent);
    return parse("X: input f32[64], Y: output f32[64]",
                 "for i in 8 {\n if i < 5 {\n for k in " + k + " {\n Y[k] = X[k]\n }\n }\n }");
  };
  EXPECT_EQ(body(partition_loops(arena(), nest(63), {})), "for i in 5 {\n  for k in 63 {\n    Y[k] = X[k]\n  }\n}\n");
  EXPECT_EQ(body(partition_loops(arena(), nest(64), {})),
            "for i in 8 {\n  if i < 5 {\n    for k in 64 {\n      Y[k] = X[k]\n    }\n  }\n}\n");
}

// A condition that names a loop's variable without depending on it cuts nothing.
TEST_F(PassTest, PartitionLoopsKnowsWhatDependsOnALoop) {
  Program p = parse("X: input f32[8], Y: output f32[8, 8]",
                    "for i in 8 {\n for j in 8 {\n if i + j < i + 5 {\n Y[i, j] = X[j]\n }\n }\n }");
  EXPECT_EQ(body(partition_loops(arena(), p, {})), "for i in 8 {\n  for j in 5 {\n    Y[i, j] = X[j]\n  }\n}\n");
}

TEST_F(PassTest, VectorsHoldAsManyElementsAsTheWidestTypeAllows) {
  const LoweringOptions options{.vector_bits = 256};
  EXPECT_EQ(lanes_of(parse("X: input u8[4], Y: output u8[4]", "for i in 4 {\n Y[i] = X[i]\n }").body, options), 32);
  EXPECT_EQ(lanes_of(parse("X: input u8[4], Y: output i32[4]", "for i in 4 {\n Y[i] = i32(X[i])\n }").body, options),
            8);
}

TEST_F(PassTest, LongVectorizedLoopsAreALoopOverVectors) {
  const LoweringOptions options{.vector_bits = 256};
  EXPECT_EQ(vectors_in(13, 8, 1), 3);  // one full vector, one of four elements, one of one
  EXPECT_EQ(vectors_in(13, 8, 0), 2);
  EXPECT_EQ(vectors_in(16, 8, 1), 2);
  EXPECT_EQ(vectors_in(16, 8, 0), 2);
  EXPECT_EQ(vectors_in(13, 8, 16), 2);
  EXPECT_EQ(vectors_in(11, 8, 12), 3) << "behind the last row are not five more";
  EXPECT_EQ(vectors_in(3, 8, 4), 1) << "a vector of four";
  EXPECT_EQ(vectors_in(3, 8, 6), 2);
  EXPECT_EQ(vectors_in(1, 8, 8), 1);
  Cost cost = cost_of(parse("X: input f32[800], Y: output f32[800]", "vectorize for i in 800 {\n Y[i] = X[i]\n }").body,
                      options);
  EXPECT_EQ(cost.executed, 100);
  EXPECT_EQ(cost.code, kUnrolledVectors + 4);  // and its remainder
  EXPECT_EQ(
      cost_of(parse("X: input f32[80], Y: output f32[80]", "vectorize for i in 80 {\n Y[i] = X[i]\n }").body, options)
          .code,
      10);
}

TEST_F(PassTest, VectorizeLoopsWidensEitherSideOfAChoice) {
  auto vectorized = [&](const std::string& choice) {
    return body(vectorize_loops(arena(),
                                parse("X: input f32[16], Y: output f32[16]",
                                      "for i in 2 {\n vectorize for j in 8 {\n Y[i * 8 + j] = " + choice + "\n }\n }"),
                                {}));
  };
  EXPECT_EQ(vectorized("if i < 1 then X[i * 8 + j] else 0.0"),
            "for i in 2 {\n  Y[ramp(i * 8, 1, 8)] = if i < 1 then X[ramp(i * 8, 1, 8)] else broadcast(0.0, 8)\n}\n");
  EXPECT_EQ(vectorized("if i < 1 then 0.0 else X[i * 8 + j]"),
            "for i in 2 {\n  Y[ramp(i * 8, 1, 8)] = if i < 1 then broadcast(0.0, 8) else X[ramp(i * 8, 1, 8)]\n}\n");
}

TEST_F(PassTest, UnrollLoopsHasALimit) {
  Program p = parse("X: input f32[4], Y: output f32[4]", "unroll for u in 4 {\n Y[u] = X[u]\n }");
  EXPECT_NE(body(unroll_loops(arena(), p, {.max_instructions = 4})).find("Y[3] = X[3]"), std::string::npos);
  EXPECT_EQ(body(unroll_loops(arena(), p, {.max_instructions = 3})),
            "unrolled code of a nest of loops of `p` would have 4 vector operations; at most 3 are allowed\n");
}

TEST_F(PassTest, UnrollLoopsReplicates) {
  Program p = parse("X: input f32[64], Y: output f32[64]", R"(
    for i in 16 {
      unroll for u in 2 @hide_address = 1 {
        unroll for v in 2 {
          Y[i * 4 + u * 2 + v] = X[i * 4 + u * 2 + v]
        }
      }
    })");
  EXPECT_EQ(body(unroll_loops(arena(), p, {})), R"(for i in 16 {
  for u in 1 @hide_address = 1 {
    Y[i * 4] = X[i * 4]
    Y[i * 4 + 1] = X[i * 4 + 1]
  }
  for u in 1 @hide_address = 1 {
    Y[i * 4 + 2] = X[i * 4 + 2]
    Y[i * 4 + 3] = X[i * 4 + 3]
  }
}
)");
  Program wrong = parse("X: input f32[4], Y: output f32[4]", R"(
    alloc R: f32[4] in register {
      for i in 4 {
        R[i] = X[i]
      }
    })");
  EXPECT_EQ(body(unroll_loops(arena(), wrong, {})),
            "register buffer `R`: an index is not constant after unrolling and vectorizing\n");
}

}  // namespace
}  // namespace tw

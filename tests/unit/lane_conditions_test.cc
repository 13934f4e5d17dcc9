// Sums whose terms depend, by a condition, on the column, which lanes of vectors are: cumulative sums, triangular
// products, windows. Some lanes take part in a step, others keep what they have, and the last vector of a row may have
// lanes that belong to no column.
#include <gtest/gtest.h>

#include "dsl/analysis/affine.h"
#include "dsl/base/text.h"
#include "dsl/ir/print.h"
#include "dsl/ir/walk.h"
#include "dsl/text/workload.h"
#include "sampler/search/trial.h"
#include "sampler/space/candidate.h"
#include "support/parsed.h"
#include "tests/unit/compiled_nodes.h"
#include "tests/unit/evaluate.h"

namespace tw {
namespace {

constexpr const char* kWorkloads = R"tw(
workload cumulative(M: int, N: int) {
  input X: f32[M, N]
  output Y: f32[i: M, j: N] = sum(k: N) if k <= j then X[i, k] else 0.0
}
workload from_the_end(M: int, N: int) {
  input X: f32[M, N]
  output Y: f32[i: M, j: N] = sum(k: N) if k >= j then X[i, k] else 0.0
}
workload triangular(M: int, N: int) {
  input A: f32[M, N], B: f32[N, N]
  output Y: f32[i: M, j: N] = sum(k: N) if k <= j then A[i, k] * B[k, j] else 0.0
}
workload transposed(M: int, N: int) {
  input A: f32[M, N], B: f32[N, N]
  output Y: f32[i: M, j: N] = sum(k: N) if k <= j then A[i, k] * B[j, k] else 0.0
}
workload band(M: int, N: int) {
  input A: f32[M, N], B: f32[N, N]
  output Y: f32[i: M, j: N] = sum(k: N) if k <= j and j < k + 3 then A[i, k] * B[k, j] else 0.0
}
workload window(M: int, N: int) {
  input X: f32[M, N], W: f32[3, N]
  output Y: f32[i: M, j: N] = sum(k: 3) if j + k >= 1 and j + k < N + 1 then X[i, j + k - 1] * W[k, j] else 0.0
}
)tw";
constexpr const char* kNames[] = {"cumulative", "from_the_end", "triangular", "transposed", "band", "window"};

OwnedProgram program_of(const char* name, i64 rows, i64 columns) {
  Source source{"lanes.tw", kWorkloads};
  Diagnostics diagnostics(source);
  WorkloadModule module = parse_workloads(source, diagnostics);
  std::optional<OwnedProgram> program = instantiate(module, name, {{"M", rows}, {"N", columns}}, {}, diagnostics);
  EXPECT_TRUE(program) << diagnostics.render();
  return std::move(*program);
}

// Calls use(program) with draws from the rule set `cpu` for a target.
template <class Use>
void each_draw(const Program& base, const Target& target, int draws, Use use) {
  static const rules::Library library = rules::Library::built_in();
  std::string errors;
  CandidateSpace space = make_candidate_space(base, *library.find_set("cpu"), library, target, errors);
  ASSERT_EQ(errors, "");
  CandidateBuilder builder(space);
  for (int i = 0; i < draws && !testing::Test::HasFatalFailure(); ++i) {
    Candidate candidate;
    Rng rng(8, static_cast<u64>(i));
    if (!builder.draw(i % static_cast<int>(space.space.sketches.size()), candidate, rng)) continue;
    Result<Program> program = builder.build(candidate, &rng);
    if (program) use(*program);
  }
}

// Vectors of registers that have lanes outside of their buffer: memory of the stack that is not theirs.
class RegisterLanes {
 public:
  void visit(const Node* node) {
    if (const For* loop = as<For>(node)) ranges_.set_extent(loop->var, loop->extent);
    if (const Load* load = as<Load>(node)) note(load->buffer, load->indices[0]);
    if (const Store* store = as<Store>(node)) {
      for (const StoreTarget& target : store->targets) note(target.buffer, target.indices[0]);
    }
    for_each_child(node, [&](const Node* child) { visit(child); });
  }
  i64 vectors = 0;
  std::string outside;

 private:
  void note(const Buffer* buffer, const Expr* index) {
    const Ramp* ramp = as<Ramp>(index);
    if (buffer->scope != Scope::Register || !ramp) return;
    ++vectors;
    std::optional<Interval> first = interval_of(ramp->base, ranges_);
    i64 length = constant_of(ramp->stride).value_or(0) * (index->type.lanes - 1);
    if (!first || first->min < 0 || first->max + length >= buffer->shape[0])
      outside += cat(buffer->name, "[", print(index), "] of ", buffer->shape[0], "\n");
  }
  VarRanges ranges_;
};

TEST(LaneConditions, AVectorLiesInItsRegisterBuffer) {
  i64 lowered = 0, vectors = 0;
  for (const char* machine : {"cpu -mcpu=znver4 -threads=1", "cpu -mcpu=haswell -threads=1"}) {
    Target target = test::parsed_target(machine);
    Rng rng(3);
    for (int n = 0; n < 60; ++n) {
      OwnedProgram owned = program_of(kNames[n % std::size(kNames)], 1 + rng.below(6), 1 + rng.below(40));
      each_draw(owned.program, target, 8, [&](const Program& program) {
        Arena arena;
        Result<LoweredProgram> code = lower(arena, program, lowering_options(target));
        if (!code) return;
        RegisterLanes lanes;
        lanes.visit(code->run.body);
        EXPECT_EQ(lanes.outside, "") << print(program);
        ++lowered, vectors += lanes.vectors;
      });
    }
  }
  EXPECT_GT(lowered, 600);
  EXPECT_GT(vectors, 2000);
}

// Compiled for this machine, exactly as the interpreter has it: data are small integers.
TEST(LaneConditions, CompiledDrawsAreRight) {
  Target target = host_target();
  i64 compared = 0;
  Rng rng(4);
  for (int n = 0; n < 90 && !HasFailure(); ++n) {
    const char* name = kNames[n % std::size(kNames)];
    OwnedProgram owned = program_of(name, 1 + rng.below(6), 1 + rng.below(40));
    OutputValues expected = outputs_of(owned.program, 1);
    each_draw(owned.program, target, 4, [&](const Program& program) {
      Arena arena;
      if (!lower(arena, program, lowering_options(target))) return;
      std::vector<HostArray> arrays = arguments_of(program, 1);
      ASSERT_EQ(graph::test::run_compiled(arena, program, arrays, lowering_options(target), codegen_target(target)),
                "");
      ASSERT_EQ(values_of(arrays.back()), expected[0]) << name << "\n" << print(program);
      ++compared;
    });
  }
  EXPECT_GT(compared, 200);
}

}  // namespace
}  // namespace tw

// Which inputs an output may be written over on devices: by kernels written by hand, and by kernels drawn from the
// rules, which give the same with one buffer for both. And what that changes in their sources.
#include <gtest/gtest.h>

#include "backends/device_form.h"
#include "backends/gpu_source/source.h"
#include "backends/overwrites.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/thread_axes.h"
#include "sampler/search/trial.h"
#include "support/device_source.h"
#include "support/drawn_kernels.h"
#include "support/lowered_kit.h"
#include "support/parsed.h"
#include "tests/unit/evaluate.h"
#include "tests/unit/overwriting_workloads.h"

namespace tw {
namespace {

using Pairs = std::vector<Overwrite>;

// Kernels that compute y, the second argument, from x, the first one.
class DeviceOverwrites : public testing::Test, protected LoweredKit {
 protected:
  Pairs found(const std::vector<const Stmt*>& bodies) { return overwrites_of(kernels(bodies)); }
  LoweredGpuProgram kernels(const std::vector<const Stmt*>& bodies) {
    LoweredProgram described = program(bodies[0]);
    std::vector<GpuKernel> kernels;
    for (const Stmt* body : bodies) {
      std::vector<KernelParam> params;
      for (const Placement& argument : described.run.arguments) {
        bool is_output = described.run_arguments[static_cast<std::size_t>(argument.offset)].is_output;
        params.push_back({argument.buffer, false, argument.offset, is_output});
      }
      kernels.push_back({.name = "k", .params = arena().copy(params), .extents = extents_of(body), .body = body});
    }
    LoweredGpuProgram out;
    out.run = arena().copy(kernels);
    out.run_arguments = described.run_arguments;
    return out;
  }
  const Stmt* bound(Str axis, const Var* var, i64 extent, const Stmt* body) {
    For* made = arena().make<For>(*loop(var, extent, body, LoopKind::Bind));
    made->thread = axis;
    return made;
  }
  const Stmt* set(const Expr* to, const Expr* from) { return store(y_, to, load(x_, from)); }
  // Groups of 8 work-items over 64 elements.
  const Stmt* by_groups(const Stmt* body) { return bound("blockIdx.x", i_, 8, bound("threadIdx.x", j_, 8, body)); }
  const Expr* own() { return build.add(build.mul(i_, 8), j_); }

  const Buffer *x_ = argument(DType::F32, 64), *y_ = output(DType::F32, 64);
  const Var *i_ = var(), *j_ = var(), *k_ = var();
  const Pairs legal_{{1, 0}}, none_;
};

TEST_F(DeviceOverwrites, EachElementIsReadByTheWorkItemThatWritesIt) {
  EXPECT_EQ(found({by_groups(set(own(), own()))}), legal_);
  EXPECT_EQ(found({by_groups(set(own(), build.add(build.mul(j_, 8), i_)))}), none_) << "transposed";
  EXPECT_EQ(found({by_groups(set(own(), build.sub(build.integer(63), own())))}), none_) << "from behind";
  EXPECT_EQ(found({loop(k_, 2, by_groups(set(own(), own())))}), none_) << "twice";
  EXPECT_EQ(found({bound("threadIdx.x", j_, 64, set(j_, j_))}), legal_);
  EXPECT_EQ(found({loop(k_, 64, set(k_, k_))}), legal_) << "by one work-item";
}

TEST_F(DeviceOverwrites, CopiesInSharedMemoryAreReadByOthers) {
  const Buffer* shared = buffer(DType::F32, 8, Scope::Shared);
  const Stmt* copied = bound("threadIdx.x", j_, 8, store(shared, j_, load(x_, own())));
  const Stmt* used = bound("threadIdx.x", k_, 8, store(y_, build.add(build.mul(i_, 8), k_), load(shared, k_)));
  EXPECT_EQ(found({bound("blockIdx.x", i_, 8, build.alloc(shared, build.seq({copied, used})))}), none_);
}

TEST_F(DeviceOverwrites, AllKernelsCount) {
  const Buffer* z = output(DType::F32, 64);
  const Stmt *first = by_groups(set(own(), own())), *second = by_groups(store(z, own(), load(x_, own())));
  EXPECT_EQ(found({first, second}), none_) << "x is read again";
  EXPECT_EQ(found({first, first}), none_) << "y is written again";
  const Stmt* of_y = by_groups(store(z, own(), load(y_, own())));
  EXPECT_EQ(found({first, of_y}), none_) << "y is read again";
}

// Of several groups or work-items that store the same, one may overwrite what others still read.
TEST_F(DeviceOverwrites, WhatSeveralTakeAlikeIsRefused) {
  const Buffer *v = argument(DType::F32, 64), *w = output(DType::F32, 64);
  const Stmt* other = bound("blockIdx.y", k_, 8, store(w, build.add(build.mul(i_, 8), k_), load(v, k_)));
  const Stmt* alike = bound("threadIdx.x", j_, 8, set(own(), own()));
  EXPECT_EQ(found({bound("blockIdx.x", i_, 8, build.seq({other, alike}))}), none_) << "all groups along y";
  const Expr* place = build.add(build.mul(j_, 8), k_);
  const Stmt* inside = bound("threadIdx.y", k_, 8, store(w, place, load(v, k_)));
  EXPECT_EQ(found({bound("threadIdx.x", j_, 64, build.seq({inside, set(j_, j_)}))}), none_) << "work-items along y";
  const Stmt* apart = bound("threadIdx.x", j_, 64, set(j_, j_));
  const Stmt* both = bound("threadIdx.x", j_, 8, bound("threadIdx.y", k_, 8, store(w, place, load(v, k_))));
  EXPECT_EQ(found({build.seq({both, apart})}), legal_) << "a step without a loop along y is executed once";
}

TEST_F(DeviceOverwrites, BuffersOfOneTypeOnly) {
  const Buffer* z = output(DType::I32, 64);
  EXPECT_EQ(found({by_groups(store(z, own(), build.cast(DType::I32, load(x_, own()))))}), none_);
}

// `restrict` is removed from X and Y, in each kernel that has them; it stays at B and T.
TEST(OverwritingSource, SaysOfTheseBuffersOnlyThatTheyMayOverlap) {
  OwnedProgram program = test::parsed(R"(program p(X: input f32[64], B: input f32[8], Y: output f32[64]) {
  local T: f32[8]
  bind blockIdx.x for i in 8 { block T(i: S 8 = i) { T[i] = B[i] * 2.0 } }
  bind blockIdx.x for i in 8 {
    bind threadIdx.x for j in 8 { block Y(i: S 8 = i, j: S 8 = j) { Y[i * 8 + j] = X[i * 8 + j] + T[i] * B[j] } }
  }
}
)");
  Arena arena;
  Result<LoweredGpuProgram> lowered = test::lowered(arena, program.program);
  ASSERT_TRUE(lowered) << to_string(lowered.rejected());
  for (const auto& [language, word] :
       {std::pair(SourceLanguage::OpenClC, " restrict "), std::pair(SourceLanguage::CudaC, " __restrict__ ")}) {
    Kernel kernel = *print_device_source(*lowered, language, "p");
    ASSERT_EQ(kernel.manifest.overwrites, (Pairs{{2, 0}}));
    std::string before = kernel.code;
    ASSERT_EQ(test::count_of(before, word), 6u) << "T of B, and Y of X, T and B\n" << before;
    allow_overwrites(kernel, language, {});
    EXPECT_EQ(kernel.code, before);
    allow_overwrites(kernel, language, kernel.manifest.overwrites);
    EXPECT_EQ(test::count_of(kernel.code, word), 4u) << kernel.code;
    EXPECT_NE(kernel.code.find("float* X"), std::string::npos) << kernel.code;
    EXPECT_NE(kernel.code.find("float* Y"), std::string::npos) << kernel.code;
    std::string again = kernel.code;
    allow_overwrites(kernel, language, kernel.manifest.overwrites);
    EXPECT_EQ(kernel.code, again);
  }
}

// ---- drawn kernels

// The program with y in the place of x: first the input is copied there.
LoweredProgram in_place(Arena& arena, LoweredProgram program, const Overwrite& pair) {
  Build build{arena};
  const Buffer *x = program.run.arguments[pair.input].buffer, *y = program.run.arguments[pair.output].buffer;
  const Var* e = build.var(1u << 16, "e");
  Array<const Expr*> at = arena.list<const Expr*>({e});
  const Stmt* copied = build.loop(LoopId{1u << 16}, e, elements_of(x), build.store(y, at, build.load(x, at)));
  program.run.body = build.seq({copied, replace_buffer(arena, program.run.body, x, y)});
  return program;
}

struct DrawnPairs {
  int kernels = 0, with_pairs = 0;
  std::set<std::string> inputs;  // that may be overwritten
};

// The pairs of kernels drawn for a workload with these extents. In place they compute the same, and no two work-items
// or groups touch an element that one of them writes: the interpreter checks that.
DrawnPairs drawn_pairs(const std::string& set, const std::string& name, i64 rows, i64 columns) {
  Target target = set == "cuda" ? test::cuda_target() : test::parsed_target(set);
  OwnedProgram made = test::workload(test::kOverwritingWorkloads, name, {{"M", rows}, {"N", columns}});
  DrawnPairs out;
  test::DrawnKernels drawn = test::drawn_kernels(made.program, set, target, 10);
  for (std::size_t k = 0; k < drawn.kernels.size(); ++k) {
    Arena arena;
    Result<LoweredGpuProgram> lowered =
        lower_gpu(arena, drawn.scheduled[k].program, lowering_options(target), gpu_limits(target));
    EXPECT_TRUE(lowered);
    if (!lowered) continue;
    const KernelManifest& manifest = drawn.kernels[k].manifest;
    EXPECT_EQ(manifest.overwrites, overwrites_of(*lowered));
    ++out.kernels;
    out.with_pairs += !manifest.overwrites.empty();
    LoweredProgram kernels = as_interpreted(arena, *lowered);
    for (const Overwrite& pair : manifest.overwrites) {
      out.inputs.insert(manifest.run[pair.input].name);
      EXPECT_EQ(outputs_of(in_place(arena, kernels, pair), 1), outputs_of(kernels, 1))
          << set << " " << name << " " << rows << " x " << columns << "\n"
          << drawn.kernels[k].code;
    }
  }
  EXPECT_GT(out.kernels, 0) << drawn.rejected << drawn.not_lowered;
  return out;
}

class DrawnForDevices : public testing::TestWithParam<const char*> {};

TEST_P(DrawnForDevices, MapsAreComputedInPlace) {
  for (auto [rows, columns] : {std::pair<i64, i64>{24, 64}, {7, 45}}) {
    DrawnPairs found = drawn_pairs(GetParam(), "map", rows, columns);
    EXPECT_EQ(found.inputs, (std::set<std::string>{"A", "B"}));
  }
}

TEST_P(DrawnForDevices, WhatIsAddedToAProductIsOverwrittenAndItsOperandIsNot) {
  for (auto [rows, columns] : {std::pair<i64, i64>{16, 64}, {14, 40}}) {
    DrawnPairs found = drawn_pairs(GetParam(), "residual", rows, columns);
    EXPECT_EQ(found.inputs, std::set<std::string>{"R"});
  }
}

TEST_P(DrawnForDevices, WhatIsReadElsewhereIsNot) {
  EXPECT_EQ(drawn_pairs(GetParam(), "turned", 32, 32).with_pairs, 0);
  EXPECT_EQ(drawn_pairs(GetParam(), "blurred", 24, 32).with_pairs, 0);
  EXPECT_EQ(drawn_pairs(GetParam(), "shifted", 24, 32).with_pairs, 0) << "by the reduction of its row";
}

INSTANTIATE_TEST_SUITE_P(Sets, DrawnForDevices, testing::Values("opencl", "cuda"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace tw

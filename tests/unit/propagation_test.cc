// What it is worth that `require` narrows the draws (sampler/draw/joint_prior.h): the share of draws that something
// rejects, with and without; and that nothing is lost by it.
#include <gtest/gtest.h>

#include <set>

#include "backends/device_form.h"
#include "dsl/base/text.h"
#include "dsl/text/workload.h"
#include "sampler/search/check_rule.h"
#include "sampler/search/trial.h"
#include "sampler/space/candidate.h"
#include "support/parsed.h"

namespace tw {
namespace {

struct Row {
  const char* set;
  const char* target;
  double least_without;      // percent of draws that are rejected without propagation, at least
  const char* small_target;  // whose budgets matter for small problems
};
constexpr Row kRows[] = {{"cpu", "cpu -mcpu=znver3 -threads=2", 30, "cpu -mcpu=znver3 -threads=2"},
                         {"opencl", "opencl -device=0", 20, "opencl -device=0"},
                         {"cuda", "cuda -arch=sm_80", 8, "cuda -arch=sm_80 -group-threads=128 -shared-bytes=8192"}};

// As they are tuned: large enough that each budget (registers, cache, shared memory, threads) matters.
constexpr const char* kUses[] = {"dense(M = 128, N = 3072, K = 768)",
                                 "matmul(M = 1024, N = 1024, K = 1024)",
                                 "batch_matmul(B = 12, M = 128, N = 128, K = 64)",
                                 "conv2d(N = 1, H = 56, W = 56, CI = 64, CO = 64, K = 3, padding = 1)",
                                 "depthwise_conv2d(N = 1, H = 112, W = 112, C = 32, K = 3, padding = 1)",
                                 "softmax(M = 256, N = 256)",
                                 "layernorm(M = 256, N = 768)"};

OwnedProgram program_of(const char* text) {
  Source source{"use", text};
  Diagnostics diagnostics(source), inner(*operator_library().source);
  std::optional<WorkloadUse> use = parse_use(source, diagnostics);
  TW_CHECK(use, "a use that cannot be read");
  return *instantiate(operator_library(), use->workload, use->arguments, {}, inner);
}

// Rejected by instructions, `require`, postprocessors; and by lowering, whose limits on code and memory depend on all
// tiles together.
struct Tally {
  int draws = 0, rejected = 0, not_lowered = 0;
  std::map<std::string, int> reasons;
  double share(int count) const { return 100.0 * count / draws; }
};

// One draw: replayed, postprocessed, lowered.
Status draw_one(const CandidateSpace& space, CandidateBuilder& builder, const Target& target, int sketch,
                bool propagates, Rng& rng) {
  Candidate candidate;
  bool has_valid = builder.draw(sketch, candidate, rng);
  TW_CHECK(has_valid, "a sketch without a valid draw");
  if (!propagates) {
    const Trace& trace = space.space.sketches[sketch].trace;
    candidate.decisions.assign(trace.sample_count(), {});
    Arena arena;
    State state(arena, space.base);
    TW_TRY_STATUS(replay(trace, state, candidate.decisions, ReplayMode::Adapt, &rng));
  }
  TW_TRY(Program program, builder.build(candidate, &rng));
  Arena arena;
  if (!is_device(target)) {
    TW_TRY(LoweredProgram lowered, lower(arena, program, lowering_options(target)));
    return lowered.run.body ? ok() : reject("nothing is left of the program");
  }
  TW_TRY(LoweredGpuProgram lowered, lower_gpu(arena, program, lowering_options(target), gpu_limits(target)));
  return lowered.run.empty() ? reject("nothing is left of the program") : ok();
}

// So many draws of one task.
void measure_one(const Row& row, const std::string& use, int draws, bool propagates, Tally& tally) {
  static const rules::Library library = rules::Library::built_in();
  Target target = test::parsed_target(row.target);
  OwnedProgram made = program_of(use.c_str());
  std::string errors;
  CandidateSpace space = make_candidate_space(made.program, *library.find_set(row.set), library, target, errors);
  EXPECT_EQ(errors, "") << use;
  CandidateBuilder builder(space);
  int sketches = static_cast<int>(space.space.sketches.size());
  for (int i = 0; i < draws; ++i) {
    Rng rng(5, static_cast<u64>(i));
    Status status = draw_one(space, builder, target, i % sketches, propagates, rng);
    ++tally.draws;
    if (status) continue;
    bool is_instruction = status.rejected().instruction[0] != 0;
    ++(is_instruction ? tally.rejected : tally.not_lowered);
    ++tally.reasons[cat(is_instruction ? status.rejected().instruction : "lowering", ": ", status.rejected().reason)];
  }
}

Tally measure(const Row& row, bool propagates) {
  Tally tally;
  for (const char* use : kUses) measure_one(row, use, 240, propagates, tally);
  return tally;
}

// Operators of any shape: extents of one, primes, what no tile divides.
std::string random_use(Rng& rng) {
  auto one_of = [&](std::initializer_list<int> values) {
    return *(values.begin() + rng.below(static_cast<i64>(values.size())));
  };
  auto extent = [&] { return one_of({1, 2, 3, 7, 16, 31, 33, 64, 65, 100, 128, 197, 300}); };
  auto channels = [&] { return one_of({1, 2, 3, 7, 8, 16, 32, 96}); };
  auto side = [&] { return one_of({5, 7, 14, 28, 56}); };
  const char* types[] = {"f32", "f32", "f16", "bf16"};
  std::string type = cat(", T = ", types[rng.below(4)]);
  switch (rng.below(8)) {
    case 0:
      return cat("dense(M = ", extent(), ", N = ", extent(), ", K = ", extent(), type, ")");
    case 1:
      return cat("batch_matmul(B = ", one_of({1, 2, 3, 12}), ", M = ", extent(), ", N = ", extent(), ", K = ", extent(),
                 type, ")");
    case 2:
      return cat("softmax(M = ", extent(), ", N = ", one_of({1, 7, 64, 197, 1000, 4096, 5000}), ")");
    case 3:
      return cat("layernorm(M = ", extent(), ", N = ", one_of({1, 7, 64, 197, 1000, 4096, 5000}), ")");
    case 4:
      return cat("depthwise_conv2d(N = ", one_of({1, 4}), ", H = ", side(), ", W = ", side(), ", C = ", channels(),
                 ", K = 3, padding = ", rng.below(2), ")");
    case 5:
      return cat("conv2d_transposed(N = ", one_of({1, 4}), ", H = 4, W = 7, CI = ", channels(), ", CO = ", channels(),
                 ", K = ", one_of({2, 4}), ", stride = ", one_of({1, 2}), ")");
    default:
      return cat("conv2d(N = ", one_of({1, 2, 16}), ", H = ", side(), ", W = ", side(), ", CI = ", channels(),
                 ", CO = ", channels(), ", K = ", one_of({1, 2, 3, 5}), ", padding = ", rng.below(3),
                 ", stride = ", one_of({1, 2}), type, ")");
  }
}

class AnyShape : public testing::TestWithParam<Row> {};

TEST_P(AnyShape, LeavesNextToNothingToReject) {
  Tally tally;
  for (u64 i = 0; i < 80; ++i) {
    Rng rng(7, i);
    measure_one(GetParam(), random_use(rng), 30, true, tally);
  }
  std::string reasons;
  for (const auto& [reason, count] : tally.reasons) reasons += cat("\n  ", count, " times ", reason);
  std::printf("%s, %d draws of 80 tasks: %d rejected, %d not lowered%s\n", GetParam().set, tally.draws, tally.rejected,
              tally.not_lowered, reasons.c_str());
  EXPECT_LT(tally.share(tally.rejected + tally.not_lowered), 0.5) << reasons;
}

INSTANTIATE_TEST_SUITE_P(Sets, AnyShape, testing::ValuesIn(kRows), [](const auto& info) { return info.param.set; });

class Propagation : public testing::TestWithParam<Row> {};

TEST_P(Propagation, LeavesNextToNothingToReject) {
  Tally with = measure(GetParam(), true), without = measure(GetParam(), false);
  std::string reasons;
  for (const auto& [reason, count] : with.reasons) reasons += cat("\n  ", count, " times ", reason);
  std::printf("%s, %d draws: %.2f %% rejected and %.2f %% not lowered; without propagation %.2f %% and %.2f %%%s\n",
              GetParam().set, with.draws, with.share(with.rejected), with.share(with.not_lowered),
              without.share(without.rejected), without.share(without.not_lowered), reasons.c_str());
  EXPECT_LT(with.share(with.rejected + with.not_lowered), 1.0) << reasons;
  EXPECT_GE(without.share(without.rejected), GetParam().least_without);
}

// With 32 registers of 512 bits a tile that does not divide its matrix is repeated up to six times; before the cap of
// lowering grew with the registers, 5 of 600 draws were refused.
TEST(WideVectors, TilesThatStickOutCanBeLowered) {
  Tally tally;
  measure_one({"cpu", "cpu -mcpu=skylake-avx512 -threads=1", 0, nullptr}, "matmul(M = 512, N = 512, K = 512)", 600,
              true, tally);
  EXPECT_EQ(tally.rejected + tally.not_lowered, 0);
}

// ---- nothing is lost

using Assignment = std::vector<i64>;  // decisions of the samples that are tied by conditions

// Only these samples and the conditions over them.
Trace conditions_of(const Sketch& sketch) {
  std::vector<bool> keep;
  std::size_t sample = 0;
  for (const Instruction& step : sketch.trace.instructions()) {
    std::string_view name = step.kind->name;
    keep.push_back(step.kind->samples ? sketch.prior->in_group(sample) : name == "require" || name == "prefer");
    sample += step.kind->samples;
  }
  return sketch.trace.keeping(keep);
}

// Everything that drawing each sample alone and rejecting what a condition excludes can give. Nothing if there is too
// much of it.
std::optional<std::set<Assignment>> by_rejection(const Sketch& sketch, const Program& base) {
  Trace trace = conditions_of(sketch);
  std::vector<i64> counts;
  double all = 1;
  for (std::size_t i = 0; i < sketch.trace.sample_count(); ++i) {
    if (!sketch.prior->in_group(i)) continue;
    counts.push_back(static_cast<i64>(sketch.prior->candidates(i).size()));
    all *= static_cast<double>(counts.back());
  }
  if (all > 20000 || counts.empty()) return std::nullopt;
  std::set<Assignment> valid;
  for (i64 n = 0; n < static_cast<i64>(all); ++n) {
    Assignment assignment;
    std::vector<Decision> decisions;
    i64 rest = n;
    for (i64 count : counts) {
      assignment.push_back(rest % count);
      decisions.push_back(Decision::of(rest % count));
      rest /= count;
    }
    Arena arena;
    State state(arena, base);
    if (replay(trace, state, decisions, ReplayMode::Strict, nullptr)) valid.insert(assignment);
  }
  return valid;
}

std::set<Assignment> by_joint_draws(const Sketch& sketch, std::size_t expected) {
  std::set<Assignment> drawn;
  Rng rng(11);
  for (std::size_t i = 0; i < 200 * expected + 1000 && drawn.size() <= expected; ++i) {
    std::vector<Decision> decisions(sketch.trace.sample_count());
    if (!sketch.prior->draw(decisions, rng)) break;
    Assignment assignment;
    for (std::size_t s = 0; s < decisions.size(); ++s) {
      if (sketch.prior->in_group(s)) assignment.push_back(decisions[s].values[0]);
    }
    drawn.insert(assignment);
    if (drawn.size() == expected && i > 20 * expected) break;
  }
  return drawn;
}

TEST_P(Propagation, KeepsEveryPointThatRejectionKeeps) {
  const rules::Library library = rules::Library::built_in();
  Target target = test::parsed_target(GetParam().small_target);
  int spaces = 0, narrowed = 0;
  for (const TrialProgram& trial : trial_programs()) {
    std::string errors;
    Space space =
        build_space(trial.program.program, *library.find_set(GetParam().set), library, facts_of(target), errors);
    for (const Sketch& sketch : space.sketches) {
      std::optional<std::set<Assignment>> valid = by_rejection(sketch, trial.program.program);
      if (!valid || valid->size() > 400) continue;
      ++spaces;
      EXPECT_FALSE(valid->empty()) << trial.use;
      EXPECT_EQ(by_joint_draws(sketch, valid->size()), *valid) << trial.use << "\n" << sketch.trace.print();
      double all = 1;
      for (std::size_t i = 0; i < sketch.trace.sample_count(); ++i) {
        if (sketch.prior->in_group(i)) all *= static_cast<double>(sketch.prior->candidates(i).size());
      }
      narrowed += static_cast<double>(valid->size()) < all;
    }
  }
  std::printf("%s: %d small spaces, %d of them narrowed by conditions\n", GetParam().set, spaces, narrowed);
  EXPECT_GT(spaces, 5);
  EXPECT_GE(narrowed, 5);
}

// ---- conditions over what is known at replay only: tiles, and extents that a sample has decided

constexpr const char* kTiles = R"(
rule tiles(b: block)
  when is_reduction(b)
{
  i, j, k = loops(b)
  t = sample_perfect_tile(i, 3, max_innermost = 64); u = sample_tile(j, 2)
  require t[1] * t[2] * u[1] <= 8
  i0, i1, i2 = split(i, t); j0, j1 = split(j, u)
  v = sample_tile(i1, 2)
  require v[1] * extent(j1) <= 4 and extent(i2) > 1
  split(i1, v)
}
rules tiled { tiles }
)";

using Counts = std::map<Assignment, int>;  // all decisions -> how often they were drawn

// Draws whose decisions satisfy every condition, and how many did not. `replay` is called with open decisions.
template <class Replay>
Counts count_draws(const Sketch& sketch, int draws, int& rejected, Replay replay_one) {
  Counts counts;
  for (int n = 0; n < draws; ++n) {
    Rng rng(23, static_cast<u64>(n));
    std::vector<Decision> decisions(sketch.trace.sample_count());
    if (!replay_one(decisions, rng)) {
      ++rejected;
      continue;
    }
    Assignment all;
    for (const Decision& decision : decisions) all.insert(all.end(), decision.values, decision.values + decision.count);
    ++counts[all];
  }
  return counts;
}

TEST(ConditionsAtReplay, AreDrawnAsRejectionWouldDrawThem) {
  rules::Library library = rules::Library::built_in();
  auto source = std::make_shared<Source>(Source{"tiles.tw", kTiles});
  Diagnostics diagnostics(*source);
  std::shared_ptr<const rules::Module> module = rules::parse_module(source, diagnostics);
  ASSERT_TRUE(module && library.add(module, diagnostics)) << diagnostics.render();
  OwnedProgram made = program_of("dense(M = 12, N = 6, K = 3)");
  std::string errors;
  Space space = build_space(made.program, *library.find_set("tiled"), library, {}, errors);
  ASSERT_EQ(errors, "");
  ASSERT_EQ(space.sketches.size(), 1u);
  const Sketch& sketch = space.sketches[0];

  constexpr int draws = 40000;
  int without = 0, with = 0;
  Counts rejecting = count_draws(sketch, draws, without, [&](std::vector<Decision>& decisions, Rng& rng) {
    Arena arena;
    State state(arena, made.program);
    return static_cast<bool>(replay(sketch.trace, state, decisions, ReplayMode::Adapt, &rng));
  });
  Arena arena;
  PrefixReplay replayer(arena, made.program);
  Counts conditioned = count_draws(sketch, draws, with, [&](std::vector<Decision>& decisions, Rng& rng) {
    return static_cast<bool>(replayer.replay(sketch.trace, decisions, &rng));
  });
  std::printf("%zu points; %.1f %% of the draws rejected, %.1f %% without drawing again\n", rejecting.size(),
              100.0 * with / draws, 100.0 * without / draws);
  EXPECT_EQ(with, 0);
  EXPECT_GT(without, draws / 2);
  ASSERT_GT(rejecting.size(), 15u);
  EXPECT_EQ(conditioned.size(), rejecting.size());
  for (const auto& [point, count] : rejecting) {
    double wanted = static_cast<double>(count) / (draws - without),
           got = static_cast<double>(conditioned[point]) / draws;
    EXPECT_GT(conditioned[point], 0) << "a point is lost";
    EXPECT_NEAR(got, wanted, 0.015);
  }
}

INSTANTIATE_TEST_SUITE_P(Sets, Propagation, testing::ValuesIn(kRows),
                         [](const auto& info) { return std::string(info.param.set); });

}  // namespace
}  // namespace tw

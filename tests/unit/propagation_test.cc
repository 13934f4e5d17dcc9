// What it is worth that `require` narrows the draws (sampler/draw/joint_prior.h): the share of draws that something rejects, with and
// without; and that nothing is lost by it.
#include <gtest/gtest.h>

#include <set>

#include "backends/device_form.h"
#include "dsl/base/text.h"
#include "dsl/text/workload.h"
#include "sampler/search/candidate.h"
#include "sampler/search/check_rule.h"
#include "sampler/search/trial.h"

namespace tw {
namespace {

struct Row {
  const char* set;
  const char* target;
  double least_without;  // percent of draws that are rejected without propagation, at least
};
constexpr Row kRows[] = {{"cpu", "cpu -mcpu=znver3 -threads=2", 30}, {"opencl", "opencl -device=0", 20}, {"cuda", "cuda -arch=sm_80", 8}};

Target parsed(const char* text) {
  Source source{"target", text};
  Diagnostics diagnostics(source);
  std::optional<Target> target = parse_target(text, 0, diagnostics);
  TW_CHECK(target, "a target that cannot be read");
  return *target;
}

// As they are tuned: large enough that each budget (registers, cache, shared memory, threads) matters.
constexpr const char* kUses[] = {
    "dense(M = 128, N = 3072, K = 768)", "matmul(M = 1024, N = 1024, K = 1024)", "batch_matmul(B = 12, M = 128, N = 128, K = 64)",
    "conv2d(N = 1, H = 56, W = 56, CI = 64, CO = 64, K = 3, padding = 1)", "depthwise_conv2d(N = 1, H = 112, W = 112, C = 32, K = 3, padding = 1)",
    "softmax(M = 256, N = 256)", "layernorm(M = 256, N = 768)"};

OwnedProgram program_of(const char* text) {
  Source source{"use", text};
  Diagnostics diagnostics(source), inner(*operator_library().source);
  std::optional<WorkloadUse> use = parse_use(source, diagnostics);
  TW_CHECK(use, "a use that cannot be read");
  return *instantiate(operator_library(), use->workload, use->arguments, {}, inner);
}

// Rejected by instructions, `require`, postprocessors; and by lowering, whose limits on code and memory depend on all tiles together.
struct Tally {
  int draws = 0, rejected = 0, not_lowered = 0;
  std::map<std::string, int> reasons;
  double share(int count) const { return 100.0 * count / draws; }
};

// One draw: replayed, postprocessed, lowered.
Status draw_one(const CandidateSpace& space, CandidateBuilder& builder, const Target& target, int sketch, bool propagates, Rng& rng) {
  Candidate candidate;
  bool has_valid = builder.draw(sketch, candidate, rng);
  TW_CHECK(has_valid, "a sketch without a valid draw");
  if (!propagates) candidate.decisions.assign(space.space.sketches[sketch].trace.sample_count(), {});
  TW_TRY(Program program, builder.build(candidate, &rng));
  Arena arena;
  if (!is_device(target)) {
    TW_TRY(LoweredProgram lowered, lower(arena, program, lowering_options(target)));
    return lowered.run.body ? ok() : reject("nothing is left of the program");
  }
  TW_TRY(LoweredGpuProgram lowered, lower_gpu(arena, program, lowering_options(target), gpu_limits(target)));
  return lowered.run.empty() ? reject("nothing is left of the program") : ok();
}

Tally measure(const Row& row, bool propagates) {
  static const rules::Library library = rules::Library::built_in();
  Target target = parsed(row.target);
  Tally tally;
  for (const char* use : kUses) {
    OwnedProgram made = program_of(use);
    std::string errors;
    CandidateSpace space = make_candidate_space(made.program, *library.find_set(row.set), library, target, errors);
    EXPECT_EQ(errors, "") << use;
    CandidateBuilder builder(space);
    int sketches = static_cast<int>(space.space.sketches.size());
    for (int i = 0; i < 240; ++i) {
      Rng rng(5, static_cast<u64>(i));
      Status status = draw_one(space, builder, target, i % sketches, propagates, rng);
      ++tally.draws;
      if (status) continue;
      bool is_instruction = status.rejected().instruction[0] != 0;
      ++(is_instruction ? tally.rejected : tally.not_lowered);
      ++tally.reasons[cat(is_instruction ? status.rejected().instruction : "lowering", ": ", status.rejected().reason)];
    }
  }
  return tally;
}

class Propagation : public testing::TestWithParam<Row> {};

TEST_P(Propagation, LeavesNextToNothingToReject) {
  Tally with = measure(GetParam(), true), without = measure(GetParam(), false);
  std::string reasons;
  for (const auto& [reason, count] : with.reasons) reasons += cat("\n  ", count, " times ", reason);
  std::printf("%s, %d draws: %.2f %% rejected and %.2f %% not lowered; without propagation %.2f %% and %.2f %%%s\n", GetParam().set, with.draws,
              with.share(with.rejected), with.share(with.not_lowered), without.share(without.rejected), without.share(without.not_lowered), reasons.c_str());
  EXPECT_LT(with.share(with.rejected + with.not_lowered), 1.0) << reasons;
  EXPECT_GE(without.share(without.rejected), GetParam().least_without);
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

// Everything that drawing each sample alone and rejecting what a condition excludes can give. Nothing if there is too much of it.
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
  Target target = parsed(GetParam().target);
  int spaces = 0, narrowed = 0;
  for (const TrialProgram& trial : trial_programs()) {
    std::string errors;
    Space space = build_space(trial.program.program, *library.find_set(GetParam().set), library, facts_of(target), errors);
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
  // Small problems fit into every budget of cuda.
  EXPECT_GE(narrowed, GetParam().set == std::string_view("cuda") ? 0 : 5);
}

INSTANTIATE_TEST_SUITE_P(Sets, Propagation, testing::ValuesIn(kRows), [](const auto& info) { return std::string(info.param.set); });

}  // namespace
}  // namespace tw

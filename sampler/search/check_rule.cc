#include "sampler/search/check_rule.h"

#include <algorithm>

#include "backends/device_form.h"
#include "backends/meaning.h"
#include "dsl/analysis/points.h"
#include "dsl/base/text.h"
#include "dsl/text/workload.h"
#include "sampler/draw/tiles.h"
#include "sampler/search/trial.h"
#include "sampler/space/candidate.h"

namespace tw {
namespace {

// Powers of two along the outputs, a prime extent in each sum or row; at last a product whose outputs have prime
// extents.
constexpr const char* trial_uses[] = {
    "dense(M = 16, N = 64, K = 13)",
    "matmul(M = 16, N = 64, K = 13)",
    "batch_matmul(B = 2, M = 8, N = 32, K = 13)",
    "transpose_batch_matmul(B = 1, S = 16, H = 2, D = 13)",
    "conv1d(N = 1, L = 16, CI = 5, CO = 32, K = 3, padding = 1)",
    "conv2d(N = 1, H = 4, W = 8, CI = 3, CO = 16, K = 3, padding = 1)",
    "conv3d(N = 1, D = 2, H = 4, W = 4, CI = 3, CO = 8, K = 3, padding = 1)",
    "depthwise_conv2d(N = 1, H = 8, W = 8, C = 16, K = 3, padding = 1)",
    "conv2d_transposed(N = 1, H = 4, W = 4, CI = 3, CO = 16, K = 3, padding = 1)",
    "capsule_conv2d(N = 1, H = 2, W = 4, CI = 3, CO = 8, K = 2, padding = 1, capsule = 2)",
    "conv2d_bn_relu(N = 1, H = 4, W = 8, CI = 3, CO = 16, K = 3, padding = 1)",
    "max_pool2d(N = 1, H = 8, W = 8, C = 16, K = 3, padding = 1)",
    "avg_pool2d(N = 1, H = 8, W = 8, C = 16, K = 3, padding = 1)",
    "softmax(M = 16, N = 61)",
    "norm(B = 4, M = 8, N = 61)",
    "layernorm(M = 16, N = 61)",
    "rmsnorm(M = 16, N = 61)",
    "dense(M = 17, N = 61, K = 12)",
};

// One sketch of one program, ready to be drawn from.
struct Trial {
  const TrialProgram* from;
  std::shared_ptr<const Judge> judge;
  std::shared_ptr<const CandidateSpace> space;
  int sketch;
};

std::string short_name(const std::string& use) { return use.substr(0, use.find('(')); }

void note_visits(const Space& space, const std::string& use, RuleCheck& check) {
  std::map<std::string, int> sketches;
  for (const RuleVisit& visit : space.visits) {
    if (visit.applied) {
      sketches[visit.block] += visit.kept;
      continue;
    }
    std::vector<std::string>& places = check.misses[visit.unmet];
    std::string place = visit.block.empty() ? short_name(use) : cat(short_name(use), " ", visit.block);
    if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
  }
  for (const auto& [block, count] : sketches) check.matches.push_back({use, block, count});
  for (const rules::ForkReject& reject : space.rejects) ++check.rejects[reject.reason];
}

// Does the extent of a tiled loop have at least two prime factors? Of others no more than one level can be above 1.
bool is_divisible(const Decision& tile) {
  i64 extent = 1;
  for (int i = 0; i < tile.count; ++i) extent *= tile.values[i];
  List<PrimePower> powers = factorize(extent);
  return powers.size() > 1 || (powers.size() == 1 && powers[0].exponent > 1);
}

// The levels of all drawn tiles; visit(number of factors, place, factor).
template <class Visit>
void for_each_tile_level(const Trace& trace, const std::vector<Decision>& decisions, Visit visit) {
  std::size_t sample = 0;
  for (const Instruction& instruction : trace.instructions()) {
    if (!instruction.kind->samples) continue;
    const Decision& tile = decisions[sample++];
    bool counts = instruction.kind->result == "Ints" && is_divisible(tile);
    for (int i = 0; counts && i < tile.count; ++i) visit(static_cast<int>(tile.count), i, tile.values[i]);
  }
}

void note_tiles(const Trace& trace, RuleCheck& check) {
  for_each_tile_level(trace, trace.decisions(), [&](int factors, int place, i64 factor) {
    RuleCheck::Level& level = check.tile_levels[{factors, place}];
    ++level.drawn;
    level.above_one += factor > 1;
  });
}

// A draw as a whole trace, postprocessed; of several, the one with most tile levels above 1. Rejects are those of the
// first; `arena` holds the names in them.
Result<Trace> draw_trace(Arena& arena, const Trial& trial, int tries, Rng& rng, RuleCheck& check) {
  const Sketch& sketch = trial.space->space.sketches[trial.sketch];
  Candidate best{.sketch = trial.sketch, .decisions = {}};
  int most = -1;
  PrefixReplay replayer(arena, trial.space->base);
  for (int i = 0; i < tries; ++i) {
    std::vector<Decision> decisions(sketch.trace.sample_count());
    if (!sketch.prior->draw(decisions, rng)) return no_draw(sketch);
    Status status = replayer.replay(sketch.trace, decisions, &rng);
    if (!status && i == 0) return status.rejected();
    int above = 0;
    for_each_tile_level(sketch.trace, decisions, [&](int, int, i64 factor) {
      above += factor > 1;
      if (i > 0) return;
      ++check.prior_tile_levels.drawn;
      check.prior_tile_levels.above_one += factor > 1;
    });
    if (!status || above <= most) continue;
    most = above;
    best.decisions = std::move(decisions);
  }
  return full_trace(*trial.space, best, &check.errors);
}

// The interpreter has limits of its own, by which large programs end.
bool gave_up(const std::string& problem) { return problem.find("gave up") != std::string::npos; }

// "" or what is wrong with what the trace gives; nothing if it cannot be replayed or lowered.
Result<LoweredProgram> lowered_for_interpreter(Arena& arena, const Program& program, const Target& target) {
  if (!is_device(target)) return lower(arena, program, lowering_options(target));
  TW_TRY(LoweredGpuProgram kernels, lower_gpu(arena, program, lowering_options(target), gpu_limits(target)));
  return as_interpreted(arena, kernels);
}

// `arena` holds the names in a Reject.
Result<std::string> judge_trace(Arena& arena, const Trace& trace, const Program& program, const Judge& judge,
                                const Target& target) {
  State state(arena, program);
  TW_TRY_STATUS(replay(trace, state, ReplayMode::Strict));
  std::string wrong = judge.difference(state.program());
  if (!wrong.empty()) return wrong;
  TW_TRY(LoweredProgram lowered, lowered_for_interpreter(arena, state.program(), target));
  return judge.difference(lowered);
}

// Then running it is in vain: each point of a block takes several steps.
bool has_more_points_than_steps(const Program& program) {
  return points_of(program) > static_cast<double>(InterpretOptions{}.max_steps);
}

// So few that a schedule which exceeds the limit is to blame itself.
bool takes_few_steps(const Program& program, const Judge& judge) {
  constexpr i64 kFew = InterpretOptions{}.max_steps / 16;
  std::vector<HostArray> arrays = judge.inputs();
  return interpret(program, arrays, {.seed = 1, .max_steps = kFew}).empty();
}

// "", or why there is no machine code or source.
std::string compile_problem(const Program& scheduled, const Target& target) {
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(target));
  if (!compiler) return "";  // no fault of the trace
  return build_kernel(scheduled, target, *compiler).problem;
}

std::string rejected(const Status& status) { return cat("rejected: ", to_string(status.rejected())); }

void run_draw(const Trial& trial, const Target& target, Rng& rng, RuleCheck& check) {
  int tries = check.draws % 8 == 0 ? 1 : RuleCheck::kMostTries;  // some are as the prior gives them
  ++check.draws;
  Arena arena;
  Result<Trace> trace = draw_trace(arena, trial, tries, rng, check);
  Result<std::string> wrong = trace ? judge_trace(arena, *trace, trial.from->program.program, *trial.judge, target)
                                    : Result<std::string>(trace.rejected());
  if (!wrong || gave_up(*wrong)) {
    ++check.rejected;
    check.given_up += static_cast<bool>(wrong);
    ++check.draw_rejects[wrong ? cat("the interpreter cannot compare: ", *wrong) : to_string(wrong.rejected())];
    return;
  }
  note_tiles(*trace, check);
  if (wrong->empty()) return;
  ++check.different;
  if (!check.counterexample) check.counterexample = {trial.from->use, *wrong, {trial.from->program, *trace}};
}

}  // namespace

std::vector<TrialProgram> trial_programs() {
  std::vector<TrialProgram> programs;
  for (const char* text : trial_uses) {
    Source source{"trial program", text};
    Diagnostics diagnostics(source), inner(*operator_library().source);
    std::optional<WorkloadUse> use = parse_use(source, diagnostics);
    TW_CHECK(use, "a trial program cannot be read");
    std::optional<OwnedProgram> program = instantiate(operator_library(), use->workload, use->arguments, {}, inner);
    TW_CHECK(program, "a trial program cannot be made");
    programs.push_back({text, std::move(*program)});
  }
  return programs;
}

RuleCheck::Level RuleCheck::all_tile_levels() const {
  Level all;
  for (const auto& [place, level] : tile_levels) {
    all.drawn += level.drawn;
    all.above_one += level.above_one;
  }
  return all;
}

RuleCheck::Level RuleCheck::rarest_tile_level() const {
  Level rarest;
  for (const auto& [place, level] : tile_levels) {
    bool is_rarer = rarest.drawn == 0 ||
                    static_cast<i64>(level.above_one) * rarest.drawn < static_cast<i64>(rarest.above_one) * level.drawn;
    if (is_rarer) rarest = level;
  }
  return rarest;
}

RuleCheck check_rule(const std::vector<rules::RuleUse>& uses, const rules::Library& library,
                     const std::vector<TrialProgram>& programs, const Target& target, int draws, u64 seed) {
  RuleCheck check;
  std::vector<Trial> trials;
  bool is_post_only =
      std::all_of(uses.begin(), uses.end(), [](const rules::RuleUse& use) { return use.rule->is_post; });
  bool has_posts = std::any_of(uses.begin(), uses.end(), [](const rules::RuleUse& use) { return use.rule->is_post; });
  for (const TrialProgram& from : programs) {
    std::string errors;
    auto made = std::make_shared<const CandidateSpace>(
        make_candidate_space(from.program.program, uses, library, target, errors, seed));
    if (!errors.empty()) return check.errors = errors, check;
    const Space& space = made->space;
    note_visits(space, from.use, check);
    bool matched =
        std::any_of(space.visits.begin(), space.visits.end(), [](const RuleVisit& visit) { return visit.applied; });
    if (!matched && !is_post_only) continue;
    ++check.programs;
    // The untouched program proves nothing of a rule; a postprocessor changes it.
    bool adds =
        std::any_of(space.visits.begin(), space.visits.end(), [](const RuleVisit& visit) { return visit.added > 0; });
    if (!adds && !has_posts && !is_post_only) continue;
    check.sketches += static_cast<int>(space.sketches.size());
    auto judge =
        std::make_shared<const Judge>(from.program.program, seed, tolerance_for_small_integers(from.program.program));
    for (std::size_t i = 0; i < space.sketches.size(); ++i) trials.push_back({&from, judge, made, static_cast<int>(i)});
  }
  check.adds_nothing = trials.empty() && check.programs > 0;
  if (trials.empty()) return check;
  // Draws that are rejected prove nothing: others are made in their place, within reason.
  for (int i = 0;
       check.draws - check.rejected < draws && check.draws < 3 * draws && check.given_up < RuleCheck::kMostGivenUp;
       ++i) {
    Rng rng(seed, static_cast<u64>(i));
    run_draw(trials[i % trials.size()], target, rng, check);
    if (!check.errors.empty()) return check;
  }
  return check;
}

std::string failure_of(const FailingCase& failing, const Target& target, std::string* unjudged, Question question) {
  const Program& program = failing.program.program;
  Arena arena;
  State state(arena, program);
  if (Status replayed = replay(failing.trace, state, ReplayMode::Strict); !replayed) return rejected(replayed);
  if (question == Question::Replay) return "";
  if (Status lowered = can_be_lowered(arena, state.program(), target); !lowered) return rejected(lowered);
  if (question == Question::Lower) return "";
  if (question == Question::Compile) return compile_problem(state.program(), target);
  std::optional<Judge> judge;
  std::string problem = "gave up: there are more points of blocks than steps";
  if (!has_more_points_than_steps(program))
    problem = judge.emplace(program, 1, tolerance_for_small_integers(program)).problem();
  if (!problem.empty() && unjudged)
    *unjudged = cat("the program without the trace cannot be run in the interpreter: ", problem);
  if (!problem.empty()) return "";
  Result<std::string> wrong = judge_trace(arena, failing.trace, program, *judge, target);
  if (!wrong) return cat("rejected: ", to_string(wrong.rejected()));
  if (!gave_up(*wrong) || takes_few_steps(program, *judge)) return *wrong;
  if (unjudged) *unjudged = cat("the program with the trace is too large for the interpreter: ", *wrong);
  return "";
}

}  // namespace tw

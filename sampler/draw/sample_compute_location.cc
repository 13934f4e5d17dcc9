// Where to compute a block: inline, at root (stay), or at a loop of its first consumer (as MetaSchedule). The decision
// is -2, -1 or the index of the loop among the loops around the first consumer.
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(sample_compute_location, Location(BlockId block))

namespace {

// Would compute_at(block, at, keep_units = true) be accepted? Tried on a copy: nodes are immutable, so that is cheap.
bool accepts(const State& state, BlockId block, Location at) {
  static const InstructionKind& kind = *find_kind("compute_at");
  State trial(state.arena(), state.program());
  append_result(trial.values(), block);
  append_result(trial.values(), at);
  Arg arguments[] = {Arg::of_value(0), Arg::of_value(1), Arg::of_int(1), default_argument(kind.parameters[3])};
  List<Value> none;
  return static_cast<bool>(kind.apply(trial, Array<Arg>(arguments), {nullptr, nullptr, false}, none));
}

// The legal decisions, ascending.
Result<List<i64>> candidates(const State& state, BlockId block, Array<const For*>& loops) {
  static const InstructionKind& consumers = *find_kind("get_consumers");
  State trial(state.arena(), state.program());
  append_result(trial.values(), block);
  Arg argument[] = {Arg::of_value(0)};
  List<Value> found;
  TW_TRY_STATUS(consumers.apply(trial, Array<Arg>(argument), {nullptr, nullptr, false}, found));
  List<i64> legal;
  if (accepts(state, block, {Location::Place::Inline, {}})) legal.push_back(-2);
  legal.push_back(-1);
  if (found.empty()) return legal;
  TW_TRY(loops, state.loops_around({static_cast<u32>(found[0].payload)}));
  for (std::size_t i = 0; i < loops.size(); ++i) {
    if (loops[i]->extent > 1 && accepts(state, block, {Location::Place::Loop, loops[i]->id}))
      legal.push_back(static_cast<i64>(i));
  }
  return legal;
}

}  // namespace

static Result<Location> apply(const State& state, BlockId block, Draw draw) {
  Array<const For*> loops;
  TW_TRY(List<i64> legal, candidates(state, block, loops));
  if (draw.decision->open()) {
    if (!draw.rng) return reject("has no decision");
    *draw.decision = Decision::of(legal[draw.rng->below(static_cast<i64>(legal.size()))]);
  }
  i64 wanted = draw.decision->values[0], taken = -1;
  // The nearest smaller legal one; -1 is always legal.
  for (i64 candidate : legal) {
    if (candidate <= wanted) taken = candidate;
  }
  if (taken != wanted && !draw.adapt)
    return reject("decision {0} is not a legal place for this block", wanted).about_block(block.value);
  draw.decision->values[0] = taken;
  if (taken == -2) return Location{Location::Place::Inline, {}};
  if (taken == -1) return Location{Location::Place::Root, {}};
  return Location{Location::Place::Loop, loops[taken]->id};
}

REGISTER(sample_compute_location,
         "Draws where a block is computed: inline, where it is, or at a loop of its first consumer.",
         .draws = Meaning::Draws::Place)

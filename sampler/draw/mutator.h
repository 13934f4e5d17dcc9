// Mutators: small changes of a candidate's decisions; the instructions stay. The result is replayed in adapting mode,
// which makes decisions legal that depend on the changed one. Weights are MetaSchedule's, where it has the mutator.
#pragma once
#include "sampler/draw/joint_prior.h"

namespace tw {

struct Mutator {
  const char* name;
  double weight;
  // Changes `decisions` (sample order); false if this trace has nothing that it could change.
  bool (*mutate)(const Trace& trace, const JointPrior& prior, std::vector<Decision>& decisions, Rng& rng);
};

const std::vector<Mutator>& mutators();

// One mutator drawn by weight; tries others if it does not apply. False if none does.
bool mutate(const Trace& trace, const JointPrior& prior, std::vector<Decision>& decisions, Rng& rng);

// Another value of one sample: a categorical one is redrawn, with what is tied to it, any other is opened, so that
// replay draws it. False if it has no other value.
bool change_sample(const JointPrior& prior, std::size_t sample, std::vector<Decision>& decisions, Rng& rng);

// ---- for mutators: which samples a trace has

struct SampleSite {
  std::size_t sample;  // index in sample order
  const Instruction* instruction;
};
std::vector<SampleSite> samples_that_draw(const Trace& trace, Meaning::Draws what);
// Categorical samples of which some value goes (perhaps through arithmetic) into an instruction that is meant.
std::vector<SampleSite> categorical_feeding(const Trace& trace, bool (*is_meant)(const Meaning&));

bool mutate_tile_size(const Trace&, const JointPrior&, std::vector<Decision>&, Rng&);
bool mutate_categorical(const Trace&, const JointPrior&, std::vector<Decision>&, Rng&);
bool mutate_compute_location(const Trace&, const JointPrior&, std::vector<Decision>&, Rng&);
bool mutate_permutation(const Trace&, const JointPrior&, std::vector<Decision>&, Rng&);
bool mutate_unroll(const Trace&, const JointPrior&, std::vector<Decision>&, Rng&);
bool mutate_parallel(const Trace&, const JointPrior&, std::vector<Decision>&, Rng&);

}  // namespace tw

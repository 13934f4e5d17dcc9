// Trace: a straight-line schedule: instructions, each with its arguments and, if it samples, its decision. A value;
// steps are appended, never edited in place. The text form is schedule text: one line per instruction, the decision
// after `@`.
#pragma once
#include <memory>
#include <string>

#include "dsl/ir/compare.h"
#include "dsl/schedule/instruction.h"

namespace tw {

struct Instruction {
  const InstructionKind* kind;
  Array<Arg> arguments;  // one per parameter of the kind, defaults filled in
  u32 first_result;      // index of its first value
  u32 results;
  Decision decision;  // of samples
};

class Trace {
 public:
  Trace() : arena_(std::make_shared<Arena>(1 << 12)) {}

  const std::vector<Instruction>& instructions() const { return instructions_; }
  u32 value_count() const { return static_cast<u32>(names_.size()); }
  Str name_of_value(u32 index) const { return names_[index]; }

  // Adds an instruction; arguments are copied into the trace. Result names are made unique.
  void append(const InstructionKind& kind, Array<Arg> arguments, const Decision& decision, Array<Str> result_names);

  // The same instructions with other decisions, given in the order of the sampling instructions.
  Trace with_decisions(const std::vector<Decision>& decisions) const;
  std::vector<Decision> decisions() const;
  std::size_t sample_count() const;

  // Without pure instructions whose results nobody uses (Simplified, in MetaSchedule).
  Trace without_dead_code() const { return keeping(live()); }
  // One flag per instruction: does it change the program, or does one that stays use its results?
  std::vector<bool> live() const;
  // The instructions whose flag is set, without those that use results of dropped ones.
  Trace keeping(const std::vector<bool>& wanted) const;
  // Only what stands before the enter_postproc marker, the marker excluded.
  Trace without_postproc() const;

  // One line per instruction:  i0, i1 = split(i, [_, 8])
  std::string print(int indent = 2) const;
  std::string print_instruction(const Instruction& instruction) const;
  // Of instructions and decisions, not of names.
  Hash128 hash() const;

 private:
  std::shared_ptr<Arena> arena_;
  std::vector<Instruction> instructions_;
  std::vector<Str> names_;  // of the values
};

enum class ReplayMode { Strict, Adapt };

// Applies the instructions [first, last) of a trace to a state whose values are those of the instructions before.
// Decisions, in sample order for the whole trace, override the trace's own and receive what was taken. rng: for open
// decisions, may be null. A Reject names its step; the state is then to be thrown away.
Status replay(const Trace& trace, State& state, std::vector<Decision>& decisions, ReplayMode mode, Rng* rng,
              std::size_t first = 0, std::size_t last = SIZE_MAX);
// With the trace's own decisions.
Status replay(const Trace& trace, State& state, ReplayMode mode = ReplayMode::Strict, Rng* rng = nullptr);

}  // namespace tw

// Schedule: a State that records what is done to it. Each primitive is a method, made from the list of PRIMITIVE lines:
//
//   Schedule s(workload);
//   BlockId b = *s.get_block("D");
//   Loops l = *s.get_loops(b);
//   Loops i = *s.split(l[0], {{Factors::kHole, 8}});
//
// A Reject leaves schedule and trace as they were. Integers that were sampled are recorded as constants when they are
// passed to a method of this class; to keep them open use apply() with Arg::of_value.
#pragma once
#include "dsl/schedule/primitive.h"
#include "dsl/schedule/trace.h"

namespace tw {

class Schedule {
 public:
  // The base program must outlive the schedule. `seed` is for samples without a decision.
  explicit Schedule(const Program& base, u64 seed = 0)
      : arena_(std::make_shared<Arena>()), state_(*arena_, base), rng_(seed), base_loops_(base.next_loop) {}
  // Goes on with a state of somebody else: new nodes go into its arena, which must outlive the schedule. The state
  // itself stays as it is.
  explicit Schedule(const State& state)
      : arena_(std::shared_ptr<Arena>(), &state.arena()),
        state_(state.arena(), state.program()),
        rng_(0),
        base_loops_(state.program().next_loop) {}
  Schedule(Schedule&&) = default;
  Schedule& operator=(Schedule&&) = default;

  // An independent schedule in the same state. The parent's nodes stay alive as long as the fork needs them.
  Schedule fork() const;

  const State& state() const { return state_; }
  const Program& program() const { return state_.program(); }
  const Trace& trace() const { return trace_; }

  // Applies and records one instruction; last arguments may be left to their defaults. Returns the index of its first
  // value; names are for its results ("" or too few: made up). decision: for samples; open = drawn.
  Result<u32> apply(const InstructionKind& kind, Array<Arg> arguments, Decision decision = {}, Array<Str> names = {});

  // Appends an instruction that makes no value without applying it: for `require`, whose condition the draw at hand
  // need not meet.
  void record_without_applying(const InstructionKind& kind, Array<Arg> arguments) {
    trace_.append(kind, arguments, {}, {});
  }
  // Loops with smaller ids were there before the first instruction.
  u32 base_loop_count() const { return base_loops_; }

#define TW_PRIMITIVE(name, result, parameters, names) \
  Result<result> name parameters { return record<result> TW_WITH_KIND(name, names); }
#define TW_WITH_KIND(name, names) (#name TW_UNPACK names)
#define TW_UNPACK(...) __VA_ARGS__
#include "primitives.inc"
#undef TW_PRIMITIVE
#undef TW_WITH_KIND
#undef TW_UNPACK

 private:
  template <class R, class... A>
  Result<R> record(std::string_view name, A... args) {
    const InstructionKind& kind = *find_kind(name);
    std::vector<Arg> list{to_arg(args)...};
    for (std::size_t i = 0; i < list.size(); ++i) {  // an empty list is how `none` is said in C++
      if (kind.parameters[i].fallback == "none" && list[i].items.empty()) list[i] = {.tag = Arg::Tag::None};
    }
    TW_TRY(u32 first, apply(kind, list));
    return from_values(first, static_cast<R*>(nullptr));
  }

  Arg to_arg(LoopId id) const { return handle(Value::Tag::Loop, id.value); }
  Arg to_arg(BlockId id) const { return handle(Value::Tag::Block, id.value); }
  Arg to_arg(LoopOrBlock at) const { return at.loop.value ? to_arg(at.loop) : to_arg(at.block); }
  Arg to_arg(i64 value) const { return Arg::of_int(value); }
  Arg to_arg(bool value) const { return Arg::of_int(value); }
  Arg to_arg(Str text) const { return Arg::of_text(text); }
  Arg to_arg(const Literal& value) const;
  Arg to_arg(Factors factors) const;
  Arg to_arg(Location at) const;
  Arg to_arg(const IndexMap& map) const;
  template <class T>
  Arg to_arg(Array<T> list) const {
    std::vector<Arg> items;
    for (const T& item : list) items.push_back(to_arg(item));
    return {.tag = Arg::Tag::List, .items = arena_->copy(items)};
  }
  Arg handle(Value::Tag tag, i64 payload) const;

  Unit from_values(u32, Unit*) const { return {}; }
  i64 from_values(u32 first, i64*) const { return state_.values()[first].payload; }
  LoopId from_values(u32 first, LoopId*) const { return {static_cast<u32>(state_.values()[first].payload)}; }
  BlockId from_values(u32 first, BlockId*) const { return {static_cast<u32>(state_.values()[first].payload)}; }
  Location from_values(u32 first, Location*) const;
  template <class T>
  Array<T> from_values(u32 first, Array<T>*) const {
    std::vector<T> out;
    for (u32 i = first; i < state_.values().size(); ++i) out.push_back(from_values(i, static_cast<T*>(nullptr)));
    return arena_->copy(out);
  }

  std::shared_ptr<Arena> arena_;
  std::vector<std::shared_ptr<Arena>> parents_;  // whose nodes the program may share
  State state_;
  Trace trace_;
  Rng rng_;
  u32 base_loops_;
};

}  // namespace tw

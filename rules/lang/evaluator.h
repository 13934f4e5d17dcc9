// The evaluator of rules, shared by the files that implement it: statements.cc (control, forks), expressions.cc,
// calls.cc (functions of modules and of the tables), instructions.cc (what changes the program). Private to rules/lang;
// others call evaluate.h.
#pragma once
#include <functional>
#include <optional>
#include <unordered_set>

#include "dsl/base/text.h"
#include "rules/lang/evaluate.h"
#include "rules/lang/list_functions.h"

namespace tw::rules {

// Where instructions go: a Schedule that records, or a bare State (postprocessing in the search). What is rejected
// changes nothing.
class Sink {
 public:
  // The state to return to: program and values, and the trace where instructions are recorded.
  struct Mark {
    std::optional<Schedule> schedule;
    Program program;
    std::size_t values = 0;
  };

  explicit Sink(Schedule& schedule) : schedule_(&schedule) {}
  explicit Sink(State& state) : bare_(&state) {}
  const State& state() const { return schedule_ ? schedule_->state() : *bare_; }
  Result<u32> apply(const InstructionKind& kind, Array<Arg> arguments, Array<Str> names) {
    if (schedule_) return schedule_->apply(kind, arguments, {}, names);
    Mark before = mark();
    Decision none;
    Status status = kind.apply(*bare_, arguments, {&none, nullptr, false}, bare_->values());
    if (status) return static_cast<u32>(before.values);
    restore(std::move(before));
    Reject why = status.rejected();
    why.instruction = kind.name;
    return why;
  }
  Mark mark() const {
    if (schedule_) return {schedule_->fork(), {}, 0};
    return {std::nullopt, bare_->program(), bare_->values().size()};
  }
  void restore(Mark mark) {
    if (schedule_) {
      *schedule_ = std::move(*mark.schedule);
      return;
    }
    bare_->set_program(mark.program);
    bare_->values().resize(mark.values, Value{});
  }
  bool records() const { return schedule_ != nullptr; }
  std::size_t instructions() const { return schedule_ ? schedule_->trace().instructions().size() : 0; }
  Schedule& schedule() { return *schedule_; }

 private:
  Schedule* schedule_ = nullptr;
  State* bare_ = nullptr;
};

// How a statement ended. Rejected: an instruction was rejected (Evaluator::rejected). Error: reported to the
// diagnostics.
enum class Flow : u8 { Next, Skip, Drop, Rejected, Error };

// One run of one rule on one block. Every function that may fail gives nothing after a reject (`rejected` is set) or an
// error.
class Evaluator {
 public:
  using Tag = RuleValue::Tag;

  Evaluator(const RuleUse& use, const Declared& declared, Sink sink, const TargetFacts& target, const Limits& limits,
            Diagnostics& diagnostics, i64 steps);
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;

  // Alternatives to take at the next `either`s; grows with those that are met.
  std::vector<Choice> choices;
  Reject rejected;
  std::vector<RecordedCondition> conditions;
  // Loops whose extent depends on a sample, carried from rule to rule by the caller through the trace.
  void assume_open(const std::unordered_set<u32>& open) { open_loops_ = open; }
  // What earlier rules left: handles that samples made, and blocks around which the order of loops depends on a sample.
  void assume_drawn(const Trace& trace);

  Flow run(BlockId block);
  // Did `when` hold? If not, which part of it is false.
  bool applied() const { return applied_; }
  const std::string& unmet() const { return unmet_; }
  // The choices of this run without those that it did not reach.
  std::vector<Choice> taken() const {
    return {choices.begin(), choices.begin() + static_cast<std::ptrdiff_t>(next_choice_)};
  }
  // Rejects inside `try`, which went on.
  const std::vector<Reject>& caught() const { return caught_; }
  i64 steps_left() const { return steps_left_; }

 private:
  // A copy of everything that a statement may change.
  struct Snapshot {
    Sink::Mark sink;
    std::unordered_set<u32> known_loops, open_loops, open_values, drawn_blocks;
    std::size_t conditions;
    std::vector<std::pair<std::shared_ptr<Scope>, Scope>> scopes;  // from the innermost outwards
  };
  Snapshot snapshot(const std::shared_ptr<Scope>& scope) const;
  void restore(Snapshot before);
  // True while a rule is recorded: values that depend on a sample are open then. False in postprocessors, which run
  // after all draws.
  bool builds_space() const { return sink_.records() && !use_.rule->is_post; }

  bool bind_params(Scope& scope);
  // Like condition(); of `a and b` it goes into the parts and notes the first that is false.
  std::optional<bool> check_when(const ast::Expr* e, const std::shared_ptr<Scope>& scope);

  // ---- statements
  Flow run(const Statements& statements, const std::shared_ptr<Scope>& scope);
  Flow run_nested(const Statements& statements, const std::shared_ptr<Scope>& scope);
  Flow run(const Statement& s, const std::shared_ptr<Scope>& scope);
  Flow for_loop(const Statement& s, const std::shared_ptr<Scope>& scope);
  Flow either(const Statement& s, const std::shared_ptr<Scope>& scope);
  Flow require(const Statement& s, const std::shared_ptr<Scope>& scope);
  Flow attempt(const Statement& s, const std::shared_ptr<Scope>& scope);
  Flow assign(const Statement& s, const std::shared_ptr<Scope>& scope);
  Flow assign_one(const ast::Expr* target, RuleValue value, const std::shared_ptr<Scope>& scope);

  // ---- expressions
  std::optional<RuleValue> eval(const ast::Expr* e, const std::shared_ptr<Scope>& scope);
  std::optional<RuleValue> eval_kind(const ast::Expr* e, const std::shared_ptr<Scope>& scope);
  // False, and an error, if the rule has no steps left or the value is too large.
  bool charge(i64 steps, Span span);
  bool check_size(const RuleValue& value, Span span);
  std::optional<RuleValue> eval_name(const ast::Name* n, const std::shared_ptr<Scope>& scope);
  std::optional<RuleValue> eval_items(Array<const ast::Expr*> items, const std::shared_ptr<Scope>& scope);
  std::optional<RuleValue> eval_dictionary(const ast::Dictionary* n, const std::shared_ptr<Scope>& scope);
  std::optional<RuleValue> eval_entry(const RuleValue& dictionary, const ast::Index* n,
                                      const std::shared_ptr<Scope>& scope);
  // Where a comprehension or quantifier has its variables, an element taken apart; null after an error.
  std::shared_ptr<Scope> scope_of_item(Array<const ast::Name*> variables, const RuleValue& item, Span span,
                                       const std::shared_ptr<Scope>& scope);
  std::optional<RuleValue> eval_quantifier(const ast::Quantifier* n, const std::shared_ptr<Scope>& scope);
  std::optional<RuleValue> eval_comprehension(const ast::Comprehension* n, const std::shared_ptr<Scope>& scope);
  bool bind(const std::vector<Str>& names, const RuleValue& item, Scope& scope, Span span);
  std::optional<RuleValue> eval_index(const ast::Index* n, const std::shared_ptr<Scope>& scope);
  std::optional<RuleValue> eval_member(const ast::Member* n, const std::shared_ptr<Scope>& scope);
  std::optional<RuleValue> entry_of(const RuleValue& dictionary, std::string_view key, Span span);
  std::optional<RuleValue> eval_unary(const ast::Unary* n, const std::shared_ptr<Scope>& scope);
  std::optional<RuleValue> eval_binary(const ast::Binary* n, const std::shared_ptr<Scope>& scope);
  std::optional<RuleValue> combine(const ast::Binary* n, const RuleValue& a, const RuleValue& b);
  static Arg arg_of(const RuleValue& v) { return v.tag == Tag::Open ? v.open : Arg::of_int(v.integer); }
  std::optional<bool> condition(const ast::Expr* e, const std::shared_ptr<Scope>& scope);

  // ---- calls
  std::optional<RuleValue> eval_call(const ast::Call* n, const std::shared_ptr<Scope>& scope);
  std::optional<RuleValue> unknown_function(const ast::Name* callee);
  std::optional<RuleValue> call_lambda(const RuleValue& lambda, const std::vector<RuleValue>& values, Span span);
  std::optional<RuleValue> call_user(const Module& home, const UserFunction& function,
                                     const std::vector<RuleValue>& values, Span span);
  // Runs the statements of a step in its place: what they do to the program and to the draws is the rule's.
  std::optional<RuleValue> call_step(const Module& home, const Step& step, const std::vector<RuleValue>& values,
                                     Span span);
  // Calls run() with the names, and the errors, of the module `home`. An error of another module's text is reported at
  // `span`, with what `where` says in front of it.
  std::optional<RuleValue> in_module(const Module& home, Span span, bool always,
                                     const std::function<std::string(const Diagnostics&)>& where,
                                     const std::function<std::optional<RuleValue>()>& run);
  std::optional<RuleValue> call_list_function(const ListFunction& function, const std::vector<RuleValue>& values,
                                              Span span);
  // What annotate() put there, if it depends on a sample: an open value, not what the draw at hand has put there.
  std::optional<RuleValue> open_mark(const AnalysisFunction& function, const std::vector<RuleValue>& values);
  std::optional<RuleValue> call_analysis(const AnalysisFunction& function, const std::vector<RuleValue>& values,
                                         Span span);

  // ---- instructions
  std::optional<RuleValue> call_instruction(const InstructionKind& kind, const ast::Call* n,
                                            const std::vector<RuleValue>& values,
                                            const std::vector<std::string>& names);
  std::optional<Arg> to_arg(const RuleValue& value, Span span);
  // An index map: the lambda's body with its parameters standing for the map's.
  std::optional<Arg> map_arg(const RuleValue& value, Span span);
  std::optional<Arg> find_handle(Value::Tag tag, i64 id);
  // A handle that no instruction made yet (an analysis function found it) is made by a query, recorded like any other.
  std::optional<Arg> block_arg(BlockId id, Span span);
  std::optional<Arg> loop_arg(LoopId id, Span span);
  std::optional<RuleValue> loops_of(BlockId id, Span span, bool needs_no_handles = false);
  std::optional<RuleValue> instruction(const InstructionKind& kind, Array<Arg> arguments,
                                       const std::vector<std::string>& names, Span span, bool reject_is_fine);
  std::optional<RuleValue> record_unchecked(const InstructionKind& kind, Array<Arg> arguments);
  RuleValue result_of(const InstructionKind& kind, u32 first);

  // ---- open loops: those that an instruction with an open argument made, and those made from them
  bool is_open(LoopId id) const { return builds_space() && open_loops_.count(id.value); }
  bool is_open(const Arg& arg) const;
  // What is done to a block among open loops may make more of them.
  bool block_is_open(BlockId id) const;
  bool takes_out_open_units(const InstructionKind& kind, const std::vector<Arg>& arguments) const;
  void note_loops(bool open);
  // Which loop a drawn handle is depends on the draw: it stands for itself, not for the loop that it happens to be.
  void note_drawn_handles(u32 first);
  // What is done to a drawn loop is done to another loop in another draw: which loops are around the blocks below is
  // not known then.
  void note_drawn_order(const InstructionKind& kind, Array<Arg> arguments);
  bool is_drawn_loop(const Arg& arg) const;
  // A value that shows loops around such a block is an error.
  std::optional<RuleValue> without_drawn_order(const std::vector<RuleValue>& of, std::optional<RuleValue> value,
                                               Span span);

  // ---- small things
  Arena& arena() { return sink_.state().arena(); }
  Flow failure() const { return failed_ ? Flow::Rejected : ended_ != Flow::Next ? ended_ : Flow::Error; }
  std::nullopt_t error(Span span, std::string message, std::string note = "");
  std::nullopt_t type_error(Span span, std::string_view expected, const RuleValue& found);
  Flow wrong_type(Span span, std::string_view expected, const RuleValue& found);

  const RuleUse& use_;
  const Declared& declared_;
  Sink sink_;
  const TargetFacts& target_;
  const Limits& limits_;
  Diagnostics* diagnostics_;  // about the text that is being evaluated
  const Module* module_;      // whose text that is
  i64 steps_left_;
  int depth_ = 0, nesting_ = 0;
  int functions_ = 0;        // that are being evaluated: they run no steps
  Flow ended_ = Flow::Next;  // Skip or Drop: a step that was called in an expression has ended the fork
  std::vector<std::shared_ptr<Scope>> captured_;  // by function values: they may refer to themselves
  std::size_t next_choice_ = 0;
  bool applied_ = false, failed_ = false;
  std::string unmet_;
  std::vector<Reject> caught_;
  std::vector<std::string> wanted_names_;  // of the results of the next instruction
  std::unordered_set<u32> known_loops_, open_loops_;
  std::unordered_set<u32> open_values_;  // handles made by samples and by choose
  std::unordered_set<u32> drawn_blocks_;
};

}  // namespace tw::rules

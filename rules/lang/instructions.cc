#include <algorithm>

#include "dsl/ir/walk.h"
#include "rules/lang/evaluator.h"
#include "rules/lang/type_checker.h"
#include "rules/lang/types.h"

namespace tw::rules {

std::optional<RuleValue> Evaluator::call_instruction(const InstructionKind& kind, const ast::Call* n,
                                                     const std::vector<RuleValue>& values,
                                                     const std::vector<std::string>& names) {
  std::vector<Arg> arguments(kind.parameters.size());
  std::vector<bool> given(kind.parameters.size(), false);
  const RuleValue* mark_value = nullptr;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const ast::Argument& argument = n->arguments[i];
    std::size_t index = i;
    if (!argument.name.empty()) {
      for (index = 0; index < kind.parameters.size() && kind.parameters[index].name != argument.name; ++index) {
      }
    }
    if (index >= kind.parameters.size()) {
      return error(argument.value->span, argument.name.empty()
                                             ? cat(kind.name, " takes ", kind.parameters.size(), " arguments")
                                             : cat(kind.name, " has no parameter `", argument.name, "`"));
    }
    const Parameter& parameter = kind.parameters[index];
    bool is_number = values[i].tag == Tag::Open && (parameter.type == "i64" || parameter.type == "bool");
    if (is_number && builds_space() && !may_be_open(kind, parameter)) {
      return error(argument.value->span, open_argument_message(kind, parameter), open_argument_note);
    }
    if (!charge(values[i].parts, argument.value->span)) return std::nullopt;
    std::optional<Arg> arg = to_arg(values[i], argument.value->span);
    if (!arg) return std::nullopt;
    arguments[index] = *arg;
    given[index] = true;
    if (parameter.type == "Literal") mark_value = &values[i];
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (given[i]) continue;
    if (kind.parameters[i].fallback.empty())
      return error(n->span, cat(kind.name, ": parameter `", kind.parameters[i].name, "` is missing"));
    // A loop of one iteration stays where it is: how many loops there are does not depend on extents then.
    bool is_kept = kind.parameters[i].name == "keep_units";
    arguments[i] = is_kept ? Arg::of_int(1) : default_argument(kind.parameters[i]);
  }
  if (takes_mark(kind) && arguments[1].tag == Arg::Tag::Text) {
    const Mark* mark = find_mark(arguments[1].text, declared_, module_);
    if (!mark)
      return error(n->span, unknown_mark(arguments[1].text, declared_),
                   near_mark(arguments[1].text, declared_, module_));
    std::optional<std::string> wrong = mark_value ? misfit(mark->type, *mark_value) : std::nullopt;
    if (wrong) return error(n->span, wrong_mark_value(*mark, *wrong));
  }
  if (builds_space() && takes_out_open_units(kind, arguments)) {
    return error(n->span,
                 cat("`preserve_unit_iters = false` of ", kind.name,
                     ": which variables have one value depends on a sample here"),
                 "what the loops feed would depend on a draw; leave the variables in, or take factors that are known "
                 "while the space is built");
  }
  return instruction(kind, arguments, names, n->span, kind.meaning.is_weight);
}

// Are variables of one value to go, and does it depend on a draw which these are?
bool Evaluator::takes_out_open_units(const InstructionKind& kind, const std::vector<Arg>& arguments) const {
  auto flag = std::find_if(kind.parameters.begin(), kind.parameters.end(),
                           [](const Parameter& p) { return p.name == "preserve_unit_iters"; });
  if (flag == kind.parameters.end()) return false;
  const Arg& preserve = arguments[static_cast<std::size_t>(flag - kind.parameters.begin())];
  if (preserve.tag != Arg::Tag::Int || preserve.integer != 0) return false;
  bool has_open_loop = false;
  if (kind.result == "BlockId" &&
      arguments[0].tag == Arg::Tag::Value) {  // a nest that becomes a block: all of its loops count
    const Value& at = sink_.state().values()[static_cast<std::size_t>(arguments[0].integer)];
    const For* loop = at.tag == Value::Tag::Loop ? sink_.state().find_loop({static_cast<u32>(at.payload)}) : nullptr;
    if (loop) for_each<For>(loop, [&](const For* inside) { has_open_loop |= open_loops_.count(inside->id.value) > 0; });
  }
  return has_open_loop || std::any_of(arguments.begin(), arguments.end(), [&](const Arg& arg) { return is_open(arg); });
}

std::optional<Arg> Evaluator::to_arg(const RuleValue& value, Span span) {
  switch (value.tag) {
    case Tag::None:
      return Arg{};
    case Tag::Bool:
    case Tag::Int:
      return Arg::of_int(value.integer);
    case Tag::Text:
      return Arg::of_text(arena().text(value.text));
    case Tag::Open:
      return value.open;
    case Tag::Loop:
      return loop_arg(value.loop(), span);
    case Tag::Block:
      return block_arg(value.block(), span);
    case Tag::List: {
      std::vector<Arg> items;
      for (const RuleValue& item : *value.list) {
        std::optional<Arg> arg = to_arg(item, span);
        if (!arg) return std::nullopt;
        items.push_back(*arg);
      }
      return Arg{.tag = Arg::Tag::List, .items = arena().copy(items)};
    }
    case Tag::Number:
      return Arg::of_number(value.number);
    case Tag::Dictionary: {
      std::vector<Arg> entries;
      for (std::size_t i = 0; i < value.list->size(); ++i) {
        std::optional<Arg> item = to_arg((*value.list)[i], span);
        if (!item) return std::nullopt;
        entries.push_back(
            {.tag = Arg::Tag::Entry, .text = arena().text((*value.keys)[i]), .items = arena().list<Arg>({*item})});
      }
      return Arg{.tag = Arg::Tag::Dictionary, .items = arena().copy(entries)};
    }
    case Tag::Lambda:
      return map_arg(value, span);
  }
  return std::nullopt;
}

std::optional<Arg> Evaluator::map_arg(const RuleValue& value, Span span) {
  std::vector<RuleValue> params;
  for (std::size_t i = 0; i < value.lambda->parameters.size(); ++i) {
    params.push_back(RuleValue::of_open({.tag = Arg::Tag::Param, .integer = static_cast<i64>(i)}));
  }
  std::optional<RuleValue> body = call_lambda(value, params, span);
  if (!body) return std::nullopt;
  if (body->tag != Tag::List) body = RuleValue::of(std::vector<RuleValue>{*body});
  std::optional<Arg> items = to_arg(*body, span);
  if (!items) return std::nullopt;
  return Arg{.tag = Arg::Tag::Map, .integer = static_cast<i64>(params.size()), .items = items->items};
}

std::optional<Arg> Evaluator::find_handle(Value::Tag tag, i64 id) {
  const List<Value>& values = sink_.state().values();
  for (std::size_t i = values.size(); i-- > 0;) {
    bool is_it = values[i].tag == tag && values[i].payload == id;
    if (is_it && !open_values_.count(static_cast<u32>(i))) return Arg::of_value(static_cast<u32>(i));
  }
  return std::nullopt;
}

std::optional<Arg> Evaluator::block_arg(BlockId id, Span span) {
  if (std::optional<Arg> known = find_handle(Value::Tag::Block, id.value)) return known;
  const Block* block = sink_.state().find_block(id);
  if (!block) return error(span, "the block no longer exists"), std::nullopt;
  Arg name[] = {Arg::of_text(block->name)};
  if (!instruction(*find_kind("get_block"), Array<Arg>(name), {}, span, false)) return std::nullopt;
  return find_handle(Value::Tag::Block, id.value);
}

std::optional<Arg> Evaluator::loop_arg(LoopId id, Span span) {
  if (std::optional<Arg> known = find_handle(Value::Tag::Loop, id.value)) return known;
  const For* loop = sink_.state().find_loop(id);
  const Block* inside = nullptr;
  if (loop) for_each<Block>(loop->body, [&](const Block* block) { inside = inside ? inside : block; });
  if (!inside) return error(span, "the loop no longer exists: an earlier instruction replaced it"), std::nullopt;
  if (!loops_of(inside->id, span)) return std::nullopt;
  return find_handle(Value::Tag::Loop, id.value);
}

std::optional<RuleValue> Evaluator::loops_of(BlockId id, Span span, bool needs_no_handles) {
  // Loops that all have handles need no other query, and where nothing is recorded only those that go into an
  // instruction need any.
  if (auto loops = sink_.state().loops_around(id)) {
    std::vector<RuleValue> known;
    known.reserve(loops->size());
    for (const For* loop : *loops) {
      if (!needs_no_handles && !find_handle(Value::Tag::Loop, loop->id.value)) break;
      known.push_back(RuleValue::of(loop->id));
    }
    if (known.size() == loops->size() && !known.empty()) return RuleValue::of(std::move(known));
  }
  std::optional<Arg> block = block_arg(id, span);
  if (!block) return std::nullopt;
  Arg arguments[] = {*block};
  return instruction(*find_kind("get_loops"), Array<Arg>(arguments), {}, span, false);
}

std::optional<RuleValue> Evaluator::instruction(const InstructionKind& kind, Array<Arg> arguments,
                                                const std::vector<std::string>& names, Span span, bool reject_is_fine) {
  if (static_cast<int>(sink_.instructions()) >= limits_.instructions) {
    return error(span, cat("the trace has more than ", limits_.instructions, " instructions"));
  }
  if (!charge(100, span)) return std::nullopt;
  bool open = kind.samples || std::any_of(arguments.begin(), arguments.end(), [&](const Arg& a) { return is_open(a); });
  std::vector<Str> views(names.begin(), names.end());
  Result<u32> first = sink_.apply(kind, arguments, views);
  if (reject_is_fine && builds_space())
    conditions.push_back(
        {sink_.instructions() - (first ? 1 : 0), span, &diagnostics_->source(), static_cast<bool>(first)});
  if (!first) {
    // A draw that a require excludes says nothing about the sketch: the instruction stays, the space is conditioned at
    // the draw.
    if (reject_is_fine && builds_space()) return record_unchecked(kind, arguments);
    rejected = first.rejected();
    failed_ = true;
    return std::nullopt;
  }
  note_loops(open && !kind.pure);
  if (builds_space()) note_drawn_order(kind, arguments);
  if (kind.samples || (open && kind.meaning.picks)) note_drawn_handles(*first);
  return result_of(kind, *first);
}

std::optional<RuleValue> Evaluator::record_unchecked(const InstructionKind& kind, Array<Arg> arguments) {
  sink_.schedule().record_without_applying(kind, arguments);
  return RuleValue::none();
}

RuleValue Evaluator::result_of(const InstructionKind& kind, u32 first) {
  const List<Value>& values = sink_.state().values();
  std::vector<RuleValue> made;
  for (u32 i = first; i < values.size(); ++i) {
    if (open_values_.count(i)) {
      made.push_back(RuleValue::of_open(Arg::of_value(i)));
      continue;
    }
    switch (values[i].tag) {
      case Value::Tag::Loop:
        made.push_back(RuleValue::of(LoopId{static_cast<u32>(values[i].payload)}));
        break;
      case Value::Tag::Block:
        made.push_back(RuleValue::of(BlockId{static_cast<u32>(values[i].payload)}));
        break;
      default:
        made.push_back(RuleValue::of_open(Arg::of_value(i)));
    }
  }
  if (kind.result == "Unit") return RuleValue::none();
  bool list = kind.result == "Loops" || kind.result == "Blocks" || kind.result == "Ints";
  return list ? RuleValue::of(std::move(made)) : made[0];
}

bool Evaluator::is_open(const Arg& arg) const {
  if (arg.tag == Arg::Tag::Extent) return true;
  if (arg.tag == Arg::Tag::Value) {
    const Value& value = sink_.state().values()[arg.integer];
    if (value.tag == Value::Tag::Int || value.tag == Value::Tag::Location) return true;
    if (open_values_.count(static_cast<u32>(arg.integer))) return true;
    if (value.tag == Value::Tag::Loop) return open_loops_.count(static_cast<u32>(value.payload)) > 0;
    return block_is_open({static_cast<u32>(value.payload)});
  }
  return std::any_of(arg.items.begin(), arg.items.end(), [&](const Arg& item) { return is_open(item); });
}

bool Evaluator::block_is_open(BlockId id) const {
  auto loops = sink_.state().loops_around(id);
  return loops && std::any_of(loops->begin(), loops->end(),
                              [&](const For* loop) { return open_loops_.count(loop->id.value) > 0; });
}

void Evaluator::note_drawn_handles(u32 first) {
  for (u32 i = first; builds_space() && i < sink_.state().values().size(); ++i) open_values_.insert(i);
}

namespace {

// Instructions that leave all loops where they are.
bool keeps_loops(const InstructionKind& kind) { return kind.pure || kind.samples || kind.meaning.keeps_loops; }

template <class Visit>
void for_each_value(const Arg& arg, Visit visit) {
  if (arg.tag == Arg::Tag::Value) visit(arg);
  for (const Arg& item : arg.items) for_each_value(item, visit);
}

}  // namespace

bool Evaluator::is_drawn_loop(const Arg& arg) const {
  bool drawn = false;
  for_each_value(arg, [&](const Arg& value) {
    bool is_loop = sink_.state().values()[static_cast<std::size_t>(value.integer)].tag == Value::Tag::Loop;
    drawn |= is_loop && open_values_.count(static_cast<u32>(value.integer));
  });
  return drawn;
}

void Evaluator::note_drawn_order(const InstructionKind& kind, Array<Arg> arguments) {
  bool drawn = std::any_of(arguments.begin(), arguments.end(), [&](const Arg& arg) { return is_drawn_loop(arg); });
  if (!drawn || keeps_loops(kind)) return;
  auto note = [&](const Arg& arg) {
    const Value& value = sink_.state().values()[static_cast<std::size_t>(arg.integer)];
    if (value.tag == Value::Tag::Block) drawn_blocks_.insert(static_cast<u32>(value.payload));
    if (value.tag != Value::Tag::Loop) return;
    const For* loop = sink_.state().find_loop({static_cast<u32>(value.payload)});
    // The loops of this draw that are gone have made others, which count as open.
    for (const Block* block : sink_.state().blocks()) {
      bool below = false;
      if (loop) for_each<Block>(loop, [&](const Block* inside) { below |= inside == block; });
      if (below || (!loop && block_is_open(block->id))) drawn_blocks_.insert(block->id.value);
    }
  };
  for (const Arg& arg : arguments) for_each_value(arg, note);
}

void Evaluator::assume_drawn(const Trace& trace) {
  for (const Instruction& step : trace.instructions()) {
    bool chosen = step.kind->meaning.picks && step.arguments[1].tag != Arg::Tag::Int;
    for (u32 i = 0; (step.kind->samples || chosen) && i < step.results; ++i) open_values_.insert(step.first_result + i);
    note_drawn_order(*step.kind, step.arguments);
  }
}

std::optional<RuleValue> Evaluator::without_drawn_order(const std::vector<RuleValue>& of,
                                                        std::optional<RuleValue> value, Span span) {
  if (!value || drawn_blocks_.empty() || use_.rule->is_post) return value;
  bool shows_loops = value->tag == Tag::Loop;
  if (value->tag == Tag::List) {
    for (const RuleValue& item : *value->list) shows_loops |= item.tag == Tag::Loop;
  }
  for (const RuleValue& argument : of) {
    if (!shows_loops || argument.tag != Tag::Block || !drawn_blocks_.count(argument.block().value)) continue;
    const Block* block = sink_.state().find_block(argument.block());
    return error(
        span,
        cat("which loops are around block `", block ? block->name : Str(), "`, and in which order, depends on a draw"),
        "use handles from before the instruction that was given a drawn loop, or a postprocessor");
  }
  return value;
}

void Evaluator::note_loops(bool open) {
  if (!builds_space()) return;
  for_each<For>(sink_.state().program().body, [&](const For* loop) {
    if (known_loops_.insert(loop->id.value).second && open) open_loops_.insert(loop->id.value);
  });
}

std::nullopt_t Evaluator::error(Span span, std::string message, std::string note) {
  diagnostics_->error(span, std::move(message), std::move(note));
  return std::nullopt;
}

std::nullopt_t Evaluator::type_error(Span span, std::string_view expected, const RuleValue& found) {
  return error(span, cat("expected ", expected, ", found ", name_of(found.tag)));
}

Flow Evaluator::wrong_type(Span span, std::string_view expected, const RuleValue& found) {
  type_error(span, expected, found);
  return Flow::Error;
}

}  // namespace tw::rules

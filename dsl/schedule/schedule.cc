#include "dsl/schedule/schedule.h"

#include <algorithm>

#include "dsl/base/text.h"

namespace tw {
namespace {

// Names for results that nobody named: what the handle stands for.
std::string default_name(const State& state, const Value& value) {
  switch (value.tag) {
    case Value::Tag::Loop: {
      const For* loop = state.find_loop({static_cast<u32>(value.payload)});
      return loop && !loop->var->name.empty() ? std::string(loop->var->name) : "l";
    }
    case Value::Tag::Block: {
      const Block* block = state.find_block({static_cast<u32>(value.payload)});
      return block ? cat("b_", block->name) : "b";
    }
    case Value::Tag::Int:
      return "v";
    case Value::Tag::Location:
      return "at";
  }
  return "v";
}

}  // namespace

Schedule Schedule::fork() const {
  Schedule copy(state_.program());
  copy.parents_ = parents_;
  copy.parents_.push_back(arena_);
  copy.state_.values() = state_.values();
  copy.trace_ = trace_;
  copy.rng_ = rng_;
  copy.base_loops_ = base_loops_;
  return copy;
}

// With the defaults of those that are not given: an instruction may have got more since a caller was written.
static std::vector<Arg> with_defaults(const InstructionKind& kind, Array<Arg> given) {
  std::vector<Arg> all(given.begin(), given.end());
  while (all.size() < kind.parameters.size() && !kind.parameters[all.size()].fallback.empty())
    all.push_back(default_argument(kind.parameters[all.size()]));
  return all;
}

Result<u32> Schedule::apply(const InstructionKind& kind, Array<Arg> given, Decision decision, Array<Str> names) {
  std::vector<Arg> complete = with_defaults(kind, given);
  Array<Arg> arguments(complete);
  u32 first = static_cast<u32>(state_.values().size());
  Program before = state_.program();
  Status status = kind.apply(state_, arguments, {&decision, &rng_, false}, state_.values());
  if (!status) {
    state_.set_program(before);  // ids drawn by a rejected step are given back
    state_.values().resize(first, Value{});
    Reject why = status.rejected();
    why.instruction = kind.name;
    why.step = static_cast<int>(trace_.instructions().size());
    return why;
  }
  std::vector<std::string> made;
  for (u32 i = first; i < state_.values().size(); ++i) {
    std::size_t at = i - first;
    made.push_back(at < names.size() && !names[at].empty() ? std::string(names[at])
                                                           : default_name(state_, state_.values()[i]));
  }
  std::vector<Str> views(made.begin(), made.end());
  trace_.append(kind, arguments, kind.samples ? decision : Decision{}, views);
  return first;
}

Arg Schedule::handle(Value::Tag tag, i64 payload) const {
  const List<Value>& values = state_.values();
  for (std::size_t i = values.size(); i-- > 0;) {
    if (values[i].tag == tag && values[i].payload == payload) return Arg::of_value(static_cast<u32>(i));
  }
  TW_CHECK(false, "a handle that no instruction of this schedule made");
  return {};
}

Arg Schedule::to_arg(Factors factors) const {
  std::vector<Arg> items;
  for (i64 factor : factors.values)
    items.push_back(factor == Factors::kHole ? Arg{.tag = Arg::Tag::Hole} : Arg::of_int(factor));
  return {.tag = Arg::Tag::List, .items = arena_->copy(items)};
}

Arg Schedule::to_arg(const Literal& value) const {
  if (value.is(Literal::Tag::Int)) return Arg::of_int(value.integer);
  if (value.is(Literal::Tag::Text)) return Arg::of_text(value.text);
  if (value.is(Literal::Tag::Number)) return Arg::of_number(value.number);
  bool is_list = value.is(Literal::Tag::List);
  std::vector<Arg> items;
  for (std::size_t i = 0; i < value.items.size(); ++i) {
    Arg item = to_arg(value.items[i]);
    items.push_back(is_list ? item
                            : Arg{.tag = Arg::Tag::Entry, .text = value.keys[i], .items = arena_->list<Arg>({item})});
  }
  return {.tag = is_list ? Arg::Tag::List : Arg::Tag::Dictionary, .items = arena_->copy(items)};
}

Arg Schedule::to_arg(Location at) const {
  if (at.place == Location::Place::Loop) return to_arg(at.loop);
  return handle(Value::Tag::Location, at.place == Location::Place::Root ? -1 : -2);
}

Location Schedule::from_values(u32 first, Location*) const {
  i64 payload = state_.values()[first].payload;
  if (payload == -1) return {Location::Place::Root, {}};
  if (payload == -2) return {Location::Place::Inline, {}};
  return {Location::Place::Loop, {static_cast<u32>(payload)}};
}

namespace {
Arg map_arg(Arena& arena, const Expr* e, Array<const Var*> params) {
  if (std::optional<i64> value = constant_of(e)) return Arg::of_int(*value);
  if (const Var* var = as<Var>(e)) {
    for (std::size_t i = 0; i < params.size(); ++i) {
      if (params[i] == var) return {.tag = Arg::Tag::Param, .integer = static_cast<i64>(i)};
    }
  }
  const Binary* binary = as<Binary>(e);
  TW_CHECK(binary, "index map with something else than integer arithmetic");
  return {.tag = Arg::Tag::Binary,
          .op = binary->op,
          .items = arena.list<Arg>({map_arg(arena, binary->a, params), map_arg(arena, binary->b, params)})};
}
}  // namespace

Arg Schedule::to_arg(const IndexMap& map) const {
  std::vector<Arg> items;
  for (const Expr* result : map.results) items.push_back(map_arg(*arena_, result, map.params));
  return {.tag = Arg::Tag::Map, .integer = static_cast<i64>(map.params.size()), .items = arena_->copy(items)};
}

}  // namespace tw

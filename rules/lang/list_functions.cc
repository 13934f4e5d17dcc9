#include "rules/lang/list_functions.h"

#include <algorithm>
#include <unordered_map>

#include "dsl/base/text.h"

namespace tw::rules {
namespace {

using Tag = RuleValue::Tag;
using Values = std::vector<RuleValue>;
using Apply = std::function<std::optional<RuleValue>(const RuleValue&, const RuleValue&)>;

FunctionResult fail(std::string why) { return {{}, std::move(why)}; }
bool is_list(const Values& values, std::size_t i) { return i < values.size() && values[i].tag == Tag::List; }
bool is_number(const RuleValue& v) { return v.tag == Tag::Int || v.tag == Tag::Open; }
Arg arg_of(const RuleValue& v) { return v.tag == Tag::Open ? v.open : Arg::of_int(v.integer); }

// op over two integers, fixed or open; nothing where the result does not fit.
std::optional<RuleValue> combine(Arena& arena, BinaryOp op, const RuleValue& a, const RuleValue& b) {
  if (a.tag == Tag::Int && b.tag == Tag::Int) {
    std::optional<i64> value = exact(op, a.integer, b.integer);
    return value ? std::optional(RuleValue::of(*value)) : std::nullopt;
  }
  return RuleValue::of_open({.tag = Arg::Tag::Binary, .op = op, .items = arena.list<Arg>({arg_of(a), arg_of(b)})},
                            a.parts + b.parts + 1);
}
constexpr const char* too_large = "the integer does not fit into 64 bits";

FunctionResult range(Arena&, const Values& v, const Apply&) {
  if (v.empty() || v.size() > 2 || v[0].tag != Tag::Int || v.back().tag != Tag::Int)
    return fail("expected one or two fixed integers");
  i64 begin = v.size() == 2 ? v[0].integer : 0, end = v.back().integer;
  if (begin < end && static_cast<u64>(end) - static_cast<u64>(begin) > 10000) return fail("more than 10000 elements");
  Values out;
  for (i64 i = begin; i < end; ++i) out.push_back(RuleValue::of(i));
  return {RuleValue::of(std::move(out)), {}};
}

FunctionResult len(Arena&, const Values& v, const Apply&) {
  if (v.size() != 1 || !is_list(v, 0)) return fail("expected a list");
  return {RuleValue::of(static_cast<i64>(v[0].list->size())), {}};
}

FunctionResult rev(Arena&, const Values& v, const Apply&) {
  if (v.size() != 1 || !is_list(v, 0)) return fail("expected a list");
  return {RuleValue::of(Values(v[0].list->rbegin(), v[0].list->rend())), {}};
}

FunctionResult flat(Arena&, const Values& v, const Apply&) {
  if (v.size() != 1 || !is_list(v, 0)) return fail("expected a list of lists");
  Values out;
  for (const RuleValue& item : *v[0].list) {
    if (item.tag != Tag::List) return fail("expected a list of lists");
    out.insert(out.end(), item.list->begin(), item.list->end());
  }
  return {RuleValue::of(std::move(out)), {}};
}

template <BinaryOp Op, int Unit>
FunctionResult fold(Arena& arena, const Values& v, const Apply&) {
  const Values& items = v.size() == 1 && is_list(v, 0) ? *v[0].list : v;
  RuleValue result = RuleValue::of(static_cast<i64>(Unit));
  bool first = Op == BinaryOp::Min || Op == BinaryOp::Max;
  if (first && items.empty()) return fail("expected at least one integer");
  for (const RuleValue& item : items) {
    if (!is_number(item)) return fail(cat("expected integers, found ", name_of(item.tag)));
    std::optional<RuleValue> next = first ? item : combine(arena, Op, result, item);
    if (!next) return fail(too_large);
    result = std::move(*next);
    first = false;
  }
  return {result, {}};
}

FunctionResult ceildiv(Arena& arena, const Values& v, const Apply&) {
  if (v.size() != 2 || !is_number(v[0]) || !is_number(v[1])) return fail("expected two integers");
  if (v[1].tag == Tag::Int && v[1].integer < 1) return fail("expected a positive divisor");
  std::optional<RuleValue> less = combine(arena, BinaryOp::Add, v[1], RuleValue::of(static_cast<i64>(-1)));
  std::optional<RuleValue> up = combine(arena, BinaryOp::Add, v[0], *less);
  if (!up) return fail(too_large);
  return {*combine(arena, BinaryOp::FloorDiv, *up, v[1]), {}};
}

FunctionResult zip(Arena&, const Values& v, const Apply&) {
  if (v.size() != 2 || !is_list(v, 0) || !is_list(v, 1)) return fail("expected two lists");
  Values out;
  for (std::size_t i = 0; i < std::min(v[0].list->size(), v[1].list->size()); ++i) {
    out.push_back(RuleValue::of(Values{(*v[0].list)[i], (*v[1].list)[i]}));
  }
  return {RuleValue::of(std::move(out)), {}};
}

FunctionResult enumerate(Arena&, const Values& v, const Apply&) {
  if (v.size() != 1 || !is_list(v, 0)) return fail("expected a list");
  Values out;
  for (std::size_t i = 0; i < v[0].list->size(); ++i) {
    out.push_back(RuleValue::of(Values{RuleValue::of(static_cast<i64>(i)), (*v[0].list)[i]}));
  }
  return {RuleValue::of(std::move(out)), {}};
}

// The longest beginning of a list for whose elements the function holds.
FunctionResult prefix(Arena&, const Values& v, const Apply& apply) {
  if (v.size() != 2 || !is_list(v, 0) || v[1].tag != Tag::Lambda) return fail("expected a list and a function");
  Values out;
  for (const RuleValue& item : *v[0].list) {
    std::optional<RuleValue> holds = apply(v[1], item);
    if (!holds) return fail(function_failed);
    if (holds->tag != Tag::Bool) return fail("expected a function that gives a boolean");
    if (!holds->integer) break;
    out.push_back(item);
  }
  return {RuleValue::of(std::move(out)), {}};
}

FunctionResult contains(Arena&, const Values& v, const Apply&) {
  if (v.size() != 2 || !is_list(v, 0)) return fail("expected a list and a value");
  for (const RuleValue& item : *v[0].list) {
    if (same(item, v[1])) return {RuleValue::of(true), {}};
  }
  return {RuleValue::of(false), {}};
}

}  // namespace

const std::vector<ListFunction>& list_functions() {
  static const std::vector<ListFunction> table = {
      {"ceildiv", "(int, int) -> int", "The quotient rounded up.", ceildiv},
      {"contains", "(list, value) -> bool", "Is the value in the list?", contains},
      {"enumerate", "(list) -> [(int, value)]", "Elements with their positions.", enumerate},
      {"flat", "([list]) -> list", "The lists one after another.", flat},
      {"len", "(list) -> int", "How many elements.", len},
      {"max", "(int, ...) -> int", "The largest; also of a list.", fold<BinaryOp::Max, 0>},
      {"min", "(int, ...) -> int", "The smallest; also of a list.", fold<BinaryOp::Min, 0>},
      {"prefix", "(list, value -> bool) -> list", "The longest beginning for whose elements the function holds.",
       prefix},
      {"product", "([int]) -> int", "The product; 1 for an empty list.", fold<BinaryOp::Mul, 1>},
      {"range", "(int, int?) -> [int]", "Integers from the first (or 0) up to, not including, the last.", range},
      {"rev", "(list) -> list", "Backwards.", rev},
      {"sum", "([int]) -> int", "The sum; 0 for an empty list.", fold<BinaryOp::Add, 0>},
      {"zip", "(list, list) -> [(value, value)]", "Pairs of elements.", zip},
  };
  return table;
}

const ListFunction* find_list_function(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, const ListFunction*> out;
    for (const ListFunction& function : list_functions()) out.emplace(function.name, &function);
    return out;
  }();
  auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

}  // namespace tw::rules

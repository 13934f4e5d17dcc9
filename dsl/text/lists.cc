#include "dsl/text/lists.h"

#include <algorithm>

#include "dsl/base/text.h"
#include "dsl/ir/walk.h"

namespace tw::instantiation {
namespace {

constexpr i64 kMostElements = 1 << 18;  // of all lists of one instantiation

using Items = std::vector<Meaning>;

constexpr std::string_view kFunctions[] = {"len",  "product", "sum",   "enumerate", "rev",
                                           "flat", "zip",     "range", "contains",  "position"};

Items backwards(const Items& items) { return {items.rbegin(), items.rend()}; }

Items numbered(const Items& items) {
  Items pairs;
  for (std::size_t i = 0; i < items.size(); ++i) pairs.push_back(list_of({static_cast<i64>(i), items[i]}));
  return pairs;
}

Items paired(const Items& a, const Items& b) {
  Items pairs;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) pairs.push_back(list_of({a[i], b[i]}));
  return pairs;
}

}  // namespace

Meaning list_of(std::vector<Meaning> items) { return std::make_shared<const List>(List{std::move(items)}); }

const std::vector<Meaning>* items_of(const Meaning& meaning) {
  auto* list = std::get_if<std::shared_ptr<const List>>(&meaning);
  return list ? &(*list)->items : nullptr;
}

std::optional<i64> number_of(const Meaning& meaning) {
  if (const i64* number = std::get_if<i64>(&meaning)) return *number;
  const te::Value* value = std::get_if<te::Value>(&meaning);
  return value ? constant_of(value->expr) : std::nullopt;
}

bool is_list_function(std::string_view name) { return std::ranges::find(kFunctions, name) != std::end(kFunctions); }

std::nullopt_t ListLanguage::fail(Span span, std::string message, std::string note) {
  errors_(span, std::move(message), std::move(note));
  return std::nullopt;
}

bool ListLanguage::count(Span span, std::size_t elements) {
  if (errors_.count_elements(static_cast<i64>(elements), kMostElements)) return true;
  fail(span, cat("the lists of this workload have more than ", kMostElements, " elements"));
  return false;
}

ListLanguage::Found ListLanguage::made(Span span, Items items) {
  return count(span, items.size() + 1) ? Found(list_of(std::move(items))) : std::nullopt;
}

ListLanguage::Found ListLanguage::item(const ast::Expr* e, const Names& scope) {
  switch (e->kind) {
    case ast::Kind::List:
      return list(ast::as<ast::List>(e), scope);
    case ast::Kind::Comprehension:
      return comprehension(ast::as<ast::Comprehension>(e), scope);
    case ast::Kind::Quantifier:
      return quantifier(ast::as<ast::Quantifier>(e), scope);
    default:
      return element(e, scope);
  }
}

// What `for x in xs` and `all(x in xs: ..)` go through.
std::optional<std::vector<Meaning>> ListLanguage::list_over(const ast::Expr* e, const Names& scope) {
  Found over = item(e, scope);
  if (!over) return std::nullopt;
  const Items* items = items_of(*over);
  if (!items) return fail(e->span, "expected a list");
  return *items;
}

ListLanguage::Found ListLanguage::list(const ast::List* e, const Names& scope) {
  Items items;
  for (const ast::Expr* one : e->items) {
    Found found = item(one, scope);
    if (!found) return std::nullopt;
    items.push_back(*found);
  }
  return made(e->span, std::move(items));
}

// The names of `for (a, b) in ..` stand for the parts of each element.
bool ListLanguage::bind(const Array<const ast::Name*>& names, const Meaning& to, Names& inside) {
  if (names.size() == 1) return inside.add(names[0]->name, to);
  const Items* parts = items_of(to);
  if (!parts || parts->size() != names.size()) {
    fail(names[0]->span, cat("expected lists of ", names.size(), " elements here"));
    return false;
  }
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (inside.add(names[i]->name, (*parts)[i])) continue;
    fail(names[i]->span, cat("there is already a `", names[i]->name, "` here"));
    return false;
  }
  return true;
}

ListLanguage::Found ListLanguage::comprehension(const ast::Comprehension* e, const Names& scope) {
  std::optional<Items> items = list_over(e->over, scope);
  if (!items) return std::nullopt;
  Items out;
  for (const Meaning& one : *items) {
    Names inside(&scope);
    if (!count(e->span, 1) || !bind(e->names, one, inside)) return std::nullopt;
    if (e->condition) {
      Found condition = item(e->condition, inside);
      std::optional<i64> holds = condition ? number_of(*condition) : std::nullopt;
      if (condition && !holds) return fail(e->condition->span, "expected a condition on integers that are known");
      if (!holds) return std::nullopt;
      if (!*holds) continue;
    }
    Found value = item(e->value, inside);
    if (!value) return std::nullopt;
    out.push_back(*value);
  }
  return made(e->span, std::move(out));
}

ListLanguage::Found ListLanguage::quantifier(const ast::Quantifier* e, const Names& scope) {
  std::optional<Items> items = list_over(e->over, scope);
  if (!items) return std::nullopt;
  Items conditions;
  for (const Meaning& one : *items) {
    Names inside(&scope);
    if (!count(e->span, 1) || !bind(e->names, one, inside)) return std::nullopt;
    Found condition = item(e->condition, inside);
    if (!condition) return std::nullopt;
    conditions.push_back(*condition);
  }
  if (conditions.empty()) return truth(e->is_all);
  return folded(e->is_all ? BinaryOp::And : BinaryOp::Or, e->span, conditions);
}

ListLanguage::Found ListLanguage::folded(BinaryOp op, Span span, const Items& items) {
  Found sum = items[0];
  for (std::size_t i = 1; i < items.size() && sum; ++i) sum = combine(op, span, *sum, items[i]);
  return sum;
}

// The value of p in `xs[p]`, or of an end of a slice; negative ones count from the end.
std::optional<i64> ListLanguage::position(const ast::Expr* e, i64 length, const Names& scope) {
  Found found = item(e, scope);
  if (!found) return std::nullopt;
  std::optional<i64> number = number_of(*found);
  if (!number) return fail(e->span, "expected an integer that is known");
  return *number < 0 ? *number + length : *number;
}

ListLanguage::Found ListLanguage::part(const ast::Index* e, const Meaning& of, const Names& scope) {
  const Items& items = *items_of(of);
  auto length = static_cast<i64>(items.size());
  if (e->indices.size() != 1) return fail(e->span, cat("expected one position in a list, found ", e->indices.size()));
  if (auto* slice = ast::as<ast::Slice>(e->indices[0])) {
    std::optional<i64> begin = slice->begin ? position(slice->begin, length, scope) : 0;
    std::optional<i64> end = slice->end ? position(slice->end, length, scope) : length;
    if (!begin || !end) return std::nullopt;
    i64 first = std::clamp<i64>(*begin, 0, length), last = std::clamp<i64>(*end, first, length);
    return made(e->span, Items(items.begin() + first, items.begin() + last));
  }
  std::optional<i64> at = position(e->indices[0], length, scope);
  if (!at) return std::nullopt;
  if (*at < 0 || *at >= length)
    return fail(e->indices[0]->span, cat("this list has ", length, length == 1 ? " element" : " elements"));
  return items[static_cast<std::size_t>(*at)];
}

ListLanguage::Found ListLanguage::joined(Span span, const Meaning& a, const Meaning& b) {
  const Items *first = items_of(a), *second = items_of(b);
  if (!first || !second) return fail(span, "a list can only be joined with a list", "one element is `[x]`");
  Items items = *first;
  items.insert(items.end(), second->begin(), second->end());
  return made(span, std::move(items));
}

ListLanguage::Found ListLanguage::list_function(const ast::Call* e, Str name, const std::vector<Meaning>& arguments) {
  if (name == "range") return range(e, arguments);
  bool is_search = name == "contains" || name == "position";
  std::size_t lists = name == "zip" ? 2 : 1, wanted = lists + is_search;
  bool fits = arguments.size() == wanted && std::all_of(arguments.begin(), arguments.begin() + lists, items_of);
  if (!fits)
    return fail(e->span, cat("`", name, "` takes ", lists == 2 ? "two lists" : "a list",
                             wanted > lists ? " and an integer" : ""));
  const Items& items = *items_of(arguments[0]);
  if (name == "zip") return made(e->span, paired(items, *items_of(arguments[1])));
  if (is_search) return search(e, name, items, number_of(arguments[1]));
  return of_one_list(e, name, items);
}

ListLanguage::Found ListLanguage::search(const ast::Call* e, Str name, const Items& items, std::optional<i64> number) {
  if (!number) return fail(e->span, cat("`", name, "` looks for an integer that is known"));
  auto at = std::ranges::find_if(items, [&](const Meaning& m) { return number_of(m) == number; });
  if (name == "contains") return truth(at != items.end());
  if (at == items.end()) return fail(e->span, cat("this list has no ", *number));
  return static_cast<i64>(at - items.begin());
}

ListLanguage::Found ListLanguage::range(const ast::Call* e, const std::vector<Meaning>& arguments) {
  std::optional<i64> length = arguments.size() == 1 ? number_of(arguments[0]) : std::nullopt;
  if (!length) return fail(e->span, "`range` takes an integer that is known");
  Items items;
  for (i64 i = 0; i < std::min(*length, kMostElements + 1); ++i) items.emplace_back(i);
  return made(e->span, std::move(items));
}

ListLanguage::Found ListLanguage::of_one_list(const ast::Call* e, Str name, const Items& items) {
  if (name == "len") return static_cast<i64>(items.size());
  if (name == "rev") return made(e->span, backwards(items));
  if (name == "enumerate") return made(e->span, numbered(items));
  if (name == "flat") {
    Items all;
    for (const Meaning& one : items) {
      const Items* inner = items_of(one);
      if (!inner) return fail(e->span, "`flat` takes a list of lists");
      all.insert(all.end(), inner->begin(), inner->end());
    }
    return made(e->span, std::move(all));
  }
  bool is_product = name == "product", is_sum = name == "sum";
  if (items.empty() && (is_product || is_sum)) return Meaning(i64{is_product});
  if (items.empty()) return fail(e->span, cat("`", name, "` of an empty list"));
  BinaryOp op = is_product ? BinaryOp::Mul : is_sum ? BinaryOp::Add : name == "min" ? BinaryOp::Min : BinaryOp::Max;
  return folded(op, e->span, items);
}

}  // namespace tw::instantiation

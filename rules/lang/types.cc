#include "rules/lang/types.h"

#include <algorithm>
#include <array>

#include "dsl/base/text.h"

namespace tw::rules {
namespace {

using Kind = Type::Kind;

struct Word {
  std::string_view word;
  Kind kind;
};
constexpr Word words[] = {{"bool", Kind::Bool},    {"int", Kind::Int},           {"text", Kind::Text},
                          {"list", Kind::List},    {"loop", Kind::Loop},         {"block", Kind::Block},
                          {"map", Kind::Map},      {"location", Kind::Location}, {"value", Kind::Any},
                          {"number", Kind::Number}};

Type parse_type(std::string_view text) {
  if (text.ends_with("?")) text.remove_suffix(1);  // what may be none is tested by the rule
  if (text.starts_with("[") && text.ends_with("]")) return Type::list(parse_type(text.substr(1, text.size() - 2)));
  for (const Word& row : words) {
    if (text != row.word) continue;
    return row.kind == Kind::Loop ? Type::loop() : row.kind == Kind::Any ? Type::any() : Type::of(row.kind);
  }
  return Type::any();
}

// Cut at a separator that is not inside of brackets.
std::vector<std::string_view> cut(std::string_view text, std::string_view separator) {
  std::vector<std::string_view> parts;
  int depth = 0;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    depth += text[i] == '(' || text[i] == '[';
    depth -= text[i] == ')' || text[i] == ']';
    if (depth > 0 || text.substr(i, separator.size()) != separator) continue;
    parts.push_back(text.substr(begin, i - begin));
    begin = i + separator.size();
  }
  if (begin < text.size()) parts.push_back(text.substr(begin));
  return parts;
}

// Types of C++ signatures as rules see them.
std::string_view word_of(std::string_view type) {
  struct Row {
    std::string_view type, word;
  };
  static constexpr Row rows[] = {{"LoopId", "loop"},
                                 {"BlockId", "block"},
                                 {"i64", "int"},
                                 {"Str", "text"},
                                 {"Loops", "[loop]"},
                                 {"Blocks", "[block]"},
                                 {"Ints", "[int]"},
                                 {"Factors", "[int or _]"},
                                 {"Location", "location"},
                                 {"IndexMap", "map"},
                                 {"Literal", "int, number, text, list or dictionary"},
                                 {"LoopOrBlock", "loop or block"}};
  for (const Row& row : rows) {
    if (type == row.type) return row.word;
  }
  return type;
}

}  // namespace

Openness combine_openness(Openness a, Openness b) {
  if (a == Openness::Open || b == Openness::Open) return Openness::Open;
  return a == Openness::Unknown || b == Openness::Unknown ? Openness::Unknown : Openness::Fixed;
}

std::string name_of(const Type& type) {
  static constexpr std::array names = {"a value",      "none",     "a boolean",   "an integer", "a text",
                                       "a list",       "a loop",   "a block",     "a location", "a function",
                                       "an index map", "a number", "a dictionary"};
  bool is_number = type.is(Kind::Bool) || type.is(Kind::Int);
  if (type.openness == Openness::Open && is_number) return "an open value";
  if (type.openness == Openness::Open && (type.is(Kind::Loop) || type.is(Kind::Block)))
    return cat(names[static_cast<int>(type.kind)], " that a sample chose");
  return names[static_cast<int>(type.kind)];
}

Type join_types(const Type& a, const Type& b) {
  auto both = [](Openness x, Openness y) { return x == y ? x : Openness::Unknown; };
  if (a.is(Kind::None) && !b.is(Kind::None)) return b;  // what may be none is tested by the rule
  if (b.is(Kind::None) && !a.is(Kind::None)) return a;
  if (a.is(Kind::Int) && b.is(Kind::Number)) return b;
  if (a.is(Kind::Number) && b.is(Kind::Int)) return a;
  if (a.kind != b.kind || a.lambda != b.lambda) return Type::any();
  Type out = a;
  out.openness = both(a.openness, b.openness);
  out.extent = both(a.extent, b.extent);
  out.size = a.size == b.size ? a.size : -1;
  bool has_same_keys = a.fields.size() == b.fields.size();
  for (std::size_t i = 0; has_same_keys && i < a.fields.size(); ++i) {
    has_same_keys = a.fields[i].first == b.fields[i].first;
    if (has_same_keys) out.fields[i].second = join_types(a.fields[i].second, b.fields[i].second);
  }
  if (!has_same_keys) out.fields.clear();
  if (a.element && b.element)
    out.element = std::make_shared<const Type>(join_types(*a.element, *b.element));
  else if (b.element)
    out.element = b.element;  // an empty list says nothing about its elements
  return out;
}

std::string word_of(const Type& type) {
  if (type.is(Kind::List)) return cat("[", word_of(type.item()), "]");
  if (type.is(Kind::Dictionary)) return cat("{", word_of(type.item()), "}");
  for (const Word& row : words) {
    if (row.kind == type.kind) return std::string(row.word);
  }
  return "value";
}

TypedSignature parse_signature(std::string_view signature) {
  TypedSignature out;
  std::size_t arrow = signature.rfind(") -> ");
  out.result = parse_type(signature.substr(arrow + 5));
  for (std::string_view parameter : cut(signature.substr(1, arrow - 1), ", ")) {
    std::vector<Type> alternatives;
    for (std::string_view alternative : cut(parameter, " or ")) alternatives.push_back(parse_type(alternative));
    out.parameters.push_back(std::move(alternatives));
  }
  return out;
}

bool may_be_open(const InstructionKind& kind, const Parameter& parameter) {
  static constexpr std::string_view types[] = {"LoopId",  "BlockId", "LoopOrBlock", "Location", "Loops",
                                               "Factors", "Ints",    "IndexMap",    "Literal"};
  struct Row {
    std::string_view instruction, parameter;
  };
  static constexpr Row integers[] = {
      {"choose", "index"},         {"prefer", "weight"},        {"require", "condition"},
      {"set_layout", "bits"},      {"pipeline", "stages"},      {"split_k", "parts"},
      {"storage_align", "factor"}, {"storage_align", "offset"}, {"transform_layout", "pad"}};
  if (std::find(std::begin(types), std::end(types), parameter.type) != std::end(types)) return true;
  return std::any_of(std::begin(integers), std::end(integers),
                     [&](const Row& row) { return row.instruction == kind.name && row.parameter == parameter.name; });
}

std::string open_argument_message(const InstructionKind& kind, const Parameter& parameter) {
  return cat("`", parameter.name, "` of ", kind.name,
             " must be known while the space is built, but this depends on a sample");
}

std::string signature_text(const InstructionKind& kind) {
  std::vector<std::string> parameters;
  for (const Parameter& parameter : kind.parameters) {
    std::string text = cat(parameter.name, ": ", may_be_open(kind, parameter) ? "~" : "", word_of(parameter.type));
    parameters.push_back(parameter.fallback.empty() ? text : cat(text, " = ", parameter.fallback));
  }
  std::string out = cat("(", join(parameters, ", "), ")");
  return kind.result == "Unit" ? out : cat(out, " -> ", word_of(kind.result));
}

}  // namespace tw::rules

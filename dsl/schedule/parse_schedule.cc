#include "dsl/schedule/parse_schedule.h"

#include <unordered_map>

#include "dsl/base/text.h"

namespace tw {
namespace {

class ScheduleParser {
 public:
  explicit ScheduleParser(Parser& parser) : parser_(parser) {}

  std::optional<Trace> run() {
    bool good = true;
    while (!parser_.at_end() && !parser_.at("}")) {
      if (statement() && parser_.end_statement()) continue;
      good = false;
      parser_.recover();
    }
    if (!good) return std::nullopt;
    return std::move(trace_);
  }

 private:
  struct Name {
    Str text;
    Span span;
  };

  // [names =] kind(arguments) [@ decision]
  bool statement() {
    std::vector<Name> results;
    if (parser_.peek(1).is("=") || parser_.peek(1).is(",")) {
      do {
        std::optional<Token> name = parser_.expect_name("a name for the result");
        if (!name) return false;
        results.push_back({parser_.arena().text(name->text), name->span});
      } while (parser_.accept(","));
      if (!parser_.expect("=")) return false;
    }
    const ast::Expr* expr = parser_.expr();
    if (!expr) return false;
    const ast::Call* call = ast::as<ast::Call>(expr);
    const ast::Name* callee = call ? ast::as<ast::Name>(call->callee) : nullptr;
    if (!callee) return fail(expr->span, "expected an instruction, e.g. split(i, [_, 8])");
    const InstructionKind* kind = find_kind(callee->name);
    if (!kind) return fail(callee->span, cat("unknown instruction `", callee->name, "`"), suggestion(callee->name));
    Array<Arg> arguments;
    if (!convert_arguments(*kind, call, arguments)) return false;
    Decision decision;
    if (parser_.at("@") && !parse_decision(*kind, decision)) return false;
    return append(*kind, expr->span, arguments, decision, results);
  }

  bool append(const InstructionKind& kind, Span span, Array<Arg> arguments, const Decision& decision,
              const std::vector<Name>& results) {
    bool one = kind.result == "LoopId" || kind.result == "BlockId" || kind.result == "i64" || kind.result == "Location";
    if (kind.result == "Unit" && !results.empty()) return fail(results[0].span, cat(kind.name, " has no result"));
    if (one && results.size() != 1)
      return fail(span, cat(kind.name, " has one result, found ", results.size(), " names for it"));
    std::vector<Str> names;
    for (const Name& name : results) {
      if (values_.count(name.text))
        return fail(name.span, cat("`", name.text, "` is already the name of a value"), "give it another name");
      values_[name.text] = trace_.value_count() + static_cast<u32>(names.size());
      names.push_back(name.text);
    }
    trace_.append(kind, arguments, decision, names);
    return true;
  }

  bool parse_decision(const InstructionKind& kind, Decision& decision) {
    Span at = parser_.take().span;
    if (!kind.samples) return fail(at, cat(kind.name, " draws nothing: it has no decision"));
    if (!parser_.accept("[")) {
      std::optional<i64> value = parser_.expect_integer("the decision");
      if (value) decision = Decision::of(*value);
      return value.has_value();
    }
    do {
      std::optional<i64> value = parser_.expect_integer("an integer");
      if (!value) return false;
      if (decision.count == Decision::kMax)
        return fail(at, cat("a decision has at most ", Decision::kMax, " integers"));
      decision.values[decision.count++] = *value;
    } while (parser_.accept(","));
    return parser_.expect("]");
  }

  bool convert_arguments(const InstructionKind& kind, const ast::Call* call, Array<Arg>& out) {
    std::vector<Arg> arguments(kind.parameters.size());
    std::vector<bool> given(kind.parameters.size(), false);
    std::size_t position = 0;
    for (const ast::Argument& argument : call->arguments) {
      std::size_t index = position++;
      if (!argument.name.empty()) {
        for (index = 0; index < kind.parameters.size() && kind.parameters[index].name != argument.name; ++index) {
        }
        if (index == kind.parameters.size()) {
          return fail(argument.name_span, cat(kind.name, " has no parameter `", argument.name, "`"), signature(kind));
        }
      }
      if (index >= kind.parameters.size())
        return fail(argument.value->span, cat(kind.name, " takes ", kind.parameters.size(), " arguments"),
                    signature(kind));
      if (given[index])
        return fail(argument.value->span, cat("parameter `", kind.parameters[index].name, "` is given twice"));
      given[index] = true;
      if (!convert(argument.value, arguments[index])) return false;
    }
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (given[i]) continue;
      if (kind.parameters[i].fallback.empty()) {
        return fail(call->span, cat(kind.name, ": parameter `", kind.parameters[i].name, "` is missing"),
                    signature(kind));
      }
      arguments[i] = default_argument(kind.parameters[i]);
    }
    out = parser_.arena().copy(arguments);
    return true;
  }

  bool convert(const ast::Expr* e, Arg& out) {
    if (auto* n = ast::as<ast::Int>(e)) return out = Arg::of_int(n->value), true;
    if (auto* n = ast::as<ast::Bool>(e)) return out = Arg::of_int(n->value), true;
    if (auto* n = ast::as<ast::Text>(e)) return out = Arg::of_text(n->value), true;
    if (auto* n = ast::as<ast::Float>(e)) return out = Arg::of_number(n->value), true;
    if (auto* n = ast::as<ast::Dictionary>(e)) return convert_dictionary(n, out);
    if (ast::as<ast::None>(e)) return out = Arg{.tag = Arg::Tag::None}, true;
    if (ast::as<ast::Hole>(e)) return out = Arg{.tag = Arg::Tag::Hole}, true;
    if (auto* n = ast::as<ast::Name>(e)) return convert_name(n, out);
    if (auto* n = ast::as<ast::List>(e)) return convert_items(n->items, Arg::Tag::List, out);
    if (auto* n = ast::as<ast::Binary>(e)) return convert_binary(n->op, n->a, n->b, out);
    if (auto* n = ast::as<ast::Lambda>(e)) return convert_map(n, out);
    if (auto* n = ast::as<ast::Call>(e)) return convert_call(n, out);
    return fail(e->span, "expected a literal, a value, integer arithmetic, a list, a dictionary or an index map");
  }

  bool convert_name(const ast::Name* n, Arg& out) {
    for (std::size_t i = 0; i < map_params_.size(); ++i) {
      if (map_params_[i]->name == n->name)
        return out = Arg{.tag = Arg::Tag::Param, .integer = static_cast<i64>(i)}, true;
    }
    auto at = values_.find(n->name);
    if (at == values_.end())
      return fail(n->span, cat("`", n->name, "` is not the name of a value"), known_value(n->name));
    out = Arg::of_value(at->second);
    return true;
  }

  bool convert_items(Array<const ast::Expr*> items, Arg::Tag tag, Arg& out) {
    std::vector<Arg> converted(items.size());
    for (std::size_t i = 0; i < items.size(); ++i) {
      if (!convert(items[i], converted[i])) return false;
    }
    out.tag = tag;
    out.items = parser_.arena().copy(converted);
    return true;
  }

  bool convert_dictionary(const ast::Dictionary* n, Arg& out) {
    std::vector<Arg> entries;
    for (std::size_t i = 0; i < n->keys.size(); ++i) {
      const ast::Expr* value[] = {n->values[i]};
      Arg entry = Arg::of_text(n->keys[i]);
      if (!convert_items({value, 1}, Arg::Tag::Entry, entry)) return false;
      entries.push_back(entry);
    }
    out = {.tag = Arg::Tag::Dictionary, .items = parser_.arena().copy(entries)};
    return true;
  }

  bool convert_binary(BinaryOp op, const ast::Expr* a, const ast::Expr* b, Arg& out) {
    const ast::Expr* both[] = {a, b};
    if (op == BinaryOp::Div) return fail(a->span, "integers divide with //");
    if (!convert_items({both, 2}, Arg::Tag::Binary, out)) return false;
    out.op = op;
    return true;
  }

  bool convert_map(const ast::Lambda* n, Arg& out) {
    if (!map_params_.empty()) return fail(n->span, "an index map inside an index map");
    map_params_.assign(n->parameters.begin(), n->parameters.end());
    const ast::Tuple* tuple = ast::as<ast::Tuple>(n->body);
    const ast::Expr* single[] = {n->body};
    bool good = convert_items(tuple ? tuple->items : Array<const ast::Expr*>(single, 1), Arg::Tag::Map, out);
    out.integer = static_cast<i64>(map_params_.size());
    map_params_.clear();
    return good;
  }

  bool convert_call(const ast::Call* n, Arg& out) {
    const ast::Name* callee = ast::as<ast::Name>(n->callee);
    if (callee && callee->name == "extent" && n->arguments.size() == 1) {
      const ast::Expr* loop[] = {n->arguments[0].value};
      return convert_items({loop, 1}, Arg::Tag::Extent, out);
    }
    if (callee && (callee->name == "min" || callee->name == "max") && n->arguments.size() == 2) {
      return convert_binary(callee->name == "min" ? BinaryOp::Min : BinaryOp::Max, n->arguments[0].value,
                            n->arguments[1].value, out);
    }
    return fail(n->span, "an argument may call extent, min and max only");
  }

  static std::string signature(const InstructionKind& kind) {
    std::vector<std::string> parts;
    for (const Parameter& p : kind.parameters)
      parts.push_back(p.fallback.empty() ? p.name : cat(p.name, " = ", p.fallback));
    return cat(kind.name, "(", join(parts, ", "), ")");
  }
  static std::string suggestion(Str name) {
    std::vector<std::string> names;
    for (const InstructionKind* kind : instruction_kinds()) names.emplace_back(kind->name);
    std::string near = closest(name, names);
    return near.empty() ? "" : cat("did you mean `", near, "`?");
  }
  std::string known_value(Str name) const {
    std::vector<std::string> names;
    for (const auto& [known, index] : values_) names.emplace_back(known);
    std::string near = closest(name, names);
    return near.empty() ? "" : cat("did you mean `", near, "`?");
  }
  bool fail(Span span, std::string message, std::string note = "") {
    parser_.error(span, std::move(message), std::move(note));
    return false;
  }

  Parser& parser_;
  Trace trace_;
  std::unordered_map<Str, u32> values_;
  std::vector<const ast::Name*> map_params_;
};

}  // namespace

Arg default_argument(const Parameter& parameter) {
  const std::string& text = parameter.fallback;
  if (text == "none") return {.tag = Arg::Tag::None};
  if (text == "true" || text == "false") return Arg::of_int(text == "true");
  if (text[0] == '"') return Arg::of_text(Str(text).substr(1, text.size() - 2));
  return Arg::of_int(std::stoll(text));
}

std::optional<Trace> parse_schedule(Parser& parser) { return ScheduleParser(parser).run(); }

std::optional<Trace> parse_schedule(const Source& source, Diagnostics& diagnostics) {
  Arena arena;
  Parser parser(source, arena, diagnostics);
  std::optional<Trace> trace = parse_schedule(parser);
  if (trace && !parser.at_end()) parser.error_expected("an instruction");
  if (diagnostics.has_errors()) return std::nullopt;
  return trace;
}

}  // namespace tw

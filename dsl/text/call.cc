// What workloads take and whether a call fits: signatures, check_call, parse_use.
#include <algorithm>
#include <set>

#include "dsl/base/check.h"
#include "dsl/base/embedded_text.h"
#include "dsl/base/text.h"
#include "dsl/text/parse_expr.h"
#include "dsl/text/workload.h"

namespace tw {
namespace {

std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
  std::string near = closest(word, known);
  return near.empty() ? cat("known are: ", join(known, ", ")) : cat("did you mean `", near, "`?");
}

template <class List>
std::vector<std::string> names_of(const List& list) {
  std::vector<std::string> names;
  for (const auto& item : list) names.push_back(std::string(item.name.name));
  return names;
}

std::string shown(const ArgumentValue& value) {
  if (const DType* type = std::get_if<DType>(&value)) return name_of(*type);
  if (const i64* integer = std::get_if<i64>(&value)) return std::to_string(*integer);
  return cat("[", join(std::get<std::vector<i64>>(value), ", "), "]");
}

const char* name_of(ParameterKind kind) {
  return kind == ParameterKind::Type ? "a type" : kind == ParameterKind::Integers ? "a list of integers" : "an integer";
}

ParameterKind kind_of(const ArgumentValue& value) {
  if (std::holds_alternative<DType>(value)) return ParameterKind::Type;
  return std::holds_alternative<i64>(value) ? ParameterKind::Integer : ParameterKind::Integers;
}

// [1, 2]
std::optional<std::vector<i64>> integers_of(const ast::Expr* value) {
  auto* list = ast::as<ast::List>(value);
  if (!list) return std::nullopt;
  std::vector<i64> integers;
  for (const ast::Expr* item : list->items) {
    auto* integer = ast::as<ast::Int>(item);
    if (!integer) return std::nullopt;
    integers.push_back(integer->value);
  }
  return integers;
}

std::optional<WorkloadArgument> argument_of(const ast::Argument& argument, Parser& parser) {
  WorkloadArgument made{std::string(argument.name), i64{0}};
  auto* integer = ast::as<ast::Int>(argument.value);
  auto* name = ast::as<ast::Name>(argument.value);
  std::optional<DType> type = name ? parse_dtype(name->name) : std::nullopt;
  std::optional<std::vector<i64>> integers = integers_of(argument.value);
  if (argument.name.empty() || (!integer && !type && !integers)) {
    parser.error(argument.value->span,
                 cat("expected a named integer or type, found `", ast::to_string(argument.value), "`"),
                 "for example `M = 128` or `T = f16`");
    return std::nullopt;
  }
  if (integer)
    made.value = integer->value;
  else if (type)
    made.value = *type;
  else
    made.value = *integers;
  return made;
}

}  // namespace

std::vector<Signature> signatures(const WorkloadModule& module) {
  std::vector<Signature> list;
  for (const ast::Workload& workload : module.workloads) {
    Signature signature{std::string(workload.name.name), std::string(workload.doc), {}};
    for (const ast::Parameter& p : workload.parameters) {
      signature.parameters.push_back(
          {std::string(p.name.name), p.kind, !p.fallback, p.fallback ? ast::to_string(p.fallback) : ""});
    }
    list.push_back(std::move(signature));
  }
  return list;
}

std::vector<EpilogueSignature> epilogue_signatures(const WorkloadModule& module) {
  std::vector<EpilogueSignature> list;
  for (const ast::Epilogue& epilogue : module.epilogues)
    list.push_back({std::string(epilogue.name.name), std::string(epilogue.doc)});
  return list;
}

std::vector<CallProblem> check_call(const WorkloadModule& module, const std::string& workload,
                                    const WorkloadArguments& arguments, const std::vector<std::string>& epilogues) {
  std::vector<CallProblem> problems;
  auto at = std::find_if(module.workloads.begin(), module.workloads.end(),
                         [&](const ast::Workload& w) { return w.name.name == workload; });
  if (at == module.workloads.end()) {
    problems.push_back(
        {"", cat("unknown workload `", workload, "`"), suggestion(workload, names_of(module.workloads))});
  } else {
    std::set<std::string> given;
    for (const WorkloadArgument& argument : arguments) {
      auto parameter = std::find_if(at->parameters.begin(), at->parameters.end(),
                                    [&](const ast::Parameter& p) { return p.name.name == argument.name; });
      if (!given.insert(argument.name).second) {
        problems.push_back({argument.name, cat("argument `", argument.name, "` is given twice"), ""});
      } else if (parameter == at->parameters.end()) {
        problems.push_back({argument.name, cat("`", workload, "` has no argument `", argument.name, "`"),
                            suggestion(argument.name, names_of(at->parameters))});
      } else if (parameter->kind != kind_of(argument.value)) {
        problems.push_back(
            {argument.name,
             cat("expected ", name_of(parameter->kind), " for `", argument.name, "`, found ", shown(argument.value)),
             ""});
      }
    }
    for (const ast::Parameter& parameter : at->parameters) {
      std::string name(parameter.name.name);
      if (!parameter.fallback && !given.count(name))
        problems.push_back({"", cat("`", workload, "` needs the argument `", name, "`"), ""});
    }
  }
  std::vector<std::string> known = names_of(module.epilogues);
  if (&module != &operator_library()) {
    for (std::string& name : names_of(operator_library().epilogues)) known.push_back(std::move(name));
  }
  for (const std::string& epilogue : epilogues) {
    if (std::find(known.begin(), known.end(), epilogue) != known.end()) continue;
    problems.push_back({epilogue, cat("unknown epilogue `", epilogue, "`"), suggestion(epilogue, known)});
  }
  return problems;
}

std::optional<WorkloadUse> parse_use(const Source& source, Diagnostics& diagnostics) {
  Arena arena;
  Parser parser(source, arena, diagnostics);
  const ast::Expr* expr = parser.expr();
  if (!expr || !parser.end_statement()) return std::nullopt;
  auto* call = ast::as<ast::Call>(expr);
  auto* name = ast::as<ast::Name>(call ? call->callee : expr);
  if (!name) {
    parser.error(expr->span, cat("expected a workload with arguments, found `", ast::to_string(expr), "`"),
                 "for example `banded(M = 512, B = 16)`");
    return std::nullopt;
  }
  WorkloadUse use{std::string(name->name), {}};
  for (const ast::Argument& argument : call ? call->arguments : Array<ast::Argument>{}) {
    std::optional<WorkloadArgument> made = argument_of(argument, parser);
    if (!made) return std::nullopt;
    use.arguments.push_back(*made);
  }
  if (!parser.at_end()) parser.error_expected("the end of the text");
  return diagnostics.has_errors() ? std::nullopt : std::optional(use);
}

std::string to_string(const WorkloadUse& use) {
  std::vector<std::string> parts;
  for (const WorkloadArgument& argument : use.arguments)
    parts.push_back(cat(argument.name, " = ", shown(argument.value)));
  return cat(use.workload, "(", join(parts, ", "), ")");
}

const WorkloadModule& operator_library() {
  static const WorkloadModule library = [] {
    for (const EmbeddedText& text : embedded_texts()) {
      if (text.path != "dsl/te/operators.tw") continue;
      Source source{std::string(text.path), std::string(text.text)};
      Diagnostics diagnostics(source);
      WorkloadModule module = parse_workloads(source, diagnostics);
      TW_CHECK(!diagnostics.has_errors(), "dsl/te/operators.tw has errors; workload_test prints them");
      return module;
    }
    TW_CHECK(false, "dsl/te/operators.tw is not in the binary");
  }();
  return library;
}

}  // namespace tw

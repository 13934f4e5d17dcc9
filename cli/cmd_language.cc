// tracewright language: the words of the rule language, as tables or one by one.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdio>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "dsl/base/text.h"
#include "rules/lang/tables.h"

namespace tw::cli {
namespace {

int print_word(const std::vector<rules::Table>& tables, const std::string& word) {
  std::vector<std::string> names;
  for (const rules::Table& table : tables) {
    for (const rules::Entry& entry : table.entries) {
      names.push_back(entry.name);
      if (entry.name != word) continue;
      std::printf("%s%s\n  %s\n", entry.name.c_str(), entry.signature.c_str(), entry.doc.c_str());
      return Ok;
    }
  }
  std::string near = closest(word, names);
  say(cat("no word `", word, "`",
          near.empty() ? "; `tracewright language` prints them all"
                       : cat("; did you mean `", near, "`?")));
  return Usage;
}

void print_tables(const std::vector<rules::Table>& tables) {
  bool first = true;
  for (const rules::Table& table : tables) {
    std::printf("%s## %s\n\n%s", first ? "" : "\n", table.name, rules::to_markdown(table).c_str());
    first = false;
  }
}

boost::json::object to_json(const std::vector<rules::Table>& tables) {
  boost::json::object out;
  for (const rules::Table& table : tables) {
    boost::json::array entries;
    for (const rules::Entry& entry : table.entries)
      entries.push_back({{"name", entry.name}, {"signature", entry.signature}, {"doc", entry.doc}});
    out[table.name] = entries;
  }
  return out;
}

}  // namespace

int run_language(int count, char** words) {
  std::string word;
  bool json = false;
  auto app = make_app(
      "language",
      "The words of the rule language: instructions, functions, what rules may ask about the "
      "target, limits. docs/language.md says how\nthey are put together.",
      "examples:\n  tracewright language split\n  tracewright language --json");
  app->add_option("WORD", word, "only this instruction or function");
  app->add_flag("--json", json, "print JSON");
  if (std::optional<int> code = parse_arguments(*app, count, words)) return *code;
  std::vector<rules::Table> tables = rules::language_tables();
  if (!word.empty()) return print_word(tables, word);
  if (json)
    print_json(to_json(tables));
  else
    print_tables(tables);
  return Ok;
}

}  // namespace tw::cli

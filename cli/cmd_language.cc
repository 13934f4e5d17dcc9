// tracewright language: the words of the rule language, as tables or one by one, and the text of the built-in rules.
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdio>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "dsl/base/embedded_text.h"
#include "dsl/base/text.h"
#include "rules/lang/tables.h"

namespace tw::cli {
namespace {

// A rule, postprocessor, set or function of the built-in modules.
struct Definition {
  std::string_view name, path, text;
};

// The name that a line defines: "rule NAME(...", "rules NAME {", ...; "" of any other line.
std::string_view defined_by(std::string_view line) {
  for (std::string_view word : {"rule ", "post ", "rules ", "fn "}) {
    if (!line.starts_with(word)) continue;
    line.remove_prefix(word.size());
    return line.substr(0, line.find_first_of("(: {"));
  }
  return "";
}

void add_definitions(const EmbeddedText& module, std::vector<Definition>& out) {
  std::string_view text = module.text;
  std::size_t begin = std::string_view::npos, end = 0;  // of the definition at hand, without the comments of the next one
  std::string_view name;
  auto finish = [&] {
    if (!name.empty()) out.push_back({name, module.path, text.substr(begin, end - begin)});
  };
  for (std::size_t at = 0; at < text.size();) {
    std::size_t next = std::min(text.find('\n', at), text.size() - 1) + 1;
    std::string_view line = text.substr(at, next - at);
    if (std::string_view defined = defined_by(line); !defined.empty()) {
      finish();
      name = defined;
      begin = at;
    }
    if (line != "\n" && !line.starts_with("#")) end = next;
    at = next;
  }
  finish();
}

std::vector<Definition> built_in_definitions() {
  std::vector<Definition> out;
  for (const EmbeddedText& text : embedded_texts()) {
    if (text.path.starts_with("rules/")) add_definitions(text, out);
  }
  return out;
}

int print_word(const std::vector<rules::Table>& tables, const std::string& word) {
  std::vector<std::string> names;
  bool found = false;
  for (const Definition& definition : built_in_definitions()) {
    names.emplace_back(definition.name);
    if (definition.name != word) continue;
    std::printf("# %.*s of tracewright %s\n%.*s", static_cast<int>(definition.path.size()), definition.path.data(), TW_VERSION,
                static_cast<int>(definition.text.size()), definition.text.data());
    found = true;
  }
  // A mark and a rule may have one name: what is printed stays text that can be copied.
  const char* comment = found ? "# " : "";
  for (const rules::Table& table : tables) {
    for (const rules::Entry& entry : table.entries) {
      names.push_back(entry.name);
      if (entry.name != word) continue;
      const char* colon = entry.signature.starts_with("(") ? "" : ": ";
      std::printf("%s%s%s%s\n%s  %s\n", comment, entry.name.c_str(), colon, entry.signature.c_str(), comment, entry.doc.c_str());
      found = true;
    }
  }
  if (found) return Ok;
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
      "target, limits. docs/language.md says how\nthey are put together. Of a built-in rule, "
      "postprocessor, set or function: its text, to copy and change.",
      "examples:\n  tracewright language split\n  tracewright language register_tiling > my_tiling.tw\n"
      "  tracewright language --json");
  app->add_option("WORD", word, "only this instruction, function or mark, or this built-in rule, postprocessor, set or function");
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

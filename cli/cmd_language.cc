// tracewright language: the words of the rule language, as tables or one by one, and the text of the built-in rules.
#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cstdio>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "dsl/base/embedded_text.h"
#include "dsl/base/text.h"
#include "rules/lang/tables.h"
#include "runtime/console/output.h"

namespace tw::cli {
namespace {

// A rule, postprocessor, set, function, step or mark of the built-in modules.
struct Definition {
  std::string_view name, word, path, text;
  bool is_exported = false;  // or of a kind that all modules know
};

constexpr std::string_view kExport = "export ";

// What a line defines, "rule NAME(...", "rules NAME {", ...; without a name for any other line.
Definition defined_by(std::string_view line) {
  Definition out;
  out.is_exported = line.starts_with(kExport);
  if (out.is_exported) line.remove_prefix(kExport.size());
  for (std::string_view word : {"rule", "post", "rules", "fn", "step", "mark"}) {
    if (!line.starts_with(word) || line.substr(word.size(), 1) != " ") continue;
    line.remove_prefix(word.size() + 1);
    out.is_exported |= word == "rule" || word == "post" || word == "rules";
    out.name = line.substr(0, line.find_first_of("(: {"));
    out.word = word;
  }
  return out;
}

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

// Does the name stand in the text as a whole word?
bool has_word(std::string_view text, std::string_view name) {
  for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    bool begins = at == 0 || !is_letter(text[at - 1]),
         ends = at + name.size() == text.size() || !is_letter(text[at + name.size()]);
    if (begins && ends) return true;
  }
  return false;
}

// The definition, and before it what its module keeps to itself and it uses, in the order of the module: text that
// stands alone.
std::string text_that_stands_alone(const Definition& definition, const std::vector<Definition>& all) {
  std::vector<const Definition*> used = {&definition};
  for (std::size_t i = 0; i < used.size(); ++i) {
    for (const Definition& other : all) {
      bool is_own = other.path == definition.path && !other.is_exported;
      bool is_new = std::find(used.begin(), used.end(), &other) == used.end();
      if (is_own && is_new && has_word(used[i]->text, other.name)) used.push_back(&other);
    }
  }
  std::sort(used.begin() + 1, used.end());
  std::rotate(used.begin(), used.begin() + 1, used.end());
  std::string out;
  for (const Definition* each : used) out += each->text.substr(each->text.starts_with(kExport) ? kExport.size() : 0);
  return out;
}

void add_definitions(const EmbeddedText& module, std::vector<Definition>& out) {
  std::string_view text = module.text;
  std::size_t begin = std::string_view::npos,
              end = 0;  // of the definition at hand, without the comments of the next one
  Definition last;
  auto finish = [&] {
    if (!last.name.empty())
      out.push_back({last.name, last.word, module.path, text.substr(begin, end - begin), last.is_exported});
  };
  for (std::size_t at = 0; at < text.size();) {
    std::size_t next = std::min(text.find('\n', at), text.size() - 1) + 1;
    std::string_view line = text.substr(at, next - at);
    if (Definition defined = defined_by(line); !defined.name.empty()) {
      finish();
      last = defined;
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
  const std::vector<Definition> definitions = built_in_definitions();
  for (const Definition& definition : definitions) {
    if (definition.word == "mark") continue;  // those that are exported are in a table
    names.emplace_back(definition.name);
    if (definition.name != word) continue;
    std::printf("# %.*s of tracewright %s\n%s", static_cast<int>(definition.path.size()), definition.path.data(),
                TW_VERSION, text_that_stands_alone(definition, definitions).c_str());
    found = true;
  }
  // A mark and a rule may have one name: what is printed stays text that can be copied.
  const char* comment = found ? "# " : "";
  for (const rules::Table& table : tables) {
    for (const rules::Entry& entry : table.entries) {
      names.push_back(entry.name);
      if (entry.name != word) continue;
      const char* colon = entry.signature.starts_with("(") ? "" : ": ";
      std::printf("%s%s%s%s\n%s  %s\n", comment, entry.name.c_str(), colon, entry.signature.c_str(), comment,
                  entry.doc.c_str());
      found = true;
    }
  }
  if (found) return Ok;
  std::string near = closest(word, names);
  say(cat("no word `", word, "`",
          near.empty() ? "; `tracewright language` prints them all" : cat("; did you mean `", near, "`?")));
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
  App app("language",
          "The words of the rule language: instructions, functions, what rules may ask about the "
          "target, limits. docs/language.md says how\nthey are put together. Of a built-in rule, "
          "postprocessor, set or function: its text, to copy and change.",
          "examples:\n  tracewright language split\n  tracewright language register_tiling > my_tiling.tw\n"
          "  tracewright language --json");
  app.add_option("WORD", word,
                 "only this instruction, function or mark, or this built-in rule, postprocessor, set or function");
  app.add_flag("--json", json, "print JSON");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  std::vector<rules::Table> tables = rules::language_tables();
  if (!word.empty()) return print_word(tables, word);
  if (json)
    print_json(to_json(tables));
  else
    print_tables(tables);
  return Ok;
}

}  // namespace tw::cli

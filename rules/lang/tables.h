// The language's words as tables, made from the code: instructions, functions, marks, members of `target`,
// limits. Printed by `tracewright language`, and part of docs/language.md, which a test compares
// with them. Explains no statement; docs/language.md does.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace tw::rules {

// One word of the language.
struct Entry {
  std::string name;
  std::string signature;  // "(loop: loop, factors: [int or _]) -> [loop]"; of a limit its value
  std::string doc;        // one sentence
};

struct Table {
  const char* name;            // "instructions"
  const char* title;           // one sentence
  std::vector<Entry> entries;  // sorted by name
};

// All tables, in the order of docs/language.md.
std::vector<Table> language_tables();
// As Markdown, with a line of title.
std::string to_markdown(const Table& table);

}  // namespace tw::rules

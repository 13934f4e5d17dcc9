#include "rules/lang/tables.h"

#include <algorithm>

#include "dsl/base/text.h"
#include "rules/lang/library.h"
#include "rules/lang/list_functions.h"
#include "rules/lang/types.h"

namespace tw::rules {
namespace {

Table instructions() {
  Table table{"instructions",
              "Instructions: they change the program, ask it, or draw. `~` marks an argument that "
              "may be open.",
              {}};
  for (const InstructionKind* kind : instruction_kinds())
    table.entries.push_back({kind->name, signature_text(*kind), kind->doc});
  return table;
}

Table analysis() {
  Table table{"functions", "Functions that ask something about the program; none changes it.", {}};
  for (const AnalysisFunction& function : analysis_functions())
    table.entries.push_back({function.name, function.signature, function.doc});
  table.entries.push_back({"loops", "(block) -> [loop]", "All loops around the block, outermost first."});
  std::sort(table.entries.begin(), table.entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return table;
}

Table lists() {
  Table table{"list functions", "Functions on lists and integers.", {}};
  for (const ListFunction& function : list_functions())
    table.entries.push_back({function.name, function.signature, function.doc});
  return table;
}

Table marks() {
  Table table{
      "marks", "Marks that built-in modules export: what lowering understands, and what rules tell each other.", {}};
  const Library library = Library::built_in();
  for (const auto& [module, mark] : library.declared().marks) {
    if (!mark->is_exported) continue;
    auto same = [&, name = mark->name](const Entry& entry) { return entry.name == name; };
    if (std::any_of(table.entries.begin(), table.entries.end(), same)) continue;
    table.entries.push_back({std::string(mark->name), word_of(mark->type), std::string(mark->doc)});
  }
  std::sort(table.entries.begin(), table.entries.end(), [](const Entry& a, const Entry& b) { return a.name < b.name; });
  return table;
}

Table targets() {
  Table table{"target", "What a rule may ask about the machine, all of them fixed integers.", {}};
  for (const TargetMember& member : target_members())
    table.entries.push_back({cat("target.", member.name), "int", member.doc});
  return table;
}

Table limits() {
  const Limits limits;
  auto number = [](i64 value) { return std::to_string(value); };
  return {"limits",
          "Limits; going over one is an error in the rule, which is then left out.",
          {{"forks", number(limits.forks_per_block), "Sketches that a rule makes of one block."},
           {"instructions", number(limits.instructions), "Instructions of a trace."},
           {"list depth", number(limits.list_depth), "Lists inside lists."},
           {"list length", number(limits.list_length), "Elements of a list."},
           {"list values", number(limits.list_parts), "Values of a list, those of lists inside it counted."},
           {"nested calls", number(limits.call_depth), "Functions inside functions."},
           {"nested expressions", number(limits.nesting), "Expressions inside expressions, through calls."},
           {"open values", number(limits.open_parts), "Samples, numbers and operators in one open value."},
           {"steps", number(limits.steps),
            "Steps of a rule on one block, all its forks; an instruction takes 100, an element of "
            "a list 4."},
           {"steps of a task", number(limits.steps_per_task), "Steps of a rule on all blocks of all sketches."}}};
}

// A "|" would end the cell.
std::string cell(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '|' ? std::string("\\|") : std::string(1, c);
  return out;
}

}  // namespace

std::vector<Table> language_tables() { return {instructions(), analysis(), lists(), marks(), targets(), limits()}; }

std::string to_markdown(const Table& table) {
  std::string out = cat(table.title, "\n\n| | | |\n| --- | --- | --- |\n");
  for (const Entry& entry : table.entries) {
    out += cat("| `", entry.name, "` | `", cell(entry.signature), "` | ", cell(entry.doc), " |\n");
  }
  return out;
}

}  // namespace tw::rules

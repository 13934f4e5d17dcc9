// Task lists as tests write them.
#pragma once
#include <string>
#include <vector>

#include "runtime/lists/task_list.h"

namespace tw::test {

struct ParsedList {
  TaskList list;
  std::string errors;  // rendered
};

// `operators`: what its tasks are checked against; null = they are not.
inline ParsedList parsed_list(const std::string& text, const std::vector<OperatorSignature>* operators = nullptr) {
  Source source{"tasks.yaml", text};
  Diagnostics diagnostics(source);
  ParsedList parsed{parse_task_list(diagnostics), ""};
  if (operators) check_tasks(parsed.list, *operators, diagnostics);
  parsed.errors = diagnostics.render();
  return parsed;
}

}  // namespace tw::test

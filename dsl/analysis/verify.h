// The rules of legal IR, one named function each (verify.cc). Used by tests after every primitive, by `-d verify`, and
// for programs that come from outside. What only a run can show (races, bounds of elements) is for
// backends/interpreter.h.
#pragma once
#include <string>
#include <vector>

#include "dsl/ir/program.h"

namespace tw {

struct Illegal {
  const char* rule;     // name of the rule, e.g. "indices_have_rank"
  std::string message;  // one sentence
  LoopId loop;          // where: 0 = nowhere in particular
  BlockId block;
};

// Everything that is wrong, in program order; at most 20. Empty for a legal program.
std::vector<Illegal> verify(const Program& program);

// The program with a mark and the message at each place, then the messages that have no place; "" if nothing is wrong.
std::string render(const Program& program, const std::vector<Illegal>& problems);

}  // namespace tw

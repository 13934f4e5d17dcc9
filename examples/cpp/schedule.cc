// A schedule by hand: every primitive is a method, which gives a Result. The trace that was recorded is text, and
// replays.
#include "dsl/schedule/schedule.h"

#include <iostream>

#include "dsl/ir/print.h"
#include "dsl/schedule/parse_schedule.h"
#include "dsl/text/workload.h"

int main() {
  const tw::WorkloadModule& operators = tw::operator_library();
  tw::Diagnostics diagnostics(*operators.source);
  auto program = tw::instantiate(operators, "matmul", {{"M", tw::i64{16}}, {"N", tw::i64{32}}, {"K", tw::i64{8}}}, {},
                                 diagnostics);
  if (!program) return std::cerr << diagnostics.render(), 1;

  tw::Schedule schedule(program->program);
  tw::BlockId block = *schedule.get_block("C");
  tw::Loops loops = *schedule.get_loops(block);  // i, j, k
  const tw::i64 factors[] = {tw::Factors::kHole, 8};
  tw::Loops columns = *schedule.split(loops[1], {factors});
  const tw::LoopId order[] = {loops[0], columns[0], loops[2], columns[1]};
  if (auto done = schedule.reorder(order); !done) return std::cerr << tw::to_string(done.rejected()) << "\n", 1;

  // A step that does not apply is a Reject: a value with a reason. Schedule and trace stay as they were.
  auto parallel = schedule.parallel(loops[2]);
  std::cout << "rejected: " << tw::to_string(parallel.rejected()) << "\n";

  // The trace as text, and the same program from the text.
  std::string text = schedule.trace().print();
  tw::Source source{"trace", text};
  tw::Diagnostics trace_diagnostics(source);
  std::optional<tw::Trace> trace = tw::parse_schedule(source, trace_diagnostics);
  if (!trace) return std::cerr << trace_diagnostics.render(), 1;
  tw::Arena arena;
  tw::State state(arena, program->program);
  if (auto done = tw::replay(*trace, state); !done) return std::cerr << tw::explain(done.rejected(), state), 1;
  bool is_same = tw::structural_hash(state.program()) == tw::structural_hash(schedule.program());
  std::cout << text << (is_same ? "replayed: the same program\n" : "replayed: another program\n");
  return is_same ? 0 : 1;
}

// Makes a workload of the operator library, cuts a loop, and prints the program and its trace.
#include <iostream>

#include "dsl/ir/print.h"
#include "dsl/schedule/schedule.h"
#include "dsl/text/workload.h"

int main() {
  const tw::WorkloadModule& operators = tw::operator_library();
  tw::Diagnostics diagnostics(*operators.source);
  auto program = tw::instantiate(operators, "matmul", {{"M", tw::i64{16}}, {"N", tw::i64{32}}, {"K", tw::i64{8}}}, {},
                                 diagnostics);
  if (!program) return std::cerr << diagnostics.render(), 1;
  tw::Schedule schedule(program->program);
  auto block = schedule.get_block("C");
  if (!block) return std::cerr << tw::to_string(block.rejected()) << "\n", 1;
  auto loops = schedule.get_loops(*block);
  if (!loops) return 1;
  const tw::i64 factors[] = {tw::Factors::kHole, 8};
  auto split = schedule.split((*loops)[1], {factors});
  if (!split) return std::cerr << tw::to_string(split.rejected()) << "\n", 1;
  std::cout << tw::print(schedule.program()) << schedule.trace().print();
}

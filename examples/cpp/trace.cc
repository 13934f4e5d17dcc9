// A trace file: all that is needed to make a kernel again. Written, read, replayed, and compared by the hash of its
// program.
#include <iostream>

#include "dsl/ir/compare.h"
#include "dsl/schedule/schedule.h"
#include "dsl/text/workload.h"
#include "runtime/store/trace_file.h"

int main() {
  const tw::WorkloadModule& operators = tw::operator_library();
  tw::Diagnostics call(*operators.source);
  auto program =
      tw::instantiate(operators, "dense", {{"M", tw::i64{8}}, {"N", tw::i64{64}}, {"K", tw::i64{16}}}, {}, call);
  if (!program) return std::cerr << call.render(), 1;
  tw::Schedule schedule(program->program);
  tw::BlockId block = schedule.state().blocks()[0]->id;
  tw::BlockId handle = *schedule.get_block(schedule.state().find_block(block)->name);
  if (auto done = schedule.parallel((*schedule.get_loops(handle))[0]); !done)
    return std::cerr << tw::to_string(done.rejected()), 1;
  std::string text = tw::print_trace_file({TW_VERSION, "cpu -mcpu=znver3 -threads=2", *program, schedule.trace()});

  tw::Source source{"kernel.tw", text};
  tw::Diagnostics diagnostics(source);
  std::optional<tw::TraceFile> file = tw::parse_trace_file(source, diagnostics);
  if (!file) return std::cerr << diagnostics.render(), 1;
  tw::Arena arena;
  tw::State state(arena, file->program.program);
  if (tw::Status done = tw::replay(file->trace, state); !done)
    return std::cerr << tw::explain(done.rejected(), state), 1;
  tw::Hash128 hash = tw::structural_hash(state.program());  // as `tracewright replay --hash`
  std::cout << "ir " << tw::to_hex(hash)
            << (hash == tw::structural_hash(schedule.program()) ? " the same\n" : " another\n");
}

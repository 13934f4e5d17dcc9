// tracewright-measure: `tracewright measure --built-with KEY` for machines that have no memory for a compiler. It takes
// the flags of `tracewright measure`, and is linked without LLVM.
#include <cstdio>
#include <new>

#include "cli/commands.h"
#include "cli/lend_machine.h"
#include "runtime/console/output.h"
#include "sampler/fleet/built_source.h"

namespace tw::cli {
namespace {

int measure(int count, char** words) {
  MeasureFlags flags;
  if (std::optional<int> code = parse_measure_flags(count, words, flags)) return *code;
  if (flags.built_with.empty()) {
    say("this program compiles nothing: say --built-with KEY, the file of a public key");
    return Usage;
  }
  std::string error;
  std::optional<CheckingKey> key = CheckingKey::read(flags.built_with, error);
  if (!key) return say(error), Environment;
  return lend_machine(flags, waiting_for(flags), std::make_shared<BuiltSource>(std::move(*key)), /*nvrtc=*/"");
}

}  // namespace
}  // namespace tw::cli

int main(int count, char** words) {
  try {
    return tw::cli::measure(count, words);
  } catch (const std::bad_alloc&) {
    std::fputs("tracewright: there is not enough memory\n", stderr);
    return tw::cli::Environment;
  }
}

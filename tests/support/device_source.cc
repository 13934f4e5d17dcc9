#include "support/device_source.h"

#include "support/scheduled.h"

namespace tw::test {

Result<LoweredGpuProgram> lowered(Arena& arena, const Program& program, const GpuLimits& limits) {
  return lower_gpu(arena, program, {.vector_bits = 128, .vector_registers = 32}, limits);
}

std::string source(const std::string& use, const std::string& schedule, SourceLanguage language) {
  Scheduled scheduled(use, {}, schedule);
  Arena arena;
  Result<LoweredGpuProgram> kernels = lowered(arena, scheduled.program());
  if (!kernels) return "rejected: " + to_string(kernels.rejected());
  Result<Kernel> printed = print_device_source(*kernels, language, "mm");
  return printed ? printed->code : "rejected: " + to_string(printed.rejected());
}

std::size_t count_of(const std::string& text, std::string_view words, std::size_t end) {
  std::size_t n = 0;
  for (std::size_t at = 0; (at = text.find(words, at)) < end; ++at) ++n;
  return n;
}

}  // namespace tw::test

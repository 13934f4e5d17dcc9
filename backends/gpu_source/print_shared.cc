// Declarations of shared memory: arrays of their own, or, where a kernel has more than the language lets it declare so, parts of one whose size
// the launch gives. The emulator sees arrays of their own in both cases, so that it finds what leaves one of them.
#include "backends/gpu_source/printer.h"
#include "backends/kernel.h"
#include "dsl/base/text.h"
#include "dsl/passes/share_storage.h"

namespace tw::gpu {

i64 KernelPrinter::shared_bytes() const {
  i64 total = 0;
  for (const SharedArray& array : shared_) total += aligned_shared(array.bytes);
  return total;
}

i64 KernelPrinter::dynamic_shared_bytes() const {
  return language_.dynamic_shared && shared_bytes() > kStaticSharedBytes ? shared_bytes() : 0;
}

std::string KernelPrinter::shared_arrays(const char* indent) const {
  std::string out;
  for (const SharedArray& array : shared_) {
    out += cat(indent, language_.shared, array.type, " ", array.name, "[", array.elements, "]",
               array.is_aligned ? " __attribute__((aligned(64)))" : "", ";\n");
  }
  return out;
}

std::string KernelPrinter::declare_shared() const {
  i64 bytes = dynamic_shared_bytes(), at = 0;
  if (bytes == 0) return shared_arrays("  ");
  std::string parts;
  for (const SharedArray& array : shared_) {
    parts += cat("  ", array.type, "* const ", array.name, " = (", array.type, "*)(tw_dynamic + ", at, ");\n");
    at += aligned_shared(array.bytes);
  }
  return cat("#ifdef TW_EMULATED\n", shared_arrays("  "), "  tw_emu_dynamic_shared(", bytes, ");\n#else\n  ", language_.dynamic_shared, "\n",
             parts, "#endif\n");
}

}  // namespace tw::gpu

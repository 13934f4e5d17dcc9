// Declarations of shared memory: arrays of their own, and one for buffers that lie over each other; or, where a kernel
// has more than the language lets it declare so, parts of one whose size the launch gives. The emulator sees arrays of
// their own in both cases, so that it finds what leaves one of them.
#include <algorithm>

#include "backends/gpu_source/printer.h"
#include "backends/kernel.h"
#include "dsl/base/text.h"
#include "dsl/passes/share_storage.h"

namespace tw::gpu {

// The largest one that an array of the kernel wants. All arrays begin at multiples of it, whatever their order.
i64 KernelPrinter::shared_alignment() const {
  i64 out = kSharedAlignment;
  for (const SharedArray& array : shared_) out = std::max(out, array.alignment);
  return out;
}

i64 KernelPrinter::shared_bytes() const {
  i64 total = placed_bytes();
  for (const SharedArray& array : shared_) total += array.at < 0 ? aligned_shared(array.bytes, shared_alignment()) : 0;
  return total;
}

std::string KernelPrinter::shared_array(Str wanted, DType dtype, i64 elements) {
  std::string name = fresh(wanted);
  shared_.push_back({type(dtype, 1), name, elements, elements * bytes_of(dtype), false});
  return name;
}

i64 KernelPrinter::place_of(const Buffer* buffer) const {
  auto found = std::find_if(kernel_.places.begin(), kernel_.places.end(),
                            [&](const SharedPlace& place) { return place.buffer == buffer->id; });
  return found == kernel_.places.end() ? -1 : found->at;
}

// Of those that lie over each other, together.
i64 KernelPrinter::placed_bytes() const {
  i64 out = 0;
  for (const SharedArray& array : shared_)
    out = array.at < 0 ? out : std::max(out, array.at + aligned_shared(array.bytes, shared_alignment()));
  return out;
}

i64 KernelPrinter::dynamic_shared_bytes() const {
  return language_.dynamic_shared && shared_bytes() > kStaticSharedBytes ? shared_bytes() : 0;
}

// Those that have a place, or those that have none, one behind the other from `first` on.
std::string KernelPrinter::pointers_into(const std::string& bytes, i64 first, bool is_placed) const {
  std::string out, space = language_.has_vectors ? language_.shared : "";
  for (const SharedArray& array : shared_) {
    if (is_placed != (array.at >= 0)) continue;
    out += cat("  ", space, array.type, "* const ", array.name, " = (", space, array.type, "*)(", bytes, " + ",
               is_placed ? array.at : first, ");\n");
    first += aligned_shared(array.bytes, shared_alignment());
  }
  return out;
}

std::string KernelPrinter::shared_arrays() const {
  std::string out;
  for (const SharedArray& array : shared_) {
    if (array.at >= 0) continue;
    out += cat("  ", language_.shared, array.type, " ", array.name, "[", array.elements, "]",
               array.is_aligned ? cat(" __attribute__((aligned(",
                                      shared_alignment() > kSharedAlignment ? shared_alignment() : 64, ")))")
                                : "",
               ";\n");
  }
  if (i64 bytes = placed_bytes()) {
    out += cat("  ", language_.shared, type_name(language_, DType::U8), " tw_placed[", bytes,
               "] __attribute__((aligned(", shared_alignment(), ")));\n", pointers_into("tw_placed", 0, true));
  }
  return out;
}

std::string KernelPrinter::declare_shared() const {
  i64 bytes = dynamic_shared_bytes();
  if (bytes == 0) return shared_arrays();
  return cat("#ifdef TW_EMULATED\n", shared_arrays(), "  tw_emu_dynamic_shared(", bytes, ");\n#else\n  ",
             language_.dynamic_shared, "\n", pointers_into("tw_dynamic", 0, true),
             pointers_into("tw_dynamic", placed_bytes(), false), "#endif\n");
}

}  // namespace tw::gpu

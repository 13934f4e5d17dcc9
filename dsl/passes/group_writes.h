// Which group of a device writes which element of an output? Used by the emulator's gate, which runs some groups of a
// large kernel only and has to know what these should have written. It goes by the domains of the blocks that store and
// by the loops around them; how lowering then cuts these loops, and the text of the kernel, have no part in it.
#pragma once
#include <optional>
#include <vector>

#include "dsl/passes/lower_gpu.h"

namespace tw {

// A program without inputs: for each output that the last kernel of a scheduled program writes, an output of the same
// name and shape (I32), of which each element gets the number of the group that writes it (x first, then y, then z). An
// element that several groups write gets the number of one of them; one that no group writes is left as it was. The
// result is empty where what is written depends on data, or where the program cannot be lowered for a device.
std::optional<Program> group_writes(Arena& arena, const Program& scheduled);

// What a kernel writes into scratch memory, for those behind it.
struct ScratchWrites {
  struct Place {
    Str name;
    i64 at = 0, bytes = 0, element_bytes = 0;  // in scratch memory
  };
  std::optional<Program>
      numbers;  // as above, with scratch buffers as outputs; nothing where it writes none or it is not known
  std::vector<Place> places;  // of these
};
// The scratch memory that each kernel writes, except the last one. Empty if the pass cannot tell.
std::vector<ScratchWrites> scratch_writes(Arena& arena, const Program& scheduled);

}  // namespace tw

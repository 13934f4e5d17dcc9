// Pass split_entry_points: what depends on constants alone moves out of the kernel's time.
// Input: a scheduled program; blocks that carry `prepack = 1` copy constants into locals. Output: `prepack`, the
// top-level nests of those blocks (body null if there are none), and `run`, the rest. The locals that prepack writes
// are outputs of the one and constant parameters of the other. Deliberately not here: choosing what to pack (a schedule
// does).
#pragma once
#include "dsl/base/result.h"
#include "dsl/ir/program.h"

namespace tw {

struct EntryPoints {
  Program run;      // params: inputs, constants that it reads itself, packed constants, outputs
  Program prepack;  // params: constants that it reads, packed constants (role Output)
};

Result<EntryPoints> split_entry_points(Arena& arena, const Program& program);

}  // namespace tw

// The roofline: how much a program computes and moves, and how fast its machine could do that. For reports.
#pragma once
#include <string>
#include <vector>

#include "backends/target.h"
#include "dsl/ir/program.h"
#include "runtime/measure/machine_roofs.h"

namespace tw {

// What one call does.
struct Work {
  double flops = 0;         // count_flops
  double bytes = 0;         // touched_bytes
  DType type = DType::F32;  // of the arithmetic: that of the float parameters, I64 where they differ or there are none
};
Work work_of(const Program& program);

// Bytes of the inputs and outputs that a call touches, each byte once: of each parameter the box of all accesses, or
// what as many accesses reach as there are, whichever is less.
double touched_bytes(const Program& program);

// The limits of a machine for the kernels of a target. What is not known is 0 or empty.
struct Roof {
  struct Level {
    std::string name;      // "256 KiB", "memory"
    double bytes = 0;      // data of at least this size move
    double bandwidth = 0;  // so many bytes a second
  };
  std::string machine, target;        // machine: machine_of
  std::string source;                 // where the numbers are from, or why there are none
  double f32 = 0, f64 = 0, half = 0;  // operations a second, by type
  std::vector<Level> levels;          // by bytes, ascending; smaller data move at the first one
};
// Of a processor that was measured.
Roof processor_roof(const MachineRoofs& measured, const Target& target, std::string machine, std::string source);
// Of a GPU that the target names, from its description.
Roof described_roof(const Target& target, std::string machine);

// The least time of a call under a roof.
struct RoofBound {
  double seconds = 0;  // 0 = not known
  bool by_arithmetic = false;
  int level = -1;  // of the roof, at which the data move; -1 = not known
};
// Known where the peak for the type of the arithmetic or a bandwidth is known; of both the slower one counts. The data
// of a kernel with several threads lie in parts in their caches.
RoofBound bound_of(const Work& work, const Roof& roof, int threads);

}  // namespace tw

// How fast a machine is at what the draft model cannot know from sizes alone. Measured once for each machine by
// runtime/measure/machine_probe.h.
#pragma once

namespace tw {

// The defaults are those of the machines that the model was fitted on.
struct MachineRates {
  double memory_line = 9;        // cycles of a core for each line of 64 bytes that one thread streams from memory
  double memory_speed_up = 1.7;  // what all threads together gain while they wait for memory
  double parallel_start = 6400;  // cycles for starting and joining the threads of a parallel loop once
  bool operator==(const MachineRates&) const = default;
};

}  // namespace tw

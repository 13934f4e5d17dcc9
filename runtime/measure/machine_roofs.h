// Machine roofs: the two limits of a roofline plot, as far as this machine was measured: f32 operations a second, and
// bytes a second for data of several sizes, since small data lie in caches. `tune` keeps them in the database, so that
// a report can say, on any machine, how far a kernel is from what its own machine can do.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "costmodel/machine_rates.h"
#include "runtime/store/database.h"

namespace tw {

struct MachineRoofs {
  struct Peak {
    int vector_bits = 0;
    double flops = 0;  // f32 operations a second of one thread that uses vectors up to this width
  };
  struct Level {
    double bytes = 0;      // that are read again and again
    double bandwidth = 0;  // bytes a second of one thread
  };
  std::vector<Peak> peaks;     // by vector_bits, ascending; empty: there is no FMA probe for this processor
  std::vector<Level> levels;   // by bytes, ascending; the last one is memory
  double memory_speed_up = 1;  // what all threads together gain at the last level
  bool operator==(const MachineRoofs&) const;

  // f32 operations a second of all `threads` together; 0 = not known.
  double peak(int vector_bits, int threads) const;
  // Bytes a second of all `threads` together at levels[level]. Caches belong to threads, memory to all.
  double bandwidth(std::size_t level, int threads) const;
};

// Measures for some tenths of a second, with 128 MiB of memory. A busy machine looks slower than it is.
MachineRoofs measure_roofs(const MachineRates& rates);

// As text for the database, and back; nullopt if the text is not of that form.
std::string to_text(const MachineRoofs& roofs);
std::optional<MachineRoofs> parse_roofs(const std::string& text);

// Those of this machine are measured and stored, unless the database has them.
DatabaseStatus keep_roofs(Database& database, const MachineRates& rates);
// Those of a machine (machine_of); nullopt if the database has none.
DatabaseResult<std::optional<MachineRoofs>> stored_roofs(Database& database, const std::string& machine);

}  // namespace tw

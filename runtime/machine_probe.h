// The machine probe: what the draft model wants to know of this machine (costmodel/machine_rates.h), measured once and kept in the database of a run
// beside its records. A busy machine looks slower than it is; of many short samples the fast ones count.
#pragma once
#include <optional>
#include <string>

#include "costmodel/machine_rates.h"
#include "runtime/database.h"

namespace tw {

struct MachineFigures {
  double clock = 0;           // cycles a second, by the FMA peak; 0 = not known
  double bandwidth = 0;       // bytes a second that one thread reads from memory
  double all_bandwidth = 0;   // that all threads read together
  double start_seconds = 0;   // of a parallel loop with nothing to do; 0 with one thread
};

// Takes some tenths of a second and 128 MiB.
MachineFigures measure_machine(int threads);
// In the units of the draft model, within what machines can have.
MachineRates rates_of(const MachineFigures& figures, int threads);

// As text, and back; nothing if it is not such a text.
std::string to_text(const MachineRates& rates);
std::optional<MachineRates> parse_rates(const std::string& text);

// Those of this machine: from the database, else measured and stored there. `may_measure` false: else the defaults.
DatabaseResult<MachineRates> machine_rates(Database& database, bool may_measure);

}  // namespace tw

// The machine probe: what the draft model wants to know of this machine (costmodel/machine_rates.h), measured once and
// kept in the database of a run beside its records. A busy machine looks slower than it is; of many short samples the
// fast ones count.
#pragma once
#include <optional>
#include <string>

#include "costmodel/machine_rates.h"
#include "runtime/store/database.h"

namespace tw {

struct MachineFigures {
  double clock = 0;          // cycles a second; 0 = not known
  double bandwidth = 0;      // bytes a second that one thread reads from memory
  double all_bandwidth = 0;  // that all threads read together
  double start_seconds = 0;  // of a parallel loop with nothing to do; 0 with one thread
};

// Cycles a second of a core under load, by the FMA peak or additions; 0 = not known. Measures for some milliseconds.
double measure_clock();
// Measures for some tenths of a second, with 128 MiB of memory.
MachineFigures measure_machine(int threads);
// The figures in the units of the draft model, limited to what real machines have.
MachineRates rates_of(const MachineFigures& figures, int threads);

// The rates as text for the database, and back; nullopt if the text is not of that form.
std::string to_text(const MachineRates& rates);
std::optional<MachineRates> parse_rates(const std::string& text);

// The rates of this machine: those in the database, else measured now and stored there, or the defaults if
// `may_measure` is false.
DatabaseResult<MachineRates> machine_rates(Database& database, bool may_measure);
// Those of another machine, by its host_description(), or the defaults if the database has none.
DatabaseResult<MachineRates> stored_rates(Database& database, const std::string& host);

}  // namespace tw

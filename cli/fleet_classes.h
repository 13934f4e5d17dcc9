// What `fleet` says of the classes of machines and of those that are set aside.
#pragma once
#include <boost/json/array.hpp>

#include "runtime/fleet/trial_queue.h"

namespace tw::cli {

// Fingerprint, class, times and those of the class, for the processor and each device that was calibrated.
boost::json::array calibrations_json(const FleetMachine& machine);

// The classes of the machines that are there, and below them each machine that is set aside, with the numbers. Nothing
// if no machine was calibrated.
void print_classes(const FleetStatus& status);

}  // namespace tw::cli

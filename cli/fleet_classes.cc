#include "cli/fleet_classes.h"

#include <fmt/core.h>

#include <boost/json/object.hpp>
#include <cstdio>

#include "dsl/base/text.h"
#include "runtime/console/output.h"

namespace tw::cli {
namespace {

boost::json::object to_json(const CalibrationTimes& times) {
  boost::json::object object;
  for (const KernelTime& time : times) object[time.kernel] = time.seconds;
  return object;
}

// "arithmetic 6.5 us +0.2 %, memory 1320 us +8.1 %": a machine's times, and how they differ from its class.
std::string compared(const MachineCalibration& calibration) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < calibration.times.size(); ++i) {
    const KernelTime& time = calibration.times[i];
    std::string part = fmt::format("{} {:.4g} us", time.kernel, time.seconds * 1e6);
    if (i < calibration.class_times.size())
      part += fmt::format(" {:+.1f} %", 100 * (time.seconds / calibration.class_times[i].seconds - 1));
    parts.push_back(std::move(part));
  }
  return join(parts, ", ");
}

}  // namespace

boost::json::array calibrations_json(const FleetMachine& machine) {
  boost::json::array all;
  for (const MachineCalibration& calibration : machine.calibrations) {
    all.push_back({{"fingerprint", fingerprint_of(machine, calibration.fingerprint, calibration.number)},
                   {"class", calibration.number},
                   {"seconds", to_json(calibration.times)},
                   {"class_seconds", to_json(calibration.class_times)},
                   {"calibrated_seconds_ago", calibration.age},
                   {"set_aside", calibration.is_aside},
                   {"set_aside_seconds", calibration.aside_age}});
  }
  return all;
}

void print_classes(const FleetStatus& status) {
  std::vector<std::vector<std::string>> rows;
  std::vector<std::string> aside;
  for (const FleetMachine& machine : status.machines) {
    if (machine.is_gone) continue;
    for (const MachineCalibration& calibration : machine.calibrations) {
      rows.push_back({machine.name, cat(show_number(calibration.age), " s ago"),
                      calibration.is_aside ? "set aside" : "measures", compared(calibration),
                      fingerprint_of(machine, calibration.fingerprint, calibration.number)});
      std::optional<Difference> difference = largest_difference(calibration.times, calibration.class_times);
      if (calibration.is_aside && difference)
        aside.push_back(cat(machine.name, " is set aside since ", show_number(calibration.aside_age),
                            " s: ", to_text(*difference), " (class ", calibration.number, " of ",
                            calibration.fingerprint, "); it comes back when a calibration agrees again"));
    }
  }
  if (rows.empty()) return;
  std::printf("\n");
  print_table({"machine", "calibrated", "state", "times, and beside its class", "fingerprint"}, rows);
  for (const std::string& line : aside) std::printf("%s\n", line.c_str());
}

}  // namespace tw::cli

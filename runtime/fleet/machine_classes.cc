// The part of the queue that knows which machines are alike: classes, calibrations, incumbents.
#include <algorithm>
#include <cstdio>

#include "dsl/base/text.h"
#include "runtime/fleet/class_sql.h"
#include "runtime/fleet/trial_queue.h"

namespace tw {
namespace {

struct MachineClass {
  i64 id = 0, number = 0;
  CalibrationTimes times;
};

DatabaseResult<std::vector<MachineClass>> classes_of(PostgresConnection& connection, const std::string& fingerprint) {
  auto rows = connection.run(class_sql::kClasses, {fingerprint});
  if (!rows) return rows.failure();
  std::vector<MachineClass> classes;
  for (int i = 0; i < rows->size(); ++i) {
    PostgresRow row = (*rows)[i];
    classes.push_back({row.integer(0), row.integer(1), parse_calibration(row.text(2)).value_or(CalibrationTimes())});
  }
  return classes;
}

DatabaseResult<MachineClass> found_class(PostgresConnection& connection, const std::string& fingerprint,
                                         const CalibrationTimes& times) {
  auto rows = connection.run(class_sql::kFound, {fingerprint, to_text(times)});
  if (!rows) return rows.failure();
  return MachineClass{(*rows)[0].integer(0), (*rows)[0].integer(1), times};
}

double seconds_of(i64 milliseconds) { return static_cast<double>(milliseconds) * 1e-3; }

}  // namespace

DatabaseResult<Classified> TrialQueue::calibrate(i64 machine, const std::string& host, const CalibrationTimes& measured,
                                                 bool is_final) {
  const std::string fingerprint = machine_of(host);
  // As the database keeps them.
  const CalibrationTimes times = parse_calibration(to_text(measured)).value_or(CalibrationTimes());
  if (times.empty()) return DatabaseError{"a calibration has no times"};
  return transaction<Classified>([&]() -> DatabaseResult<Classified> {
    if (auto locked = connection_.run(class_sql::kLockClasses); !locked) return locked.failure();
    auto classes = classes_of(connection_, fingerprint);
    if (!classes) return classes.failure();
    auto stored = connection_.run(class_sql::kOwnClass, {machine, fingerprint});
    if (!stored) return stored.failure();
    auto own =
        stored->empty() ? classes->end() : std::ranges::find(*classes, (*stored)[0].integer(0), &MachineClass::id);
    bool is_known = own != classes->end();
    if (is_known && !agree(times, own->times)) {
      if (!is_final) return Classified();
      if (is_faster(times, own->times)) is_known = false;
    }
    if (!is_known)
      own = std::ranges::find_if(*classes, [&](const MachineClass& other) { return agree(times, other.times); });
    if (own == classes->end()) {
      if (!is_final && !classes->empty()) return Classified();
      auto founded = found_class(connection_, fingerprint, times);
      if (!founded) return founded.failure();
      own = classes->insert(classes->end(), std::move(*founded));
    }
    bool is_aside = !agree(times, own->times);
    std::string name = machine_of(in_class(host, own->number));
    if (auto kept = connection_.run(class_sql::kStore, {machine, fingerprint, own->id, name, to_text(times), is_aside});
        !kept)
      return kept.failure();
    return Classified{own->number, in_class(host, own->number), is_aside,
                      largest_difference(times, own->times).value_or(Difference())};
  });
}

DatabaseResult<std::optional<IncumbentRecord>> TrialQueue::incumbent(const LeasedTrial& trial) {
  if (trial.trial.incumbent == 0) return std::optional<IncumbentRecord>();
  auto rows = run(class_sql::kIncumbent, {trial.id});
  if (!rows) return rows.failure();
  if (rows->empty()) return std::optional<IncumbentRecord>();
  PostgresRow row = (*rows)[0];
  return std::optional(
      IncumbentRecord{row.integer(0), row.text(1), row.text(2), row.text(3), from_picoseconds(row.integer(4))});
}

DatabaseStatus TrialQueue::add_calibrations(FleetStatus& status) {
  auto rows = run(class_sql::kCalibrations);
  if (!rows) return rows.failure();
  for (int i = 0; i < rows->size(); ++i) {
    PostgresRow row = (*rows)[i];
    auto machine = std::ranges::find(status.machines, row.integer(0), &FleetMachine::id);
    if (machine == status.machines.end()) continue;  // it came after the others were read
    machine->calibrations.push_back({.fingerprint = row.text(1),
                                     .number = row.integer(2),
                                     .times = parse_calibration(row.text(3)).value_or(CalibrationTimes()),
                                     .class_times = parse_calibration(row.text(4)).value_or(CalibrationTimes()),
                                     .is_aside = row.is_true(5),
                                     .age = seconds_of(row.integer(6)),
                                     .aside_age = seconds_of(row.integer(7))});
  }
  return Done{};
}

std::string fingerprint_of(const FleetMachine& machine, const std::string& host, i64 number) {
  char clock[32] = "", memory[32];
  if (machine.clock_mhz > 0)
    std::snprintf(clock, sizeof clock, ", %.1f GHz", static_cast<double>(machine.clock_mhz) * 1e-3);
  std::snprintf(memory, sizeof memory, ", %.0f GiB", static_cast<double>(machine.memory_bytes) / (1 << 30));
  std::string text =
      cat(machine_of(without_class(host)), ", class ", number, clock, memory, ", tracewright ", machine.version);
  for (const std::string& driver : split(machine.drivers, '\n')) text += driver.empty() ? "" : ", " + driver;
  return text;
}

}  // namespace tw

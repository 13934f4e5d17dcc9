// Classes of machines. Times may be compared only between machines of one class: they have one fingerprint (processor,
// caches, device), and the times of a few calibration kernels agree. Here is what a calibration is, when two agree, and
// how a class is named; who is in which class is kept by the queue (trial_queue.h). Used there and by sampler/fleet.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/arena.h"

namespace tw {

// One time of a calibration: seconds of a call. A kernel that is changed gets another name.
struct KernelTime {
  std::string kernel;
  double seconds = 0;
  bool operator==(const KernelTime&) const = default;
};
using CalibrationTimes = std::vector<KernelTime>;

// So much may the time of each kernel differ within a class: a ratio of 1 + kAgreement, either way.
inline constexpr double kAgreement = 0.03;

// The kernel whose time differs most from that of a class.
struct Difference {
  std::string kernel;
  double seconds = 0, class_seconds = 0;
  double ratio() const { return class_seconds > 0 ? seconds / class_seconds : 0; }
};
// nullopt: they are not of the same kernels, and cannot be compared.
std::optional<Difference> largest_difference(const CalibrationTimes& times, const CalibrationTimes& of_class);
bool agree(const CalibrationTimes& times, const CalibrationTimes& of_class);
// Some kernel is faster than in the class by more than what is allowed, and none slower. A disturbed machine is slower:
// so this one was disturbed when its class was founded, or has changed for good.
bool is_faster(const CalibrationTimes& times, const CalibrationTimes& of_class);
// "memory takes 1.32 ms, 8.1 % more than in its class"
std::string to_text(const Difference& difference);

// "arithmetic 6.5231e-06\nmemory 0.001324\n", and back; nullopt if the text is not of that form.
std::string to_text(const CalibrationTimes& times);
std::optional<CalibrationTimes> parse_calibration(std::string_view text);

// A host (Record::host), or what machine_of() makes of it, as records of a class name it. Class 1, the first one of a
// fingerprint, has the plain name, as times of `tune` without a fleet have it; others say ", class 2".
std::string in_class(const std::string& host, i64 number);
std::string without_class(const std::string& host);

// Is a machine one that a task list asks for? `wanted` has parts between commas; each must stand in the fingerprint as
// whole words, in any case of letters: "epyc 7313, class 1". "" fits every machine.
bool is_wanted_machine(std::string_view wanted, std::string_view fingerprint);

}  // namespace tw

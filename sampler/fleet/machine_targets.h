// Which targets a machine of a fleet measures for.
#pragma once
#include <functional>
#include <map>
#include <optional>
#include <string>

#include "backends/target.h"
#include "runtime/fleet/trial_queue.h"

namespace tw {

// This machine's processor, with a triple unless it is x86-64: a text without one means another processor elsewhere.
Target processor_for_others();

// Why the code of a processor's target does not run on such a machine, in one sentence; "" if it does. And on this one.
std::string why_not_on(const Target& host, const Target& target);
std::string why_not_this_processor(const Target& target);

class MachineTargets {
 public:
  // `why_no_device`: the same for targets of devices.
  explicit MachineTargets(std::function<std::string(const Target&)> why_no_device)
      : why_no_device_(std::move(why_no_device)) {}
  // nullopt: this machine does not measure for it. Judged once for each text.
  const std::optional<MeasuredTarget>& of(const std::string& target);

 private:
  std::function<std::string(const Target&)> why_no_device_;
  std::map<std::string, std::optional<MeasuredTarget>> known_;
};

}  // namespace tw

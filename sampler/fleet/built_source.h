// BuiltSource: kernels that a builder has made and signed, for a machine without a compiler. A kernel is run only where
// its signature is that of the machine's key and it was made for this very trial; else the trial ends with the fault
// `not signed`. What runs is in the usual sandbox. Used by `measure --built-with`.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "sampler/fleet/kernel_source.h"
#include "sampler/fleet/signed_build.h"

namespace tw {

class BuiltSource final : public KernelSource {
 public:
  explicit BuiltSource(CheckingKey key) : key_(std::move(key)) {}
  // Offers only targets that a builder builds for now.
  DatabaseResult<std::vector<LeasedTrial>> lease(TrialQueue& queue, i64 machine,
                                                 const std::vector<MeasuredTarget>& targets, int most) override;
  std::unique_ptr<FleetTask> read_task(const QueuedTrial& trial, const MeasuredTarget& target,
                                       const FleetAccess& access, TrialFault& fault) override;
  TaskStart begin_task(FleetTask& task, const std::function<bool()>& stop) override;
  DatabaseStatus read_new_records(FleetTask& task, Database& database) override;
  // Asks a builder for the kernel, which is there for one of the next leases.
  DatabaseStatus take_incumbent(TrialQueue& queue, FleetTask& task, const IncumbentRecord& record) override;
  DatabaseResult<Calibrate> calibrate(TrialQueue& queue, Measurer& measurer, const Target& target,
                                      std::string& problem) override;
  BuiltFleetTrial build(const FleetTask& task, const LeasedTrial& trial) override;

 private:
  WantedBuild wanted(const BuildPurpose& purpose) const;
  std::string kind_for(const std::string& target) const { return wanted({.target = target}).kind; }
  DatabaseStatus want(BuildQueue& builds, i64 machine);

  CheckingKey key_;
  std::vector<std::string> targets_;                         // that this machine measures for
  std::vector<BuildPurpose> missing_;                        // calibrations and records whose kernels are not there yet
  std::vector<WantedBuild> told_;                            // that the database was told
  i64 told_by_ = 0;                                          // machine
  std::vector<std::pair<LeasedTrial, SignedBytes>> builds_;  // of the last lease
};

}  // namespace tw

// What a builder signs: the kernel of one trial or record, the reference of a task, or the kernels of a calibration,
// together with all that says what it is for. The signature of a kernel thus holds for that trial of that database
// alone: for its number, workload, target, program and trace, for this version of tracewright and this key. Used by the
// builder (trial_builder.h) and by machines (built_source.h).
//
// Nothing is read before its signature has been checked. Numbers are written as they lie in memory: both sides have the
// same version, and 64-bit processors with the lowest byte first.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/fleet/build_queue.h"
#include "runtime/fleet/signing_key.h"
#include "runtime/measure/worker_protocol.h"
#include "sampler/fleet/calibration.h"
#include "sampler/fleet/fleet_task.h"

namespace tw {

// `id`: of the trial in the queue.
SignedBytes sign_build(const SigningKey& key, const std::string& kind, i64 id, const QueuedTrial& trial,
                       const BuiltFleetTrial& built);
// With the fault `not signed` where it is none of this trial, or the signature is not that of the key.
BuiltFleetTrial read_build(const SignedBytes& bytes, const CheckingKey& key, const std::string& kind, i64 id,
                           const QueuedTrial& trial);

// The same for the kernel of a record: `trial` has its workload, target, program and trace.
SignedBytes sign_built_record(const SigningKey& key, const std::string& kind, i64 record, const QueuedTrial& trial,
                              const BuiltFleetTrial& built);
BuiltFleetTrial read_built_record(const SignedBytes& bytes, const CheckingKey& key, const std::string& kind, i64 record,
                                  const QueuedTrial& trial);

SignedBytes sign_reference(const SigningKey& key, const std::string& kind, const QueuedTrial& trial,
                           const BuiltReference& reference);
// The same for the reference of the trial's task.
std::optional<BuiltReference> read_reference(const SignedBytes& bytes, const CheckingKey& key, const std::string& kind,
                                             const QueuedTrial& trial, TrialFault& fault);

// `target`: what is calibrated.
SignedBytes sign_calibration(const SigningKey& key, const std::string& kind, const std::string& target,
                             const CalibrationKernels& kernels);
// With a problem where it is not signed, or the builder had one.
CalibrationKernels read_calibration(const SignedBytes& bytes, const CheckingKey& key, const std::string& kind,
                                    const std::string& target);

}  // namespace tw

#include "sampler/fleet/signed_build.h"

#include <algorithm>
#include <cstring>

#include "dsl/base/text.h"

namespace tw {
namespace {

// The first field of what is signed: a signature of one sort is none of the other.
constexpr const char *kTaskLabel = "tracewright: the reference of a task, 1",
                     *kCalibrationLabel = "tracewright: the kernels of a calibration, 1";
// The same of a kernel, and what its number is of.
struct KernelSort {
  const char *label, *name;
};
constexpr KernelSort kOfTrial = {"tracewright: the kernel of a trial, 1", "trial"},
                     kOfRecord = {"tracewright: the kernel of a record, 1", "record"};

template <class Number>
std::string number_bytes(const Number& number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}
template <class Number>
bool read_number(const std::string& bytes, Number& number) {
  if (bytes.size() == sizeof number) std::memcpy(&number, bytes.data(), sizeof number);
  return bytes.size() == sizeof number;
}

// Each field behind its length, so that no two lists have the same bytes.
std::string fields_as_bytes(const std::vector<std::string>& fields) {
  std::string bytes;
  for (const std::string& field : fields) bytes += number_bytes(u64{field.size()}) + field;
  return bytes;
}
std::vector<std::string> fields_in(std::string_view bytes) {
  std::vector<std::string> fields;
  while (!bytes.empty()) {
    u64 size = 0;
    if (!read_number(std::string(bytes.substr(0, sizeof size)), size)) return {};
    bytes.remove_prefix(sizeof size);
    if (size > bytes.size()) return {};
    fields.emplace_back(bytes.substr(0, size));
    bytes.remove_prefix(size);
  }
  return fields;
}

SignedBytes signed_by(const SigningKey& key, const std::vector<std::string>& fields) {
  std::string content = fields_as_bytes(fields);
  std::string signature = key.sign(content);
  return {std::move(content), std::move(signature)};
}

// What a build is for: a name for messages, and the value.
struct Purpose {
  const char* name;
  std::string value;
};
std::vector<Purpose> purposes_of(const KernelSort& sort, const std::string& kind, i64 id, const QueuedTrial& trial) {
  return {{"sort", sort.label},         {"kind", kind},           {sort.name, std::to_string(id)},
          {"workload", trial.workload}, {"target", trial.target}, {"program", trial.program},
          {"trace", trial.trace}};
}
std::vector<Purpose> purposes_of(const std::string& kind, const QueuedTrial& trial) {
  return {{"sort", kTaskLabel},
          {"kind", kind},
          {"workload", trial.workload},
          {"target", trial.target},
          {"seed", std::to_string(trial.seed)}};
}
std::vector<Purpose> purposes_of_calibration(const std::string& kind, const std::string& target) {
  return {{"sort", kCalibrationLabel}, {"kind", kind}, {"target", target}};
}

std::vector<std::string> values_of(const std::vector<Purpose>& purposes) {
  std::vector<std::string> values;
  for (const Purpose& purpose : purposes) values.push_back(purpose.value);
  return values;
}

std::string shortened(std::string text) {
  constexpr std::size_t kMost = 80;
  if (text.size() <= kMost) return text;
  text.resize(kMost);
  return cat(text, "...");
}

// The fields behind those of the purposes; none, and why, where the bytes are not signed or are for something else.
std::vector<std::string> checked_fields(const SignedBytes& bytes, const CheckingKey& key,
                                        const std::vector<Purpose>& purposes, std::size_t more, std::string& why) {
  if (bytes.empty()) return why = "there is none in the database", std::vector<std::string>();
  if (!key.fits(bytes.content, bytes.signature)) {
    why = "its signature is not that of this machine's key: it was changed, or made by somebody else";
    return {};
  }
  std::vector<std::string> fields = fields_in(bytes.content);
  for (std::size_t i = 0; i < purposes.size(); ++i) {
    std::string found = i < fields.size() ? fields[i] : "";
    if (found == purposes[i].value) continue;
    why = cat("it was built for ", purposes[i].name, " `", shortened(found), "`, not `", shortened(purposes[i].value),
              "`");
    return {};
  }
  if (fields.size() != purposes.size() + more) return why = "it has another form", std::vector<std::string>();
  fields.erase(fields.begin(), fields.begin() + static_cast<std::ptrdiff_t>(purposes.size()));
  return fields;
}

std::string_view known_fault(const std::string& kind) {
  for (std::string_view known : {fault::kProgramDiffers, fault::kNoReference, fault::kNotBuilt}) {
    if (kind == known) return known;
  }
  return fault::kRefused;
}

SignedBytes sign_kernel(const SigningKey& key, const std::vector<Purpose>& purposes, const BuiltFleetTrial& built) {
  std::vector<std::string> fields = values_of(purposes);
  for (std::string field : {std::string(built.fault.kind), built.fault.message, built.built.problem,
                            to_hex(built.object), built.built.kernel ? encode(*built.built.kernel) : std::string()})
    fields.push_back(std::move(field));
  return signed_by(key, fields);
}

BuiltFleetTrial read_kernel(const SignedBytes& bytes, const CheckingKey& key, const std::vector<Purpose>& purposes) {
  BuiltFleetTrial made;
  std::string why;
  std::vector<std::string> fields = checked_fields(bytes, key, purposes, 5, why);
  if (!why.empty()) {
    made.fault = {fault::kNotSigned, cat("built code is not run: ", why)};
    return made;
  }
  if (!fields[0].empty()) made.fault = {known_fault(fields[0]), fields[1]};
  made.built.problem = fields[2];
  made.object = parse_hash(fields[3]).value_or(Hash128());
  if (!fields[0].empty() || !made.built.problem.empty()) return made;
  Kernel kernel;
  if (!decode(fields[4], kernel)) {
    made.fault = {fault::kNotSigned, "built code is not run: it has another form"};
    return made;
  }
  made.built.kernel = std::move(kernel);
  return made;
}

}  // namespace

SignedBytes sign_build(const SigningKey& key, const std::string& kind, i64 id, const QueuedTrial& trial,
                       const BuiltFleetTrial& built) {
  return sign_kernel(key, purposes_of(kOfTrial, kind, id, trial), built);
}

BuiltFleetTrial read_build(const SignedBytes& bytes, const CheckingKey& key, const std::string& kind, i64 id,
                           const QueuedTrial& trial) {
  return read_kernel(bytes, key, purposes_of(kOfTrial, kind, id, trial));
}

SignedBytes sign_built_record(const SigningKey& key, const std::string& kind, i64 record, const QueuedTrial& trial,
                              const BuiltFleetTrial& built) {
  return sign_kernel(key, purposes_of(kOfRecord, kind, record, trial), built);
}

BuiltFleetTrial read_built_record(const SignedBytes& bytes, const CheckingKey& key, const std::string& kind, i64 record,
                                  const QueuedTrial& trial) {
  return read_kernel(bytes, key, purposes_of(kOfRecord, kind, record, trial));
}

SignedBytes sign_reference(const SigningKey& key, const std::string& kind, const QueuedTrial& trial,
                           const BuiltReference& reference) {
  std::vector<std::string> fields = values_of(purposes_of(kind, trial));
  for (std::string field : {encode(reference.begin), encode(reference.checks), number_bytes(reference.points),
                            number_bytes(reference.bytes), number_bytes(reference.least_flops)})
    fields.push_back(std::move(field));
  return signed_by(key, fields);
}

std::optional<BuiltReference> read_reference(const SignedBytes& bytes, const CheckingKey& key, const std::string& kind,
                                             const QueuedTrial& trial, TrialFault& fault) {
  std::string why;
  std::vector<std::string> fields = checked_fields(bytes, key, purposes_of(kind, trial), 5, why);
  BuiltReference reference;
  bool is_good = why.empty() && decode(fields[0], reference.begin) && decode(fields[1], reference.checks) &&
                 read_number(fields[2], reference.points) && read_number(fields[3], reference.bytes) &&
                 read_number(fields[4], reference.least_flops);
  if (is_good) return reference;
  if (why.empty()) why = "it has another form";
  fault = {fault::kNotSigned, cat("a built reference is not run: ", why)};
  return std::nullopt;
}

SignedBytes sign_calibration(const SigningKey& key, const std::string& kind, const std::string& target,
                             const CalibrationKernels& kernels) {
  std::vector<std::string> fields = values_of(purposes_of_calibration(kind, target)), parts;
  for (const CalibrationKernel& kernel : kernels.kernels) {
    for (std::string part : {kernel.name, std::string(kernel.is_cold ? "cold" : "warm"), encode(kernel.reference.begin),
                             encode(kernel.kernel)})
      parts.push_back(std::move(part));
  }
  fields.push_back(kernels.problem);
  fields.push_back(fields_as_bytes(parts));
  return signed_by(key, fields);
}

CalibrationKernels read_calibration(const SignedBytes& bytes, const CheckingKey& key, const std::string& kind,
                                    const std::string& target) {
  CalibrationKernels read;
  std::string why;
  std::vector<std::string> fields = checked_fields(bytes, key, purposes_of_calibration(kind, target), 2, why);
  if (!why.empty()) return {.kernels = {}, .problem = cat("built kernels are not run: ", why)};
  read.problem = fields[0];
  const std::vector<std::string> parts = fields_in(fields[1]);
  for (std::size_t i = 0; i + 4 <= parts.size() && read.problem.empty(); i += 4) {
    CalibrationKernel kernel{.name = parts[i], .is_cold = parts[i + 1] == "cold", .reference = {}, .kernel = {}};
    if (!decode(parts[i + 2], kernel.reference.begin) || !decode(parts[i + 3], kernel.kernel))
      read.problem = "built kernels are not run: they have another form";
    read.kernels.push_back(std::move(kernel));
  }
  if (!read.problem.empty()) read.kernels.clear();
  return read;
}

}  // namespace tw

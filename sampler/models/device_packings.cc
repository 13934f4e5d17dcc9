#include "sampler/models/device_packings.h"

#include "runtime/export/export_device_model.h"

namespace tw {
namespace {

i64 aligned(i64 bytes) { return (bytes + kDeviceAlignment - 1) / kDeviceAlignment * kDeviceAlignment; }

}  // namespace

i64 DevicePackings::source(const HostArray* array) {
  auto [at, is_new] = known_.try_emplace(array, aligned(std::ssize(sources_)));
  if (is_new) {
    sources_.resize(static_cast<std::size_t>(at->second), '\0');
    sources_.append(reinterpret_cast<const char*>(array->bytes.data()), array->bytes.size());
  }
  return at->second;
}

std::vector<i64> DevicePackings::add(const std::string& name, std::size_t task, const KernelManifest& manifest,
                                     const std::vector<const HostArray*>& sources) {
  ModelStep step{name, task, {}};
  std::vector<i64> offsets;
  std::size_t next = 0;
  for (const KernelArgument& argument : manifest.prepack) {
    if (argument.role != ArgumentRole::Packed) {
      step.buffers.push_back({ModelPlace::Where::Sources, source(sources[next++])});
      continue;
    }
    offsets.push_back(aligned(packed_bytes_));
    packed_bytes_ = offsets.back() + argument.bytes;
    step.buffers.push_back({ModelPlace::Where::Packed, offsets.back()});
  }
  packings_.push_back(std::move(step));
  return offsets;
}

void DevicePackings::finish(ModelPlan& plan) {
  plan.packings = std::move(packings_);
  plan.packed_bytes = packed_bytes_;
  plan.source_bytes = std::ssize(sources_);
  plan.weights += sources_;
}

}  // namespace tw

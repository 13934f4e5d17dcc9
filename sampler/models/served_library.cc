#include "sampler/models/served_library.h"

#include <chrono>
#include <cstring>

namespace tw {

std::string ServedLibrary::load() {
  loaded_.emplace(library_, inputs_, threads_);
  return loaded_->problem();
}

bool ServedLibrary::run() { return loaded_ && loaded_->problem().empty() && loaded_->run(); }

HostArray ServedLibrary::output(std::size_t index) const {
  const KernelArgument& tensor = library_.outputs[index];
  HostArray array = HostArray::zeros(tensor.dtype, tensor.shape);
  std::memcpy(array.bytes.data(), loaded_->output(index), array.bytes.size());
  return array;
}

PeerOptions patient(PeerOptions options) {
  options.start_timeout = options.prepare_timeout = options.sample_timeout = std::chrono::minutes(10);
  return options;
}

}  // namespace tw

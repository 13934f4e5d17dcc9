// A compiled model as it answers in turn with others (runtime/peers/model_peer.h).
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/export/loaded_model.h"
#include "runtime/peers/model_peer.h"

namespace tw {

// The library is opened in the process that is forked for it. Library and inputs must live as long as this.
class ServedLibrary : public ServedModel {
 public:
  ServedLibrary(const ModelLibrary& library, const std::vector<HostArray>& inputs, int threads)
      : library_(library), inputs_(inputs), threads_(threads) {}
  std::string load() override;
  bool run() override;
  std::size_t outputs() const override { return library_.outputs.size(); }
  HostArray output(std::size_t index) const override;

 private:
  const ModelLibrary& library_;
  const std::vector<HostArray>& inputs_;
  int threads_;
  std::optional<LoadedModel> loaded_;
};

// Limits that no library of our own reaches: those of callers are for others.
PeerOptions patient(PeerOptions options);

}  // namespace tw

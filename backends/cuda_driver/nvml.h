// What NVIDIA's management library (NVML, which comes with the driver) says of a GPU's clock. It is opened when it is
// asked for; where it is missing, nothing is known. After NVIDIA's NVML API Reference.
#pragma once
#include <string>

namespace tw::cuda {

class ClockWatch {
 public:
  // Watches the GPU at this address on the PCI bus ("0000:01:00.0").
  explicit ClockWatch(const std::string& bus_id);
  // The clock of the multiprocessors at this moment; 0 = not known.
  int mhz() const;
  // What it may rise to; 0 = not known.
  int most_mhz() const { return most_mhz_; }
  // What holds it down beside the power limit: "heat", "the hardware"; "" = nothing that is known.
  std::string slowdown() const;

 private:
  void* device_ = nullptr;
  int most_mhz_ = 0;
};

}  // namespace tw::cuda

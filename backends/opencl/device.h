// An OpenCL device: memory with guard bands, kernels from source, launches and their times. Used by the OpenCL worker
// only, which is a process of its own: drivers have an LLVM of their own, and a bad kernel may take the process with
// it. One thread at a time.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backends/kernel.h"

namespace tw::opencl {

// "NAME (PLATFORM)" of every device, counted over all platforms. Empty with a reason in `error` if there is none.
std::vector<std::string> device_names(std::string& error);

class Device;

// Memory of the device with a band of known bytes on both sides. Null handle: there was no memory.
class Memory {
 public:
  Memory(Device& device, i64 bytes);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();
  bool is_there() const { return handle_ != nullptr; }
  i64 bytes() const { return bytes_; }
  bool write(const void* data);
  bool read(void* data) const;
  // The data gets `byte`, the bands their pattern.
  bool fill(u8 byte);
  bool bands_intact() const;

 private:
  friend class LoadedKernel;
  Device& device_;
  void* handle_ = nullptr;  // of all of it
  i64 bytes_;
};

// A compiled source text with its launches bound to memory.
class LoadedKernel {
 public:
  // `prepack` and `run` are the pointers of the entry points' arguments. On failure `error` says why, with the driver's
  // log.
  LoadedKernel(Device& device, const Kernel& kernel, const std::vector<Memory*>& prepack,
               const std::vector<Memory*>& run, Memory* scratch, std::string& error);
  LoadedKernel(const LoadedKernel&) = delete;
  LoadedKernel& operator=(const LoadedKernel&) = delete;
  ~LoadedKernel();
  // Runs all launches of an entry point and waits for them. 0, or the driver's error code.
  int prepack() { return launch(prepack_, nullptr); }
  int run() { return launch(run_, nullptr); }
  // run(), and the sum of the kernels' own times by the device's clock.
  int run(double& device_seconds) { return launch(run_, &device_seconds); }

 private:
  struct Launch {
    void* kernel = nullptr;
    std::size_t global[3], local[3];
  };
  bool bind(const std::vector<KernelLaunch>& launches, const std::vector<Memory*>& arguments, Memory* scratch,
            std::vector<Launch>& out, std::string& error);
  int launch(const std::vector<Launch>& launches, double* device_seconds);

  Device& device_;
  void* program_ = nullptr;
  std::vector<Launch> prepack_, run_;
  std::vector<void*> parts_;  // sub-buffers
};

class Device {
 public:
  // The index counts over all platforms. On failure `error` names the devices that there are.
  Device(int index, std::string& error);
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();
  const std::string& name() const { return name_; }

 private:
  friend class Memory;
  friend class LoadedKernel;
  std::string name_;
  void *device_ = nullptr, *context_ = nullptr, *queue_ = nullptr;
};

}  // namespace tw::opencl

// A device that runs kernels: memory with guard bands, kernels with their launches, times. One interface with two
// implementations, backends/opencl/device.cc (kernels are source text) and backends/cuda_driver/device.cc (kernels are
// cubins), each linked into the worker of its kind (runtime/worker_device), which is a process of its own: drivers
// bring libraries of their own, and a bad kernel may take the process with it. One thread at a time.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "backends/kernel.h"

namespace tw::device {

// What kind of devices this is built for: "OpenCL", "CUDA".
extern const char* const kKind;
// Are times those between events of the device's own stream, which hold nothing of what happens to this process?
extern const bool kTimesAreTheDevices;
// In the line of a device that is there, but not as it should be: the reason follows.
inline constexpr const char* kCannotBeUsed = ": cannot be used: ";
// One line for each device, in the order of their numbers. Empty with a reason in `error` if there is none that can be
// used.
std::vector<std::string> names(std::string& error);

// Codes that drivers answer with; 0 = good.
std::string error_text(int code);
enum class Failure : u8 {
  Refused,  // this launch or kernel; the device goes on
  Memory,   // there is not enough
  Fault,    // the kernel did what it may not: nothing can be done with the device in this process any more
};
Failure failure_of(int code);

class Device {
 public:
  // On failure `error` names the devices that there are.
  Device(int index, std::string& error);
  // Waits for all that was begun. After some errors, and not all drivers agree which, a device answers its process no
  // more: then false.
  bool answers() const;
  i64 memory_bytes() const;  // of all its memory; 0 if the driver does not say
  i64 cache_bytes() const;   // of its largest cache; 0 if the driver does not say
  // The clock of its multiprocessors, now and at most; 0 = not known.
  int clock_mhz() const;
  int most_clock_mhz() const;
  // What holds the clock down beside a limit of power, as "heat"; "" = nothing that is known.
  std::string slowdown() const;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  ~Device();

  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// Memory of the device with a band of known bytes on both sides.
class Memory {
 public:
  Memory(Device& device, i64 bytes);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory();
  bool is_there() const { return state_ != nullptr; }  // else there was no memory
  i64 bytes() const { return bytes_; }
  bool write(const void* data);
  bool read(void* data) const;
  // The data of another one of the same size.
  bool copy(const Memory& from);
  // The data gets `byte`, the bands their pattern.
  bool fill(u8 byte);
  bool fill_bands();
  // All of the bands, or what is next to the data.
  enum class Reach : u8 { All, Near };
  bool bands_intact(Reach reach = Reach::All) const;

  struct State;
  State& state() const { return *state_; }

 private:
  i64 bytes_;
  std::unique_ptr<State> state_;
};

// A kernel with its launches bound to memory.
class LoadedKernel {
 public:
  // `prepack` and `run` are the memory of the entry points' arguments. On failure `error` says why, with the driver's
  // log.
  LoadedKernel(Device& device, const Kernel& kernel, const std::vector<Memory*>& prepack,
               const std::vector<Memory*>& run, Memory* scratch, std::string& error);
  LoadedKernel(const LoadedKernel&) = delete;
  LoadedKernel& operator=(const LoadedKernel&) = delete;
  ~LoadedKernel();
  // Runs all launches of an entry point and waits for them. 0, or the driver's error code.
  int prepack();
  int run();
  // run(), and the sum of the kernels' own times by the device's clock.
  int run(double& device_seconds);
  // The same right behind a write to all of `other`: where that is larger than the caches, nothing of the kernel's data
  // is in them.
  int run_cold(Memory& other, double& device_seconds);
  // `calls` runs one after the other and their nanoseconds, by the clock that kernels are timed by. 0, or the driver's
  // error code.
  int run(int calls, i64& nanoseconds);

  struct State;
  State& state() { return *state_; }

 private:
  std::unique_ptr<State> state_;
};

// A program as its driver keeps it, to be loaded again by the same driver on the same device.
struct Binary {
  std::string bytes;  // as an export has them: OpenCL: backends/opencl/binary_tag.h, then the driver's
  std::string device, driver;
};
// Compiles source text as LoadedKernel does. On failure `error` says why; kernels for CUDA are machine code already.
Binary make_binary(Device& device, const std::string& source, std::string& error);

}  // namespace tw::device

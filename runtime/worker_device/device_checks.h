// DeviceChecks: what the tuner's kernels for it (sampler/search/device_checks.h) find about inputs and outputs of a
// task where they lie, so that they need not be read. They only say what is surely right: all else is for the host to
// see. Keeps on the device what they compare with, and the inputs of both sets of data, as far as there is memory.
#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/device.h"
#include "runtime/worker/task.h"

namespace tw {

class DeviceChecks {
 public:
  // `input` gives the bytes of an input in a set. `room`: bytes of the device that all checks may still take; what is
  // taken is given back at the end. All that is passed must outlive this.
  DeviceChecks(device::Device& gpu, const Task& task, std::vector<DeviceCheck> checks,
               std::function<const char*(int set, const std::string& name)> input, i64& room);
  DeviceChecks(const DeviceChecks&) = delete;
  DeviceChecks& operator=(const DeviceChecks&) = delete;
  ~DeviceChecks();

  // Is the output that lies in `memory` surely that of the reference? Then `max_error` is raised.
  bool is_right(const KernelArgument& output, int set, device::Memory& memory, double& max_error);
  // Does `memory` surely hold the input?
  bool is_unchanged(const std::string& input, int set, device::Memory& memory);
  // Puts the input into `memory`, from the device's own copy. False: there is none.
  bool restore(const std::string& input, int set, device::Memory& memory);
  // What is kept comes from the host again: somebody may have written into it.
  void renew();

 private:
  // A check with its kernel bound to the memory of one set.
  struct Bound {
    device::Memory* subject = nullptr;
    std::map<std::string, device::Memory*> arguments;
    std::vector<std::unique_ptr<device::Memory>> own;  // but for copies of inputs
    std::unique_ptr<device::LoadedKernel> kernel;
    bool has_failed = false;
  };
  struct Check {
    DeviceCheck given;
    std::array<Bound, kSets> bound;
  };
  using Copies = std::map<std::string, std::unique_ptr<device::Memory>>;

  Check* find(DeviceCheckKind kind, const std::string& of);
  Bound* run(Check& check, int set, device::Memory& subject);
  bool bind(Check& check, int set, device::Memory& subject);
  device::Memory* argument(const Check& check, const KernelArgument& argument, int set, Bound& bound);
  device::Memory* copy_of_input(const std::string& name, int set, i64 bytes);
  std::unique_ptr<device::Memory> make(i64 bytes);
  template <class T>
  static std::vector<T> result(const Bound& bound, const char* name);
  bool is_all_usual(Check* check, int set, device::Memory& memory);
  bool is_near_reference(Check& check, int set, device::Memory& memory, double& max_error);
  bool is_sample_right(Check& check, const KernelArgument& output, int set, device::Memory& memory, double& max_error);

  device::Device& gpu_;
  const Task& task_;
  std::function<const char*(int set, const std::string& name)> input_;
  i64& room_;
  i64 taken_ = 0;
  std::vector<Check> checks_;
  std::array<Copies, kSets> inputs_;
};

}  // namespace tw

// Emulation: runs kernels in CUDA C without a GPU. The text is compiled as C++ by the compiler of this machine, with
// its own instrumentation of memory accesses, against CPU bodies of the device functions
// (runtime/emulator/device_functions.h), and run by the program `tracewright-emulator`, one fiber per thread, in an
// order drawn from a seed. Used by the search's check without a GPU, by replay and the tests. It knows neither
// workloads nor references, and says nothing about time.
//
// Found are: accesses outside of a buffer, misaligned vectors, reads of what nothing has written, writes to inputs; two
// threads at one element between two barriers, or two groups, one of them writing; barriers that not all threads of the
// group reach, or not the same one; waiting for ever; asynchronous copies that were not waited for; index arithmetic
// that overflows or divides by zero; launches with more threads than the kernel was made for. Registers, shared memory
// and outputs begin as patterns (NaN).
#pragma once
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backends/interpreter.h"
#include "backends/kernel.h"
#include "dsl/base/temporary_folder.h"
#include "runtime/measure/emulation_report.h"

namespace tw {

using NamedArrays = std::map<std::string, HostArray, std::less<>>;

// Kernels that are compiled, as one library, and can be run. The files of it go with the object.
class EmulatedKernels {
 public:
  // Symbols of the kernels' manifests must differ. Null with why in `report` (Unavailable, BuildError).
  static std::unique_ptr<EmulatedKernels> compile(std::span<const Kernel* const> kernels, EmulationReport& report);
  EmulatedKernels(const EmulatedKernels&) = delete;
  EmulatedKernels& operator=(const EmulatedKernels&) = delete;

  // Runs prepack, if there is one, and the kernel, in a process of its own. `arrays` holds inputs and constants by name
  // and gets the outputs, those of the last run; they are left out unless the status is Ok, as is `writes`.
  EmulationReport run(std::size_t index, NamedArrays& arrays, const EmulationOptions& options = {},
                      EmulationWrites* writes = nullptr) const;

 private:
  EmulatedKernels() = default;
  TemporaryFolder folder_{"emulator"};
  std::string library_;
  std::vector<KernelManifest> manifests_;
  std::vector<EmulationReport> launches_;  // of each kernel: can it be launched at all?
};

// One kernel: compile and run.
EmulationReport emulate(const Kernel& kernel, NamedArrays& arrays, const EmulationOptions& options = {});

// The compiler that would be used: $TRACEWRIGHT_CXX, else g++, c++ or clang++ from the path. "" with what was tried in
// `error`.
std::string emulation_compiler(std::string& error);

}  // namespace tw

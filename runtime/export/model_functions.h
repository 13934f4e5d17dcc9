// The functions of a compiled model's library as their callers see them (model_declarations of model_plan.h writes the
// same into its header). Needs nothing but the kernel ABI, so that the Python module has it without libtracewright.
#pragma once
#include <cstdint>

#include "backends/kernel_abi.h"

namespace tw {

using ModelCreate = int32_t (*)(const char* weights, int workers, void** context);
using ModelCreateEntry = int32_t (*)(const char* weights, int entry, int workers, void** context);
using ModelDestroy = void (*)(void* context);
using ModelRunFunction = int32_t (*)(void* context, const void* const* inputs, void* const* outputs,
                                     tw_parallel_for parallel_for, void* pool);

// Of devices.
using ModelProblem = const char* (*)();  // what went wrong in this thread's latest call
using ModelHasGraph = int32_t (*)(const void* context);
using ModelUseGraph = void (*)(void* context, int32_t use);
using ModelTimeSteps = int32_t (*)(void* context, double* seconds);
using ModelTimeRun = int32_t (*)(void* context, int32_t calls, double* seconds);

inline constexpr int32_t kModelNoDevice = 6;  // of ModelCreate: there is none, or no driver

// In words what a ModelCreate returned other than 0.
inline const char* why_not_created(int32_t code) {
  return code == 1                ? "this CPU lacks instructions that the model uses"
         : code == 2              ? "the file of weights cannot be read or belongs to another model"
         : code == 5              ? "the library has no such entry"
         : code == kModelNoDevice ? "there is no such device, or no driver for it"
         : code == 7              ? "the device's driver refuses what it is asked for"
                                  : "there is not enough memory";
}

}  // namespace tw

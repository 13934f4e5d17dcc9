// Conformance: does each device function that emitted CUDA C uses do on this GPU what its CPU body in the emulator
// (runtime/emulator/device_functions.h) does? One small kernel for each, run by both on the same inputs. The emulator's
// results may be made elsewhere, where there is a C++ compiler, and carried in a file. It times nothing.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "backends/device.h"
#include "backends/kernel.h"

namespace tw::gpu_bench {

// What a result is compared as. NaNs are equal to each other.
enum class Element : u8 { F32, F64, I32, F16, BF16 };

struct Case {
  std::string name;  // the function, or functions
  Kernel kernel;     // CUDA C: inputs x, y, z, output `out`
  std::vector<std::vector<u8>> inputs;
  Element element = Element::F32;
  // Units in the last place that a result may be off; 0 = the same bits. NVIDIA's documented error, and one for the C
  // library's.
  int ulps = 0;
  // Above 0: how far an f32 may be off instead, where sums are taken in any order.
  double tolerance = 0;
  std::string arch;  // what alone has such instructions, "sm_90a" for GPUs of "sm_90"; "" = all have them
};
const std::vector<Case>& cases();

// Outputs by the case's name.
using Outputs = std::map<std::string, std::vector<u8>>;
// Of the emulator; needs a C++ compiler. Empty with why in `error`.
Outputs emulate_cases(std::string& error);
std::string print_outputs(const Outputs& outputs);  // JSON
Outputs parse_outputs(const std::string& text, std::string& error);

struct Conformance {
  std::string name;
  bool is_right = false;
  double worst = 0;  // units in the last place, or the difference where there is a tolerance; bits that differ count 1
                     // where ulps is 0
  std::string problem;  // why there is no result, or the first wrong element
};
// Compares one case's results.
Conformance compare(const Case& one, const std::vector<u8>& actual, const std::vector<u8>& expected);
// Compiles a case for the device with NVRTC, runs it and compares.
Conformance check_on(device::Device& device, const Case& one, const Outputs& expected);

}  // namespace tw::gpu_bench

#include "bench/gpu/loaded.h"

#include "dsl/base/text.h"

namespace tw::gpu_bench {
namespace {

device::Memory* memory_for(device::Device& device, const KernelArgument& argument, Problem& problem, Loaded& loaded) {
  for (Array& array : problem.arrays()) {
    if (array.name == argument.name && array.memory->bytes() == argument.bytes) return array.memory.get();
  }
  std::unique_ptr<device::Memory>& memory = loaded.packed[argument.name];
  if (!memory) memory = std::make_unique<device::Memory>(device, argument.bytes);
  return memory->is_there() ? memory.get() : nullptr;
}

}  // namespace

std::unique_ptr<Loaded> load(device::Device& device, const Kernel& kernel, Problem& problem, std::string& error) {
  auto out = std::make_unique<Loaded>();
  std::vector<device::Memory*> pointers[2];
  for (int entry = 0; entry < 2; ++entry) {
    for (const KernelArgument& argument : entry == 0 ? kernel.manifest.prepack : kernel.manifest.run) {
      pointers[entry].push_back(memory_for(device, argument, problem, *out));
      if (!pointers[entry].back()) return error = cat("no memory for `", argument.name, "`"), nullptr;
    }
  }
  if (i64 bytes = kernel.manifest.scratch_bytes(1); bytes > 0) {
    out->scratch = std::make_unique<device::Memory>(device, bytes);
    if (!out->scratch->is_there()) return error = "no memory for scratch", nullptr;
  }
  out->kernel =
      std::make_unique<device::LoadedKernel>(device, kernel, pointers[0], pointers[1], out->scratch.get(), error);
  return error.empty() ? std::move(out) : nullptr;
}

}  // namespace tw::gpu_bench

#include "sampler/models/reference_runner.h"

#include <cstring>

#include "backends/target.h"
#include "runtime/measure/aligned_bytes.h"
#include "runtime/measure/object_loader.h"
#include "sampler/search/trial.h"

namespace tw {

std::unique_ptr<ReferenceRunner> ReferenceRunner::create(std::string& error) {
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(host_target()));
  if (!compiler) return error = to_string(compiler.rejected()), nullptr;
  return std::unique_ptr<ReferenceRunner>(new ReferenceRunner(std::move(*compiler)));
}

ReferenceRunner::ReferenceRunner(LlvmCompiler compiler)
    : compiler_(std::move(compiler)), pool_(tw_pool_create(host_target().threads, nullptr)) {}

std::optional<ReferenceRunner::Results> ReferenceRunner::run(const Kernel& kernel,
                                                             const std::vector<const HostArray*>& operands,
                                                             std::string& error) const {
  LoadedObject object = load_object(kernel.code, error);
  if (!error.empty()) return std::nullopt;
  const KernelManifest& manifest = kernel.manifest;
  std::vector<AlignedBytes> memory;
  std::vector<void*> buffers;
  std::size_t next = 0;
  for (const KernelArgument& argument : manifest.run) {
    memory.emplace_back(argument.bytes);
    buffers.push_back(memory.back().get());
    if (!buffers.back()) return error = "there is not enough memory", std::nullopt;
    if (argument.role != ArgumentRole::Output)
      std::memcpy(buffers.back(), operands[next]->bytes.data(), operands[next]->bytes.size()), ++next;
  }
  AlignedBytes scratch(manifest.scratch_bytes(host_target().threads));
  if (!scratch.get()) return error = "there is not enough memory", std::nullopt;
  if (object.run(manifest.symbol)(buffers.data(), scratch.get(), pool_ ? tw_pool_run : nullptr, pool_) != 0)
    return error = "its reference kernel failed", std::nullopt;
  Results results;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const KernelArgument& argument = manifest.run[i];
    if (argument.role != ArgumentRole::Output) continue;
    HostArray array = HostArray::zeros(argument.dtype, argument.shape);
    std::memcpy(array.bytes.data(), buffers[i], array.bytes.size());
    results.emplace(argument.name, std::move(array));
  }
  return results;
}

}  // namespace tw

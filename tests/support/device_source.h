// Programs lowered for devices, and their source.
#pragma once
#include <string>
#include <string_view>

#include "backends/gpu_source/source.h"
#include "dsl/passes/lower_gpu.h"

namespace tw::test {

Result<LoweredGpuProgram> lowered(Arena& arena, const Program& program, const GpuLimits& limits = {});

// Of a scheduled workload, with kernels named mm_...; "rejected: ..." if it cannot be lowered or printed.
std::string source(const std::string& use, const std::string& schedule, SourceLanguage language);

// How often words stand in a text in front of `end`.
std::size_t count_of(const std::string& text, std::string_view words, std::size_t end = std::string::npos);

}  // namespace tw::test

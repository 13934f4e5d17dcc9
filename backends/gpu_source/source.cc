#include "backends/gpu_source/source.h"

#include <algorithm>

#include "backends/gpu_source/printer.h"
#include "backends/kernel_arguments.h"
#include "backends/overwrites.h"
#include "dsl/base/check.h"
#include "dsl/base/text.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

// What some kernel of a program has.
struct Used {
  bool doubles = false, halves = false, whole_numbers = false;
};

// Does it round a float to a whole number, or choose between whole numbers by comparing floats?
bool makes_whole_number(const Node* node) {
  if (const Cast* cast = as<Cast>(node)) return is_float(cast->value->type.dtype) && !is_float(cast->type.dtype);
  if (const Select* select = as<Select>(node); select && !is_float(select->type.dtype)) {
    bool compares = false;
    for_each<Binary>(select->condition, [&](const Binary* binary) {
      compares |= binary->op >= BinaryOp::Lt && binary->op <= BinaryOp::Ge && is_float(binary->a->type.dtype);
    });
    return compares;
  }
  const Call* call = as<Call>(node);
  return call &&
         (call->function == Function::Floor || call->function == Function::Ceil || call->function == Function::Round);
}

void add_used(const Array<GpuKernel>& kernels, Used& used) {
  auto add = [&](DType type) {
    used.doubles |= type == DType::F64;
    used.halves |= is_half(type);
  };
  for (const GpuKernel& kernel : kernels) {
    for (const KernelParam& param : kernel.params) add(param.buffer->dtype);
    walk(kernel.body, [&](const Node* node) {
      if (node->kind < Kind::Store) add(static_cast<const Expr*>(node)->type.dtype);
      used.whole_numbers |= makes_whole_number(node);
      return true;
    });
  }
}

class SourcePrinter {
 public:
  SourcePrinter(const gpu::Language& language, std::string symbol, i64 most_shared_bytes)
      : language_(language), symbol_(std::move(symbol)), most_shared_bytes_(most_shared_bytes) {}

  Result<std::vector<KernelLaunch>> print(const Array<GpuKernel>& kernels, const char* entry) {
    std::vector<KernelLaunch> launches;
    for (const GpuKernel& kernel : kernels) {
      KernelLaunch launch{.name = cat(symbol_, "_", entry, "_", launches.size()),
                          .groups = kernel.extents.groups,
                          .threads = kernel.extents.threads};
      for (const KernelParam& param : kernel.params)
        launch.pointers.push_back({param.is_scratch, param.at, bytes_of(param.buffer)});
      const auto& g = launch.groups;
      text_ += cat("\n// ", kernel.name, ": ", g[0], " x ", g[1], " x ", g[2], " work-groups\n");
      gpu::KernelPrinter printer(language_, kernel, launch.name, helpers_);
      text_ += printer.print();
      if (printer.shared_bytes() > most_shared_bytes_)
        return reject("the code of kernel `{a}` has {0} bytes in scope shared, more than {1}", kernel.name,
                      printer.shared_bytes(), most_shared_bytes_);
      launch.dynamic_shared_bytes = printer.dynamic_shared_bytes();
      launches.push_back(std::move(launch));
    }
    return launches;
  }

  std::string text(const Used& used) const {
    std::string out = language_.prelude;
    if (used.halves && !language_.has_vectors) out += gpu::half_functions();
    if (used.halves && language_.has_vectors)
      out += "#ifdef cl_khr_fp16\n#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n#endif\n";
    if (used.doubles && language_.has_vectors) out += "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n";
    for (const auto& [name, definition] : helpers_) out += definition;
    return out + text_;
  }

 private:
  gpu::Language language_;
  std::string symbol_, text_;
  i64 most_shared_bytes_;
  gpu::Helpers helpers_;
};

const gpu::Language& language_of(SourceLanguage language) {
  return language == SourceLanguage::OpenClC ? gpu::opencl_c() : gpu::cuda_c();
}

}  // namespace

Result<Kernel> print_device_source(const LoweredGpuProgram& program, SourceLanguage language, std::string_view symbol,
                                   i64 most_shared_bytes, const std::string& gpu) {
  gpu::Language chosen = language_of(language);
  chosen.gpu = gpu.c_str();
  Used used;
  add_used(program.run, used);
  add_used(program.prepack, used);
  // A unit in the last place of a quotient may be a whole number more or less, wherever schedules have put the
  // rounding.
  if (used.whole_numbers) chosen.divide = nullptr;
  Kernel out;
  out.manifest = {.symbol = std::string(symbol),
                  .run = kernel_arguments(program.run_arguments),
                  .prepack = kernel_arguments(program.prepack_arguments),
                  .scratch_shared_bytes = program.scratch_bytes,
                  .overwrites = overwrites_of(program)};
  SourcePrinter printer(chosen, std::string(symbol), most_shared_bytes);
  TW_TRY(out.manifest.prepack_launches, printer.print(program.prepack, "prepack"));
  TW_TRY(out.manifest.run_launches, printer.print(program.run, "run"));
  out.code = printer.text(used);
  return out;
}

void allow_overwrites(Kernel& kernel, SourceLanguage language, const std::vector<Overwrite>& pairs) {
  const std::string word = cat(" ", language_of(language).restrict_word, " ");
  auto is_shared = [&](const KernelLaunch::Pointer& pointer) {
    return !pointer.is_scratch && std::ranges::any_of(pairs, [&](const Overwrite& pair) {
      return pointer.at == static_cast<i64>(pair.output) || pointer.at == static_cast<i64>(pair.input);
    });
  };
  for (const KernelLaunch& launch : kernel.manifest.run_launches) {
    // The parameters are in the order of the launch's pointers, and `)` ends them.
    std::size_t at = kernel.code.find(cat(" ", launch.name, "("));
    TW_CHECK(at != std::string::npos, "a launch of a kernel that the source does not have");
    for (const KernelLaunch::Pointer& pointer : launch.pointers) {
      at = kernel.code.find_first_of("*)", at);
      TW_CHECK(at != std::string::npos && kernel.code[at] == '*', "a kernel with fewer parameters than its launch");
      ++at;
      if (is_shared(pointer) && kernel.code.compare(at, word.size(), word) == 0)
        kernel.code.replace(at, word.size(), " ");
    }
  }
}

}  // namespace tw

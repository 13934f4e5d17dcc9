#include "backends/cuda/nvrtc.h"

#include <dlfcn.h>

#include <cstdlib>
#include <sstream>

#include "backends/cuda/toolkit.h"
#include "dsl/base/text.h"

namespace tw::cuda {
namespace {

// NVRTC's C interface, as far as it is used; results are 0 for success.
struct Api {
  int (*version)(int* major, int* minor);
  const char* (*error_text)(int result);
  int (*create)(void** program, const char* source, const char* name, int headers, const char* const* texts,
                const char* const* names);
  int (*compile)(void* program, int options, const char* const* texts);
  int (*log_size)(void* program, std::size_t* bytes);
  int (*log)(void* program, char* text);
  int (*ptx_size)(void* program, std::size_t* bytes);
  int (*ptx)(void* program, char* text);
  int (*cubin_size)(void* program, std::size_t* bytes);
  int (*cubin)(void* program, char* code);
  int (*destroy)(void** program);
};

struct Loading {
  Api api{};
  std::string error, place;

  Loading() {
    const char* named = std::getenv("TRACEWRIGHT_NVRTC");
    std::vector<std::string> names = {"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"};
    if (named) names = {named};
    void* library = open_toolkit_library(names, RTLD_NOW | RTLD_LOCAL, place, error);
    if (!library) {
      error = cat("NVRTC: ", error, "; it is part of the CUDA toolkit");
      return;
    }
    auto load = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (!function) error = cat(place, " has no ", name, "; CUDA 12 or newer is needed");
    };
    load(api.version, "nvrtcVersion");
    load(api.error_text, "nvrtcGetErrorString");
    load(api.create, "nvrtcCreateProgram");
    load(api.compile, "nvrtcCompileProgram");
    load(api.log_size, "nvrtcGetProgramLogSize");
    load(api.log, "nvrtcGetProgramLog");
    load(api.ptx_size, "nvrtcGetPTXSize");
    load(api.ptx, "nvrtcGetPTX");
    load(api.cubin_size, "nvrtcGetCUBINSize");
    load(api.cubin, "nvrtcGetCUBIN");
    load(api.destroy, "nvrtcDestroyProgram");
    if (error.empty()) open_builtins();
  }

 private:
  // NVRTC opens this library by its name alone, which finds it only in the library path or where it is open already.
  void open_builtins() const {
    int major = 0, minor = 0;
    std::string folder = place.substr(0, place.rfind('/') + 1);
    if (folder.empty() || api.version(&major, &minor) != 0) return;
    dlopen(cat(folder, "libnvrtc-builtins.so.", major, ".", minor).c_str(), RTLD_NOW | RTLD_LOCAL);
  }
};

const Api* api(std::string& error, std::string* place = nullptr) {
  static const Loading loading;
  error = loading.error;
  if (place) *place = loading.place;
  return error.empty() ? &loading.api : nullptr;
}

std::string text_of(void* program, int (*size)(void*, std::size_t*), int (*get)(void*, char*), bool is_text) {
  std::size_t bytes = 0;
  if (size(program, &bytes) != 0 || bytes == 0) return "";
  std::string out(bytes, 0);
  if (get(program, out.data()) != 0) return "";
  if (is_text && !out.empty() && out.back() == 0) out.pop_back();
  return out;
}

i64 number_before(std::string_view line, std::string_view unit) {
  std::size_t end = line.find(unit);
  if (end == std::string_view::npos) return 0;
  std::size_t begin = end;
  while (begin > 0 && std::isdigit(static_cast<unsigned char>(line[begin - 1]))) --begin;
  return std::atoll(std::string(line.substr(begin, end - begin)).c_str());
}

// "(C7511) Potential Performance Loss: ..." of a line of the log, or "". That the fence before wgmma stands elsewhere,
// for sums that begin with zeros, costs nothing.
std::string_view fatal_warning(std::string_view line) {
  std::size_t at = line.find("(C75");
  bool is_fatal = at != std::string_view::npos && !line.substr(at).starts_with("(C7519)");
  return is_fatal ? line.substr(at) : std::string_view();
}

}  // namespace

std::optional<std::string> nvrtc_version(std::string& error) {
  std::string place;
  const Api* nvrtc = api(error, &place);
  int major = 0, minor = 0;
  if (!nvrtc || nvrtc->version(&major, &minor) != 0) return std::nullopt;
  return cat(major, ".", minor, " (", place, ")");
}

std::optional<Compiled> compile(const std::string& source, const std::string& arch, std::string& error) {
  const Api* nvrtc = api(error);
  if (!nvrtc) return std::nullopt;
  void* program = nullptr;
  int result = nvrtc->create(&program, source.c_str(), "kernel.cu", 0, nullptr, nullptr);
  std::string architecture = cat("--gpu-architecture=", arch);
  const char* options[] = {architecture.c_str(), "--std=c++17", "-default-device", "--ptxas-options=-v",
                           "--diag-suppress=177"};
  if (result == 0) result = nvrtc->compile(program, static_cast<int>(std::size(options)), options);
  Compiled out;
  if (program) out.log = text_of(program, nvrtc->log_size, nvrtc->log, true);
  if (result == 0) {
    out.ptx = text_of(program, nvrtc->ptx_size, nvrtc->ptx, true);
    out.cubin = text_of(program, nvrtc->cubin_size, nvrtc->cubin, false);
    out.kernels = parse_log(out.log);
    std::optional<std::vector<CubinKernel>> code = read_cubin(out.cubin, error);
    if (code) out.code = std::move(*code);
    if (!code) result = -1;
  } else {
    error = cat("NVRTC does not compile the source: ", nvrtc->error_text(result), ": ", out.log.substr(0, 400));
  }
  if (program) nvrtc->destroy(&program);
  return result == 0 ? std::optional(std::move(out)) : std::nullopt;
}

std::vector<KernelUse> parse_log(std::string_view log) {
  std::vector<KernelUse> out;
  std::istringstream lines{std::string(log)};
  constexpr std::string_view kEntry = "Compiling entry function '";
  for (std::string line; std::getline(lines, line);) {
    if (std::size_t at = line.find(kEntry); at != std::string::npos) {
      std::size_t begin = at + kEntry.size();
      out.push_back({.name = line.substr(begin, line.find('\'', begin) - begin)});
    }
    if (out.empty()) continue;
    KernelUse& use = out.back();
    if (line.find("spill stores") != std::string::npos) {
      use.stack_bytes = number_before(line, " bytes stack");
      use.spill_store_bytes = number_before(line, " bytes spill stores");
      use.spill_load_bytes = number_before(line, " bytes spill loads");
    }
    if (line.find("Used ") != std::string::npos) {
      use.registers = static_cast<int>(number_before(line, " registers"));
      use.shared_bytes = number_before(line, " bytes smem");
    }
  }
  return out;
}

std::string why_unfit(const Compiled& compiled) {
  std::istringstream lines(compiled.log);
  for (std::string line; std::getline(lines, line);) {
    if (std::string_view warning = fatal_warning(line); !warning.empty()) return cat("ptxas warns: ", warning);
  }
  for (const KernelUse& use : compiled.kernels) {
    i64 spilled = use.spill_store_bytes + use.spill_load_bytes;
    if (spilled > 0)
      return cat("kernel `", use.name, "` needs more registers than a thread has: ", use.spill_store_bytes,
                 " bytes of spill stores, ", use.spill_load_bytes, " of loads, with ", use.registers, " registers");
  }
  for (const CubinKernel& kernel : compiled.code) {
    if (kernel.stack_bytes > 0 || kernel.count("STL") > 0)
      return cat("kernel `", kernel.name, "` keeps ", kernel.stack_bytes,
                 " bytes of each thread's data in memory, not in registers");
  }
  return "";
}

}  // namespace tw::cuda

// Object loader: makes the code of a relocatable ELF object for this machine, x86-64 or aarch64 (what the LLVM backend
// writes), callable in this process, in tens of microseconds, without a linker and without files. Used by
// the worker, by bench and by replay. It does not isolate anything: code from a stranger must only
// be loaded by the worker. It runs no constructors and knows no TLS, no IFUNC and no shared
// libraries. Kernels keep no state, so their .data and .bss are read-only once loaded.
#pragma once
#include <string>
#include <string_view>
#include <unordered_map>

#include "backends/kernel_abi.h"

namespace tw {

// Code in memory, callable as long as this lives. Movable.
class LoadedObject {
 public:
  LoadedObject() = default;
  LoadedObject(LoadedObject&& other) noexcept { *this = std::move(other); }
  LoadedObject& operator=(LoadedObject&& other) noexcept;
  ~LoadedObject();

  // The address of a global function or variable of the object, or nullptr.
  void* find(const std::string& symbol) const;
  // The entry points `<prefix>_run` and `<prefix>_prepack`, or nullptr.
  tw_run_function run(const std::string& prefix) const;
  tw_prepack_function prepack(const std::string& prefix) const;
  // [begin, end) of what was mapped, and where the code in it ends and the read-only data begins.
  const char* begin() const { return memory_; }
  const char* code_end() const { return memory_ + code_bytes_; }
  const char* end() const { return memory_ + bytes_; }

 private:
  friend struct ObjectLoading;
  char* memory_ = nullptr;
  std::size_t bytes_ = 0, code_bytes_ = 0;
  std::unordered_map<std::string, void*> symbols_;
};

// Loads `object`. On failure `error` says in one sentence what is not understood (the relocation,
// symbol or section, by name) and the result is empty; on success `error` is empty. Undefined
// symbols may be those of `external_symbol`.
LoadedObject load_object(std::string_view object, std::string& error);

// The functions that compiled kernels may call: memcpy, memmove, memset, float and double libm,
// conversions of f16. nullptr for any other name.
void* external_symbol(std::string_view name);

}  // namespace tw

// Library: compiled kernels, opened. Knows where their arrays of shared memory lie. Used by the emulator's main
// program.
#pragma once
#include <string>
#include <vector>

#include "runtime/emulator/memory.h"

namespace tw::emulator {

struct Library {
  std::vector<Region> shared;  // in the order of addresses
  char *shared_begin = nullptr, *shared_end = nullptr;
  u64 image_begin = 0, image_end = 0;
  void* handle = nullptr;

  void* find(const std::string& symbol) const;
};

// False with why in `error`.
bool open_library(const std::string& path, Library& library, std::string& error);

}  // namespace tw::emulator

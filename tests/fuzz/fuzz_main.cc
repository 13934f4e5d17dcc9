// A libFuzzer program for the target that FUZZ_TARGET names. Its seeds are written with `--write-seeds FOLDER` as the only arguments.
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/fuzz/fuzz_targets.h"

namespace {
const tw::fuzz::Target& target() {
  for (const tw::fuzz::Target& target : tw::fuzz::targets()) {
    if (target.name == FUZZ_TARGET) return target;
  }
  std::abort();
}
}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc != 3 || std::strcmp((*argv)[1], "--write-seeds") != 0) return 0;
  std::filesystem::create_directories((*argv)[2]);
  int number = 0;
  for (const std::string& seed : target().seeds) std::ofstream(std::filesystem::path((*argv)[2]) / std::to_string(number++)) << seed;
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const tw::fuzz::Target& chosen = target();
  chosen.run(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}

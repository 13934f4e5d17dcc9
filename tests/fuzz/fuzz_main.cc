// A libFuzzer program for the target that the environment variable FUZZ_TARGET names. As the only arguments `--list`
// prints the names of all targets, `--write-seeds FOLDER` writes the seeds of one.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/fuzz/fuzz_targets.h"

namespace {
const tw::fuzz::Target& target() {
  const char* wanted = std::getenv("FUZZ_TARGET");
  for (const tw::fuzz::Target& target : tw::fuzz::targets()) {
    if (wanted && target.name == wanted) return target;
  }
  std::fputs("FUZZ_TARGET names no target; --list prints them\n", stderr);
  std::exit(2);
}
}  // namespace

extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc == 2 && std::strcmp((*argv)[1], "--list") == 0) {
    for (const tw::fuzz::Target& target : tw::fuzz::targets()) std::puts(target.name.c_str());
    std::exit(0);
  }
  if (*argc != 3 || std::strcmp((*argv)[1], "--write-seeds") != 0) return 0;
  std::filesystem::create_directories((*argv)[2]);
  int number = 0;
  for (const std::string& seed : target().seeds)
    std::ofstream(std::filesystem::path((*argv)[2]) / std::to_string(number++)) << seed;
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const tw::fuzz::Target& chosen = target();
  chosen.run(std::string(reinterpret_cast<const char*>(data), size));
  return 0;
}

// Makes a compiled kernel callable in this process: writes the object to a file, links it with ld and opens it.
#pragma once
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>

#include "backends/kernel.h"
#include "backends/kernel_abi.h"

namespace tw {

class LoadedKernel {
 public:
  explicit LoadedKernel(const Kernel& kernel) {
    char folder[] = "/tmp/tw-kernel-XXXXXX";
    if (!mkdtemp(folder)) return;
    std::string object = std::string(folder) + "/kernel.o", library = std::string(folder) + "/kernel.so";
    std::ofstream(object, std::ios::binary) << kernel.code;
    std::string link = "ld -shared -o " + library + " " + object + " -lm";
    if (std::system(link.c_str()) == 0) handle_.reset(dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL));
    std::remove(object.c_str()), std::remove(library.c_str()), rmdir(folder);
    if (!handle_) return;
    run = reinterpret_cast<tw_run_function>(dlsym(handle_.get(), (kernel.manifest.symbol + "_run").c_str()));
    prepack = reinterpret_cast<tw_prepack_function>(dlsym(handle_.get(), (kernel.manifest.symbol + "_prepack").c_str()));
  }
  tw_run_function run = nullptr;
  tw_prepack_function prepack = nullptr;

 private:
  struct Close {
    void operator()(void* handle) const { dlclose(handle); }
  };
  std::unique_ptr<void, Close> handle_;
};

}  // namespace tw

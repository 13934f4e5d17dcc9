// For run_kernel.c: the kernel is the object that OBJECT names, and our own loader brings it into memory.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "runtime/measure/object_loader.h"

namespace {

const tw::LoadedObject& kernel() {
  static const tw::LoadedObject loaded = [] {
    std::ifstream file(std::getenv("OBJECT"), std::ios::binary);
    const std::string bytes((std::istreambuf_iterator<char>(file)), {});
    std::string error;
    tw::LoadedObject object = tw::load_object(bytes, error);
    if (!error.empty()) std::fprintf(stderr, "%s\n", error.c_str()), std::exit(2);
    return object;
  }();
  return loaded;
}

}  // namespace

extern "C" int32_t kernel_run(void* const* buffers, void* scratch, tw_parallel_for parallel_for, void* pool) {
  return kernel().run("kernel")(buffers, scratch, parallel_for, pool);
}

extern "C" int32_t kernel_prepack(void* const* buffers) {
  const tw_prepack_function prepack = kernel().prepack("kernel");
  return prepack ? prepack(buffers) : 0;
}

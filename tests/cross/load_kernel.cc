// The object loader on a machine of another kind, in its emulator: loads an object of tests/kernels/honest.c, calls its
// `relocations`, and prints what came of it in a line.
//   load_kernel OBJECT
#include <cmath>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>

#include "runtime/measure/object_loader.h"

int main(int, char** words) {
  std::ifstream file(words[1], std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), {});
  std::string error;
  tw::LoadedObject loaded = tw::load_object(bytes, error);
  if (!error.empty()) return std::printf("%s\n", error.c_str()), 1;
  tw_run_function run = loaded.run("relocations");
  if (!run) return std::printf("no entry point\n"), 1;
  constexpr int kCount = 1003;
  static float x[kCount], y[kCount];
  for (int i = 0; i < kCount; ++i) x[i] = static_cast<float>(i) / 500 - 1;
  void* buffers[] = {x, y};
  if (run(buffers, nullptr, nullptr, nullptr) != 0) return std::printf("it failed\n"), 1;
  for (int i = 0; i < kCount; ++i) {
    const float wanted = std::tanh(std::tanh(x[i])) + static_cast<float>(i % 2 ? 4 : 1) * 3.25f;
    if (std::abs(y[i] - wanted) > 1e-5f) return std::printf("%g in place of %g at %d\n", y[i], wanted, i), 1;
  }
  std::printf("right\n");
  return 0;
}

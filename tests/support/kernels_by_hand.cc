#include "support/kernels_by_hand.h"

#include "dsl/base/text.h"

namespace tw::test {
namespace {

Kernel by_hand(const std::string& body, i64 threads) {
  Kernel kernel;
  kernel.code = cat("extern \"C\" __global__ void __launch_bounds__(", threads, ") k(const float* x, float* y) {\n",
                    body, "\n}\n");
  kernel.manifest.symbol = "k";
  kernel.manifest.run = {{"x", ArgumentRole::Input, DType::F32, {threads}, 4 * threads},
                         {"y", ArgumentRole::Output, DType::F32, {threads}, 4 * threads}};
  kernel.manifest.run_launches = {{"k", {1, 1, 1}, {threads, 1, 1}, {{false, 0, 0}, {false, 1, 0}}}};
  return kernel;
}

}  // namespace

EmulationReport emulate_by_hand(const std::string& body, std::vector<double>& y, i64 threads, int runs) {
  NamedArrays arrays;
  HostArray x = HostArray::zeros(DType::F32, {threads});
  for (i64 i = 0; i < threads; ++i) x.set(i, static_cast<double>(i));
  arrays["x"] = x;
  EmulationReport report = emulate(by_hand(body, threads), arrays, {.runs = runs});
  for (i64 i = 0; arrays.count("y") && i < threads; ++i) y.push_back(arrays["y"].get(i));
  return report;
}

}  // namespace tw::test

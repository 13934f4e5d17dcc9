// What devices of this machine are in the words of targets.
#include "runtime/measure/found_device.h"

#include <gtest/gtest.h>

namespace tw {
namespace {

TEST(FoundDevice, IsTheDescribedOneOfItsNameAndArch) {
  struct Case {
    const char *line, *arch, *gpu;
  };
  for (const Case& c : {Case{"0: NVIDIA H200 (sm_90, 140 GiB, driver for CUDA 13.0)", "sm_90a", "h200"},
                        Case{"NVIDIA H100 80GB HBM3 (sm_90, 79 GiB, driver for CUDA 12.4)", "sm_90a", "h100"},
                        Case{"NVIDIA A100-SXM4-80GB (sm_80, 79 GiB, driver for CUDA 13.0)", "sm_80", "a100"},
                        Case{"NVIDIA GeForce RTX 4090 (sm_89, 23 GiB, driver for CUDA 13.0)", "sm_89", "rtx4090"},
                        Case{"NVIDIA GeForce RTX 4090 Laptop GPU (sm_89, 15 GiB, driver for CUDA 13.0)", "sm_89", ""},
                        Case{"NVIDIA A100-SXM4-40GB MIG 1g.5gb (sm_80, 4 GiB, driver for CUDA 13.0)", "sm_80", ""},
                        Case{"NVIDIA RTX A1000 (sm_86, 7 GiB, driver for CUDA 13.0)", "sm_86", ""},
                        Case{"NVIDIA GH200 480GB (sm_90, 95 GiB, driver for CUDA 13.0)", "sm_90a", ""},
                        Case{"Another H100 (sm_86, 7 GiB, driver for CUDA 13.0)", "sm_86", ""},
                        Case{"NVIDIA B300 (sm_103, 268 GiB, driver for CUDA 13.0)", "sm_100", ""},
                        Case{"NVIDIA GB10 (sm_121, 119 GiB, driver for CUDA 13.0)", "sm_120", ""},
                        Case{"pthread-skylake-avx512 (Portable Computing Language)", "", ""}}) {
    FoundDevice found = found_device(c.line);
    EXPECT_EQ(found.arch, c.arch) << c.line;
    EXPECT_EQ(found.gpu, c.gpu) << c.line;
  }
  EXPECT_EQ(cuda_of_driver("NVIDIA H100 80GB HBM3 (sm_90, 79 GiB, driver for CUDA 12.4)"), 12);
  EXPECT_EQ(cuda_of_driver("pthread-skylake-avx512 (Portable Computing Language)"), 0);
}

}  // namespace
}  // namespace tw

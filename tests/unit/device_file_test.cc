// Descriptions of GPUs: those that are built in, errors in a user's file, and occupancy against NVIDIA's own header
// where it is installed.
#include "runtime/lists/device_file.h"

#include <gtest/gtest.h>

#include "backends/kernel.h"
#include "dsl/base/text.h"
#include "support/support.h"
#if TW_HAS_CUDA_OCCUPANCY
#include <cuda_occupancy.h>
#endif

namespace tw {
namespace {

Target cuda_target(const std::string& text, std::string* errors = nullptr) {
  Source source{"target", text};
  Diagnostics diagnostics(source);
  std::optional<Target> target = parse_target(text, 0, diagnostics);
  if (errors) *errors = diagnostics.render();
  EXPECT_TRUE(target || errors) << diagnostics.render();
  return target.value_or(Target{});
}

TEST(DeviceFile, BuiltInOnesAreWholeAndKnownToTargets) {
  EXPECT_EQ(built_in_devices(), (std::vector<std::string>{"a100", "h100", "h200", "rtx4090"}));
  for (const std::string& name : built_in_devices()) {
    std::string errors;
    std::optional<GpuDevice> device = device_of(cuda_target("cuda -device=" + name), errors);
    ASSERT_TRUE(device) << errors;
    EXPECT_EQ(device->name, name);
    EXPECT_EQ(device->arch, cuda_target("cuda -device=" + name).arch);
    EXPECT_EQ(device->shared_per_block, cuda_target("cuda -device=" + name).shared_bytes);
    EXPECT_GT(occupancy(*device, {256, 64, 16 << 10}), 0);
  }
}

TEST(DeviceFile, AnArchHasADefault) {
  std::string errors;
  EXPECT_EQ(device_of(cuda_target("cuda -arch=sm_80"), errors)->name, "a100");
  EXPECT_EQ(device_of(cuda_target("cuda -arch=sm_90a"), errors)->name, "h100");
  EXPECT_EQ(device_of(cuda_target("cuda -arch=sm_90"), errors)->name, "h100");
  EXPECT_EQ(device_of(cuda_target("cuda -arch=sm_90a -device=h200"), errors)->name, "h200");
  EXPECT_EQ(errors, "");
  EXPECT_FALSE(device_of(cuda_target("cuda -arch=sm_75"), errors));
  EXPECT_EQ(errors,
            "there is no description of a device with arch sm_75; there are a100, h100, h200, rtx4090. Write one as in "
            "docs/commands.md and "
            "name it: {kind: cuda, arch: sm_75, device: my_gpu.yaml}\n");
}

TEST(DeviceFile, TargetsSayWhatIsWrong) {
  std::string errors;
  Target unknown = cuda_target("cuda -arch=sm_80");
  unknown.gpu = "mine";
  EXPECT_FALSE(device_of(unknown, errors));
  EXPECT_EQ(errors, "there is no description of a device `mine`; there are a100, h100, h200, rtx4090\n");
  unknown.gpu = test::TemporaryDirectory().path() + "/..";  // a folder
  errors.clear();
  EXPECT_FALSE(device_of(unknown, errors));
  EXPECT_NE(errors.find("cannot be read"), std::string::npos) << errors;
  errors.clear();
  cuda_target("cuda -device=a101", &errors);
  EXPECT_EQ(errors,
            "target:1:14: error: unknown device `a101`\n    1 | cuda -device=a101\n      |              ^~~~\nnote: "
            "did you mean `a100`?\n");
  cuda_target("cuda -device=mine.yaml", &errors);
  EXPECT_NE(errors.find("a device that a file describes needs `arch` beside it"), std::string::npos) << errors;
  Target target = cuda_target("cuda -arch=sm_80 -device=h100");
  EXPECT_EQ(to_string(target), "cuda -arch=sm_80 -device=h100");
  errors.clear();
  EXPECT_FALSE(device_of(target, errors));
  EXPECT_EQ(errors, "the device `h100` has the arch sm_90a, but the target says sm_80\n");
  errors.clear();
  EXPECT_FALSE(device_of(cuda_target("cuda -arch=sm_80 -device=/no/such.yaml"), errors));
  EXPECT_EQ(errors, "the description /no/such.yaml of a device cannot be read\n");
}

TEST(DeviceFile, ErrorsNameTheirPlace) {
  test::TemporaryDirectory folder;
  std::string path = folder.path() + "/mine.yaml";
  test::write_file(
      path,
      "name: mine\narch: sm_86\nmultiprocessors: 46\nclock_mhz: fast\nshared_per_multiprocesor: "
      "102400\nshared_per_block: 101376\n"
      "memory_gb_per_second: 448\nl2_bytes: 4194304\nl2_bytes_per_cycle: 1500\nf32_per_cycle: 128\nf64_per_cycle: 2\n");
  std::string errors;
  EXPECT_FALSE(device_of(cuda_target(cat("cuda -arch=sm_86 -device=", path)), errors));
  EXPECT_EQ(
      errors,
      cat(path,
          ":4:12: error: expected `clock_mhz` to be an integer from 1 to 100000, found `fast`\n    4 | clock_mhz: "
          "fast\n"
          "      |            ^~~~\n",
          path,
          ":5:1: error: unknown key `shared_per_multiprocesor` in a device\n    5 | shared_per_multiprocesor: 102400\n"
          "      | ^~~~~~~~~~~~~~~~~~~~~~~~\nnote: did you mean `shared_per_multiprocessor`?\n"));
}

TEST(Occupancy, SaysWhichLimitIsBroken) {
  std::string errors;
  GpuDevice a100 = *device_of(cuda_target("cuda -device=a100"), errors);
  EXPECT_EQ(broken_limit(a100, {2048, 32, 0}), "a block has 2048 threads, a100 allows 1024");
  EXPECT_EQ(broken_limit(a100, {1024, 80, 0}), "a block takes 81920 registers, a100 has 65536");
  EXPECT_EQ(broken_limit(a100, {128, 32, 200000}), "a block has 200000 bytes of shared memory, a100 allows 166912");
  EXPECT_EQ(broken_limit(a100, {256, 128, 64 << 10}), "");
  EXPECT_EQ(occupancy(a100, {2048, 32, 0}), 0);
}

// Ours and NVIDIA's for every mixture of threads, registers and shared memory.
TEST(Occupancy, IsThatOfTheToolkit) {
#if TW_HAS_CUDA_OCCUPANCY
  int compared = 0, several = 0;
  for (const std::string& name : built_in_devices()) {
    std::string errors;
    GpuDevice device = *device_of(cuda_target("cuda -device=" + name), errors);
    cudaOccDeviceProp properties;
    properties.computeMajor = device.arch[3] - '0', properties.computeMinor = device.arch[4] - '0';
    properties.maxThreadsPerBlock = static_cast<int>(device.threads_per_block);
    properties.maxThreadsPerMultiprocessor = static_cast<int>(device.threads_per_multiprocessor);
    properties.regsPerBlock = properties.regsPerMultiprocessor = static_cast<int>(device.registers_per_multiprocessor);
    properties.warpSize = 32;
    properties.sharedMemPerBlock = kStaticSharedBytes;
    properties.sharedMemPerMultiprocessor = static_cast<std::size_t>(device.shared_per_multiprocessor);
    properties.sharedMemPerBlockOptin = static_cast<std::size_t>(device.shared_per_block);
    properties.reservedSharedMemPerBlock = static_cast<std::size_t>(device.shared_reserved_per_block);
    properties.numSms = static_cast<int>(device.multiprocessors);
    for (i64 threads : {1, 32, 96, 128, 160, 256, 384, 512, 1024, 1056}) {
      for (i64 registers : {8, 24, 32, 33, 64, 72, 96, 128, 168, 200, 255}) {
        for (i64 shared : {0, 100, 1024, 16384, 33000, 49152, 65536, 99 << 10, 131072, 163 << 10, 232448, 240000}) {
          cudaOccFuncAttributes attributes;
          attributes.maxThreadsPerBlock = 1024;
          attributes.numRegs = static_cast<int>(registers);
          attributes.sharedSizeBytes = 0;
          attributes.partitionedGCConfig = PARTITIONED_GC_OFF;
          attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
          attributes.maxDynamicSharedSizeBytes = static_cast<std::size_t>(shared);
          attributes.numBlockBarriers = 1;
          cudaOccDeviceState state;
          cudaOccResult result;
          ASSERT_EQ(
              cudaOccMaxActiveBlocksPerMultiprocessor(&result, &properties, &attributes, &state,
                                                      static_cast<int>(threads), static_cast<std::size_t>(shared)),
              CUDA_OCC_SUCCESS);
          int ours = occupancy(device, {threads, registers, shared});
          EXPECT_EQ(ours, result.activeBlocksPerMultiprocessor)
              << name << ": " << threads << " threads, " << registers << " registers, " << shared << " bytes";
          ++compared, several += ours > 1;
        }
      }
    }
  }
  EXPECT_EQ(compared, 4 * 10 * 11 * 12);
  EXPECT_GT(several, 1000);
#else
  GTEST_SKIP() << "cuda_occupancy.h of the CUDA toolkit was not found when this was built";
#endif
}

}  // namespace
}  // namespace tw

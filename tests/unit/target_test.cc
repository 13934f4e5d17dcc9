#include "backends/target.h"

#include <gtest/gtest.h>
#include <sched.h>

namespace tw {
namespace {

// The target, or the rendered errors.
struct Parsed {
  std::optional<Target> target;
  std::string errors;
};

Parsed parse(const std::string& text) {
  Source source{"target", text};
  Diagnostics diagnostics(source);
  Parsed parsed;
  parsed.target = parse_target(text, 0, diagnostics);
  parsed.errors = diagnostics.render();
  EXPECT_EQ(parsed.target.has_value(), !diagnostics.has_errors());
  return parsed;
}

TEST(Target, HostIsResolvedToExplicitNames) {
  const Target& host = host_target();
  EXPECT_FALSE(host.cpu.empty());
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  EXPECT_EQ(host.threads, CPU_COUNT(&set));
  EXPECT_GT(host.l1_bytes, 0);
  EXPECT_EQ(to_string(host).rfind("cpu -mcpu=" + host.cpu + " -threads=", 0), 0u) << to_string(host);
  EXPECT_EQ(*parse("cpu").target, host);
#if defined(__x86_64__)
  EXPECT_EQ(host.vector_bits == 512, host.vector_registers == 32);
  EXPECT_TRUE(host.vector_bits < 512 || __builtin_cpu_supports("avx512f"));
  EXPECT_TRUE(host.vector_bits < 256 || __builtin_cpu_supports("avx2"));
#endif
}

TEST(Target, PrintAndParseAreInverse) {
  const char* texts[] = {
      "cpu -mcpu=znver5 -threads=1",
      "cpu -mcpu=znver3 -threads=2",
      "cpu -mcpu=znver5 -threads=1 -vector-bits=256",
      "cpu -mcpu=skylake-avx512 -mattr=-avx512f -threads=8",
      "cpu -triple=aarch64-linux-gnu -mcpu=cortex-a72 -threads=4",
      "cpu -triple=riscv64-linux-gnu -mcpu=generic-rv64 -threads=1 -l2-bytes=2097152",
      "cpu -mcpu=x86-64-v3 -threads=1 -vector-registers=8 -l1-bytes=1 -l2-bytes=2 -l3-bytes=3 "
      "-cache-line=128",
  };
#if defined(__x86_64__)
  for (const char* text : texts) {
    Parsed parsed = parse(text);
    ASSERT_TRUE(parsed.target) << parsed.errors;
    EXPECT_EQ(to_string(*parsed.target), text);
    EXPECT_EQ(*parse(to_string(*parsed.target)).target, *parsed.target);
  }
#endif
  EXPECT_EQ(*parse(to_string(host_target())).target, host_target());
}

TEST(Target, EveryFieldShowsInTheText) {
  Target base = host_target();
  std::vector<Target> changed(9, base);
  changed[0].triple = "aarch64-linux-gnu";
  changed[1].cpu += "x";
  changed[2].features = "+sse3";
  changed[3].threads += 1;
  changed[4].vector_bits /= 2;
  changed[5].vector_registers /= 2;
  changed[6].l1_bytes += 1;
  changed[7].l2_bytes += 1;
  changed[8].cache_line *= 2;
  for (const Target& target : changed) EXPECT_NE(to_string(target), to_string(base));
}

TEST(Target, DevicesHaveFieldsOfTheirOwn) {
  Target opencl = *parse("opencl").target;
  EXPECT_EQ(to_string(opencl), "opencl -device=0");
  EXPECT_EQ(*parse("opencl -device=2 -vector-bits=128 -group-threads=64 -shared-bytes=65536").target,
            *parse(to_string(*parse("opencl -shared-bytes=65536 -group-threads=64 -device=2 -vector-bits=128").target))
                 .target);
  EXPECT_EQ(to_string(*parse("cuda -arch=sm_90a").target), "cuda -arch=sm_90a");
  EXPECT_EQ(parse("cuda -arch=sm_81").errors, R"(target:1:12: error: unknown arch `sm_81`
    1 | cuda -arch=sm_81
      |            ^~~~~
note: did you mean `sm_80`?
)");
  EXPECT_NE(parse("cuda -arch=sm_80 -shared-bytes=999999")
                .errors.find("a block of sm_80 has at most 166912 bytes of shared memory"),
            std::string::npos);
  Target gpu = *parse("opencl -device=1 -gpu=rtx4090").target;
  EXPECT_EQ(to_string(gpu), "opencl -device=1 -gpu=rtx4090");
  EXPECT_EQ(gpu.vector_bits, 128);
  EXPECT_EQ(gpu.group_threads, 1024);
  EXPECT_EQ(gpu.shared_bytes, 48 << 10);
  EXPECT_EQ(parse("opencl -gpu=rtx4090 -shared-bytes=16384").target->shared_bytes, 16384);
  EXPECT_EQ(parse("opencl -gpu=here/mine.yaml").target->gpu, "here/mine.yaml");
  EXPECT_NE(parse("opencl -gpu=rtx4091").errors.find("did you mean `rtx4090`?"), std::string::npos);
  EXPECT_NE(parse("cuda -arch=sm_80 -gpu=a100").errors, "") << "there it is the device";
  EXPECT_NE(parse("opencl -threads=2").errors, "") << "a device has no such option";
  EXPECT_NE(parse("cpu -device=1").errors, "");
}

TEST(Target, CpuNameImpliesVectorsAndCaches) {
#if defined(__x86_64__)
  Target zen3 = *parse("cpu -mcpu=znver3").target, zen5 = *parse("cpu -mcpu=znver5").target;
  EXPECT_EQ(zen3.vector_bits, 256);
  EXPECT_EQ(zen3.vector_registers, 16);
  EXPECT_EQ(zen5.vector_bits, 512);
  EXPECT_EQ(zen5.vector_registers, 32);
  EXPECT_EQ(zen5.l1_bytes, 48 << 10);
  EXPECT_EQ(zen5.threads, 1) << "another machine's thread count is not known";
  EXPECT_EQ(parse("cpu -mcpu=znver5 -mattr=-avx512f").target->vector_bits, 256);
#endif
  Target arm = *parse("cpu -triple=aarch64-linux-gnu").target;
  EXPECT_EQ(arm.cpu, "generic");
  EXPECT_EQ(arm.vector_bits, 128);
  EXPECT_EQ(arm.vector_registers, 32);
}

TEST(Target, ErrorsAreReportedTogetherWithPlaces) {
  EXPECT_EQ(parse("cpu -triple=aarch64-linux-gnu -mcpu=cortex-a721 -threads=0 -vectorbits=256 fast").errors,
            R"(target:1:61: error: unknown target option `vectorbits`
    1 | cpu -triple=aarch64-linux-gnu -mcpu=cortex-a721 -threads=0 -vectorbits=256 fast
      |                                                             ^~~~~~~~~~
note: did you mean `vector-bits`?
target:1:76: error: expected `-name=value`, found `fast`
    1 | cpu -triple=aarch64-linux-gnu -mcpu=cortex-a721 -threads=0 -vectorbits=256 fast
      |                                                                            ^~~~
target:1:37: error: unknown cpu `cortex-a721`
    1 | cpu -triple=aarch64-linux-gnu -mcpu=cortex-a721 -threads=0 -vectorbits=256 fast
      |                                     ^~~~~~~~~~~
note: did you mean `cortex-a72`?
target:1:58: error: expected `threads` to be an integer from 1 to 4096, found `0`
    1 | cpu -triple=aarch64-linux-gnu -mcpu=cortex-a721 -threads=0 -vectorbits=256 fast
      |                                                          ^
)");
  EXPECT_EQ(parse("gpu").errors, R"(target:1:1: error: unknown target kind `gpu`
    1 | gpu
      | ^~~
note: did you mean `cpu`?
)");
  EXPECT_EQ(parse("cpu -triple=sparc-sun-solaris").errors,
            R"(target:1:13: error: unknown architecture in triple `sparc-sun-solaris`
    1 | cpu -triple=sparc-sun-solaris
      |             ^~~~~~~~~~~~~~~~~
note: known: x86_64, aarch64, riscv64, hexagon, as in `aarch64-linux-gnu`
)");
  EXPECT_EQ(parse("cpu -threads=2 -threads=3").errors,
            R"(target:1:17: error: `threads` is given twice
    1 | cpu -threads=2 -threads=3
      |                 ^~~~~~~
)");
  EXPECT_FALSE(parse("").target);
  EXPECT_FALSE(parse("cpu -threads=99999999999999999999").target);
  EXPECT_FALSE(parse("cpu -threads=").target);
  EXPECT_FALSE(parse("cpu -mcpu=").target);
}

TEST(Target, ABackendMayKnowMoreCpus) {
  EXPECT_FALSE(parse("cpu -triple=aarch64-linux-gnu -mcpu=thunderx2t99").target);
  set_cpu_check([](const std::string& triple, const std::string& cpu) {
    return triple == "aarch64-linux-gnu" && cpu == "thunderx2t99";
  });
  Parsed parsed = parse("cpu -triple=aarch64-linux-gnu -mcpu=thunderx2t99");
  set_cpu_check(nullptr);
  ASSERT_TRUE(parsed.target) << parsed.errors;
  EXPECT_EQ(parsed.target->vector_bits, 128);
}

}  // namespace
}  // namespace tw

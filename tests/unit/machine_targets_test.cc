// Which targets a machine takes, by its own: that of this machine, and of machines that are described by their text.
#include "sampler/fleet/machine_targets.h"

#include <gtest/gtest.h>

#include "backends/cpu_table.h"

namespace tw {
namespace {

Target parse(const std::string& text) {
  Source source{"target", text};
  Diagnostics diagnostics(source);
  std::optional<Target> target = parse_target(text, 0, diagnostics);
  EXPECT_TRUE(target) << diagnostics.render();
  return target.value_or(Target());
}

constexpr const char* kArm = "cpu -triple=aarch64-linux-gnu -mcpu=";

TEST(MachineTargets, AnAarch64ProcessorRunsWhatItsInstructionsAllow) {
  struct Row {
    const char *host, *target;
    bool runs;
  };
  constexpr Row rows[] = {
      {"cortex-a72", "cortex-a72", true},   {"cortex-a72", "generic", true},
      {"cortex-a72", "cortex-a53", true},   {"generic", "cortex-a72", true},
      {"cortex-a72", "cortex-a76", false},  {"cortex-a76", "cortex-a72", true},
      {"neoverse-n1", "cortex-a76", true},  {"neoverse-n1", "neoverse-v1", false},
      {"neoverse-n2", "neoverse-v1", true}, {"neoverse-v1", "neoverse-n2", false},
      {"apple-m1", "neoverse-n1", true},    {"apple-m1", "neoverse-v1", false},
      {"neoverse-n2", "apple-m1", false},   {"apple-m1", "apple-m1", true},
  };
  for (const Row& row : rows) {
    std::string why = why_not_on(parse(std::string(kArm) + row.host), parse(std::string(kArm) + row.target));
    EXPECT_EQ(why.empty(), row.runs) << row.target << " on " << row.host << ": " << why;
  }
}

TEST(MachineTargets, EveryAarch64ProcessorOfTheTableHasALevel) {
  for (const CpuModel& model : cpu_models())
    EXPECT_EQ(arm_level(model.name).has_value(), model.arch == CpuArch::Arm) << model.name;
}

TEST(MachineTargets, AnotherArchitectureOrSystemIsRefused) {
  Target arm = parse(std::string(kArm) + "cortex-a72"), x86 = parse("cpu -triple=x86_64-linux-gnu -mcpu=x86-64-v3");
  EXPECT_EQ(why_not_on(arm, x86), "code for x86_64-linux-gnu does not run here");
  EXPECT_EQ(why_not_on(x86, arm), "code for aarch64-linux-gnu does not run here");
  EXPECT_NE(why_not_on(arm, parse("cpu -triple=aarch64-apple-darwin -mcpu=cortex-a72")), "");
  EXPECT_EQ(why_not_on(arm, parse("cpu -triple=aarch64-unknown-linux-gnu -mcpu=cortex-a72")), "");
  EXPECT_EQ(why_not_on(arm, parse(std::string(kArm) + "cortex-a72 -mattr=+sve")), "the processor may not have +sve");
  EXPECT_NE(why_not_on(arm, parse(std::string(kArm) + "cortex-a72 -threads=2")), "") << "the machine has one thread";
#if defined(__x86_64__)
  // Without a triple a text means a processor of the kind that reads it.
  EXPECT_EQ(why_not_on(x86, parse("cpu -mcpu=x86-64-v2")), "");
  EXPECT_NE(why_not_on(x86, parse("cpu -mcpu=x86-64-v4")), "");
  EXPECT_EQ(why_not_this_processor(parse("cpu -triple=x86_64-linux-gnu -mcpu=x86-64")), "");
#endif
  EXPECT_EQ(why_not_this_processor(host_target()), "");
}

}  // namespace
}  // namespace tw

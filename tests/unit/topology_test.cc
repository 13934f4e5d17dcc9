#include "backends/topology.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "backends/target.h"
#include "dsl/base/text.h"
#include "sampler/search/other_cores.h"
#include "support/support.h"

namespace tw {
namespace {

cpu_set_t set_of(std::initializer_list<int> cpus) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) CPU_SET(cpu, &set);
  return set;
}

std::vector<int> list_of(const cpu_set_t& set) {
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

i64 read_number(const std::string& path) {
  std::ifstream file(path);
  i64 number = 0;
  char unit = 0;
  file >> number >> unit;
  return unit == 'K' ? number << 10 : unit == 'M' ? number << 20 : number;
}

// What the kernel says of the first core itself.
TEST(Topology, IsThatOfTheKernel) {
  const Topology& machine = topology();
  EXPECT_GE(machine.cpus, static_cast<int>(std::thread::hardware_concurrency()));
  EXPECT_GE(machine.cores, 1);
  EXPECT_LE(machine.cores, machine.cpus);
  EXPECT_GE(machine.numa_nodes, 1);
  ASSERT_EQ(machine.of_core.size(), static_cast<std::size_t>(machine.cores));
  int threads = 0;
  for (const cpu_set_t& core : machine.of_core) threads += CPU_COUNT(&core);
  EXPECT_EQ(threads, machine.cpus);
  for (int index = 0; index < 8; ++index) {
    std::string folder = cat("/sys/devices/system/cpu/cpu0/cache/index", index, "/");
    std::string type;
    std::ifstream(folder + "type") >> type;
    if (type.empty() || type == "Instruction") continue;
    i64 bytes = read_number(folder + "size");
    switch (read_number(folder + "level")) {
      case 1:
        EXPECT_EQ(machine.l1_bytes, bytes);
        EXPECT_EQ(machine.cache_line, read_number(folder + "coherency_line_size"));
        break;
      case 2:
        EXPECT_EQ(machine.l2_bytes, bytes);
        break;
      case 3:
        EXPECT_EQ(machine.l3_bytes, bytes);
        break;
    }
  }
}

class ControlGroups : public testing::Test {
 protected:
  void write(const std::string& path, const std::string& text) const {
    std::filesystem::path file = std::filesystem::path(folder_.path()) / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  double cpus(const std::string& membership) const {
    write("membership", membership);
    return cgroup_cpus(folder_.path() + "/membership", folder_.path());
  }
  test::TemporaryDirectory folder_;
};

TEST_F(ControlGroups, QuotasOfTheSecondVersion) {
  EXPECT_EQ(cpus("0::/\n"), 0) << "the root has no file";
  write("cpu.max", "150000 100000\n");
  EXPECT_EQ(cpus("0::/\n"), 1.5);
  write("cpu.max", "max 100000\n");
  EXPECT_EQ(cpus("0::/\n"), 0);
  write("user/job/cpu.max", "max 100000\n");
  write("user/cpu.max", "400000 100000\n");
  EXPECT_EQ(cpus("0::/user/job\n"), 4) << "a group has at most what the groups around it have";
  write("user/job/cpu.max", "50000 100000\n");
  EXPECT_EQ(cpus("0::/user/job\n"), 0.5);
  write("cpu.max", "25000 100000\n");
  EXPECT_EQ(cpus("0::/not/mounted/here\n"), 0.25) << "in a container the top is its own";
}

TEST_F(ControlGroups, QuotasOfTheFirstVersion) {
  write("cpu/docker/12ab/cpu.cfs_quota_us", "250000\n");
  write("cpu/docker/12ab/cpu.cfs_period_us", "100000\n");
  EXPECT_EQ(cpus("5:memory:/docker/12ab\n4:cpu,cpuacct:/docker/12ab\n"), 2.5);
  EXPECT_EQ(cpus("5:memory:/docker/12ab\n4:cpuset:/docker/12ab\n"), 0) << "of other controllers";
  write("cpu/docker/12ab/cpu.cfs_quota_us", "-1\n");
  EXPECT_EQ(cpus("4:cpu:/docker/12ab\n"), 0);
  EXPECT_EQ(cpus("garbage\n\n1:2\n"), 0);
  EXPECT_EQ(cgroup_cpus("/no/such/file", folder_.path()), 0);
}

TEST(OtherCores, TheSearchLeavesTheWholeCoreThatMeasures) {
  Topology machine;
  machine.of_core = {set_of({0, 4}), set_of({1, 5}), set_of({2, 6}), set_of({3, 7})};
  auto cpus = [&](std::initializer_list<int> usable) { return list_of(cpus_of_search(set_of(usable), machine)); };
  EXPECT_EQ(cpus({0, 1, 2, 3, 4, 5, 6, 7}), (std::vector<int>{0, 1, 2, 4, 5, 6}));
  EXPECT_EQ(cpus({0, 1, 2, 3}), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(cpus({3, 7}), (std::vector<int>{3})) << "a sibling is better than the same thread";
  EXPECT_EQ(cpus({7}), (std::vector<int>{7}));
  EXPECT_EQ(list_of(cpus_of_search(set_of({8, 9}), machine)), (std::vector<int>{8})) << "CPUs that nothing is known of";
}

}  // namespace
}  // namespace tw

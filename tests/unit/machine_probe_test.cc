#include "runtime/measure/machine_probe.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "backends/target.h"
#include "runtime/measure/machine_roofs.h"
#include "support/support.h"

namespace tw {
namespace {

TEST(MachineProbe, FiguresBecomeRatesOfTheDraftModel) {
  // 3.2e9 cycles a second, 32e9 bytes: 10 bytes a cycle.
  MachineRates rates = rates_of({.clock = 3.2e9, .bandwidth = 32e9, .all_bandwidth = 48e9, .start_seconds = 1e-6}, 4);
  EXPECT_DOUBLE_EQ(rates.memory_line, 6.4);
  EXPECT_DOUBLE_EQ(rates.memory_speed_up, 1.5);
  EXPECT_DOUBLE_EQ(rates.parallel_start, 3200);
  // One thread says nothing of several.
  MachineRates usual, alone = rates_of({.clock = 3.2e9, .bandwidth = 32e9, .all_bandwidth = 32e9}, 1);
  EXPECT_DOUBLE_EQ(alone.memory_line, 6.4);
  EXPECT_EQ(alone.memory_speed_up, usual.memory_speed_up);
  EXPECT_EQ(alone.parallel_start, usual.parallel_start);
  EXPECT_EQ(rates_of({}, 2), usual) << "nothing was measured";
  // Whatever a disturbed measurement gives, nothing that no machine has.
  MachineRates odd = rates_of({.clock = 1e12, .bandwidth = 1, .all_bandwidth = 1e15, .start_seconds = 10}, 2);
  EXPECT_TRUE(parse_rates(to_text(odd)));
  EXPECT_EQ(odd.memory_speed_up, 2);
}

TEST(MachineProbe, RatesAreTextAndBack) {
  MachineRates rates{.memory_line = 7.25, .memory_speed_up = 1.5, .parallel_start = 12500};
  EXPECT_EQ(parse_rates(to_text(rates)), rates);
  for (const char* wrong : {"", "7", "7 1.5", "7 1.5 12500 1", "7 1.5 12500 ", "nan 1.5 12500", "7 inf 12500",
                            "7 0.5 12500", "-7 1.5 12500", "7 1.5 1e12", "a b c"}) {
    EXPECT_FALSE(parse_rates(wrong)) << wrong;
  }
}

TEST(MachineProbe, ThisMachineHasFigures) {
  MachineFigures figures = measure_machine(usable_threads());
  EXPECT_GT(figures.bandwidth, 1e8);
  EXPECT_LT(figures.bandwidth, 1e13);
  EXPECT_GE(figures.all_bandwidth, figures.bandwidth / 10);
  EXPECT_EQ(figures.start_seconds > 0, usable_threads() > 1);
}

TEST(MachineProbe, AMachineIsMeasuredOnce) {
  test::TemporaryDirectory folder;
  std::string path = folder.path() + "/tuning.db";
  MachineRates first;
  {
    auto database = Database::open(path, DatabaseMode::Write);
    ASSERT_TRUE(database) << database.error();
    auto unknown = machine_rates(*database, /*may_measure=*/false);
    ASSERT_TRUE(unknown);
    EXPECT_EQ(*unknown, MachineRates());
    auto measured = machine_rates(*database, /*may_measure=*/true);
    ASSERT_TRUE(measured) << measured.error();
    first = *measured;
    EXPECT_NE(first, MachineRates());
  }
  auto database = Database::open(path, DatabaseMode::Write);
  ASSERT_TRUE(database);
  for (bool may_measure : {true, false}) EXPECT_EQ(*machine_rates(*database, may_measure), first);
  // Of a database that lies, and of one that another machine wrote, nothing is taken over.
  ASSERT_TRUE(database->save_model("machine rates", host_description(), 2, "1e9 0 0"));
  EXPECT_EQ(*machine_rates(*database, /*may_measure=*/false), MachineRates());
  ASSERT_TRUE(database->save_model("machine rates", "another machine", 2, "50 3 9000"));
  auto again = machine_rates(*database, /*may_measure=*/true);
  ASSERT_TRUE(again);
  EXPECT_NE(again->parallel_start, 9000);
}

TEST(MachineRoofs, TextHoldsAll) {
  MachineRoofs roofs{
      .peaks = {{256, 1.5e11}, {512, 2.5e11}}, .levels = {{16384, 4e11}, {134217728, 2e10}}, .memory_speed_up = 1.5};
  std::optional<MachineRoofs> read = parse_roofs(to_text(roofs));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->levels[1].bytes, 134217728);
  EXPECT_EQ(*read, roofs);
  EXPECT_TRUE(parse_roofs("speed_up 1")) << "of a processor without probes nothing more is known";
  for (const char* wrong : {"", "speed_up", "speed_up 0.5", "speed_up nan", "peak 256 1e11", "speed_up 1 peak 256",
                            "speed_up 1 peak 256 -1", "speed_up 1 peak 1e9 1e11", "speed_up 1 level 0 1e9",
                            "speed_up 1 level 16384 inf", "speed_up 1 other 1 1"}) {
    EXPECT_FALSE(parse_roofs(wrong)) << wrong;
  }
}

TEST(MachineRoofs, ThreadsHaveCachesOfTheirOwnAndShareTheMemory) {
  MachineRoofs roofs{.peaks = {{256, 100}, {512, 150}}, .levels = {{16, 40}, {1024, 10}}, .memory_speed_up = 1.5};
  EXPECT_EQ(roofs.peak(512, 2), 300);
  EXPECT_EQ(roofs.peak(256, 1), 100);
  EXPECT_EQ(roofs.peak(128, 1), 0);
  EXPECT_EQ(roofs.bandwidth(0, 4), 160);
  EXPECT_EQ(roofs.bandwidth(1, 4), 15);
  EXPECT_EQ(roofs.bandwidth(1, 1), 10);
}

TEST(MachineRoofs, AMachineIsMeasuredOnce) {
  test::TemporaryDirectory folder;
  auto database = Database::open(folder.path() + "/tuning.db", DatabaseMode::Write);
  ASSERT_TRUE(database);
  std::string machine = machine_of(host_description());
  EXPECT_FALSE(stored_roofs(*database, machine)->has_value());
  ASSERT_TRUE(keep_roofs(*database, MachineRates()));
  MachineRoofs first = **stored_roofs(*database, machine);
  EXPECT_EQ(first.levels.size(), 4u);
  EXPECT_TRUE(std::ranges::is_sorted(first.levels, {}, &MachineRoofs::Level::bytes));
  for (const MachineRoofs::Level& level : first.levels) EXPECT_GT(level.bandwidth, 1e8);
  MachineRoofs other{.levels = {{16, 40}}};
  ASSERT_TRUE(database->save_model("machine roofs", machine, 1, to_text(other)));
  ASSERT_TRUE(keep_roofs(*database, MachineRates()));
  EXPECT_EQ(**stored_roofs(*database, machine), other);
  EXPECT_FALSE(stored_roofs(*database, "another machine")->has_value());
}

}  // namespace
}  // namespace tw

// When two calibrations agree, how classes are named, and which machines a task list asks for.
#include "runtime/fleet/machine_class.h"

#include <gtest/gtest.h>

#include "runtime/fleet/trial_queue.h"
#include "runtime/store/record.h"

namespace tw {
namespace {

const CalibrationTimes kTimes = {{"arithmetic", 6e-6}, {"caches", 3e-6}, {"memory", 8e-4}};

CalibrationTimes scaled(double arithmetic, double caches, double memory) {
  return {{"arithmetic", 6e-6 * arithmetic}, {"caches", 3e-6 * caches}, {"memory", 8e-4 * memory}};
}

TEST(MachineClass, AgreesWithinThreePercent) {
  EXPECT_TRUE(agree(kTimes, kTimes));
  EXPECT_TRUE(agree(scaled(1.029, 1, 1 / 1.029), kTimes));
  for (std::size_t kernel = 0; kernel < kTimes.size(); ++kernel) {
    for (double factor : {1.031, 1 / 1.031}) {
      CalibrationTimes times = kTimes;
      times[kernel].seconds *= factor;
      EXPECT_FALSE(agree(times, kTimes)) << kTimes[kernel].kernel << factor;
      EXPECT_FALSE(agree(kTimes, times));
      EXPECT_EQ(is_faster(times, kTimes), factor < 1);
      EXPECT_EQ(largest_difference(times, kTimes)->kernel, kTimes[kernel].kernel);
    }
  }
  EXPECT_FALSE(is_faster(scaled(0.9, 1.1, 1), kTimes))
      << "faster in one, slower in another: something else is going on";
  EXPECT_FALSE(is_faster(kTimes, kTimes));
}

TEST(MachineClass, OtherKernelsAreNotCompared) {
  CalibrationTimes fewer(kTimes.begin(), kTimes.begin() + 2), renamed = kTimes;
  renamed[1].kernel = "caches 2";
  for (const CalibrationTimes& other : {fewer, renamed, CalibrationTimes()}) {
    EXPECT_FALSE(agree(other, kTimes));
    EXPECT_FALSE(is_faster(other, kTimes));
    EXPECT_FALSE(largest_difference(other, kTimes));
  }
}

TEST(MachineClass, SaysWhichKernelDiffers) {
  EXPECT_EQ(to_text(*largest_difference(scaled(1, 1.01, 1.081), kTimes)),
            "memory takes 864.8 us, 8.1 % more than in its class");
  EXPECT_EQ(to_text(*largest_difference(scaled(1, 1, 0.5), kTimes)),
            "memory takes 400 us, 50.0 % less than in its class");
}

TEST(MachineClass, CalibrationsAreText) {
  std::optional<CalibrationTimes> read = parse_calibration(to_text(kTimes));
  ASSERT_TRUE(read);
  EXPECT_TRUE(agree(*read, kTimes));
  EXPECT_EQ(to_text(*read), to_text(kTimes));
  for (const char* wrong : {"", "memory", "memory x", "memory -1", "memory 0", "memory inf", " 1", "memory 1 2x"})
    EXPECT_FALSE(parse_calibration(wrong)) << wrong;
}

TEST(MachineClass, IsInTheNameThatRecordsHave) {
  const std::string host = "AMD EPYC 7313, 2 of 16 cores, L1 32 KiB, L3 32 MiB, Linux 6.1.0-18",
                    device = "H100 (sm_90); " + host;
  for (const std::string& plain : {host, device, std::string("AMD, L3 32 MiB")}) {
    EXPECT_EQ(in_class(plain, 1), plain) << "as records without a fleet have it";
    EXPECT_EQ(without_class(in_class(plain, 12)), plain);
    EXPECT_EQ(without_class(plain), plain);
    EXPECT_NE(machine_of(in_class(plain, 2)), machine_of(plain)) << "times of two classes are not compared";
    EXPECT_NE(machine_of(in_class(plain, 2)), machine_of(in_class(plain, 3)));
  }
  const std::string later = "AMD EPYC 7313, 4 of 16 cores, L1 32 KiB, L3 32 MiB, Linux 6.6";
  EXPECT_EQ(machine_of(in_class(host, 2)), machine_of(in_class(later, 2)));
  EXPECT_EQ(machine_of(in_class(host, 2)), in_class(machine_of(host), 2));
}

TEST(MachineClass, IsAskedForByWordsOfItsFingerprint) {
  FleetMachine machine{.version = "0.1", .memory_bytes = i64{64} << 30};
  machine.clock_mhz = 3700, machine.drivers = "opencl 0: PoCL";
  const std::string text = fingerprint_of(machine, "AMD EPYC 7313, 2 of 16 cores, L3 32 MiB, class 12, Linux 6.1", 12);
  EXPECT_EQ(text, "AMD EPYC 7313, L3 32 MiB, class 12, 3.7 GHz, 64 GiB, tracewright 0.1, opencl 0: PoCL");
  for (const char* wanted : {"", "EPYC 7313", "epyc 7313, class 12", "3.7 GHz,64 gib", "tracewright 0.1", "PoCL"})
    EXPECT_TRUE(is_wanted_machine(wanted, text)) << wanted;
  for (const char* other : {"EPYC 731", "class 1", "class 2", "Xeon", "EPYC 7313, class 3", "7 GHz, 64 GiB, Xeon"})
    EXPECT_FALSE(is_wanted_machine(other, text)) << other;
}

}  // namespace
}  // namespace tw

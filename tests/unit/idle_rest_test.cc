// How long machines rest that were woken for nothing, in virtual time.
#include "runtime/fleet/idle_rest.h"

#include <gtest/gtest.h>

#include <vector>

#include "runtime/fleet/answer_time.h"

namespace tw {
namespace {

// A thousand machines wait, and every 50 ms a notification tells of one trial.
TEST(IdleRest, FewLookWhereLittleIsThere) {
  constexpr int kMachines = 1000, kTrials = 400, kWarmUp = 100;
  constexpr double kBetween = 0.05, kLease = 0.005, kWaits = 1e9;
  struct Machine {
    IdleRest rest;
    double looks_at = kWaits;
  };
  std::vector<Machine> machines;
  for (int i = 0; i < kMachines; ++i) machines.push_back({IdleRest(static_cast<u64>(i))});
  i64 looks = 0, found = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const double now = trial * kBetween;
    for (Machine& machine : machines) {
      if (machine.looks_at < kWaits) continue;
      machine.rest.note_woken();
      machine.looks_at = now + machine.rest.seconds(kLease);
    }
    bool is_taken = false;
    for (Machine& machine : machines) {
      if (machine.looks_at >= now + kBetween) continue;
      machine.rest.note_lease(!is_taken);
      found += !is_taken, is_taken = true;
      machine.looks_at = kWaits;
      looks += trial >= kWarmUp;
    }
  }
  EXPECT_EQ(found, kTrials) << "somebody looks";
  EXPECT_LT(looks, (kTrials - kWarmUp) * kMachines / 3) << "nearly all look each time";
}

TEST(IdleRest, IsShortWhereALeaseIsQuickAndForWhoFindsTrials) {
  IdleRest rest(1);
  EXPECT_EQ(rest.seconds(1), 0) << "nothing was in vain yet";
  for (int i = 0; i < 50; ++i) {
    rest.note_lease(false);
    EXPECT_EQ(rest.seconds(1), 0) << "nobody woke it";
  }
  for (int i = 0; i < 50; ++i) rest.note_woken(), rest.note_lease(false);
  for (int i = 0; i < 50; ++i) {
    EXPECT_LE(rest.seconds(0.002), 0.2);
    EXPECT_LE(rest.seconds(10), 16);
  }
  EXPECT_FALSE(rest.is_long(0.002)) << "a quick server tells it";
  EXPECT_TRUE(rest.is_long(0.1));
  for (int i = 0; i < 6; ++i) rest.note_lease(true);
  EXPECT_EQ(rest.seconds(1), 0);
  EXPECT_FALSE(rest.is_long(1));
}

TEST(AnswerTime, AServerThatWasBusyAllTheTimeIsBusy) {
  AnswerTime busy, far;
  for (int i = 0; i < 20; ++i) busy.note(0.8), far.note(0.2);
  EXPECT_GT(busy.beyond_quickest(), 0.5);
  EXPECT_EQ(far.beyond_quickest(), 0) << "the way";
}

}  // namespace
}  // namespace tw

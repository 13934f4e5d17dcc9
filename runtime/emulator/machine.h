// Machine: the emulated device. Runs launches group by group and the threads of a group as fibers: the next one is
// drawn whenever a thread waits or ends. Functions of the device (device_functions.cc) and the compiler's
// instrumentation (instrumentation.cc) call it from inside of a fiber. The first finding ends everything. One thread of
// the process uses it.
#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dsl/base/rng.h"
#include "runtime/emulator/banks.h"
#include "runtime/emulator/fibers.h"
#include "runtime/emulator/memory.h"

namespace tw::emulator {

struct Launch {
  std::string name;
  std::array<i64, 3> groups{1, 1, 1}, threads{1, 1, 1};
  void (*call)(void* const* pointers) = nullptr;
  std::vector<void*> pointers;
  i64 dynamic_shared_bytes = 0;
  bool is_last = true;  // no other launch reads what it writes
};

class Machine {
 public:
  Machine(Memory& memory, const EmulationOptions& options, u64 seed, EmulationReport& report);

  // Runs all groups, or some. False: there is a finding, in the report.
  bool run(const Launch& launch);
  // The first epoch of the latest launch, and the groups that ran in it.
  u32 launch_epoch() const { return launch_epoch_; }
  const std::vector<i64>& groups_of_launch() const { return groups_of_launch_; }

  // ---- called from inside of a fiber
  void touch(u64 address, u64 bytes, Access access, u64 instruction);
  void need_shared(i64 bytes);
  void barrier(int line);
  void exchange(u32 mask, const void* mine, u64 bytes, char* all, bool orders, int line);
  int lane_of(u32 mask, int lane, int line);
  void copy_async(void* to, const void* from, u64 bytes, u64 valid, int line, u64 instruction);
  void copy_commit();
  void copy_wait(int groups);
  // Ends everything.
  [[noreturn]] void fail(EmulationStatus status, const std::string& text);
  const std::array<unsigned, 3>& thread_index() const { return threads_[static_cast<std::size_t>(running_)].index; }
  const std::array<unsigned, 3>& group_index() const { return group_; }
  const Launch& launch() const { return *launch_; }
  int lane() const { return running_ % 32; }
  // "kernel `mm_run_0`, group (1, 0, 0), thread 5 (5, 0, 0)", as far as something runs.
  std::string where() const;

 private:
  enum class State : u8 { Ready, AtBarrier, InExchange, Ended };
  struct Copy {
    char* to;
    const char* from;
    u64 bytes, valid;
  };
  struct Thread {
    std::array<unsigned, 3> index{};
    State state = State::Ready;
    int line = 0;  // where it waits
    u32 mask = 0;  // of the exchange that it waits in
    bool orders = false;
    std::string brought, given;             // to it, and by it
    std::vector<std::vector<Copy>> copies;  // groups; the last one is not committed
  };
  std::vector<i64> chosen_groups(i64 count);
  bool run_others(const std::vector<i64>& chosen, i64 count, double begin);
  std::vector<i64> other_groups(const std::vector<i64>& chosen, i64 count);
  void shuffle(std::vector<i64>& groups);
  bool run_group(i64 group);
  void body(int fiber);
  void count_shared(u64 address, u64 bytes, u64 instruction);
  void wait_in(State state, int line);
  void wake(int thread);
  void end_barrier();
  void try_exchange(int warp);
  void explain_standstill();
  void record(EmulationStatus status, const std::string& text);
  Moment now() const;
  u32 existing_lanes(int warp) const;

  Memory& memory_;
  Rng rng_;
  i64 max_groups_;
  double chain_seconds_;  // left
  EmulationReport& report_;
  std::unique_ptr<Fibers> fibers_;
  const Launch* launch_ = nullptr;
  std::array<unsigned, 3> group_{};
  std::vector<i64> groups_of_launch_;
  std::vector<Thread> threads_;
  std::vector<int> ready_;
  std::vector<u16> warp_steps_;
  int running_ = -1, ended_ = 0, at_barrier_ = 0;
  u32 epoch_ = 1, group_epoch_ = 1, launch_epoch_ = 1;
  Banks banks_;
  bool counts_banks_ = false, has_finding_ = false;
};

// The one that runs, for the functions that compiled code calls.
extern Machine* machine;

}  // namespace tw::emulator

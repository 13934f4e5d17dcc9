// The worker's end of a child: start, one phase at a time with a time limit, and the verdict on how
// it ended.
#pragma once
#include <sys/types.h>

#include "runtime/worker/buffers.h"
#include "runtime/worker/child.h"

namespace tw {

enum class PhaseEnd : u8 { Done, Died, TimedOut, TunerGone };

class ChildProcess {
 public:
  // Forks. `tuner` is the socket whose end means that nobody wants the answer any more.
  ChildProcess(ChildJob& job, const Sandbox& sandbox, int tuner);
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;
  ~ChildProcess();  // kills and reaps

  bool is_running() const { return pid_ > 0; }  // false: the fork failed
  // Waits for the end of `phase`; the Load phase is begun by the fork, others here. Anything but
  // Done kills and reaps the child.
  PhaseEnd run_phase(Phase phase, double limit_seconds);
  // Wall time of the last phase by this process's clock.
  double phase_seconds() const { return phase_seconds_; }
  // Seconds that the child waited for a CPU so far, seen from here; 0 if unknown.
  double waited_seconds() const;
  int wait_status() const { return wait_status_; }  // after Died

 private:
  PhaseEnd wait_for(Phase phase, double limit_seconds);
  void kill_and_reap();
  pid_t pid_ = -1;
  int commands_ = -1, events_ = -1, schedstat_ = -1, tuner_;
  int wait_status_ = 0;
  double phase_seconds_ = 0;
};

// Says how a child ended that should not have: status and message of `result`. `buffers` are those
// that the job used.
void explain_death(const ChildReport& report, int wait_status, const std::vector<const GuardedBuffer*>& buffers,
                   MeasureResult& result);

}  // namespace tw

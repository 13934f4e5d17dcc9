// A fleet in virtual time: the search is the real one, each trial takes a machine as long as it would, and a round of
// the search takes the same time every time. Times of kernels are stored ones, or measured on this machine and stored.
// So what many machines find can be compared with what one finds in more time, and two runs give the same.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "sampler/search/batch_runner.h"

namespace tw::bench {

struct VirtualMachines {
  int machines = 1;
  double trial_seconds = 0.2;  // of a machine
  double round_seconds = 0.3;  // of the search
  double seconds = 0;          // after which the run ends
};

// A trial that ended with a good time.
struct VirtualResult {
  double at = 0;       // virtual seconds since the first batch was put into the queue
  double seconds = 0;  // of the kernel
};

class VirtualFleet final : public TrialRunner {
 public:
  // Sets `stop` when the time is over. `measurer` may be null where all is known (TuneOptions::known).
  VirtualFleet(const RunnerParts& with, const VirtualMachines& how, Measurer* measurer, std::atomic<bool>& stop,
               std::vector<VirtualResult>& results);
  std::string host_of(const TuneTask& task) override { return inner_.host_of(task); }
  void begin_builds(Batch& batch, const TaskState& state) override;
  void start(Batch batch, TaskState& state, std::vector<TaskProgress> progress) override;
  std::vector<Batch> take_ended(Await await) override;
  void close(TaskState& state) override { inner_.close(state); }
  std::vector<Record> take_others() override { return inner_.take_others(); }
  std::string machine_error() override { return inner_.machine_error(); }
  MeasuringCapacity capacity() override;
  double now() const override { return now_; }

 private:
  struct Flying {
    Batch batch;
    std::vector<double> ends;  // of its trials
  };
  static double next_end(const Flying& flying);
  void go_on_to(double time);

  VirtualMachines how_;
  BatchRunner inner_;
  std::atomic<bool>& stop_;
  std::vector<VirtualResult>& results_;
  double now_ = 0, first_ = -1;  // the latter: when the first batch was put in
  std::vector<double> free_;     // when each machine has ended all that was put in
  std::vector<Flying> flying_;
};

}  // namespace tw::bench

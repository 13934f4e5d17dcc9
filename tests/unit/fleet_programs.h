// Tuners, measuring machines and builders as programs, on one database of a real server.
#pragma once
#include <signal.h>

#include <future>
#include <memory>
#include <string>
#include <vector>

#include "support/run_program.h"
#include "tests/unit/fleet_kit.h"

namespace tw {

class FleetPrograms : public TuningDatabaseTest {
 protected:
  void SetUp() override {
    TuningDatabaseTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    test::write_file(folder_.path() + "/small.yaml", test::kGemmAndRows);
  }
  test::Finished run(const std::vector<std::string>& words, std::function<void(int)> meanwhile = {},
                     const std::vector<std::string>& environment = {}) const {
    return test::tracewright(words,
                             {.folder = folder_.path(), .environment = environment, .meanwhile = std::move(meanwhile)});
  }
  // Until `is_true` of the queue's state.
  void wait_until(const std::function<bool(const FleetStatus&)>& is_true) const {
    TrialQueue queue = this->queue();
    for (;;) {
      auto status = queue.status();
      ASSERT_TRUE(status) << status.error();
      if (is_true(*status)) return;
      ASSERT_TRUE(queue.wait(std::chrono::milliseconds(20)));
    }
  }

  // `measure` as a process of its own; ended with the object, if it was not before.
  struct Machine {
    std::promise<int> started;
    std::future<test::Finished> finished;
    int pid = 0;
    test::Finished stop(int signal = SIGINT) {
      kill(pid, signal);
      return finished.get();
    }
    ~Machine() {
      if (finished.valid()) stop(SIGKILL);
    }
  };
  // Others disturb it, so it is not calibrated.
  std::unique_ptr<Machine> start_machine(std::vector<std::string> more = {},
                                         const std::vector<std::string>& environment = {}) const {
    more.push_back("--uncalibrated");
    return start_calibrated_machine(more, environment);
  }
  std::unique_ptr<Machine> start_calibrated_machine(const std::vector<std::string>& more = {},
                                                    const std::vector<std::string>& environment = {}) const {
    std::vector<std::string> words = {"measure", "--database", address_, "--json"};
    words.insert(words.end(), more.begin(), more.end());
    auto machine = std::make_unique<Machine>();
    machine->finished = std::async(std::launch::async, [this, words, environment, machine = machine.get()] {
      return run(words, [machine](int pid) { machine->started.set_value(pid); }, environment);
    });
    machine->pid = machine->started.get_future().get();
    return machine;
  }

  test::TemporaryDirectory folder_;
};

}  // namespace tw

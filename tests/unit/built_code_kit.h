// A tuner, a builder and a machine without a compiler within this process, with a measurer that notes what it would
// run.
#pragma once
#include <gtest/gtest.h>

#include <map>
#include <mutex>
#include <set>

#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "dsl/schedule/parse_schedule.h"
#include "dsl/schedule/schedule.h"
#include "dsl/schedule/state.h"
#include "runtime/fleet/tuner_link.h"
#include "sampler/fleet/built_source.h"
#include "sampler/fleet/calibration_kernels.h"
#include "sampler/fleet/measuring_machine.h"
#include "tests/unit/builder_kit.h"
#include "tests/unit/fleet_kit.h"
#include "tests/unit/search_kit.h"

namespace tw {

// Until a machine, a builder or a tuner is told to stop.
inline Waiting until(const std::atomic<bool>& stop) {
  return {.must_stop = [&stop] { return stop.load(); }, .say = [](const std::string&) {}};
}

class BuiltCode : public TuningDatabaseTest {
 protected:
  void SetUp() override {
    TuningDatabaseTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    open_database(address_, database_);
    if (HasFatalFailure()) return;
    ASSERT_TRUE(database_->add_workload(workload_, workload_text(program())));
    auto link = TunerLink::open(address_, "tuner");
    ASSERT_TRUE(link) << link.error();
    link_ = std::move(*link);
  }
  void TearDown() override { stop_machine(); }
  const Program& program() const { return task_.program.program; }

  // By default a machine that checks with kKey's public key, and is not calibrated.
  void start_machine(std::shared_ptr<KernelSource> kernels = std::make_shared<BuiltSource>(checking_key()),
                     bool is_calibrated = false) {
    MachineOptions options{.address = address_,
                           .announced = {.name = "board", .host = host_description()},
                           .why_no_device = [](const Target&) { return "no devices here"; },
                           .start_worker =
                               [this](const Target&) {
                                 WorkerStart start;
                                 start.measurer = std::make_unique<FakeMeasurer>(
                                     FakeMeasurer::Answer([this](const Kernel& kernel, const MeasureOptions& options) {
                                       std::this_thread::sleep_for(measuring_takes_);
                                       std::lock_guard lock(mutex_);
                                       ran_.push_back(kernel.code);
                                       if (options.incumbent) in_turn_with_.insert(options.incumbent->code);
                                       return time_of(kernel);
                                     }));
                                 return start;
                               },
                           .kernels = std::move(kernels)};
    if (!is_calibrated) options.calibrator = [](Measurer&, const Target&) { return Calibrate(); };
    Waiting waiting{.must_stop = [this] { return stop_.load(); },
                    .say =
                        [this](const std::string& text) {
                          std::lock_guard lock(mutex_);
                          said_ += text + "\n";
                        }};
    machine_ = std::thread([this, machine = std::make_shared<MeasuringMachine>(std::move(options), waiting)] {
      EXPECT_EQ(machine->run().error, "");
    });
  }
  void stop_machine() {
    stop_ = true;
    if (machine_.joinable()) machine_.join();
  }

  // Trials whose traces unroll loops of the workload; the first one is the untuned program.
  std::vector<QueuedTrial> trials(std::size_t count) const {
    std::vector<QueuedTrial> list;
    for (std::size_t i = 0; i < count; ++i) {
      Arena arena(1 << 18);
      std::string trace;
      if (i > 0) {
        trace = cat("b = get_block(\"Y\")\ni, j, k = get_loops(b)\ni_0, i_1 = split(i, [_, ", 1 << i, "])\n");
        Source source{"trace", trace};
        Diagnostics diagnostics(source);
        std::optional<Trace> parsed = parse_schedule(source, diagnostics);
        EXPECT_TRUE(parsed) << diagnostics.render();
        State state(arena, program());
        EXPECT_TRUE(replay(*parsed, state, ReplayMode::Strict));
        list.push_back({.program = to_hex(normalized_hash(state.program()))});
      } else {
        list.push_back({.program = to_hex(normalized_hash(program()))});
      }
      list.back().workload = workload_, list.back().target = target_;
      list.back().trace = trace, list.back().task = "dense";
    }
    return list;
  }
  // What becomes of trials that a machine measures.
  std::vector<TrialOutcome> measure(const std::vector<QueuedTrial>& list) {
    std::atomic<bool> never = false;
    std::vector<TrialOutcome> outcomes(list.size());
    EXPECT_TRUE(link_->machine_for(target_, until(never)));
    EXPECT_TRUE(
        link_->measure(list, until(never), [&](std::size_t i, const TrialOutcome& outcome) { outcomes[i] = outcome; }));
    return outcomes;
  }
  // Nothing was run, and the fault says why.
  void expect_refused(const TrialOutcome& outcome, const std::string& why) {
    EXPECT_EQ(outcome.fault, fault::kNotSigned);
    EXPECT_NE(outcome.message.find(why), std::string::npos) << outcome.message;
    EXPECT_EQ(outcome.record, 0);
    std::lock_guard lock(mutex_);
    EXPECT_TRUE(ran_.empty());
  }
  std::string kind() const { return BuildKind{TW_VERSION, target_, checking_key().name()}.text(); }
  // As the owner of the database may: `change` is what a trigger does.
  void change_when(const std::string& what, const std::string& change) const {
    const std::string table = what.substr(what.find("tracewright_fleet"));
    sql(cat("create or replace function tracewright_fleet.change() returns trigger language plpgsql as $$ begin ",
            change, " return new; end $$; drop trigger if exists change on ", table, "; create trigger change before ",
            what, " for each row execute function tracewright_fleet.change()"));
  }
  void change_builds(const std::string& change) const { change_when("update on tracewright_fleet.builds", change); }
  static std::string set_to(const SignedBytes& bytes) {
    return cat("if new.content is not null then new.content = '", *PostgresValue::bytes(bytes.content).text(),
               "'; new.signature = '", *PostgresValue::bytes(bytes.signature).text(), "'; end if;");
  }
  static BuiltFleetTrial hostile() {
    return {.built = {.kernel = Kernel{.code = "hostile", .manifest = {}}, .problem = ""}};
  }

  TuneTask task_ = task_of("dense", {{"M", i64{32}}, {"N", i64{64}}, {"K", i64{32}}});
  std::string workload_ = to_hex(structural_hash(program())), target_ = to_string(task_.target);
  std::optional<Database> database_;
  std::unique_ptr<TunerLink> link_;
  std::mutex mutex_;
  std::vector<std::string> ran_;  // code
  std::chrono::milliseconds measuring_takes_{0};
  std::set<std::string> in_turn_with_;  // code of the incumbents
  std::string said_;                    // by the machine
  std::atomic<bool> stop_ = false;
  std::thread machine_;
};

}  // namespace tw

// Machines without a compiler: a builder compiles and signs, the machine checks before it runs anything. Within this
// process, with a measurer that notes what it would run; every way to give it other code is tried.
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
namespace {

// Until a machine, a builder or a tuner is told to stop.
Waiting until(const std::atomic<bool>& stop) {
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

TEST_F(BuiltCode, IsTheCodeThatAMachineWouldCompileItself) {
  BuilderHere builder(address_, task_.target);
  start_machine();
  std::vector<QueuedTrial> list = trials(4);
  std::vector<TrialOutcome> outcomes = measure(list);
  std::set<std::string> expected;
  TrialFault fault;
  std::unique_ptr<FleetTask> task = read_program(list[0], *database_, fault);
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(task_.target));
  for (std::size_t i = 0; i < list.size(); ++i) {
    EXPECT_EQ(outcomes[i].fault, "") << outcomes[i].message;
    BuiltFleetTrial made = build_fleet_trial(*task, list[i], *compiler);
    expected.insert(made.built.kernel->code);
    auto record = database_->record(outcomes[i].record);
    ASSERT_TRUE(record) << record.error();
    EXPECT_EQ(record->object, to_hex(made.object));
  }
  std::lock_guard lock(mutex_);
  EXPECT_EQ(std::set<std::string>(ran_.begin(), ran_.end()), expected);
  EXPECT_EQ(builder.stop().built, 4);
}

TEST_F(BuiltCode, AChangedByteIsNotRun) {
  BuilderHere builder(address_, task_.target);
  start_machine();
  change_builds(
      "new.content = set_byte(new.content, octet_length(new.content) - 700, "
      "get_byte(new.content, octet_length(new.content) - 700) # 1);");
  expect_refused(measure(trials(1))[0], "its signature is not that of this machine's key");
}

TEST_F(BuiltCode, AChangedReferenceIsNotRun) {
  BuilderHere builder(address_, task_.target);
  start_machine();
  change_when("insert on tracewright_fleet.built_tasks",
              "new.content = set_byte(new.content, 900, get_byte(new.content, 900) # 1);");
  expect_refused(measure(trials(1))[0], "a built reference is not run: its signature");
}

TEST_F(BuiltCode, AnotherKeyIsNotBelieved) {
  BuilderHere builder(address_, task_.target);
  start_machine();
  QueuedTrial trial = trials(1)[0];
  change_builds(set_to(sign_build(signing_key(kOtherKey), kind(), /*id=*/1, trial, hostile())));
  expect_refused(measure({trial})[0], "its signature is not that of this machine's key");
}

// The signature is good, and the code is another one's.
TEST_F(BuiltCode, CodeOfAnotherTrialIsNotRun) {
  BuilderHere builder(address_, task_.target);
  start_machine();
  std::vector<QueuedTrial> list = trials(2);
  change_builds(set_to(sign_build(signing_key(), kind(), /*id=*/77, list[0], hostile())));
  std::vector<TrialOutcome> outcomes = measure(list);
  for (const TrialOutcome& outcome : outcomes) expect_refused(outcome, "it was built for trial `77`, not `");
}

TEST_F(BuiltCode, OldCodeIsNotRunAgain) {
  sql("create table tracewright_fleet.stash (content bytea, signature bytea)");
  change_when(
      "update on tracewright_fleet.builds",
      "if new.content is not null then insert into tracewright_fleet.stash values (new.content, new.signature); "
      "end if;");
  BuilderHere builder(address_, task_.target);
  start_machine();
  std::vector<QueuedTrial> list = trials(1);
  EXPECT_EQ(measure(list)[0].fault, "");
  // The same trial once more, on a machine that knows nothing of it.
  stop_machine();
  stop_ = false, ran_.clear();
  sql("delete from tracewright.records");
  start_machine();
  change_builds(
      "if new.content is not null then select content, signature into new.content, new.signature from "
      "tracewright_fleet.stash limit 1; end if;");
  expect_refused(measure(list)[0], "it was built for trial `1`, not `2`");
}

// Every part of what a build is for, and each sort for the other.
TEST_F(BuiltCode, ASignatureHoldsForOneTrialAlone) {
  QueuedTrial trial = trials(2)[1];
  SignedBytes bytes = sign_build(signing_key(), kind(), 5, trial, hostile());
  auto fault_of = [&](const SignedBytes& read, i64 id, const QueuedTrial& of, const std::string& kind) {
    return read_build(read, checking_key(), kind, id, of).fault;
  };
  EXPECT_EQ(fault_of(bytes, 5, trial, kind()).kind, "");
  std::vector<QueuedTrial> others(4, trial);
  others[0].workload[3] ^= 1, others[1].target += " -threads=2", others[2].program[3] ^= 1, others[3].trace += "\n";
  for (const QueuedTrial& other : others) EXPECT_EQ(fault_of(bytes, 5, other, kind()).kind, fault::kNotSigned);
  EXPECT_EQ(fault_of(bytes, 6, trial, kind()).kind, fault::kNotSigned);
  EXPECT_EQ(fault_of(bytes, 5, trial, BuildKind{"0.0.9", target_, checking_key().name()}.text()).kind,
            fault::kNotSigned);
  EXPECT_EQ(fault_of({}, 5, trial, kind()).kind, fault::kNotSigned);
  TrialFault fault;
  EXPECT_FALSE(read_reference(bytes, checking_key(), kind(), trial, fault)) << "a kernel is no reference";
  EXPECT_EQ(fault.kind, fault::kNotSigned);
  BuiltReference reference{.points = 3, .bytes = 4, .least_flops = 5};
  SignedBytes task = sign_reference(signing_key(), kind(), trial, reference);
  ASSERT_TRUE(read_reference(task, checking_key(), kind(), trial, fault));
  EXPECT_EQ(read_reference(task, checking_key(), kind(), trial, fault)->bytes, 4);
  EXPECT_EQ(fault_of(task, 5, trial, kind()).kind, fault::kNotSigned) << "nor the other way round";
  QueuedTrial other_seed = trial;
  other_seed.seed = 1;
  EXPECT_FALSE(read_reference(task, checking_key(), kind(), other_seed, fault));
  // Bytes cut off or added, where signatures were believed: the form is still checked.
  for (std::size_t length = 0; length < bytes.content.size(); length += 7) {
    SignedBytes cut{bytes.content.substr(0, length), signing_key().sign(bytes.content.substr(0, length))};
    EXPECT_EQ(fault_of(cut, 5, trial, kind()).kind, fault::kNotSigned) << length;
  }
}

// A machine that compiles itself never looks at what others have built.
TEST_F(BuiltCode, ByDefaultNobodysCodeIsRun) {
  BuilderHere builder(address_, task_.target);
  start_machine(compile_here());
  QueuedTrial trial = trials(1)[0];
  std::thread hostile_builder([&] {
    for (int i = 0; i < 20; ++i) {
      sql(cat("insert into tracewright_fleet.builds (trial, kind, builder, content, signature) select id, '", kind(),
              "', 0, 'x', 'y' from tracewright_fleet.trials on conflict do nothing"));
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  });
  TrialOutcome outcome = measure({trial})[0];
  hostile_builder.join();
  EXPECT_EQ(outcome.fault, "") << outcome.message;
  TrialFault fault;
  std::unique_ptr<FleetTask> task = read_program(trial, *database_, fault);
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(task_.target));
  std::lock_guard lock(mutex_);
  EXPECT_EQ(ran_, std::vector<std::string>{build_fleet_trial(*task, trial, *compiler).built.kernel->code});
  EXPECT_EQ(builder.stop().built, 0) << "nobody wanted it";
}

TEST_F(BuiltCode, WithoutABuilderTrialsWaitAndThatIsSaid) {
  start_machine();
  double begin = seconds_now();
  Waiting a_moment{.must_stop = [&] { return seconds_now() - begin > 1; }, .say = [](const std::string&) {}};
  EXPECT_FALSE(link_->machine_for(target_, a_moment)) << "it offers nothing as long as nobody builds";
  TrialQueue queue = this->queue();
  auto status = BuildQueue(queue).status();
  ASSERT_TRUE(status) << status.error();
  ASSERT_EQ(status->targets.size(), 1u);
  EXPECT_EQ(status->targets[0].target, target_);
  EXPECT_EQ(status->targets[0].builders, 0);
  // With a key that the machine does not have, nothing changes.
  BuilderHere stranger(address_, task_.target, kOtherKey);
  begin = seconds_now();
  EXPECT_FALSE(link_->machine_for(target_, a_moment));
  EXPECT_EQ(stranger.stop().built, 0);
  // A builder comes, and goes before the trials come.
  {
    BuilderHere first(address_, task_.target);
    std::atomic<bool> never = false;
    EXPECT_TRUE(link_->machine_for(target_, until(never)));
  }
  std::vector<TrialOutcome> outcomes;
  std::thread tuner([&] { outcomes = measure(trials(3)); });
  do {
    status = BuildQueue(queue).status();
    ASSERT_TRUE(status) << status.error();
  } while (status->targets.empty() || status->targets[0].trials < 3);
  EXPECT_EQ(status->targets[0].builders, 0);
  BuilderHere second(address_, task_.target);
  tuner.join();
  for (const TrialOutcome& outcome : outcomes) EXPECT_EQ(outcome.fault, "") << outcome.message;
}

// The first builder takes trials and is gone.
TEST_F(BuiltCode, ALostBuilderIsReplaced) {
  start_machine();
  TrialQueue queue = this->queue();
  BuildQueue builds(queue);
  auto lost = builds.add_builder({.name = "lost", .version = TW_VERSION, .targets = target_, .key = ""});
  ASSERT_TRUE(lost) << lost.error();
  std::vector<WantedBuild> wanted = {{target_, kind(), target_}};
  ASSERT_TRUE(builds.offer(*lost, wanted));
  std::vector<TrialOutcome> outcomes;
  std::thread tuner([&] { outcomes = measure(trials(3)); });
  std::size_t taken = 0;
  while (taken < 2) {
    auto got = builds.take(*lost, wanted, 2 - static_cast<int>(taken));
    ASSERT_TRUE(got) << got.error();
    taken += got->size();
  }
  BuilderHere second(address_, task_.target);
  auto built = [&] {
    return (*queue.connection().run("select sum(built)::bigint from tracewright_fleet.builders"))[0].integer(0);
  };
  while (built() < 1) std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(built(), 1) << "two are the first builder's until its deadline";
  sql("update tracewright_fleet.builds set deadline = deadline - interval '1 hour' where content is null");
  tuner.join();
  for (const TrialOutcome& outcome : outcomes) EXPECT_EQ(outcome.fault, "") << outcome.message;
  EXPECT_EQ(second.stop().built, 3);
}

// The calibration of a machine without a compiler is that of one with it: the same kernels, and a class.
TEST_F(BuiltCode, CalibratesTheMachineAsIfItCompiledItself) {
  start_machine(std::make_shared<BuiltSource>(checking_key()), /*is_calibrated=*/true);
  double begin = seconds_now();
  Waiting a_moment{.must_stop = [&] { return seconds_now() - begin > 0.5; }, .say = [](const std::string&) {}};
  EXPECT_FALSE(link_->machine_for(target_, a_moment)) << "it measures nothing before it is calibrated";
  BuilderHere builder(address_, task_.target);
  EXPECT_EQ(measure(trials(1))[0].fault, "");
  Target processor = host_target();
  processor.threads = 1;
  std::set<std::string> expected, ran;
  std::vector<std::string> names, found;
  for (const CalibrationKernel& kernel : compile_calibration(processor, processor, [] { return false; }).kernels)
    expected.insert(kernel.kernel.code), names.push_back(kernel.name);
  ASSERT_EQ(expected.size(), 3u);
  {
    std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i + 1 < ran_.size(); ++i) ran.insert(ran_[i]);
  }
  EXPECT_EQ(ran, expected);
  auto status = queue().status();
  ASSERT_TRUE(status) << status.error();
  ASSERT_EQ(status->machines.at(0).calibrations.size(), 1u);
  EXPECT_EQ(status->machines[0].calibrations[0].number, 1);
  for (const KernelTime& time : status->machines[0].calibrations[0].times) found.push_back(time.kernel);
  EXPECT_EQ(found, names);
}

// Kernels of a calibration that somebody has changed, or of another target, are not run; good ones that come later are.
TEST_F(BuiltCode, KernelsOfACalibrationAreCheckedAsWell) {
  Target processor = host_target();
  processor.threads = 1;
  const std::string text = to_string(processor), kind = BuildKind{TW_VERSION, text, checking_key().name()}.text();
  const QueuedTrial task = BuildPurpose{BuildPurpose::Sort::Calibration, text}.task();
  CalibrationKernels hostile{.kernels = {{.name = "arithmetic", .kernel = *this->hostile().built.kernel}}};
  SignedBytes changed = sign_calibration(signing_key(), kind, text, hostile);
  changed.content[changed.content.size() / 2] ^= 1;
  auto queue = this->queue();
  for (const SignedBytes& wrong :
       {changed, sign_calibration(signing_key(kOtherKey), kind, text, hostile),
        sign_calibration(signing_key(), kind, cat(text, " -threads=2"), hostile),
        sign_build(signing_key(), kind, 0, task, this->hostile()), sign_reference(signing_key(), kind, task, {})}) {
    EXPECT_NE(read_calibration(wrong, checking_key(), kind, text).problem, "");
    EXPECT_TRUE(read_calibration(wrong, checking_key(), kind, text).kernels.empty());
  }
  ASSERT_TRUE(BuildQueue(queue).store_task(task, kind, changed));
  start_machine(std::make_shared<BuiltSource>(checking_key()), /*is_calibrated=*/true);
  auto is_said = [this] {
    std::lock_guard lock(mutex_);
    return said_.find("cannot be calibrated: built kernels are not run: its signature") != std::string::npos;
  };
  while (!is_said()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  {
    std::lock_guard lock(mutex_);
    EXPECT_TRUE(ran_.empty());
  }
  BuilderHere builder(address_, task_.target);
  EXPECT_EQ(measure(trials(1))[0].fault, "");
  std::lock_guard lock(mutex_);
  EXPECT_EQ(std::ranges::count(ran_, "hostile"), 0);
  EXPECT_GT(ran_.size(), 3u);
}

// Another machine of the class has measured a faster kernel: a builder makes it for this one, which times its own in
// turn with it.
class BestOfOthers : public BuiltCode {
 protected:
  void SetUp() override {
    BuiltCode::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    begin();
  }
  // `host`: of the machine that has measured the best one.
  void begin(const std::string& host = host_description()) {
    measuring_takes_ = std::chrono::milliseconds(200);
    list_ = trials(5);
    best_ = list_.back();
    list_.pop_back();
    Record record;
    record.workload = workload_, record.target = target_, record.task = "dense", record.version = TW_VERSION;
    record.program = best_.program, record.trace = best_.trace, record.host = host;
    record.status = "ok", record.seconds = 1e-9;
    auto stored = database_->add_record(record);
    ASSERT_TRUE(stored) << stored.error();
    for (QueuedTrial& trial : list_) trial.incumbent = *stored;
    TrialFault fault;
    std::unique_ptr<FleetTask> task = read_program(best_, *database_, fault);
    Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(task_.target));
    code_ = build_fleet_trial(*task, best_, *compiler).built.kernel->code;
  }
  // The machine measures the trials one behind the other, while the builder has some time.
  void measure_all() {
    for (const QueuedTrial& trial : list_) EXPECT_EQ(measure({trial})[0].fault, "");
  }

  std::vector<QueuedTrial> list_;
  QueuedTrial best_;
  std::string code_;  // of the best
};

TEST_F(BestOfOthers, IsTimedInTurn) {
  BuilderHere builder(address_, task_.target);
  start_machine();
  measure_all();
  std::lock_guard lock(mutex_);
  EXPECT_EQ(in_turn_with_.count(code_), 1u);
  EXPECT_EQ(std::ranges::count(ran_, code_), 0) << "it is not measured again";
}

TEST_F(BestOfOthers, IsLeftOutWhereItIsOfAnotherClass) {
  begin(in_class(host_description(), 2));
  BuilderHere builder(address_, task_.target);
  start_machine();
  measure_all();
  std::lock_guard lock(mutex_);
  EXPECT_EQ(in_turn_with_.count(code_), 0u);
}

TEST_F(BestOfOthers, IsLeftOutWhereItWasChanged) {
  change_when("insert on tracewright_fleet.built_tasks",
              "if new.target like 'record %' then new.content = set_byte(new.content, length(new.content) - 1, 7); end "
              "if;");
  BuilderHere builder(address_, task_.target);
  start_machine();
  measure_all();
  EXPECT_EQ(queue().connection().run("select from tracewright_fleet.built_tasks where target like 'record %'")->size(),
            1);
  std::lock_guard lock(mutex_);
  EXPECT_EQ(in_turn_with_.count(code_), 0u);
}

TEST_F(BuiltCode, TheKernelOfARecordIsSignedForIt) {
  QueuedTrial trial = trials(2)[1];
  SignedBytes bytes = sign_built_record(signing_key(), kind(), 5, trial, hostile());
  EXPECT_TRUE(read_built_record(bytes, checking_key(), kind(), 5, trial).built.kernel);
  EXPECT_EQ(read_built_record(bytes, checking_key(), kind(), 6, trial).fault.kind, fault::kNotSigned);
  EXPECT_EQ(read_build(bytes, checking_key(), kind(), 5, trial).fault.kind, fault::kNotSigned);
  SignedBytes of_trial = sign_build(signing_key(), kind(), 5, trial, hostile());
  EXPECT_EQ(read_built_record(of_trial, checking_key(), kind(), 5, trial).fault.kind, fault::kNotSigned);
  trial.trace += "\n";
  EXPECT_EQ(read_built_record(bytes, checking_key(), kind(), 5, trial).fault.kind, fault::kNotSigned);
}

TEST(BuildPurpose, IsReadFromItsText) {
  using Sort = BuildPurpose::Sort;
  for (const BuildPurpose& purpose : {BuildPurpose{Sort::Trials, "cpu"}, BuildPurpose{Sort::Calibration, "opencl"},
                                      BuildPurpose{Sort::Record, "cpu -mcpu=znver4", 123456789012}})
    EXPECT_EQ(BuildPurpose::parse(purpose.text()), purpose) << purpose.text();
  EXPECT_EQ(BuildPurpose::parse("record of nothing").sort, Sort::Trials);
}

// What kills each builder does not go from one to the next for ever.
TEST_F(BuiltCode, ATrialThatLosesBuildersEnds) {
  start_machine();
  change_when("insert on tracewright_fleet.builds", cat("new.attempts = ", kMostBuilders + 1, ";"));
  BuilderHere builder(address_, task_.target);
  TrialOutcome outcome = measure(trials(1))[0];
  EXPECT_EQ(outcome.fault, fault::kNotBuilt) << outcome.message;
  EXPECT_EQ(builder.stop().faults, 1);
}

// Builders and machines have the role `worker`; the others only look.
TEST_F(BuiltCode, RolesMayDoTheirWork) {
  sql("do $$ begin create role bc_worker login; exception when duplicate_object then null; end $$; "
      "do $$ begin create role bc_tuner login; exception when duplicate_object then null; end $$; "
      "do $$ begin create role bc_reader login; exception when duplicate_object then null; end $$");
  auto owner = PostgresConnection::open(address_);
  ASSERT_TRUE(owner) << owner.error();
  SchemaOptions roles{.tuner = "bc_tuner", .worker = "bc_worker", .reader = "bc_reader"};
  ASSERT_TRUE(make_postgres_schema(*owner, roles));
  ASSERT_TRUE(make_queue_tables(*owner, roles));
  address_ = server_->address(name_, "bc_worker");
  {
    BuilderHere builder(address_, task_.target);
    start_machine();
    EXPECT_EQ(measure(trials(1))[0].fault, "");
  }
  for (const char* role : {"bc_tuner", "bc_reader"}) {
    auto other = PostgresConnection::open(server_->address(name_, role));
    ASSERT_TRUE(other) << other.error();
    EXPECT_TRUE(other->run("select * from tracewright_fleet.builders"));
    for (const char* table : {"builders", "builds", "builds_wanted", "builds_offered", "built_tasks"}) {
      EXPECT_FALSE(other->run(cat("delete from tracewright_fleet.", table))) << role << " " << table;
      EXPECT_FALSE(other->run(cat("insert into tracewright_fleet.", table, " default values"))) << role << " " << table;
    }
    EXPECT_FALSE(other->run("update tracewright_fleet.builds set content = 'x'")) << role;
  }
}

// The builder's faults and failures are those that a machine would have.
TEST_F(BuiltCode, FaultsOfTheTrialAreHandedOn) {
  BuilderHere builder(address_, task_.target);
  start_machine();
  std::vector<QueuedTrial> list(3, trials(1)[0]);
  list[0].program = std::string(32, '0');
  list[1].program = std::string(32, '1'), list[1].trace = "rm -rf /; import os";
  list[2].workload = std::string(32, 'b');
  std::vector<TrialOutcome> outcomes = measure(list);
  EXPECT_EQ(outcomes[0].fault, fault::kProgramDiffers) << outcomes[0].message;
  EXPECT_EQ(outcomes[1].fault, fault::kProgramDiffers) << outcomes[1].message;
  EXPECT_EQ(outcomes[2].fault, fault::kRefused) << outcomes[2].message;
  EXPECT_EQ(builder.stop().faults, 3);
}

TEST(BuildsFor, TheSameMachineCode) {
  auto target = [](const std::string& text) {
    Source source{"target", text};
    Diagnostics diagnostics(source);
    return parse_target(text, 0, diagnostics).value();
  };
  Target v3 = target("cpu -mcpu=x86-64-v3");
  EXPECT_TRUE(builds_for(v3, target("cpu -mcpu=x86-64-v3 -threads=4")));
  EXPECT_FALSE(builds_for(v3, target("cpu -mcpu=x86-64-v4")));
  EXPECT_FALSE(builds_for(v3, target("cpu -mcpu=x86-64-v3 -mattr=+avx512f")));
  EXPECT_FALSE(builds_for(v3, target("cpu -triple=aarch64-linux-gnu -mcpu=cortex-a72")));
  EXPECT_FALSE(builds_for(v3, target("opencl")));
  EXPECT_TRUE(builds_for(target("opencl"), target("opencl -device=1")));
  EXPECT_TRUE(builds_for(target("cuda -arch=sm_80"), target("cuda -arch=sm_80 -device=a100")));
  EXPECT_FALSE(builds_for(target("cuda -arch=sm_80"), target("cuda -arch=sm_90")));
  EXPECT_TRUE(calibrates_for(v3, target("cpu -mcpu=znver4")));
  EXPECT_FALSE(calibrates_for(v3, target("cpu -triple=aarch64-linux-gnu -mcpu=cortex-a72")));
  EXPECT_FALSE(calibrates_for(target("opencl"), v3));
  EXPECT_FALSE(calibrates_for(target("cuda -arch=sm_80"), target("cuda -arch=sm_90")));
}

}  // namespace
}  // namespace tw

// Machines without a compiler: a builder compiles and signs, the machine checks before it runs anything. Within this
// process, with a measurer that notes what it would run; every way to give it other code is tried.
#include "tests/unit/built_code_kit.h"

namespace tw {
namespace {

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
  TaskReference reference{.points = 3, .bytes = 4, .least_flops = 5};
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

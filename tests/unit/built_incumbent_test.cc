// The best kernel that a tuner knows, on machines without a compiler.
#include "tests/unit/built_code_kit.h"

namespace tw {
namespace {

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

}  // namespace
}  // namespace tw

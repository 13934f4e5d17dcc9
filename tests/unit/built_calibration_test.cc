// The calibration of machines without a compiler.
#include "tests/unit/built_code_kit.h"

namespace tw {
namespace {

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
  for (double begin = seconds_now(); !is_said() && seconds_now() - begin < 60;)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(is_said());
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

}  // namespace
}  // namespace tw

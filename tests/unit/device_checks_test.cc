// The kernels that look at results on a device (sampler/search/device_checks.h), as a worker runs them, on an OpenCL
// device of this process: what is right is found right, and no planted fault is.
#include "runtime/worker_device/device_checks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <regex>

#include "backends/interpreter.h"
#include "dsl/text/workload.h"
#include "runtime/measure/elements.h"
#include "sampler/search/device_checks.h"
#include "sampler/search/trial.h"
#include "support/opencl_device.h"
#include "support/support.h"

namespace tw {
namespace {

constexpr i64 kCount = 600'001;  // no multiple of anything
constexpr double kVariance = 1e-6;
const std::vector<i64> kPlaces = {0, 17, 4242, kCount / 2, kCount - 1};

const char* const kText = "workload copied(n: int, T: type) { input A: T[n]; output Y: T[i: n] = A[i] }";

Target opencl() {
  Target target;
  target.kind = TargetKind::OpenCl;
  return target;
}

KernelArgument argument(const std::string& name, ArgumentRole role, DType type) {
  return {name, role, type, {kCount}, kCount * bytes_of(type)};
}

// A task whose output Y must be its input A, with some variance; by all its elements or by those at kPlaces.
class Copied {
 public:
  Copied(device::Device& gpu, DType type, bool is_sampled, const std::function<void(DeviceCheck&)>& change = {})
      : gpu_(gpu),
        type_(type),
        a_(argument("A", ArgumentRole::Input, type)),
        y_(argument("Y", ArgumentRole::Output, type)) {
    Source source{"copied", kText};
    Diagnostics diagnostics(source);
    WorkloadModule module = parse_workloads(source, diagnostics);
    std::optional<OwnedProgram> program = instantiate(module, "copied", {{"n", kCount}, {"T", type}}, {}, diagnostics);
    EXPECT_TRUE(program) << diagnostics.render();
    BeginTaskMessage message;
    message.reference.manifest.run = {a_, argument("Y", ArgumentRole::Output, wide()),
                                      argument("Y.variance", ArgumentRole::Output, DType::F64)};
    if (!is_float(type)) message.reference.manifest.run.pop_back();
    message.seed = 3;
    SampledReference sample;
    TaskFailure failure;
    {
      Task drawn = Task(message, [] { return false; }, failure);
      for (int set = 0; set < kSets; ++set) wanted_[set] = values(drawn.find(set, a_)->kernel_view());
    }
    if (is_sampled) {
      for (int set = 0; set < kSets; ++set)
        message.samples[static_cast<std::size_t>(set)] =
            sample.samples[static_cast<std::size_t>(set)] = {sample_of(set)};
    }
    task_ = std::make_unique<Task>(message, [] { return false; }, failure);
    if (!is_sampled) keep_reference(message.reference.manifest);
    EXPECT_EQ(failure.message, "");
    auto input = [this](int set, const std::string&) { return task_->find(set, a_)->kernel_view(); };
    std::vector<DeviceCheck> checks = tw::device_checks(program->program, opencl(), is_sampled ? &sample : nullptr);
    EXPECT_EQ(checks.size(), is_sampled && is_float(type) ? 3u : 2u);
    for (DeviceCheck& check : checks) {
      if (change) change(check);
    }
    checks_ = std::make_unique<DeviceChecks>(gpu, *task_, std::move(checks), input, room_);
    memory_ = std::make_unique<device::Memory>(gpu, y_.bytes);
  }

  // A right result of a set, as bytes.
  std::string right(int set) const {
    const char* data = task_->find(set, a_)->kernel_view();
    return {data, static_cast<std::size_t>(a_.bytes)};
  }
  bool is_right(const std::string& result, int set) {
    double max_error = 0;
    return memory_->write(result.data()) && checks_->is_right(y_, set, *memory_, max_error);
  }
  bool is_unchanged(const std::string& data, int set) {
    return memory_->write(data.data()) && checks_->is_unchanged("A", set, *memory_);
  }
  bool restores(int set) {
    std::string back(static_cast<std::size_t>(a_.bytes), 0);
    return memory_->fill(0) && checks_->restore("A", set, *memory_) && memory_->read(back.data()) && back == right(set);
  }
  void renew() { checks_->renew(); }
  i64 room() const { return room_; }
  std::vector<double> values(const char* data) const {
    HostArray array = HostArray::zeros(type_, {kCount});
    std::memcpy(array.bytes.data(), data, array.bytes.size());
    std::vector<double> out;
    for (i64 i = 0; i < kCount; ++i) out.push_back(array.get(i));
    return out;
  }

 private:
  DType wide() const { return is_float(type_) ? DType::F64 : type_; }
  OutputSample sample_of(int set) const {
    OutputSample out{"Y", kCount, kPlaces, {}, {}};
    for (i64 place : kPlaces) out.expected.push_back(wanted_[set][static_cast<std::size_t>(place)]);
    if (is_float(type_)) out.variances.assign(kPlaces.size(), kVariance);
    return out;
  }
  void keep_reference(const KernelManifest& manifest) {
    for (int layout = 0; layout < kLayouts; ++layout) {
      BufferList own;
      KernelBinding binding;
      TaskFailure failure;
      ASSERT_TRUE(task_->bind(manifest, layout, 1, own, binding, failure)) << failure.message;
      if (is_float(type_)) {
        std::memcpy(binding.run[1], wanted_[layout].data(), sizeof(double) * kCount);
        std::fill_n(reinterpret_cast<double*>(binding.run[2]), kCount, kVariance);
      } else {
        std::memcpy(binding.run[1], right(layout).data(), static_cast<std::size_t>(a_.bytes));
      }
      ASSERT_TRUE(task_->keep_reference(layout, manifest, failure)) << failure.message;
    }
  }

  device::Device& gpu_;
  DType type_;
  KernelArgument a_, y_;
  std::vector<double> wanted_[kSets];
  std::unique_ptr<Task> task_;
  i64 room_ = i64{1} << 30;
  std::unique_ptr<DeviceChecks> checks_;
  std::unique_ptr<device::Memory> memory_;
};

// The result with other values at some places.
std::string changed(const std::string& result, DType type, const std::vector<i64>& places,
                    const std::function<double(double)>& change) {
  HostArray array = HostArray::zeros(type, {kCount});
  std::memcpy(array.bytes.data(), result.data(), result.size());
  for (i64 place : places) array.set(place, change(array.get(place)));
  return {reinterpret_cast<const char*>(array.bytes.data()), array.bytes.size()};
}

std::vector<i64> all_places() {
  std::vector<i64> places(kCount);
  for (i64 i = 0; i < kCount; ++i) places[static_cast<std::size_t>(i)] = i;
  return places;
}

class DeviceChecksOf : public ::testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    if (std::string missing = test::missing_for_opencl(); !missing.empty()) GTEST_SKIP() << missing;
    setenv("POCL_CACHE_DIR", cache_.path().c_str(), 1);
    std::string error;
    gpu_ = std::make_unique<device::Device>(0, error);
    ASSERT_EQ(error, "");
  }
  test::TemporaryDirectory cache_;
  std::unique_ptr<device::Device> gpu_;
};

INSTANTIATE_TEST_SUITE_P(Types, DeviceChecksOf,
                         ::testing::Values(DType::F32, DType::F16, DType::BF16, DType::F64, DType::I32, DType::I8),
                         [](const auto& info) { return name_of(info.param); });

struct Fault {
  const char* name;
  std::vector<i64> places;
  std::function<double(double)> change;
};

std::vector<Fault> faults_of(DType type) {
  constexpr i64 kLast = kCount - 1;
  std::vector<Fault> faults = {{"the last element is another one", {kLast}, [](double v) { return v + 1; }},
                               {"the first element is another one", {0}, [](double v) { return -v - 1; }},
                               {"all are zero", all_places(), [](double) { return 0.0; }}};
  if (!is_float(type)) return faults;
  for (i64 place : {i64{0}, kLast}) {
    faults.push_back({"not a number", {place}, [](double) { return std::nan(""); }});
    faults.push_back({"infinite", {place}, [](double) { return INFINITY; }});
    faults.push_back({"infinite below", {place}, [](double) { return -INFINITY; }});
  }
  if (bytes_of(type) >= 4)
    faults.push_back({"a little too far", {kLast}, [](double v) { return v + 2.1 * std::sqrt(kVariance); }});
  return faults;
}

TEST_P(DeviceChecksOf, RightResultsAreRightAndFaultsAreNot) {
  DType type = GetParam();
  Copied task(*gpu_, type, /*is_sampled=*/false);
  for (int set = 0; set < kSets; ++set) {
    EXPECT_TRUE(task.is_right(task.right(set), set));
    EXPECT_FALSE(task.is_right(task.right(1 - set), set)) << "of the other set";
    for (const Fault& fault : faults_of(type))
      EXPECT_FALSE(task.is_right(changed(task.right(set), type, fault.places, fault.change), set)) << fault.name;
  }
}

// Of types in which such a difference can be written.
class DeviceChecksOfFine : public DeviceChecksOf {};
INSTANTIATE_TEST_SUITE_P(Types, DeviceChecksOfFine, ::testing::Values(DType::F32, DType::F64),
                         [](const auto& info) { return name_of(info.param); });

// A kernel that does nothing finds nothing right, even where one before it has found all right.
TEST_P(DeviceChecksOf, WhatDoesNotRunSaysNothing) {
  Copied task(*gpu_, GetParam(), /*is_sampled=*/false, [](DeviceCheck& check) {
    check.kernel.code =
        std::regex_replace(check.kernel.code, std::regex("get_local_id\\(0\\);"), "$& if (r_1 >= 0) return;");
  });
  EXPECT_FALSE(task.is_right(task.right(0), 0));
  EXPECT_FALSE(task.is_unchanged(task.right(0), 0));
}

// Within what rounding explains, one by one; but not all of them together.
TEST_P(DeviceChecksOfFine, DistanceOfAllElementsCounts) {
  DType type = GetParam();
  Copied task(*gpu_, type, /*is_sampled=*/false);
  auto off = [](double deviations) { return [=](double v) { return v + deviations * std::sqrt(kVariance); }; };
  EXPECT_TRUE(task.is_right(changed(task.right(0), type, {7, 100}, off(1.9)), 0));
  EXPECT_TRUE(task.is_right(changed(task.right(0), type, all_places(), off(0.99)), 0));
  EXPECT_FALSE(task.is_right(changed(task.right(0), type, all_places(), off(1.1)), 0));
}

TEST_P(DeviceChecksOf, SamplesAreCompared) {
  DType type = GetParam();
  Copied task(*gpu_, type, /*is_sampled=*/true);
  EXPECT_TRUE(task.is_right(task.right(0), 0));
  EXPECT_TRUE(task.is_right(task.right(1), 1));
  EXPECT_FALSE(task.is_right(task.right(1), 0));
  for (i64 place : kPlaces)
    EXPECT_FALSE(task.is_right(changed(task.right(0), type, {place}, [](double v) { return v + 1; }), 0)) << place;
  i64 elsewhere = 4243;
  std::string missing = changed(task.right(0), type, {elsewhere}, [](double) { return std::nan(""); });
  EXPECT_EQ(task.is_right(missing, 0), !is_float(type)) << "was not written";
}

TEST_P(DeviceChecksOf, InputsAreTheSameBitForBit) {
  Copied task(*gpu_, GetParam(), /*is_sampled=*/false);
  for (int set = 0; set < kSets; ++set) {
    std::string data = task.right(set);
    EXPECT_TRUE(task.is_unchanged(data, set));
    for (std::size_t at : {std::size_t{0}, data.size() / 2, data.size() - 1}) {
      data[at] = static_cast<char>(data[at] ^ 1);
      EXPECT_FALSE(task.is_unchanged(data, set)) << at;
      data[at] = static_cast<char>(data[at] ^ 1);
    }
    EXPECT_TRUE(task.restores(set));
  }
  i64 room = task.room();
  task.renew();
  EXPECT_GT(task.room(), room) << "memory was given back";
  EXPECT_TRUE(task.is_unchanged(task.right(0), 0));
}

}  // namespace
}  // namespace tw

#include "runtime/worker_device/device_task.h"

#include <algorithm>
#include <cstring>
#include <thread>

#include "dsl/base/text.h"
#include "runtime/measure/object_loader.h"
#include "runtime/measure/thread_pool.h"

namespace tw {
namespace {

constexpr u8 kPoison = 0xff;  // NaN in every float type
constexpr double kBuildSeconds = 60;
constexpr double kFirstLaunch = 10;  // drivers may compile at the first launch: so many times the limit of a call

bool is_data(const KernelArgument& argument) {
  return argument.role == ArgumentRole::Input || argument.role == ArgumentRole::Constant;
}

std::string no_memory_for(const KernelArgument& argument) {
  return cat("the device has no memory for `", argument.name, "` with ", argument.bytes, " bytes");
}

bool fail(MeasureResult& result, MeasureStatus status, std::string message) {
  result.status = status;
  result.message = std::move(message);
  return false;
}

bool fail_run(MeasureResult& result, int code) {
  constexpr MeasureStatus kStatus[] = {MeasureStatus::BuildError, MeasureStatus::OutOfMemory, MeasureStatus::Crash};
  device::Failure failure = device::failure_of(code);
  const char* what = failure == device::Failure::Fault ? "the kernel broke the device's context: "
                                                       : "the device does not run the kernel: ";
  return fail(result, kStatus[static_cast<int>(failure)], cat(what, device::error_text(code)));
}

}  // namespace

DeviceTask::DeviceTask(DeviceWorker& worker, BeginTaskMessage& message, int file, double& reference_seconds,
                       TaskFailure& failure)
    : worker_(worker) {
  data_ = std::make_unique<Task>(message, [] { return false; }, failure);
  if (failure.status == MeasureStatus::Ok) failure = bring_inputs(message.reference.manifest);
  bool is_needed = failure.status == MeasureStatus::Ok && !data_->is_sampled();
  if (!is_needed || (file >= 0 && data_->take_reference_from(file, message.reference.manifest))) return;
  failure = run_reference(message.reference, reference_seconds);
  if (failure.status == MeasureStatus::Ok && file >= 0) data_->move_reference_to(file);
}

// From here on layout i holds set i.
TaskFailure DeviceTask::bring_inputs(const KernelManifest& reference) {
  for (int layout = 0; layout < kLayouts; ++layout) {
    for (const auto* list : {&reference.run, &reference.prepack}) {
      for (const KernelArgument& argument : *list) {
        if (!is_data(argument)) continue;
        host_inputs_[layout][argument.name] = data_->find(layout, argument)->kernel_view();
        std::unique_ptr<device::Memory>& memory = inputs_[argument.name];
        if (!memory) memory = std::make_unique<device::Memory>(worker_.gpu, argument.bytes);
        if (!memory->is_there()) return {MeasureStatus::OutOfMemory, no_memory_for(argument)};
      }
    }
  }
  return {};
}

// The kernel is ours and was made without a schedule, so it runs in this process.
TaskFailure DeviceTask::run_reference(const Kernel& reference, double& seconds) {
  std::string error;
  LoadedObject object = load_object(reference.code, error);
  const KernelManifest& manifest = reference.manifest;
  tw_run_function run = error.empty() ? object.run(manifest.symbol) : nullptr;
  tw_prepack_function prepack = error.empty() ? object.prepack(manifest.symbol) : nullptr;
  if (!run) return {MeasureStatus::BuildError, error.empty() ? "the reference has no entry point" : error};
  TaskFailure failure;
  std::unique_ptr<tw_pool, decltype(&tw_pool_destroy)> pool(
      tw_pool_create(std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, 64), nullptr),
      tw_pool_destroy);
  for (int layout = 0; layout < kLayouts; ++layout) {
    BufferList own;
    KernelBinding binding;
    if (!data_->bind(manifest, layout, pool ? tw_pool_threads(pool.get()) : 1, own, binding, failure)) return failure;
    i64 begin = monotonic_nanoseconds();
    if (prepack) prepack(binding.prepack.data());
    run(binding.run.data(), binding.scratch, pool ? tw_pool_run : nullptr, pool.get());
    seconds = static_cast<double>(monotonic_nanoseconds() - begin) * 1e-9;
    if (!data_->keep_reference(layout, manifest, failure)) return failure;
  }
  return {};
}

device::Memory* DeviceTask::memory_for(const KernelArgument& argument, Loaded& owner, std::string& error) {
  if (is_data(argument)) {
    auto found = inputs_.find(argument.name);
    if (found != inputs_.end() && found->second->bytes() == argument.bytes) return found->second.get();
    error = cat("argument `", argument.name, "` with ", argument.bytes, " bytes is not an input of the reference");
    return nullptr;
  }
  bool is_packed = argument.role == ArgumentRole::Packed;
  std::unique_ptr<device::Memory>& memory =
      is_packed ? owner.packed[argument.name] : outputs_[cat(argument.name, "/", argument.bytes)];
  if (!memory) memory = std::make_unique<device::Memory>(worker_.gpu, argument.bytes);
  if (memory->is_there()) return memory.get();
  error = no_memory_for(argument);
  memory.reset();
  return nullptr;
}

std::shared_ptr<DeviceTask::Loaded> DeviceTask::load(const Kernel& kernel, MeasureResult& result) {
  for (const std::shared_ptr<Loaded>& known : {latest_, incumbent_}) {
    if (known && known->code == kernel.code) return known;
  }
  auto loaded = std::make_shared<Loaded>();
  loaded->code = kernel.code;
  std::vector<device::Memory*> pointers[2];
  std::string error;
  const KernelManifest& manifest = kernel.manifest;
  for (int entry = 0; entry < 2; ++entry) {
    for (const KernelArgument& argument : entry == 0 ? manifest.prepack : manifest.run) {
      device::Memory* memory = memory_for(argument, *loaded, error);
      if (!memory) return fail(result, MeasureStatus::OutOfMemory, error), nullptr;
      pointers[entry].push_back(memory);
    }
  }
  if (i64 bytes = manifest.scratch_bytes(1); bytes > 0) {
    loaded->scratch = std::make_unique<device::Memory>(worker_.gpu, bytes);
    if (bytes > worker_.memory_bytes || !loaded->scratch->is_there())
      return fail(result, MeasureStatus::OutOfMemory, cat("the device has no memory for ", bytes, " bytes of scratch")),
             nullptr;
  }
  loaded->kernel = std::make_unique<device::LoadedKernel>(worker_.gpu, kernel, pointers[0], pointers[1],
                                                          loaded->scratch.get(), error);
  if (!error.empty()) return fail(result, MeasureStatus::BuildError, error), nullptr;
  return loaded;
}

bool DeviceTask::upload(int set) {
  if (set_on_device_ == set) return true;
  for (const auto& [name, memory] : inputs_) {
    bool is_there = (checks_ && checks_->restore(name, set, *memory)) || memory->write(host_inputs_[set].at(name));
    if (!is_there) return false;
  }
  set_on_device_ = set;
  return true;
}

bool DeviceTask::poison_outputs() {
  return std::all_of(outputs_.begin(), outputs_.end(), [](const auto& output) { return output.second->fill(kPoison); });
}

void DeviceTask::check_on_device(std::vector<DeviceCheck> checks) {
  auto input = [this](int set, const std::string& name) { return host_inputs_[set].at(name); };
  checks_ = std::make_unique<DeviceChecks>(worker_.gpu, *data_, std::move(checks), input, worker_.check_bytes);
}

bool DeviceTask::is_intact(By by) {
  MeasureResult ignored;
  auto has_bands = [&](const auto& entry) { return entry.second->bands_intact(reach_of(by)); };
  return std::ranges::all_of(outputs_, has_bands) &&
         (set_on_device_ >= 0 ? inputs_intact(set_on_device_, by, ignored) : std::ranges::all_of(inputs_, has_bands));
}

void DeviceTask::renew() {
  set_on_device_ = -1;
  incumbent_ = latest_ = nullptr;
  for (const auto* list : {&inputs_, &outputs_}) {
    for (const auto& [name, memory] : *list) memory->fill(0);
  }
  if (checks_) checks_->renew();
}

bool DeviceTask::check(const Kernel& candidate, Loaded& loaded, int set, By by, const char* when,
                       MeasureResult& result) {
  bool good = upload(set) && poison_outputs();
  for (const auto& [name, memory] : inputs_) good = good && memory->fill_bands();
  for (const auto& [name, memory] : loaded.packed) good = good && memory->fill(kPoison);
  if (loaded.scratch) good = good && loaded.scratch->fill(kPoison);
  if (!good) return fail(result, MeasureStatus::WorkerLost, "the device does not take data any more");
  i64 begin = monotonic_nanoseconds();
  int code = loaded.kernel->prepack();
  result.prepack_seconds =
      candidate.manifest.prepack_launches.empty() ? 0 : static_cast<double>(monotonic_nanoseconds() - begin) * 1e-9;
  if (code == 0) code = loaded.kernel->run();
  return code == 0 ? compare(candidate, loaded, set, by, when, result) : fail_run(result, code);
}

// What the kernel has left on the device with what the reference has.
bool DeviceTask::compare(const Kernel& candidate, Loaded& loaded, int set, By by, const char* when,
                         MeasureResult& result) {
  std::vector<std::pair<std::string, device::Memory*>> written;
  for (const auto& [name, memory] : outputs_) written.emplace_back(name.substr(0, name.find('/')), memory.get());
  for (const auto& [name, memory] : loaded.packed) written.emplace_back(name, memory.get());
  if (loaded.scratch) written.emplace_back("scratch", loaded.scratch.get());
  for (const auto& [name, memory] : written) {
    if (!memory->bands_intact(reach_of(by)))
      return fail(result, MeasureStatus::OutOfBounds, cat("wrote beside `", name, "`", when));
  }
  return (by == By::Device && is_right_by_device(candidate, loaded, set, result)) ||
         compare_on_host(candidate, loaded, set, when, result);
}

bool DeviceTask::is_right_by_device(const Kernel& candidate, Loaded& loaded, int set, MeasureResult& result) {
  std::string error;
  return checks_ && std::ranges::all_of(candidate.manifest.run, [&](const KernelArgument& argument) {
           return argument.role != ArgumentRole::Output ||
                  checks_->is_right(argument, set, *memory_for(argument, loaded, error), result.max_error);
         });
}

bool DeviceTask::compare_on_host(const Kernel& candidate, Loaded& loaded, int set, const char* when,
                                 MeasureResult& result) {
  // The layout's own output buffers on the host take what the device computed, to be compared there.
  BufferList own;
  KernelBinding binding;
  TaskFailure failure;
  if (!data_->bind(candidate.manifest, set, 1, own, binding, failure))
    return fail(result, failure.status, failure.message);
  std::string error;
  for (std::size_t i = 0; i < candidate.manifest.run.size(); ++i) {
    const KernelArgument& argument = candidate.manifest.run[i];
    if (argument.role == ArgumentRole::Output && !memory_for(argument, loaded, error)->read(binding.run[i]))
      return fail(result, MeasureStatus::WorkerLost,
                  worker_.gpu.answers() ? "the device does not give its results" : "the device answers no more");
  }
  std::string wrong = data_->check(set, candidate.manifest, kPoison, result.max_error);
  return wrong.empty() || fail(result, MeasureStatus::WrongResult, cat(wrong, when));
}

bool DeviceTask::inputs_intact(int set, By by, MeasureResult& result) {
  for (const auto& [name, memory] : inputs_) {
    bool has_bands = memory->bands_intact(reach_of(by));
    if (has_bands && by == By::Device && checks_ && checks_->is_unchanged(name, set, *memory)) continue;
    auto bytes = static_cast<std::size_t>(memory->bytes());
    read_back_.resize(std::max(bytes, read_back_.size()));
    if (!memory->read(read_back_.data()))
      return fail(result, MeasureStatus::WorkerLost, "the device does not give its data");
    if (has_bands && std::memcmp(read_back_.data(), host_inputs_[set].at(name), bytes) == 0) {
      if (by == By::Device && checks_) checks_->renew();  // the copy has changed
      continue;
    }
    return fail(result, MeasureStatus::Cheat, cat("wrote to the input `", name, "` or beside it"));
  }
  return true;
}

bool DeviceTask::time(Loaded& candidate, Loaded* incumbent, double incumbent_seconds, const MeasureOptions& options,
                      MeasureResult& result) {
  device::Memory* flush = options.cold_caches ? worker_.flush.memory() : nullptr;
  if (options.cold_caches && !flush)
    return fail(result, MeasureStatus::OutOfMemory, "the device has no memory to push other data through its caches");
  int code = time_kernel(worker_.gpu, *candidate.kernel, incumbent ? incumbent->kernel.get() : nullptr,
                         incumbent_seconds, flush, options, worker_.schedstat, result);
  if (code != 0) return fail_run(result, code);
  if (std::string why = worker_.gpu.slowdown(); !why.empty()) {
    result.status = MeasureStatus::Noisy;
    result.message = cat("the device is slowed down by ", why);
  }
  return true;
}

// Without a result where there is no memory to push other data through the caches.
bool DeviceTask::time_cold(const Kernel& candidate, Loaded& loaded, By by, const MeasureOptions& options,
                           MeasureResult& result) {
  device::Memory* flush = options.cold_samples > 0 ? worker_.flush.memory() : nullptr;
  if (!flush) return true;
  // These calls come after all the others: a kernel that has learned from them to leave work out shows it here.
  if (!poison_outputs()) return fail(result, MeasureStatus::WorkerLost, "the device does not take data any more");
  if (int code = tw::time_cold(*loaded.kernel, *flush, options, result.cold_seconds); code != 0)
    return fail_run(result, code);
  return compare(candidate, loaded, 0, by, ", with cold caches", result);
}

// If what follows takes longer than `seconds`, the tuner is told so.
void DeviceTask::expect(double seconds, const char* doing, double limit) {
  MeasureResult late;
  late.status = MeasureStatus::Timeout;
  late.message = cat("did not ", doing, " within ", limit, " s");
  worker_.watchdog.expect(seconds, MessageKind::Measured, encode(late));
}

MeasureResult DeviceTask::measure(const Kernel& candidate, const Kernel* incumbent, double incumbent_seconds,
                                  const MeasureOptions& options) {
  i64 begin = monotonic_nanoseconds();
  MeasureResult result;
  for (int attempt = 0; attempt < 2; ++attempt) {
    result = check_and_time(candidate, incumbent, incumbent_seconds, options);
    bool has_erred = result.status == MeasureStatus::WrongResult || result.status == MeasureStatus::OutOfBounds ||
                     result.status == MeasureStatus::Cheat;
    if (!has_erred || is_intact(By::Host)) break;
    // The next kernel shall not be blamed for what this one wrote, nor this one for what others did: once more.
    renew();
    if (result.status != MeasureStatus::WrongResult) break;
  }
  // Whatever was found: nothing can be measured with a device that answers no more, and the next kernel shall not be
  // blamed for it.
  expect(options.timeout_seconds, "let go of the device", options.timeout_seconds);
  if (result.status != MeasureStatus::WorkerLost && !worker_.gpu.answers())
    fail(result, MeasureStatus::Crash,
         cat("the device answers no more", result.message.empty() ? "" : ": ", result.message));
  worker_.watchdog.rest();
  result.spent_seconds = static_cast<double>(monotonic_nanoseconds() - begin) * 1e-9;
  return result;
}

MeasureResult DeviceTask::check_and_time(const Kernel& candidate, const Kernel* incumbent, double incumbent_seconds,
                                         const MeasureOptions& options) {
  MeasureResult result;
  expect(kBuildSeconds, "compile", kBuildSeconds);
  std::shared_ptr<Loaded> loaded = load(candidate, result), other;
  if (loaded && incumbent && options.time) {
    MeasureResult ignored;
    other = load(*incumbent, ignored);
    // Its packed operands must hold the data that is on the device.
    bool is_ready =
        !other || other == incumbent_ || (upload(0) && other->kernel->prepack() == 0 && other->kernel->run() == 0);
    if (!is_ready)
      return fail(result, MeasureStatus::WorkerLost, "the best kernel so far does not run any more"), result;
    incumbent_ = other;
  }
  if (loaded) {
    latest_ = loaded;
    expect(kFirstLaunch * options.timeout_seconds, "return", kFirstLaunch * options.timeout_seconds);
    i64 first = monotonic_nanoseconds();
    // The first of all has nothing to be faster than.
    By by = options.time && incumbent ? By::Device : By::Host;
    bool good = check(candidate, *loaded, 0, by, "", result);
    double took = static_cast<double>(monotonic_nanoseconds() - first) * 1e-9;
    if (good) result.status = MeasureStatus::Ok;
    if (good && options.single_call_seconds > 0 && took > options.single_call_seconds) {
      double seconds = 0;
      device::Memory* flush = options.cold_caches ? worker_.flush.memory() : nullptr;
      int code = flush ? loaded->kernel->run_cold(*flush, seconds) : loaded->kernel->run(seconds);
      good = code == 0 || fail_run(result, code);
      result.cold_seconds = flush ? seconds : 0;
      result.seconds = result.min_seconds = result.median_seconds = result.lower_quartile = result.upper_quartile =
          result.device_seconds = seconds;
      result.pairs = 1;
      by = By::Host;
    }
    if (good) time_and_check_again(candidate, *loaded, other.get(), incumbent_seconds, by, options, result);
    // The incumbent's packed operands belong to set 0.
    upload(0);
    if (incumbent_ && incumbent_ == loaded) incumbent_->kernel->prepack();
  }
  return result;
}

// Behind the first check, which `first` has done. The host confirms what the device says of a kernel that may become
// the best: its outputs of both sets, and the inputs.
bool DeviceTask::time_and_check_again(const Kernel& candidate, Loaded& loaded, Loaded* incumbent,
                                      double incumbent_seconds, By first, const MeasureOptions& options,
                                      MeasureResult& result) {
  bool is_timed = options.time && result.pairs == 0;
  expect(10 * options.timeout_seconds, "end its timing", 10 * options.timeout_seconds);
  if (is_timed && !time(loaded, incumbent, incumbent_seconds, options, result)) return false;
  By by = first == By::Host || result.ratio < 1 ? By::Host : By::Device;
  if (by != first && !compare(candidate, loaded, 0, by, ", after timing", result)) return false;
  expect(10 * options.timeout_seconds, "end its timing with cold caches", 10 * options.timeout_seconds);
  if (is_timed && !time_cold(candidate, loaded, by, options, result)) return false;
  expect(kFirstLaunch * options.timeout_seconds, "return in a second check", kFirstLaunch * options.timeout_seconds);
  return inputs_intact(0, by, result) && check(candidate, loaded, 1, by, ", in a second check after timing", result) &&
         inputs_intact(1, by, result);
}

}  // namespace tw

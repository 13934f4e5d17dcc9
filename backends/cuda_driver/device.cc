#include "backends/device.h"

#include <algorithm>
#include <cstring>

#include "backends/cuda_driver/native.h"
#include "backends/cuda_driver/nvml.h"
#include "backends/guard_bands.h"
#include "dsl/base/text.h"

// All work goes to one stream of the device's primary context. Times are those of events around a graph that holds
// several runs, so that what a launch costs the processor does not count (see runtime/worker/sampling.h for the rest).
namespace tw::device {

const char* const kKind = "CUDA";
const bool kTimesAreTheDevices = true;

struct Device::State {
  int device = -1;
  cuda::Handle context = nullptr, stream = nullptr;
  cuda::Handle begin = nullptr, end = nullptr;  // events
  std::unique_ptr<cuda::ClockWatch> clock;
  // Pinned memory that data goes through: drivers pin more of other memory than what is copied, and a task's buffers
  // end where nothing may be touched. Null: there was none.
  char* staging = nullptr;

  // The memory of the device from `at` on, as the processor's; 0, or the driver's error code.
  int copy_in(cuda::Address at, const void* from, std::size_t bytes) const;
  int copy_out(void* to, cuda::Address at, std::size_t bytes) const;
};

struct Memory::State {
  cuda::Address address;  // of all of it
  const Device::State* device;
};

struct LoadedKernel::State {
  struct Launch {
    cuda::Handle function = nullptr;
    cuda::LaunchConfig config{};
    std::vector<cuda::Address> pointers;
    std::vector<void*> parameters;  // addresses of `pointers`
  };
  Device::State& device;
  cuda::Handle module = nullptr;
  std::vector<Launch> prepack, run;
  cuda::Handle graph = nullptr;  // of graph_calls runs
  int graph_calls = 0;
  double run_seconds = 0;  // of one run, when it was timed last

  bool bind(const std::vector<KernelLaunch>& launches, const std::vector<Memory*>& arguments, Memory* scratch,
            std::vector<Launch>& out, std::string& error);
  int launch(std::vector<Launch>& launches);
  int finish(std::vector<Launch>& launches);
  int capture(int calls);
  int timed(int repeats, double& seconds);
};

namespace {

constexpr int kMostInGraph = 64;
constexpr std::size_t kStagingBytes = std::size_t{4} << 20;

// Never null where a Device exists.
const cuda::Api& driver() {
  std::string error;
  return *cuda::api(error);
}

std::string capability_of(const cuda::Api& api, int device) {
  int major = 0, minor = 0;
  api.device_attribute(&major, cuda::ComputeMajor, device);
  api.device_attribute(&minor, cuda::ComputeMinor, device);
  return cat("sm_", major, minor);
}

}  // namespace

std::vector<std::string> names(std::string& error) {
  const cuda::Api* api = cuda::api(error);
  std::vector<std::string> out;
  int count = 0, version = 0;
  if (!api) return out;
  if (api->device_count(&count) != 0) count = 0;
  api->driver_version(&version);
  for (int index = 0; index < count; ++index) {
    int device = 0;
    char name[256] = "";
    std::size_t bytes = 0;
    if (api->device_get(&device, index) != 0) continue;
    api->device_name(name, sizeof name, device);
    api->device_memory(&bytes, device);
    out.push_back(cat(name, " (", capability_of(*api, device), ", ", bytes >> 30, " GiB, driver for CUDA ",
                      version / 1000, ".", version % 1000 / 10, ")"));
  }
  if (out.empty()) error = "the CUDA driver finds no device";
  return out;
}

Binary make_binary(Device&, const std::string&, std::string& error) {
  return error = "kernels for CUDA are machine code already", Binary();
}

std::string error_text(int code) {
  std::string error;
  const cuda::Api* api = cuda::api(error);
  const char* text = nullptr;
  if (api) api->error_string(code, &text);
  return text ? cat(text, " (", code, ")") : cat("error ", code);
}

Failure failure_of(int code) {
  if (code == cuda::OutOfMemory) return Failure::Memory;
  // Those of which cuda.h says that the process must be started again; whether the device answers is asked after each
  // measurement, too.
  static constexpr int kFaults[] = {214, 220, 226, 700, 702, 709, 714, 715, 716, 717, 718, 719, 721, 810, 911, 999};
  bool is_fault = std::find(std::begin(kFaults), std::end(kFaults), code) != std::end(kFaults);
  return is_fault ? Failure::Fault : Failure::Refused;
}

Device::Device(int index, std::string& error) : state_(std::make_unique<State>()) {
  std::vector<std::string> found = names(error);
  if (!error.empty()) return;
  if (index < 0 || index >= static_cast<int>(found.size())) {
    for (std::size_t i = 0; i < found.size(); ++i) found[i] = cat(i, " = ", found[i]);
    error = cat("there is no CUDA device ", index, "; there are ", join(found, ", "));
    return;
  }
  const cuda::Api& api = driver();
  int code = api.device_get(&state_->device, index);
  if (code == 0) code = api.retain_context(&state_->context, state_->device);
  if (code == 0) code = api.set_context(state_->context);
  if (code == 0) code = api.stream_create(&state_->stream, cuda::kNonBlockingStream);
  for (cuda::Handle* event : {&state_->begin, &state_->end}) {
    if (code == 0) code = api.event_create(event, 0);
  }
  char bus_id[32] = "";
  if (code == 0 && api.device_bus_id && api.device_bus_id(bus_id, sizeof bus_id, state_->device) == 0)
    state_->clock = std::make_unique<cuda::ClockWatch>(bus_id);
  void* staging = nullptr;
  if (code == 0 && api.allocate_host(&staging, kStagingBytes, 0) == 0) state_->staging = static_cast<char*>(staging);
  if (code != 0)
    error = cat("the CUDA device ", found[static_cast<std::size_t>(index)], " cannot be used: ", error_text(code));
}

i64 Device::memory_bytes() const {
  std::size_t bytes = 0;
  return driver().device_memory(&bytes, state_->device) == 0 ? static_cast<i64>(bytes) : 0;
}

i64 Device::cache_bytes() const {
  int bytes = 0;
  return driver().device_attribute(&bytes, cuda::L2Bytes, state_->device) == 0 ? bytes : 0;
}

int Device::clock_mhz() const { return state_->clock ? state_->clock->mhz() : 0; }
int Device::most_clock_mhz() const { return state_->clock ? state_->clock->most_mhz() : 0; }
std::string Device::slowdown() const { return state_->clock ? state_->clock->slowdown() : ""; }

Device::~Device() {
  if (!state_->context) return;
  for (cuda::Handle event : {state_->begin, state_->end}) {
    if (event) driver().event_destroy(event);
  }
  if (state_->stream) driver().stream_destroy(state_->stream);
  if (state_->staging) driver().release_host(state_->staging);
  driver().release_context(state_->device);
}

bool Device::answers() const { return driver().stream_synchronize(state_->stream) == 0; }

int Device::State::copy_in(cuda::Address at, const void* from, std::size_t bytes) const {
  if (!staging) return driver().copy_in(at, from, bytes);
  int code = 0;
  for (std::size_t done = 0; code == 0 && done < bytes; done += kStagingBytes) {
    std::size_t part = std::min(kStagingBytes, bytes - done);
    std::memcpy(staging, static_cast<const char*>(from) + done, part);
    code = driver().copy_in(at + done, staging, part);
    if (code == 0) code = driver().stream_synchronize(nullptr);
  }
  return code;
}

int Device::State::copy_out(void* to, cuda::Address at, std::size_t bytes) const {
  if (!staging) return driver().copy_out(to, at, bytes);
  int code = 0;
  for (std::size_t done = 0; code == 0 && done < bytes; done += kStagingBytes) {
    std::size_t part = std::min(kStagingBytes, bytes - done);
    code = driver().copy_out(staging, at + done, part);
    if (code == 0) std::memcpy(static_cast<char*>(to) + done, staging, part);
  }
  return code;
}

Memory::Memory(Device& device, i64 bytes) : bytes_(bytes) {
  cuda::Address address = 0;
  if (driver().allocate(&address, data_bytes(bytes) + 2 * kBand) != 0) return;
  state_ = std::make_unique<State>(State{address, &device.state()});
  if (fill(0)) return;
  driver().release(address);
  state_.reset();
}

Memory::~Memory() {
  if (state_) driver().release(state_->address);
}

// The copy is in the default stream, which kernels do not wait for.
bool Memory::write(const void* data) {
  return bytes_ == 0 ||
         (state_->device->copy_in(state_->address + kBand, data, static_cast<std::size_t>(bytes_)) == 0 &&
          driver().stream_synchronize(nullptr) == 0);
}

bool Memory::read(void* data) const {
  return bytes_ == 0 || state_->device->copy_out(data, state_->address + kBand, static_cast<std::size_t>(bytes_)) == 0;
}

bool Memory::copy(const Memory& from) {
  return driver().copy_async(state_->address + kBand, from.state_->address + kBand, static_cast<std::size_t>(bytes_),
                             nullptr) == 0 &&
         driver().stream_synchronize(nullptr) == 0;
}

bool Memory::fill(u8 byte) {
  return driver().set_bytes(state_->address + kBand, byte, data_bytes(bytes_)) == 0 && fill_bands();
}

bool Memory::fill_bands() {
  auto set = [&](u8 value, std::size_t at, std::size_t bytes) {
    return driver().set_bytes(state_->address + at, value, bytes) == 0;
  };
  // Sets are done in the default stream, kernels in another one.
  return device::fill_bands(bytes_, set) && driver().stream_synchronize(nullptr) == 0;
}

bool Memory::bands_intact(Reach reach) const {
  return bands_hold(bytes_, reach == Reach::All ? kBand : kNear, [&](void* to, std::size_t at, std::size_t bytes) {
    return driver().copy_out(to, state_->address + at, bytes) == 0;
  });
}

LoadedKernel::LoadedKernel(Device& device, const Kernel& kernel, const std::vector<Memory*>& prepack,
                           const std::vector<Memory*>& run, Memory* scratch, std::string& error)
    : state_(new State{device.state()}) {
  if (!kernel.code.starts_with("\x7f"
                               "ELF")) {
    error = "the kernel is no machine code for CUDA devices";
    return;
  }
  if (int code = driver().load_module(&state_->module, kernel.code.data()); code != 0) {
    error = cat("the driver does not load the machine code: ", error_text(code));
    return;
  }
  bool bound = state_->bind(kernel.manifest.prepack_launches, prepack, scratch, state_->prepack, error);
  if (bound) state_->bind(kernel.manifest.run_launches, run, scratch, state_->run, error);
}

LoadedKernel::~LoadedKernel() {
  if (state_->graph) driver().graph_executable_destroy(state_->graph);
  if (state_->module) driver().unload_module(state_->module);
}

int LoadedKernel::prepack() { return state_->finish(state_->prepack); }
int LoadedKernel::run() { return state_->finish(state_->run); }

// Behind as many untimed runs as take longer than a launch costs the processor: an event on an idle stream would count
// that.
int LoadedKernel::run(double& device_seconds) {
  constexpr double kLaunch = 2e-5;
  constexpr int kMostBefore = 64;
  int code = state_->capture(1);
  if (code == 0) code = state_->timed(1, device_seconds);
  int before = static_cast<int>(std::clamp(kLaunch / std::max(device_seconds, 1e-7), 1.0, double{kMostBefore}));
  for (int i = 0; i < before && code == 0; ++i) code = driver().graph_launch(state_->graph, state_->device.stream);
  return code == 0 ? state_->timed(1, device_seconds) : code;
}

// All of it is in the stream before the write has ended, so that the time has nothing of what a launch costs the
// processor.
int LoadedKernel::run_cold(Memory& other, double& device_seconds) {
  int code = state_->capture(1);
  if (code == 0)
    code = driver().set_bytes_async(other.state().address + kBand, 1, static_cast<std::size_t>(other.bytes()),
                                    state_->device.stream);
  return code == 0 ? state_->timed(1, device_seconds) : code;
}

int LoadedKernel::run(int calls, i64& nanoseconds) {
  int in_graph = std::min(calls, kMostInGraph), repeats = (calls + in_graph - 1) / in_graph;
  double seconds = 0;
  int code = state_->capture(in_graph);
  // Once without time: an event on an idle stream would count what the launch behind it costs the processor, which is
  // nothing against long ones.
  constexpr double kLong = 8e-4;
  bool is_long = state_->run_seconds * in_graph > kLong;
  if (code == 0 && !is_long) code = driver().graph_launch(state_->graph, state_->device.stream);
  if (code == 0) code = state_->timed(repeats, seconds);
  state_->run_seconds = seconds / (static_cast<double>(in_graph) * repeats);
  // For `calls`, where a few more were run.
  nanoseconds = static_cast<i64>(seconds * 1e9 * calls / (static_cast<double>(in_graph) * repeats));
  return code;
}

bool LoadedKernel::State::bind(const std::vector<KernelLaunch>& launches, const std::vector<Memory*>& arguments,
                               Memory* scratch, std::vector<Launch>& out, std::string& error) {
  for (const KernelLaunch& launch : launches) {
    Launch made;
    int code = driver().find_function(&made.function, module, launch.name.c_str());
    if (code != 0) {
      error = cat("kernel `", launch.name, "` is not in the machine code: ", error_text(code));
      return false;
    }
    for (std::size_t d = 0; d < 3; ++d) {
      made.config.grid[d] = static_cast<unsigned>(launch.groups[d]);
      made.config.block[d] = static_cast<unsigned>(launch.threads[d]);
    }
    made.config.stream = device.stream;
    made.config.dynamic_shared_bytes = static_cast<unsigned>(launch.dynamic_shared_bytes);
    if (launch.dynamic_shared_bytes > 0)
      code = driver().set_function_attribute(made.function, cuda::DynamicSharedBytes,
                                             static_cast<int>(launch.dynamic_shared_bytes));
    if (code != 0) {
      error = cat("kernel `", launch.name, "` cannot have ", launch.dynamic_shared_bytes,
                  " bytes of shared memory: ", error_text(code));
      return false;
    }
    for (const KernelLaunch::Pointer& pointer : launch.pointers) {
      const Memory* memory = pointer.is_scratch ? scratch : arguments[static_cast<std::size_t>(pointer.at)];
      made.pointers.push_back(memory->state().address + kBand +
                              (pointer.is_scratch ? static_cast<cuda::Address>(pointer.at) : 0));
    }
    out.push_back(std::move(made));
    Launch& kept = out.back();  // `pointers` has its place in the heap now, and moves no more
    for (cuda::Address& pointer : kept.pointers) kept.parameters.push_back(&pointer);
  }
  return true;
}

int LoadedKernel::State::launch(std::vector<Launch>& launches) {
  for (Launch& one : launches) {
    if (int code = driver().launch(&one.config, one.function, one.parameters.data(), nullptr); code != 0) return code;
  }
  return 0;
}

int LoadedKernel::State::finish(std::vector<Launch>& launches) {
  int code = launch(launches);
  int finished = driver().stream_synchronize(device.stream);
  return code != 0 ? code : finished;
}

// A graph of so many runs; kept until another number is asked for.
int LoadedKernel::State::capture(int calls) {
  if (graph && graph_calls == calls) return 0;
  if (graph) driver().graph_executable_destroy(graph);
  graph = nullptr;
  cuda::Handle recorded = nullptr;
  int code = driver().begin_capture(device.stream, cuda::ThreadLocal);
  for (int i = 0; i < calls && code == 0; ++i) code = launch(run);
  int ended = driver().end_capture(device.stream, &recorded);
  if (code == 0) code = ended;
  if (code == 0) code = driver().graph_instantiate(&graph, recorded, 0);
  if (recorded) driver().graph_destroy(recorded);
  graph_calls = calls;
  return code;
}

int LoadedKernel::State::timed(int repeats, double& seconds) {
  float milliseconds = 0;
  int code = driver().event_record(device.begin, device.stream);
  for (int i = 0; i < repeats && code == 0; ++i) code = driver().graph_launch(graph, device.stream);
  if (code == 0) code = driver().event_record(device.end, device.stream);
  if (code == 0) code = driver().event_synchronize(device.end);
  if (code == 0) code = driver().event_elapsed(&milliseconds, device.begin, device.end);
  seconds = static_cast<double>(milliseconds) * 1e-3;
  return code;
}

}  // namespace tw::device

namespace tw::cuda {

Handle stream_of(device::Device& device) { return device.state().stream; }
Address address_of(const device::Memory& memory) { return memory.state().address + device::kBand; }
std::string arch_of(device::Device& device) {
  std::string error;
  return device::capability_of(*api(error), device.state().device);
}
int attribute_of(device::Device& device, int attribute) {
  std::string error;
  int value = 0;
  return api(error)->device_attribute(&value, attribute, device.state().device) == 0 ? value : 0;
}
Code enqueue(device::LoadedKernel& kernel) { return kernel.state().launch(kernel.state().run); }

}  // namespace tw::cuda

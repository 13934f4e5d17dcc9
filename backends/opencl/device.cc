#include "backends/device.h"

#include <algorithm>
#include <chrono>

#include "backends/guard_bands.h"
#include "backends/opencl/api.h"
#include "backends/opencl/binary_tag.h"
#include "backends/opencl/build_options.h"
#include "backends/opencl/pocl_cache.h"
#include "dsl/base/text.h"

namespace tw::device {

const char* const kKind = "OpenCL";
const bool kTimesAreTheDevices = false;

struct Device::State {
  std::string name;
  cl_device_id device = nullptr;
  cl_context context = nullptr;
  cl_command_queue queue = nullptr;
};

struct Memory::State {
  cl_mem handle;           // of all of it
  cl_command_queue queue;  // of its device
};

struct LoadedKernel::State {
  struct Launch {
    cl_kernel kernel = nullptr;
    std::size_t global[3], local[3];
  };
  Device::State& device;
  cl_program program = nullptr;
  std::vector<Launch> prepack, run;
  std::vector<cl_mem> parts;  // sub-buffers

  bool bind(const std::vector<KernelLaunch>& launches, const std::vector<Memory*>& arguments, Memory* scratch,
            std::vector<Launch>& out, std::string& error);
  // So many calls, and the wait for the last one; the sum of their times by the device's clock.
  int launch(const std::vector<Launch>& launches, int calls, double* device_seconds);
};

namespace {

using opencl::Api;
using opencl::api;

constexpr int kMostInQueue = 64;  // calls

// Never null where a Device exists.
const Api& cl() {
  std::string error;
  return *api(error);
}

struct FoundDevice {
  cl_device_id id = nullptr;
  std::string name;
  std::string problem;  // why it cannot be used; then there is no id
};

std::string text_of(const auto& query) {
  std::size_t bytes = 0;
  if (query(0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return "";
  std::string text(bytes, 0);
  if (query(bytes, text.data(), nullptr) != CL_SUCCESS) return "";
  return text.c_str();
}

void find_devices_of(cl_platform_id platform, const Api& found, std::vector<FoundDevice>& out) {
  std::string platform_name =
      text_of([&](auto... rest) { return found.get_platform_info(platform, CL_PLATFORM_NAME, rest...); });
  if (platform_name == opencl::kPoclPlatform) {
    // It may have no device then, or one that compiles nothing. It has one number in either case, so that those of
    // others stay.
    std::string problem = opencl::pocl_cache_problem();
    if (!problem.empty()) return out.push_back({nullptr, platform_name, problem});
  }
  cl_uint devices = 0;
  if (found.get_device_ids(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &devices) != CL_SUCCESS) return;
  std::vector<cl_device_id> ids(devices);
  found.get_device_ids(platform, CL_DEVICE_TYPE_ALL, devices, ids.data(), nullptr);
  for (cl_device_id id : ids) {
    std::string name = text_of([&](auto... rest) { return found.get_device_info(id, CL_DEVICE_NAME, rest...); });
    out.push_back({id, cat(name, " (", platform_name, ")"), ""});
  }
}

// At least one of them can be used, or `error` says why not.
std::vector<FoundDevice> find_devices(std::string& error) {
  const Api* found = api(error);
  if (!found) return {};
  cl_uint count = 0;
  std::vector<FoundDevice> out;
  if (found->get_platform_ids(0, nullptr, &count) != CL_SUCCESS) count = 0;
  std::vector<cl_platform_id> platforms(count);
  if (count > 0) found->get_platform_ids(count, platforms.data(), nullptr);
  for (cl_platform_id platform : platforms) find_devices_of(platform, *found, out);
  if (std::any_of(out.begin(), out.end(), [](const FoundDevice& device) { return device.id != nullptr; })) return out;
  if (!out.empty()) error = out[0].problem;
  // Loaders may leave out drivers without devices.
  if (error.empty() && opencl::pocl_is_installed()) error = opencl::pocl_cache_problem();
  if (error.empty()) error = "there is no OpenCL device; install a driver, for processors pocl-opencl-icd";
  return {};
}

std::string about(cl_device_id id, cl_device_info what) {
  return text_of([&](auto... rest) { return cl().get_device_info(id, what, rest...); });
}

i64 bytes_of(cl_device_id id, cl_device_info what) {
  cl_ulong bytes = 0;
  return cl().get_device_info(id, what, sizeof bytes, &bytes, nullptr) == CL_SUCCESS ? static_cast<i64>(bytes) : 0;
}

const char* build_options(cl_device_id id) {
  return tw_cl_build_options(about(id, CL_DEVICE_OPENCL_C_VERSION).c_str(), about(id, CL_DEVICE_EXTENSIONS).c_str());
}

// The program of a source text; on failure `error` says why, with the compiler's log. It is released in either case.
cl_program compile(const Device::State& device, const std::string& source, std::string& error) {
  const char* text = source.data();
  std::size_t bytes = source.size();
  cl_int code = CL_SUCCESS;
  cl_program program = cl().create_program(device.context, 1, &text, &bytes, &code);
  cl_device_id id = device.device;
  code = program ? cl().build_program(program, 1, &id, build_options(id), nullptr, nullptr) : code;
  if (code == CL_SUCCESS) return program;
  std::string log =
      text_of([&](auto... rest) { return cl().get_program_build_info(program, id, CL_PROGRAM_BUILD_LOG, rest...); });
  error = cat("the driver does not compile the source (error ", code, "): ", log.substr(0, 400));
  return program;
}

// What the driver gives for a program of one device; empty on failure.
std::string binary_of(cl_program program) {
  std::size_t size = 0;
  if (cl().get_program_info(program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr) != CL_SUCCESS) size = 0;
  std::string bytes(size, 0);
  char* at = bytes.data();
  if (size > 0 && cl().get_program_info(program, CL_PROGRAM_BINARIES, sizeof at, &at, nullptr) != CL_SUCCESS)
    bytes.clear();
  return bytes;
}

}  // namespace

std::vector<std::string> names(std::string& error) {
  std::vector<std::string> names;
  for (const FoundDevice& device : find_devices(error))
    names.push_back(device.problem.empty() ? device.name : cat(device.name, kCannotBeUsed, device.problem));
  return names;
}

std::string error_text(int code) { return cat("error ", code); }

Failure failure_of(int) { return Failure::Refused; }

Device::Device(int index, std::string& error) : state_(std::make_unique<State>()) {
  std::vector<FoundDevice> found = find_devices(error);
  if (!error.empty()) return;
  if (index < 0 || index >= static_cast<int>(found.size())) {
    std::vector<std::string> names;
    for (const FoundDevice& device : found) names.push_back(cat(names.size(), " = ", device.name));
    error = cat("there is no OpenCL device ", index, "; there are ", join(names, ", "));
    return;
  }
  error = found[static_cast<std::size_t>(index)].problem;
  if (!error.empty()) return;
  cl_device_id id = found[static_cast<std::size_t>(index)].id;
  cl_int code = CL_SUCCESS;
  state_->device = id;
  state_->name = found[static_cast<std::size_t>(index)].name;
  state_->context = cl().create_context(nullptr, 1, &id, nullptr, nullptr, &code);
  if (state_->context) state_->queue = cl().create_command_queue(state_->context, id, CL_QUEUE_PROFILING_ENABLE, &code);
  if (!state_->queue) error = cat("the OpenCL device ", state_->name, " cannot be used: error ", code);
}

i64 Device::memory_bytes() const { return bytes_of(state_->device, CL_DEVICE_GLOBAL_MEM_SIZE); }
i64 Device::cache_bytes() const { return bytes_of(state_->device, CL_DEVICE_GLOBAL_MEM_CACHE_SIZE); }

Device::~Device() {
  if (state_->queue) cl().release_command_queue(state_->queue);
  if (state_->context) cl().release_context(state_->context);
}

int Device::clock_mhz() const { return 0; }
int Device::most_clock_mhz() const { return 0; }
std::string Device::slowdown() const { return ""; }

bool Device::answers() const { return cl().finish(state_->queue) == CL_SUCCESS; }

Memory::Memory(Device& device, i64 bytes) : bytes_(bytes) {
  cl_int code = CL_SUCCESS;
  cl_mem handle =
      cl().create_buffer(device.state().context, CL_MEM_READ_WRITE, data_bytes(bytes) + 2 * kBand, nullptr, &code);
  if (!handle) return;
  state_ = std::make_unique<State>(State{handle, device.state().queue});
  if (fill(0)) return;
  cl().release_memory(handle);
  state_.reset();
}

Memory::~Memory() {
  if (state_) cl().release_memory(state_->handle);
}

bool Memory::write(const void* data) {
  return bytes_ == 0 || cl().write_buffer(state_->queue, state_->handle, CL_TRUE, kBand,
                                          static_cast<std::size_t>(bytes_), data, 0, nullptr, nullptr) == CL_SUCCESS;
}

bool Memory::read(void* data) const {
  return bytes_ == 0 || cl().read_buffer(state_->queue, state_->handle, CL_TRUE, kBand,
                                         static_cast<std::size_t>(bytes_), data, 0, nullptr, nullptr) == CL_SUCCESS;
}

bool Memory::copy(const Memory& from) {
  return bytes_ == 0 || (cl().copy_buffer(state_->queue, from.state_->handle, state_->handle, kBand, kBand,
                                          static_cast<std::size_t>(bytes_), 0, nullptr, nullptr) == CL_SUCCESS &&
                         cl().finish(state_->queue) == CL_SUCCESS);
}

bool Memory::fill(u8 byte) {
  return cl().fill_buffer(state_->queue, state_->handle, &byte, 1, kBand, data_bytes(bytes_), 0, nullptr, nullptr) ==
             CL_SUCCESS &&
         fill_bands();
}

bool Memory::fill_bands() {
  auto set = [&](u8 value, std::size_t at, std::size_t bytes) {
    return cl().fill_buffer(state_->queue, state_->handle, &value, 1, at, bytes, 0, nullptr, nullptr) == CL_SUCCESS;
  };
  return device::fill_bands(bytes_, set) && cl().finish(state_->queue) == CL_SUCCESS;
}

bool Memory::bands_intact(Reach reach) const {
  return bands_hold(bytes_, reach == Reach::All ? kBand : kNear, [&](void* to, std::size_t at, std::size_t bytes) {
    return cl().read_buffer(state_->queue, state_->handle, CL_TRUE, at, bytes, to, 0, nullptr, nullptr) == CL_SUCCESS;
  });
}

LoadedKernel::LoadedKernel(Device& device, const Kernel& kernel, const std::vector<Memory*>& prepack,
                           const std::vector<Memory*>& run, Memory* scratch, std::string& error)
    : state_(new State{device.state()}) {
  state_->program = compile(device.state(), kernel.code, error);
  if (!error.empty()) return;
  bool bound = state_->bind(kernel.manifest.prepack_launches, prepack, scratch, state_->prepack, error);
  if (bound) state_->bind(kernel.manifest.run_launches, run, scratch, state_->run, error);
}

LoadedKernel::~LoadedKernel() {
  for (const std::vector<State::Launch>* list : {&state_->prepack, &state_->run}) {
    for (const State::Launch& launch : *list) {
      if (launch.kernel) cl().release_kernel(launch.kernel);
    }
  }
  for (cl_mem part : state_->parts) cl().release_memory(part);
  if (state_->program) cl().release_program(state_->program);
}

Binary make_binary(Device& device, const std::string& source, std::string& error) {
  cl_device_id id = device.state().device;
  cl_program program = compile(device.state(), source, error);
  std::string bytes = error.empty() ? binary_of(program) : "";
  if (program) cl().release_program(program);
  if (error.empty() && bytes.empty()) error = "the driver gives no binary";
  std::string name = about(id, CL_DEVICE_NAME), version = about(id, CL_DEVICE_VERSION),
              driver = about(id, CL_DRIVER_VERSION);
  const char* const texts[] = {source.c_str(), name.c_str(), version.c_str(), driver.c_str()};
  char tag[TW_CL_TAG_BYTES + 1];
  tw_cl_binary_tag(texts, bytes.data(), bytes.size(), tag);
  return {tag + bytes, cat(name, ", ", version), driver};
}

int LoadedKernel::prepack() { return state_->launch(state_->prepack, 1, nullptr); }
int LoadedKernel::run() { return state_->launch(state_->run, 1, nullptr); }
int LoadedKernel::run(double& device_seconds) { return state_->launch(state_->run, 1, &device_seconds); }

int LoadedKernel::run_cold(Memory& other, double& device_seconds) {
  const u8 value = 1;
  int code = cl().fill_buffer(state_->device.queue, other.state().handle, &value, 1, kBand,
                              static_cast<std::size_t>(other.bytes()), 0, nullptr, nullptr);
  return code == CL_SUCCESS ? run(device_seconds) : code;
}

// Wall-clock time from the first enqueueing to the end of the last call. The queue is in order, so calls do not
// overlap; they are enqueued while earlier ones run, and waited for once in a while, not one by one: a caller that
// wants one result waits longer, by what the driver takes for a launch and a wait.
int LoadedKernel::run(int calls, i64& nanoseconds) {
  auto begin = std::chrono::steady_clock::now();
  int code = 0;
  for (int done = 0; done < calls && code == 0; done += kMostInQueue)
    code = state_->launch(state_->run, std::min(kMostInQueue, calls - done), nullptr);
  nanoseconds = std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin).count();
  return code;
}

bool LoadedKernel::State::bind(const std::vector<KernelLaunch>& launches, const std::vector<Memory*>& arguments,
                               Memory* scratch, std::vector<Launch>& out, std::string& error) {
  for (const KernelLaunch& launch : launches) {
    cl_int code = CL_SUCCESS;
    Launch made;
    made.kernel = cl().create_kernel(program, launch.name.c_str(), &code);
    for (std::size_t d = 0; d < 3; ++d) {
      made.local[d] = static_cast<std::size_t>(launch.threads[d]);
      made.global[d] = static_cast<std::size_t>(launch.groups[d] * launch.threads[d]);
    }
    out.push_back(made);
    for (std::size_t i = 0; i < launch.pointers.size() && code == CL_SUCCESS; ++i) {
      const KernelLaunch::Pointer& pointer = launch.pointers[i];
      Memory* memory = pointer.is_scratch ? scratch : arguments[static_cast<std::size_t>(pointer.at)];
      i64 offset = pointer.is_scratch ? pointer.at : 0;
      cl_buffer_region region{kBand + static_cast<std::size_t>(offset), static_cast<std::size_t>(pointer.bytes)};
      cl_mem part = cl().create_sub_buffer(memory->state().handle, CL_MEM_READ_WRITE, CL_BUFFER_CREATE_TYPE_REGION,
                                           &region, &code);
      if (code != CL_SUCCESS) break;
      parts.push_back(part);
      code = cl().set_kernel_arg(made.kernel, static_cast<cl_uint>(i), sizeof part, &part);
    }
    if (code == CL_SUCCESS) continue;
    error = cat("kernel `", launch.name, "` cannot be prepared: error ", code);
    return false;
  }
  return true;
}

int LoadedKernel::State::launch(const std::vector<Launch>& launches, int calls, double* device_seconds) {
  std::size_t count = launches.size() * static_cast<std::size_t>(calls);
  std::vector<cl_event> events(device_seconds ? count : 0);
  int code = CL_SUCCESS;
  for (std::size_t i = 0; i < count && code == CL_SUCCESS; ++i) {
    const Launch& one = launches[i % launches.size()];
    code = cl().run_kernel(device.queue, one.kernel, 3, nullptr, one.global, one.local, 0, nullptr,
                           device_seconds ? &events[i] : nullptr);
  }
  if (int finished = cl().finish(device.queue); code == CL_SUCCESS) code = finished;
  if (device_seconds) *device_seconds = 0;
  for (cl_event event : events) {
    if (!event) continue;
    cl_ulong begin = 0, end = 0;
    cl().get_profiling_info(event, CL_PROFILING_COMMAND_START, sizeof begin, &begin, nullptr);
    cl().get_profiling_info(event, CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr);
    *device_seconds += static_cast<double>(end - begin) * 1e-9;
    cl().release_event(event);
  }
  return code;
}

}  // namespace tw::device

#include "backends/opencl/device.h"

#include <algorithm>

#include "backends/opencl/api.h"
#include "dsl/base/text.h"

namespace tw::opencl {
namespace {

constexpr std::size_t kBand = 4096;  // bytes; also what sub-buffers must be aligned to, at most
constexpr u8 kBandByte = 0x5c;

// Never null where a Device exists.
const Api& cl() {
  std::string error;
  return *api(error);
}

struct FoundDevice {
  cl_device_id id;
  std::string name;
};

std::string text_of(const auto& query) {
  std::size_t bytes = 0;
  if (query(0, nullptr, &bytes) != CL_SUCCESS || bytes == 0) return "";
  std::string text(bytes, 0);
  if (query(bytes, text.data(), nullptr) != CL_SUCCESS) return "";
  return text.c_str();
}

std::vector<FoundDevice> find_devices(std::string& error) {
  const Api* found = api(error);
  if (!found) return {};
  cl_uint count = 0;
  std::vector<FoundDevice> out;
  if (found->get_platform_ids(0, nullptr, &count) != CL_SUCCESS) count = 0;
  std::vector<cl_platform_id> platforms(count);
  if (count > 0) found->get_platform_ids(count, platforms.data(), nullptr);
  for (cl_platform_id platform : platforms) {
    std::string platform_name =
        text_of([&](auto... rest) { return found->get_platform_info(platform, CL_PLATFORM_NAME, rest...); });
    cl_uint devices = 0;
    if (found->get_device_ids(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &devices) != CL_SUCCESS) continue;
    std::vector<cl_device_id> ids(devices);
    found->get_device_ids(platform, CL_DEVICE_TYPE_ALL, devices, ids.data(), nullptr);
    for (cl_device_id id : ids) {
      out.push_back({id, cat(text_of([&](auto... rest) { return found->get_device_info(id, CL_DEVICE_NAME, rest...); }),
                             " (", platform_name, ")")});
    }
  }
  if (out.empty()) error = "there is no OpenCL device; install a driver, for processors pocl-opencl-icd";
  return out;
}

}  // namespace

std::vector<std::string> device_names(std::string& error) {
  std::vector<std::string> names;
  for (FoundDevice& device : find_devices(error)) names.push_back(std::move(device.name));
  return names;
}

Device::Device(int index, std::string& error) {
  std::vector<FoundDevice> found = find_devices(error);
  if (!error.empty()) return;
  if (index < 0 || index >= static_cast<int>(found.size())) {
    std::vector<std::string> names;
    for (const FoundDevice& device : found) names.push_back(cat(names.size(), " = ", device.name));
    error = cat("there is no OpenCL device ", index, "; there are ", join(names, ", "));
    return;
  }
  cl_device_id id = found[static_cast<std::size_t>(index)].id;
  cl_int code = CL_SUCCESS;
  device_ = id;
  name_ = found[static_cast<std::size_t>(index)].name;
  context_ = cl().create_context(nullptr, 1, &id, nullptr, nullptr, &code);
  if (context_)
    queue_ = cl().create_command_queue(static_cast<cl_context>(context_), id, CL_QUEUE_PROFILING_ENABLE, &code);
  if (!queue_) error = cat("the OpenCL device ", name_, " cannot be used: error ", code);
}

Device::~Device() {
  if (queue_) cl().release_command_queue(static_cast<cl_command_queue>(queue_));
  if (context_) cl().release_context(static_cast<cl_context>(context_));
}

Memory::Memory(Device& device, i64 bytes) : device_(device), bytes_(bytes) {
  cl_int code = CL_SUCCESS;
  std::size_t data = static_cast<std::size_t>(std::max<i64>(bytes, 1));
  handle_ =
      cl().create_buffer(static_cast<cl_context>(device.context_), CL_MEM_READ_WRITE, data + 2 * kBand, nullptr, &code);
  if (handle_ && !fill(0)) {
    cl().release_memory(static_cast<cl_mem>(handle_));
    handle_ = nullptr;
  }
}

Memory::~Memory() {
  if (handle_) cl().release_memory(static_cast<cl_mem>(handle_));
}

bool Memory::write(const void* data) {
  return bytes_ == 0 ||
         cl().write_buffer(static_cast<cl_command_queue>(device_.queue_), static_cast<cl_mem>(handle_), CL_TRUE, kBand,
                           static_cast<std::size_t>(bytes_), data, 0, nullptr, nullptr) == CL_SUCCESS;
}

bool Memory::read(void* data) const {
  return bytes_ == 0 ||
         cl().read_buffer(static_cast<cl_command_queue>(device_.queue_), static_cast<cl_mem>(handle_), CL_TRUE, kBand,
                          static_cast<std::size_t>(bytes_), data, 0, nullptr, nullptr) == CL_SUCCESS;
}

bool Memory::fill(u8 byte) {
  std::size_t data = static_cast<std::size_t>(std::max<i64>(bytes_, 1));
  auto one = [&](u8 value, std::size_t at, std::size_t bytes) {
    return cl().fill_buffer(static_cast<cl_command_queue>(device_.queue_), static_cast<cl_mem>(handle_), &value, 1, at,
                            bytes, 0, nullptr, nullptr) == CL_SUCCESS;
  };
  return one(kBandByte, 0, kBand) && one(byte, kBand, data) && one(kBandByte, kBand + data, kBand) &&
         cl().finish(static_cast<cl_command_queue>(device_.queue_)) == CL_SUCCESS;
}

bool Memory::bands_intact() const {
  std::vector<u8> band(kBand);
  for (std::size_t at : {std::size_t{0}, kBand + static_cast<std::size_t>(std::max<i64>(bytes_, 1))}) {
    if (cl().read_buffer(static_cast<cl_command_queue>(device_.queue_), static_cast<cl_mem>(handle_), CL_TRUE, at,
                         kBand, band.data(), 0, nullptr, nullptr) != CL_SUCCESS)
      return false;
    if (!std::all_of(band.begin(), band.end(), [](u8 byte) { return byte == kBandByte; })) return false;
  }
  return true;
}

LoadedKernel::LoadedKernel(Device& device, const Kernel& kernel, const std::vector<Memory*>& prepack,
                           const std::vector<Memory*>& run, Memory* scratch, std::string& error)
    : device_(device) {
  const char* text = kernel.code.data();
  std::size_t bytes = kernel.code.size();
  cl_int code = CL_SUCCESS;
  cl_program program = cl().create_program(static_cast<cl_context>(device.context_), 1, &text, &bytes, &code);
  program_ = program;
  cl_device_id id = static_cast<cl_device_id>(device.device_);
  code = program ? cl().build_program(program, 1, &id, "-cl-std=CL1.2", nullptr, nullptr) : code;
  if (code != CL_SUCCESS) {
    std::string log =
        text_of([&](auto... rest) { return cl().get_program_build_info(program, id, CL_PROGRAM_BUILD_LOG, rest...); });
    error = cat("the driver does not compile the source (error ", code, "): ", log.substr(0, 400));
    return;
  }
  bool bound = bind(kernel.manifest.prepack_launches, prepack, scratch, prepack_, error);
  if (bound) bind(kernel.manifest.run_launches, run, scratch, run_, error);
}

LoadedKernel::~LoadedKernel() {
  for (const std::vector<Launch>* list : {&prepack_, &run_}) {
    for (const Launch& launch : *list) {
      if (launch.kernel) cl().release_kernel(static_cast<cl_kernel>(launch.kernel));
    }
  }
  for (void* part : parts_) cl().release_memory(static_cast<cl_mem>(part));
  if (program_) cl().release_program(static_cast<cl_program>(program_));
}

bool LoadedKernel::bind(const std::vector<KernelLaunch>& launches, const std::vector<Memory*>& arguments,
                        Memory* scratch, std::vector<Launch>& out, std::string& error) {
  for (const KernelLaunch& launch : launches) {
    cl_int code = CL_SUCCESS;
    Launch made;
    made.kernel = cl().create_kernel(static_cast<cl_program>(program_), launch.name.c_str(), &code);
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
      cl_mem part = cl().create_sub_buffer(static_cast<cl_mem>(memory->handle_), CL_MEM_READ_WRITE,
                                           CL_BUFFER_CREATE_TYPE_REGION, &region, &code);
      if (code != CL_SUCCESS) break;
      parts_.push_back(part);
      code = cl().set_kernel_arg(static_cast<cl_kernel>(made.kernel), static_cast<cl_uint>(i), sizeof part, &part);
    }
    if (code == CL_SUCCESS) continue;
    error = cat("kernel `", launch.name, "` cannot be prepared: error ", code);
    return false;
  }
  return true;
}

int LoadedKernel::launch(const std::vector<Launch>& launches, double* device_seconds) {
  cl_command_queue queue = static_cast<cl_command_queue>(device_.queue_);
  std::vector<cl_event> events(device_seconds ? launches.size() : 0);
  int code = CL_SUCCESS;
  for (std::size_t i = 0; i < launches.size() && code == CL_SUCCESS; ++i) {
    const Launch& one = launches[i];
    code = cl().run_kernel(queue, static_cast<cl_kernel>(one.kernel), 3, nullptr, one.global, one.local, 0, nullptr,
                           device_seconds ? &events[i] : nullptr);
  }
  if (int finished = cl().finish(queue); code == CL_SUCCESS) code = finished;
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

}  // namespace tw::opencl

#include "runtime/worker_device/device_checks.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "runtime/measure/elements.h"

namespace tw {

DeviceChecks::DeviceChecks(device::Device& gpu, const Task& task, std::vector<DeviceCheck> checks,
                           std::function<const char*(int set, const std::string& name)> input, i64& room)
    : gpu_(gpu), task_(task), input_(std::move(input)), room_(room) {
  for (DeviceCheck& check : checks) checks_.emplace_back().given = std::move(check);
}

DeviceChecks::~DeviceChecks() { renew(); }

void DeviceChecks::renew() {
  for (Check& check : checks_) check.bound = {};
  inputs_ = {};
  room_ += std::exchange(taken_, 0);
}

// ---- the questions

bool DeviceChecks::is_right(const KernelArgument& output, int set, device::Memory& memory, double& max_error) {
  if (Check* all = find(DeviceCheckKind::Compare, output.name)) return is_near_reference(*all, set, memory, max_error);
  Check* pick = find(DeviceCheckKind::Pick, output.name);
  return pick && is_sample_right(*pick, output, set, memory, max_error);
}

bool DeviceChecks::is_unchanged(const std::string& input, int set, device::Memory& memory) {
  return is_all_usual(find(DeviceCheckKind::Same, input), set, memory);
}

bool DeviceChecks::restore(const std::string& input, int set, device::Memory& memory) {
  device::Memory* copy = find(DeviceCheckKind::Same, input) ? copy_of_input(input, set, memory.bytes()) : nullptr;
  return copy && memory.copy(*copy);
}

bool DeviceChecks::is_all_usual(Check* check, int set, device::Memory& memory) {
  Bound* done = check ? run(*check, set, memory) : nullptr;
  if (!done) return false;
  std::vector<std::int32_t> unusual = result<std::int32_t>(*done, "Unusual");
  return !unusual.empty() && std::ranges::all_of(unusual, [](std::int32_t count) { return count == 0; });
}

// As compare() in runtime/measure/elements.h decides, where nothing is unusual.
bool DeviceChecks::is_near_reference(Check& check, int set, device::Memory& memory, double& max_error) {
  if (!is_all_usual(&check, set, memory)) return false;
  const Bound& done = check.bound[static_cast<std::size_t>(set)];
  std::vector<double> largest = result<double>(done, "Largest"), squares = result<double>(done, "Squares"),
                      variances = result<double>(done, "Variances");
  if (largest.empty() || squares.empty() || variances.empty()) return false;
  constexpr double kOrderOfSums = 1e-9;  // the host adds up in another one
  double error = std::accumulate(squares.begin(), squares.end(), 0.0),
         allowed = std::accumulate(variances.begin(), variances.end(), 0.0);
  i64 count = task_.expected(set, check.given.of)->count;
  bool is_near = allowed == 0 || std::sqrt(error / allowed) <= most_distance(count) * (1 - kOrderOfSums);
  if (is_near) max_error = std::max(max_error, *std::ranges::max_element(largest));
  return is_near;
}

bool DeviceChecks::is_sample_right(Check& check, const KernelArgument& output, int set, device::Memory& memory,
                                   double& max_error) {
  std::optional<Task::Expected> expected = task_.expected(set, output.name);
  if (!expected || expected->positions.empty()) return false;
  auto count = static_cast<i64>(expected->positions.size());
  if (is_float(output.dtype)) {
    bool has_numbers_only = find_not_a_number({expected->data, expected->dtype, count}) < 0;
    if (!has_numbers_only || !is_all_usual(find(DeviceCheckKind::Numbers, output.name), set, memory)) return false;
  }
  Bound* done = run(check, set, memory);
  std::vector<char> picked = done ? result<char>(*done, "Y") : std::vector<char>();
  if (picked.size() != static_cast<std::size_t>(count * bytes_of(output.dtype))) return false;
  Comparison found = compare({picked.data(), output.dtype, count}, {expected->data, expected->dtype, count},
                             task_.tolerance(), expected->variances);
  if (found.is_right()) max_error = std::max(max_error, found.max_error);
  return found.is_right();
}

// ---- kernels and their memory

DeviceChecks::Check* DeviceChecks::find(DeviceCheckKind kind, const std::string& of) {
  auto found = std::ranges::find_if(
      checks_, [&](const Check& check) { return check.given.kind == kind && check.given.of == of; });
  return found == checks_.end() ? nullptr : &*found;
}

// Null: it cannot be bound, or did not run. What is left of an earlier run says nothing: results are overwritten first.
DeviceChecks::Bound* DeviceChecks::run(Check& check, int set, device::Memory& subject) {
  constexpr u8 kNothing = 0xff;  // -1, or no number
  Bound& bound = check.bound[static_cast<std::size_t>(set)];
  if (bound.subject != &subject && !bound.has_failed && !bind(check, set, subject)) bound.has_failed = true;
  bool good = !bound.has_failed;
  for (const KernelArgument& argument : check.given.kernel.manifest.run) {
    if (argument.role == ArgumentRole::Output) good = good && bound.arguments.at(argument.name)->fill(kNothing);
  }
  return good && bound.kernel->run() == 0 ? &bound : nullptr;
}

bool DeviceChecks::bind(Check& check, int set, device::Memory& subject) {
  Bound& bound = check.bound[static_cast<std::size_t>(set)];
  const KernelManifest& manifest = check.given.kernel.manifest;
  if (!manifest.prepack.empty() || manifest.scratch_bytes(1) > 0) return false;
  std::vector<device::Memory*> run;
  for (const KernelArgument& argument : manifest.run) {
    device::Memory*& memory = bound.arguments[argument.name];
    if (argument.name == "X")
      memory = &subject;
    else if (!memory)
      memory = this->argument(check, argument, set, bound);
    if (!memory || memory->bytes() != argument.bytes) return false;
    run.push_back(memory);
  }
  std::string error;
  bound.subject = &subject;
  bound.kernel = std::make_unique<device::LoadedKernel>(gpu_, check.given.kernel, std::vector<device::Memory*>(), run,
                                                        nullptr, error);
  return error.empty();
}

// Memory for an argument other than the data that is looked at, with what belongs there.
device::Memory* DeviceChecks::argument(const Check& check, const KernelArgument& argument, int set, Bound& bound) {
  if (check.given.kind == DeviceCheckKind::Same && argument.name == "Expected")
    return copy_of_input(check.given.of, set, argument.bytes);
  std::unique_ptr<device::Memory> made = make(argument.bytes);
  if (!made) return nullptr;
  std::optional<Task::Expected> expected = task_.expected(set, check.given.of);
  const double allowed[] = {task_.tolerance().absolute, task_.tolerance().relative, kDeviations};
  const void* data = argument.name == "Allowed"                ? allowed
                     : argument.name == "Expected" && expected ? expected->data
                     : argument.name == "Variance" && expected ? expected->variances
                     : argument.name == "At" && expected       ? expected->positions.data()
                                                               : static_cast<const void*>(nullptr);
  // Without variances they are 0, as the memory is.
  if (data && !made->write(data)) return nullptr;
  bound.own.push_back(std::move(made));
  return bound.own.back().get();
}

device::Memory* DeviceChecks::copy_of_input(const std::string& name, int set, i64 bytes) {
  auto [at, is_new] = inputs_[static_cast<std::size_t>(set)].try_emplace(name);
  if (is_new) {
    at->second = make(bytes);
    if (at->second && !at->second->write(input_(set, name))) at->second.reset();
  }
  return at->second.get();
}

// Null: there is none.
std::unique_ptr<device::Memory> DeviceChecks::make(i64 bytes) {
  if (bytes > room_) return nullptr;
  auto memory = std::make_unique<device::Memory>(gpu_, bytes);
  if (!memory->is_there()) return nullptr;
  room_ -= bytes, taken_ += bytes;
  return memory;
}

// Empty: it could not be read.
template <class T>
std::vector<T> DeviceChecks::result(const Bound& bound, const char* name) {
  const device::Memory& memory = *bound.arguments.at(name);
  std::vector<T> out(static_cast<std::size_t>(memory.bytes()) / sizeof(T));
  if (!memory.read(out.data())) out.clear();
  return out;
}

}  // namespace tw

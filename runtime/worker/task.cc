#include "runtime/worker/task.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "dsl/base/text.h"
#include "runtime/measure/elements.h"

namespace tw {
namespace {

Edge edge_of(int layout) { return layout == 0 ? Edge::End : Edge::Start; }

bool is_data(const KernelArgument& argument) {
  return argument.role == ArgumentRole::Input || argument.role == ArgumentRole::Constant;
}

TaskFailure no_memory_for(const std::string& name, i64 bytes) {
  return {MeasureStatus::OutOfMemory, cat("there is no memory for `", name, "` with ", bytes, " bytes")};
}

GuardedBuffer* add_buffer(BufferList& list, const std::string& name, i64 bytes, Use use, Edge edge,
                          TaskFailure& failure) {
  list.push_back(std::make_unique<GuardedBuffer>(name, bytes, use, edge));
  if (list.back()->is_mapped()) return list.back().get();
  list.pop_back();
  failure = no_memory_for(name, bytes);
  return nullptr;
}

}  // namespace

Task::Task(BeginTaskMessage& message, const std::function<bool()>& stop, TaskFailure& failure)
    : tolerance_(message.tolerance), is_sampled_(!message.samples[0].empty()) {
  const KernelManifest& reference = message.reference.manifest;
  for (const auto* list : {&reference.run, &reference.prepack}) {
    for (const KernelArgument& argument : *list) {
      if (is_data(argument) && !draw_input(argument, message.seed, stop, failure)) return;
    }
  }
  for (int set = 0; set < kSets; ++set) {
    for (OutputSample& sample : message.samples[set]) {
      if (!keep_sample(sets_[set], sample, failure)) return;
    }
  }
  for (int layout = 0; layout < kLayouts; ++layout) place(layout, layout);
}

bool Task::draw_input(const KernelArgument& argument, u64 seed, const std::function<bool()>& stop,
                      TaskFailure& failure) {
  if (sets_[0].inputs.count(argument.name)) return true;
  i64 count = argument.bytes / bytes_of(argument.dtype);
  for (int set = 0; set < kSets; ++set) {
    PrivateMemory data(argument.bytes);
    if (!data.data()) {
      failure = no_memory_for(argument.name, argument.bytes);
      return false;
    }
    if (!fill_input(seed, argument.name, set, argument.dtype, count, data.data(), argument.indices, stop)) {
      failure = {MeasureStatus::WorkerLost, "the tuner is gone"};
      return false;
    }
    sets_[set].inputs[argument.name] = std::move(data);
  }
  for (int layout = 0; layout < kLayouts; ++layout) {
    GuardedBuffer* buffer =
        add_buffer(layouts_[layout].buffers, argument.name, argument.bytes, Use::Read, edge_of(layout), failure);
    if (!buffer) return false;
    buffer->fill(0);
  }
  return true;
}

GuardedBuffer* Task::find(int layout, const KernelArgument& argument) const {
  Use use = is_data(argument) ? Use::Read : Use::Written;
  for (const auto& buffer : layouts_[layout].buffers) {
    if (buffer->use() == use && buffer->name() == argument.name && buffer->bytes() == argument.bytes)
      return buffer.get();
  }
  return nullptr;
}

GuardedBuffer* Task::own_buffer(int layout, const std::string& name, i64 bytes, Use use, BufferList& own,
                                TaskFailure& failure) {
  BufferList& spare = spare_[layout];
  auto fits = [&](const auto& buffer) {
    return buffer->name() == name && buffer->bytes() == bytes && buffer->use() == use;
  };
  if (auto at = std::find_if(spare.begin(), spare.end(), fits); at != spare.end()) {
    own.push_back(std::move(*at));
    spare.erase(at);
    return own.back().get();
  }
  GuardedBuffer* made = add_buffer(own, name, bytes, use, edge_of(layout), failure);
  if (made && use == Use::Packed) made->fill(0xff);
  return made;
}

GuardedBuffer* Task::buffer_for(int layout, const KernelArgument& argument, BufferList& own, TaskFailure& failure) {
  if (argument.role == ArgumentRole::Packed) {
    for (const auto& buffer : own) {
      if (buffer->use() == Use::Packed && buffer->name() == argument.name) return buffer.get();
    }
    return own_buffer(layout, argument.name, argument.bytes, Use::Packed, own, failure);
  }
  if (GuardedBuffer* found = find(layout, argument)) return found;
  if (is_data(argument)) {
    failure = {MeasureStatus::BuildError,
               cat("argument `", argument.name, "` with ", argument.bytes, " bytes is not an input of the reference")};
    return nullptr;
  }
  return add_buffer(layouts_[layout].buffers, argument.name, argument.bytes, Use::Written, edge_of(layout), failure);
}

bool Task::bind(const KernelManifest& kernel, int layout, int threads, BufferList& own, KernelBinding& binding,
                TaskFailure& failure) {
  for (const KernelArgument& argument : kernel.prepack) {
    GuardedBuffer* buffer = buffer_for(layout, argument, own, failure);
    if (!buffer) return false;
    binding.prepack.push_back(argument.role == ArgumentRole::Packed ? buffer->writable_view() : buffer->kernel_view());
  }
  for (const KernelArgument& argument : kernel.run) {
    GuardedBuffer* buffer = buffer_for(layout, argument, own, failure);
    if (!buffer) return false;
    binding.run.push_back(buffer->kernel_view());
  }
  i64 scratch_bytes = kernel.scratch_bytes(threads);
  if (scratch_bytes == 0) return true;
  GuardedBuffer* scratch = own_buffer(layout, "scratch", scratch_bytes, Use::Written, own, failure);
  if (!scratch) return false;
  binding.scratch = scratch->kernel_view();
  return true;
}

i64 Task::data_bytes() const {
  i64 bytes = 0;
  for (const auto& buffer : layouts_[0].buffers) bytes += buffer->bytes();
  return bytes;
}

void Task::place(int layout, int set) {
  if (layouts_[layout].set == set) return;
  layouts_[layout].set = set;
  for (const auto& buffer : layouts_[layout].buffers) {
    if (buffer->use() != Use::Read) continue;
    const PrivateMemory& data = sets_[set].inputs.at(buffer->name());
    std::memcpy(buffer->writable_view(), data.data(), static_cast<std::size_t>(data.bytes()));
  }
}

void Task::poison_outputs(int layout, u8 byte) {
  for (const auto& buffer : layouts_[layout].buffers) {
    if (buffer->use() == Use::Written) buffer->fill(byte);
  }
}

bool Task::keep_reference(int layout, const KernelManifest& reference, TaskFailure& failure) {
  DataSet& set = sets_[layouts_[layout].set];
  for (const KernelArgument& argument : reference.run) {
    if (argument.role != ArgumentRole::Output) continue;
    PrivateMemory data(argument.bytes);
    if (!data.data()) {
      failure = {MeasureStatus::OutOfMemory, cat("there is no memory for the reference of `", argument.name, "`")};
      return false;
    }
    std::memcpy(data.data(), find(layout, argument)->kernel_view(), static_cast<std::size_t>(argument.bytes));
    set.outputs[argument.name] = {argument.dtype, argument.bytes / bytes_of(argument.dtype), std::move(data), {}};
  }
  // Those of the reference are wide, and each measurement would poison them.
  std::erase_if(layouts_[layout].buffers, [](const auto& buffer) { return buffer->use() == Use::Written; });
  return true;
}

namespace {

bool write_all(int file, const char* data, i64 bytes, i64 offset) {
  while (bytes > 0) {
    ssize_t done = pwrite(file, data, static_cast<std::size_t>(bytes), offset);
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    data += done, bytes -= done, offset += done;
  }
  return true;
}

// A file that holds all of a reference has these.
constexpr int kSeals = F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW;

}  // namespace

void Task::move_reference_to(int file) {
  i64 end = 0;
  for (const DataSet& set : sets_) {
    for (const auto& [name, output] : set.outputs) end += whole_pages(output.data.bytes());
  }
  rlimit most{};
  if (getrlimit(RLIMIT_FSIZE, &most) != 0 || static_cast<rlim_t>(end) > most.rlim_cur || ftruncate(file, end) != 0)
    return;
  i64 at = 0;
  for (DataSet& set : sets_) {
    for (auto& [name, output] : set.outputs) {
      i64 bytes = output.data.bytes();
      if (!write_all(file, output.data.data(), bytes, at)) return;
      PrivateMemory moved(file, at, bytes);
      if (!moved.data()) return;
      output.data = std::move(moved);
      at += whole_pages(bytes);
    }
  }
  fcntl(file, F_ADD_SEALS, kSeals);
}

bool Task::take_reference_from(int file, const KernelManifest& reference) {
  if (fcntl(file, F_GET_SEALS) != kSeals) return false;
  std::map<std::string, const KernelArgument*> outputs;  // in the order of DataSet::outputs
  for (const KernelArgument& argument : reference.run) {
    if (argument.role == ArgumentRole::Output) outputs[argument.name] = &argument;
  }
  i64 at = 0;
  for (DataSet& set : sets_) {
    for (const auto& [name, output] : outputs) {
      PrivateMemory data(file, at, output->bytes);
      if (!data.data()) return false;
      set.outputs[name] = {output->dtype, output->bytes / bytes_of(output->dtype), std::move(data), {}};
      at += whole_pages(output->bytes);
    }
  }
  return true;
}

namespace {

// Moves numbers to memory that a forked child does not get.
template <class T>
bool hide(std::vector<T>& numbers, PrivateMemory& out) {
  auto bytes = static_cast<i64>(numbers.size() * sizeof(T));
  out = PrivateMemory(bytes);
  if (!out.data()) return false;
  std::memcpy(out.data(), numbers.data(), static_cast<std::size_t>(bytes));
  explicit_bzero(numbers.data(), static_cast<std::size_t>(bytes));
  return true;
}

// An element that was not computed; -1: none is known. In floats 0xff is no number, as is what comes of other memory
// that was not written; in integers it is -1. Other bytes are unlikely enough as values of wide types only.
i64 find_not_computed(const Elements& all, u8 poison, bool has_numbers_only) {
  i64 found = poison != 0xff && bytes_of(all.type) >= 4 ? find_filled(all, poison) : -1;
  return found < 0 && has_numbers_only ? find_not_a_number(all) : found;
}

}  // namespace

bool Task::keep_sample(DataSet& set, OutputSample& sample, TaskFailure& failure) {
  Output& out = set.outputs[sample.name];
  out.dtype = DType::F64, out.count = sample.count;
  bool good = hide(sample.positions, out.positions) && hide(sample.expected, out.data);
  if (good && !sample.variances.empty()) {
    Output& variances = set.outputs[sample.name + std::string(kVarianceSuffix)];
    variances.dtype = DType::F64, variances.count = sample.count;
    good = hide(sample.variances, variances.data);
  }
  if (!good) failure = no_memory_for(sample.name, static_cast<i64>(sample.expected.size() * sizeof(double)));
  return good;
}

u64 Task::hash_of_outputs(int layout, const KernelManifest& kernel) const {
  u64 hash = 0;
  for (const KernelArgument& argument : kernel.run) {
    if (argument.role == ArgumentRole::Output)
      hash = hash_of({find(layout, argument)->kernel_view(), static_cast<std::size_t>(argument.bytes)}, hash);
  }
  return hash;
}

std::optional<Task::Expected> Task::expected(int set, const std::string& output) const {
  const std::map<std::string, Output>& outputs = sets_[static_cast<std::size_t>(set)].outputs;
  auto found = outputs.find(output), variances = outputs.find(output + std::string(kVarianceSuffix));
  if (found == outputs.end()) return std::nullopt;
  const PrivateMemory& positions = found->second.positions;
  return Expected{
      found->second.dtype,
      found->second.count,
      found->second.data.data(),
      variances == outputs.end() ? nullptr : reinterpret_cast<const double*>(variances->second.data.data()),
      {reinterpret_cast<const i64*>(positions.data()), static_cast<std::size_t>(positions.bytes()) / sizeof(i64)}};
}

std::string Task::check(int layout, const KernelManifest& kernel, u8 poison, double& max_error) const {
  int set = layouts_[layout].set;
  std::size_t compared = 0;
  for (const KernelArgument& argument : kernel.run) {
    if (argument.role != ArgumentRole::Output) continue;
    std::optional<Expected> expected = this->expected(set, argument.name);
    i64 count = argument.bytes / bytes_of(argument.dtype);
    if (!expected || expected->count != count) {
      return cat("output `", argument.name, "` with ", count, " elements is not an output of the reference");
    }
    compared += expected->variances ? 2 : 1;
    Elements actual{find(layout, argument)->kernel_view(), argument.dtype, count};
    std::span<const i64> sampled = expected->positions;
    std::string picked;
    if (!sampled.empty()) {
      bool has_numbers_only = find_not_a_number({expected->data, DType::F64, static_cast<i64>(sampled.size())}) < 0;
      i64 missing = find_not_computed(actual, poison, has_numbers_only);
      if (missing >= 0)
        return cat("output `", argument.name, "`: ", position_text(argument.shape, missing),
                   " was not written, or is no number");
      picked = gather(actual, sampled);
      actual = {picked.data(), argument.dtype, static_cast<i64>(sampled.size())};
    }
    Comparison found =
        compare(actual, {expected->data, expected->dtype, actual.count}, tolerance_, expected->variances);
    max_error = std::max(max_error, found.max_error);
    if (found.is_right()) continue;
    i64 first = sampled.empty() || found.first < 0 ? found.first : sampled[static_cast<std::size_t>(found.first)];
    return cat("output `", argument.name,
               "`: ", difference_text(found, actual.count, position_text(argument.shape, first)),
               sampled.empty() ? "" : " (of a sample)");
  }
  std::size_t all = sets_[static_cast<std::size_t>(set)].outputs.size();
  return compared == all ? "" : cat("the kernel has not all ", all, " outputs of the reference");
}

}  // namespace tw

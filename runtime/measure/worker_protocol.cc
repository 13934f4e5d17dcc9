#include "runtime/measure/worker_protocol.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace tw {
namespace {

// Both directions of a message are one list of fields: `visit(archive, message)` with a Writer or a
// Reader.
struct Writer {
  std::string bytes;
  template <class T>
  void number(const T& value) {
    static_assert(std::is_arithmetic_v<T> || std::is_enum_v<T>);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void text(const std::string& value) {
    number<u64>(value.size());
    bytes += value;
  }
  template <class T, class Each>
  void list(const std::vector<T>& values, Each each) {
    number<u64>(values.size());
    for (const T& value : values) each(*this, value);
  }
  template <class T>
  void array(const std::vector<T>& values) {
    number<u64>(values.size());
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
  }
};

struct Reader {
  std::string_view bytes;
  bool good = true;
  template <class T>
  void number(T& value) {
    if (bytes.size() < sizeof value) return fail();
    std::memcpy(&value, bytes.data(), sizeof value);
    bytes.remove_prefix(sizeof value);
  }
  void text(std::string& value) {
    u64 size = 0;
    number(size);
    if (size > bytes.size()) return fail();
    value = bytes.substr(0, size);
    bytes.remove_prefix(size);
  }
  template <class T, class Each>
  void list(std::vector<T>& values, Each each) {
    u64 count = 0;
    number(count);
    if (count > bytes.size()) return fail();  // every element takes at least a byte
    values.clear();
    for (u64 i = 0; i < count && good; ++i) each(*this, values.emplace_back());
  }
  template <class T>
  void array(std::vector<T>& values) {
    u64 count = 0;
    number(count);
    if (count > bytes.size() / sizeof(T)) return fail();
    values.resize(count);
    std::memcpy(values.data(), bytes.data(), count * sizeof(T));
    bytes.remove_prefix(count * sizeof(T));
  }
  void fail() {
    good = false;
    bytes = {};
  }
};

template <class Archive, class... Numbers>
void numbers(Archive& archive, Numbers&... values) {
  (archive.number(values), ...);
}

auto visit_argument = [](auto& archive, auto& argument) {
  archive.text(argument.name);
  numbers(archive, argument.role, argument.dtype, argument.bytes, argument.indices.lowest, argument.indices.below);
  archive.list(argument.shape, [](auto& inner, auto& extent) { inner.number(extent); });
};

auto visit_launch = [](auto& archive, auto& launch) {
  archive.text(launch.name);
  for (auto* list : {&launch.groups, &launch.threads}) numbers(archive, (*list)[0], (*list)[1], (*list)[2]);
  archive.list(launch.pointers,
               [](auto& inner, auto& pointer) { numbers(inner, pointer.is_scratch, pointer.at, pointer.bytes); });
  archive.number(launch.dynamic_shared_bytes);
};

auto visit_kernel = [](auto& archive, auto& kernel) {
  auto& manifest = kernel.manifest;
  archive.text(kernel.code);
  archive.text(manifest.symbol);
  archive.list(manifest.run, visit_argument);
  archive.list(manifest.prepack, visit_argument);
  numbers(archive, manifest.scratch_shared_bytes, manifest.scratch_worker_bytes, manifest.parallel);
  archive.list(manifest.run_launches, visit_launch);
  archive.list(manifest.prepack_launches, visit_launch);
};

auto visit_check = [](auto& archive, auto& check) {
  archive.number(check.kind);
  archive.text(check.of);
  visit_kernel(archive, check.kernel);
};

auto visit_bytes = [](auto& archive, auto& array) {
  archive.text(array.name);
  archive.text(array.bytes);
};

auto visit_sample = [](auto& archive, auto& sample) {
  archive.text(sample.name);
  archive.number(sample.count);
  archive.array(sample.positions);
  archive.array(sample.expected);
  archive.array(sample.variances);
};

// The fields of each message; `M` is the message, const when it is written.
template <class Archive, class M>
void visit(Archive& archive, M& m) {
  using Message = std::remove_const_t<M>;
  if constexpr (std::is_same_v<Message, int>) {
    archive.number(m);
  } else if constexpr (std::is_same_v<Message, Kernel>) {
    visit_kernel(archive, m);
  } else if constexpr (std::is_same_v<Message, std::vector<DeviceCheck>>) {
    archive.list(m, visit_check);
  } else if constexpr (std::is_same_v<Message, HelloMessage>) {
    numbers(archive, m.core, m.device, m.memory_bytes, m.data_bytes, m.reference_timeout_seconds);
  } else if constexpr (std::is_same_v<Message, BeginTaskMessage>) {
    archive.number(m.task);
    visit_kernel(archive, m.reference);
    numbers(archive, m.tolerance.absolute, m.tolerance.relative, m.seed, m.has_file);
    for (auto& set : m.samples) archive.list(set, visit_sample);
  } else if constexpr (std::is_same_v<Message, MeasureMessage>) {
    auto& o = m.options;
    archive.number(m.task);
    visit_kernel(archive, m.candidate);
    numbers(archive, o.threads, o.time, o.least_flops, o.timeout_seconds, o.single_call_seconds, o.checked_call_seconds,
            o.sample_seconds, o.first_pairs, o.pairs, o.max_pairs, o.lost, o.noise, o.precision, o.budget_seconds,
            o.confirmation.below, o.confirmation.pairs, o.confirmation.max_pairs, o.confirmation.budget_seconds,
            o.cold_samples, o.cold_caches, m.has_incumbent, m.incumbent_seconds);
    archive.list(m.new_incumbent, visit_kernel);
    archive.list(m.new_checks, visit_check);
  } else if constexpr (std::is_same_v<Message, TaskStart>) {
    numbers(archive, m.task, m.status, m.reference_seconds);
    archive.text(m.error);
  } else if constexpr (std::is_same_v<Message, EmulateMessage>) {
    archive.text(m.library);
    visit_kernel(archive, m.kernel);
    archive.list(m.arrays, visit_bytes);
    numbers(archive, m.options.seed, m.options.runs, m.options.max_groups, m.options.chain_seconds,
            m.options.timeout_seconds);
  } else if constexpr (std::is_same_v<Message, EmulatedMessage>) {
    auto& r = m.report;
    numbers(archive, r.status, r.is_complete, r.is_chain_complete, r.launches, r.groups, r.barriers, r.global_accesses,
            r.shared_accesses, r.warp_accesses, r.bank_conflicts);
    archive.text(r.message);
    archive.list(m.outputs, visit_bytes);
    archive.list(m.writes.last_groups, [](auto& inner, auto& group) { inner.number(group); });
    archive.list(m.writes.gaps, [](auto& inner, auto& gap) { numbers(inner, gap.launch, gap.begin, gap.end); });
    archive.list(m.writes.outputs, [](auto& inner, auto& output) {
      inner.text(output.name);
      inner.text(output.elements);
    });
  } else {
    static_assert(std::is_same_v<Message, MeasureResult>);
    numbers(archive, m.status, m.seconds, m.ratio, m.lower_quartile, m.upper_quartile, m.min_seconds, m.median_seconds,
            m.incumbent_seconds, m.pairs, m.disturbed, m.max_error, m.prepack_seconds, m.device_seconds, m.cold_seconds,
            m.is_slower, m.noise, m.spent_seconds, m.parts.buffers, m.parts.start, m.parts.run, m.parts.compare,
            m.parts.timing);
    archive.text(m.message);
  }
}

bool are_valid(const std::vector<KernelLaunch>& launches, std::size_t arguments, i64 scratch_bytes) {
  for (const KernelLaunch& launch : launches) {
    for (std::size_t d = 0; d < 3; ++d) {
      if (launch.groups[d] < 1 || launch.threads[d] < 1) return false;
    }
    if (launch.dynamic_shared_bytes < 0 || launch.dynamic_shared_bytes >= i64{1} << 31) return false;
    for (const KernelLaunch::Pointer& pointer : launch.pointers) {
      bool inside = pointer.is_scratch ? pointer.bytes >= 0 && pointer.at + pointer.bytes <= scratch_bytes
                                       : pointer.at < static_cast<i64>(arguments);
      if (pointer.at < 0 || !inside) return false;
    }
  }
  return true;
}

// Enumerations and sizes in range; what else a message says is checked where it is used.
bool is_valid(const Kernel& kernel) {
  const KernelManifest& manifest = kernel.manifest;
  for (const auto* list : {&manifest.run, &manifest.prepack}) {
    for (const KernelArgument& argument : *list) {
      bool in_range =
          argument.bytes >= 0 && argument.role <= ArgumentRole::Output && static_cast<int>(argument.dtype) < kDTypes;
      if (!in_range) return false;
    }
  }
  return are_valid(manifest.run_launches, manifest.run.size(), manifest.scratch_shared_bytes) &&
         are_valid(manifest.prepack_launches, manifest.prepack.size(), manifest.scratch_shared_bytes) &&
         manifest.scratch_shared_bytes >= 0 && manifest.scratch_worker_bytes >= 0;
}
bool is_valid(int) { return true; }
bool is_valid(const HelloMessage&) { return true; }
bool is_valid(const OutputSample& sample) {
  std::size_t size = sample.positions.size();
  auto is_inside = [&](i64 position) { return position >= 0 && position < sample.count; };
  return sample.expected.size() == size && (sample.variances.empty() || sample.variances.size() == size) &&
         std::all_of(sample.positions.begin(), sample.positions.end(), is_inside);
}
bool is_valid(const BeginTaskMessage& message) {
  auto are_good = [](const std::vector<OutputSample>& samples) {
    return std::all_of(samples.begin(), samples.end(), [](const OutputSample& sample) { return is_valid(sample); });
  };
  return is_valid(message.reference) && std::all_of(message.samples.begin(), message.samples.end(), are_good);
}
bool is_valid(MeasureStatus status) { return static_cast<int>(status) < kMeasureStatuses; }
bool is_valid(const TaskStart& message) { return is_valid(message.status); }
bool is_valid(const MeasureResult& message) { return is_valid(message.status); }
bool is_valid(const EmulateMessage& message) { return is_valid(message.kernel); }
bool is_valid(const EmulatedMessage& message) { return static_cast<int>(message.report.status) < kEmulationStatuses; }
bool is_valid(const std::vector<DeviceCheck>& checks) {
  return std::ranges::all_of(
      checks, [](const DeviceCheck& check) { return check.kind <= DeviceCheckKind::Same && is_valid(check.kernel); });
}
bool is_valid(const MeasureMessage& message) {
  bool incumbents = message.new_incumbent.size() <= 1;
  for (const Kernel& kernel : message.new_incumbent) incumbents = incumbents && is_valid(kernel);
  return incumbents && is_valid(message.new_checks) && is_valid(message.candidate) && message.options.threads >= 1;
}

}  // namespace

const char* name_of(MeasureStatus status) {
  constexpr const char* kNames[kMeasureStatuses] = {
      "ok",           "build error", "crash",     "timeout", "out of memory", "out of bounds",
      "wrong result", "cheat",       "forbidden", "noisy",   "worker lost",   "too fast"};
  return kNames[static_cast<int>(status)];
}

template <class Message>
std::string encode(const Message& message) {
  Writer writer;
  visit(writer, message);
  return writer.bytes;
}

template <class Message>
bool decode(std::string_view bytes, Message& message) {
  Reader reader{bytes};
  visit(reader, message);
  return reader.good && reader.bytes.empty() && is_valid(message);
}

template std::string encode(const int&);
template std::string encode(const Kernel&);
template std::string encode(const std::vector<DeviceCheck>&);
template std::string encode(const HelloMessage&);
template std::string encode(const BeginTaskMessage&);
template std::string encode(const MeasureMessage&);
template std::string encode(const TaskStart&);
template std::string encode(const EmulateMessage&);
template std::string encode(const EmulatedMessage&);
template std::string encode(const MeasureResult&);
template bool decode(std::string_view, int&);
template bool decode(std::string_view, Kernel&);
template bool decode(std::string_view, std::vector<DeviceCheck>&);
template bool decode(std::string_view, HelloMessage&);
template bool decode(std::string_view, BeginTaskMessage&);
template bool decode(std::string_view, MeasureMessage&);
template bool decode(std::string_view, TaskStart&);
template bool decode(std::string_view, EmulateMessage&);
template bool decode(std::string_view, EmulatedMessage&);
template bool decode(std::string_view, MeasureResult&);

namespace {

bool send_all(int socket, const char* data, u64 bytes) {
  while (bytes > 0) {
    ssize_t sent = send(socket, data, bytes, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent <= 0) return false;
    data += sent;
    bytes -= static_cast<u64>(sent);
  }
  return true;
}

bool receive_all(int socket, char* data, u64 bytes, double timeout_seconds) {
  int timeout = timeout_seconds < 0 ? -1 : static_cast<int>(std::ceil(timeout_seconds * 1000));
  while (bytes > 0) {
    pollfd waiting{socket, POLLIN, 0};
    int ready = poll(&waiting, 1, timeout);
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    ssize_t received = recv(socket, data, bytes, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) return false;
    data += received;
    bytes -= static_cast<u64>(received);
  }
  return true;
}

}  // namespace

bool send_frame(int socket, MessageKind kind, std::string_view payload) {
  FrameHeader header{kind, 0, payload.size()};
  return send_all(socket, reinterpret_cast<const char*>(&header), sizeof header) &&
         send_all(socket, payload.data(), payload.size());
}

namespace {

// A message of one byte with a descriptor beside it.
struct DescriptorMessage {
  char byte = 0;
  iovec bytes{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr header{};
  DescriptorMessage() {
    header.msg_iov = &bytes, header.msg_iovlen = 1;
    header.msg_control = control, header.msg_controllen = sizeof control;
  }
};

}  // namespace

bool send_descriptor(int socket, int descriptor) {
  DescriptorMessage message;
  cmsghdr* beside = CMSG_FIRSTHDR(&message.header);
  beside->cmsg_level = SOL_SOCKET, beside->cmsg_type = SCM_RIGHTS, beside->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(beside), &descriptor, sizeof descriptor);
  ssize_t sent = 0;
  do sent = sendmsg(socket, &message.header, MSG_NOSIGNAL);
  while (sent < 0 && errno == EINTR);
  return sent == 1;
}

int receive_descriptor(int socket) {
  DescriptorMessage message;
  ssize_t received = 0;
  do received = recvmsg(socket, &message.header, MSG_CMSG_CLOEXEC);
  while (received < 0 && errno == EINTR);
  cmsghdr* beside = received == 1 ? CMSG_FIRSTHDR(&message.header) : nullptr;
  int descriptor = -1;
  if (beside && beside->cmsg_level == SOL_SOCKET && beside->cmsg_type == SCM_RIGHTS)
    std::memcpy(&descriptor, CMSG_DATA(beside), sizeof descriptor);
  return descriptor;
}

bool receive_frame(int socket, MessageKind& kind, std::string& payload, double timeout_seconds) {
  FrameHeader header{};
  if (!receive_all(socket, reinterpret_cast<char*>(&header), sizeof header, timeout_seconds)) return false;
  if (header.bytes > kMaxFrameBytes) return false;
  payload.resize(header.bytes);
  kind = header.kind;
  return receive_all(socket, payload.data(), header.bytes, timeout_seconds);
}

}  // namespace tw

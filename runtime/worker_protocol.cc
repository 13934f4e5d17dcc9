#include "runtime/worker_protocol.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <type_traits>

namespace tw {
namespace {

// Both directions of a message are one list of fields: `visit(archive, message)` with a Writer or a Reader.
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
  numbers(archive, argument.role, argument.dtype, argument.bytes);
  archive.list(argument.shape, [](auto& inner, auto& extent) { inner.number(extent); });
};

auto visit_kernel = [](auto& archive, auto& kernel) {
  auto& manifest = kernel.manifest;
  archive.text(kernel.code);
  archive.text(manifest.symbol);
  archive.list(manifest.run, visit_argument);
  archive.list(manifest.prepack, visit_argument);
  numbers(archive, manifest.scratch_shared_bytes, manifest.scratch_worker_bytes, manifest.parallel);
};

template <class Archive, class Message>
void visit_hello(Archive& archive, Message& m) {
  numbers(archive, m.core, m.memory_bytes, m.reference_timeout_seconds);
}

template <class Archive, class Message>
void visit_begin_task(Archive& archive, Message& m) {
  archive.number(m.task);
  visit_kernel(archive, m.reference);
  numbers(archive, m.tolerance.absolute, m.tolerance.relative, m.seed);
}

template <class Archive, class Message>
void visit_measure(Archive& archive, Message& m) {
  archive.number(m.task);
  visit_kernel(archive, m.candidate);
  auto& o = m.options;
  numbers(archive, o.threads, o.time, o.min_seconds, o.timeout_seconds, o.sample_seconds, o.first_pairs, o.pairs, o.max_pairs,
          o.drop_ratio, o.close_ratio, o.precision, o.budget_seconds);
  numbers(archive, m.has_incumbent, m.incumbent_seconds);
}

template <class Archive, class Message>
void visit_task_start(Archive& archive, Message& m) {
  numbers(archive, m.task, m.reference_seconds);
  archive.text(m.error);
}

template <class Archive, class Message>
void visit_result(Archive& archive, Message& m) {
  numbers(archive, m.status, m.seconds, m.ratio, m.lower_quartile, m.upper_quartile, m.min_seconds, m.median_seconds,
          m.incumbent_seconds, m.pairs, m.disturbed, m.max_error, m.prepack_seconds, m.spent_seconds);
  archive.text(m.message);
}

bool is_valid(const KernelManifest& manifest) {
  for (const auto* list : {&manifest.run, &manifest.prepack}) {
    for (const KernelArgument& argument : *list) {
      if (argument.bytes < 0 || argument.role > ArgumentRole::Output || static_cast<int>(argument.dtype) >= kDTypes) return false;
    }
  }
  return manifest.scratch_shared_bytes >= 0 && manifest.scratch_worker_bytes >= 0;
}

bool ended(const Reader& reader) { return reader.good && reader.bytes.empty(); }

}  // namespace

const char* name_of(MeasureStatus status) {
  constexpr const char* kNames[kMeasureStatuses] = {"ok", "build error", "crash", "timeout", "out of memory", "out of bounds",
                                                    "wrong result", "cheat", "forbidden", "noisy", "worker lost"};
  return kNames[static_cast<int>(status)];
}

std::string encode(const HelloMessage& message) {
  Writer writer;
  visit_hello(writer, message);
  return writer.bytes;
}
std::string encode(const BeginTaskMessage& message) {
  Writer writer;
  visit_begin_task(writer, message);
  return writer.bytes;
}
std::string encode(int task) {
  Writer writer;
  writer.number(task);
  return writer.bytes;
}
std::string encode(const MeasureMessage& message) {
  Writer writer;
  visit_measure(writer, message);
  writer.number(message.new_incumbent.has_value());
  if (message.new_incumbent) visit_kernel(writer, *message.new_incumbent);
  return writer.bytes;
}
std::string encode(const TaskStart& message) {
  Writer writer;
  visit_task_start(writer, message);
  return writer.bytes;
}
std::string encode(const MeasureResult& message) {
  Writer writer;
  visit_result(writer, message);
  return writer.bytes;
}

bool decode(std::string_view bytes, HelloMessage& message) {
  Reader reader{bytes};
  visit_hello(reader, message);
  return ended(reader);
}
bool decode(std::string_view bytes, BeginTaskMessage& message) {
  Reader reader{bytes};
  visit_begin_task(reader, message);
  return ended(reader) && is_valid(message.reference.manifest);
}
bool decode(std::string_view bytes, int& task) {
  Reader reader{bytes};
  reader.number(task);
  return ended(reader);
}
bool decode(std::string_view bytes, MeasureMessage& message) {
  Reader reader{bytes};
  visit_measure(reader, message);
  bool has_new = false;
  reader.number(has_new);
  if (has_new) visit_kernel(reader, message.new_incumbent.emplace());
  return ended(reader) && is_valid(message.candidate.manifest) && (!has_new || is_valid(message.new_incumbent->manifest));
}
bool decode(std::string_view bytes, TaskStart& message) {
  Reader reader{bytes};
  visit_task_start(reader, message);
  return ended(reader);
}
bool decode(std::string_view bytes, MeasureResult& message) {
  Reader reader{bytes};
  visit_result(reader, message);
  return ended(reader) && static_cast<int>(message.status) < kMeasureStatuses;
}

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
  return send_all(socket, reinterpret_cast<const char*>(&header), sizeof header) && send_all(socket, payload.data(), payload.size());
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

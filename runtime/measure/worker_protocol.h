// The messages between the tuner and tracewright-worker, and their bytes: a frame is a FrameHeader
// followed by the encoded message. Both ends are the same build on the same machine, so numbers
// travel as they lie in memory; the reader still trusts no length.
#pragma once
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "backends/kernel.h"
#include "runtime/measure/emulation_report.h"
#include "runtime/measure/measurer.h"

namespace tw {

inline constexpr int kWorkerSocket = 3;  // the file descriptor that the worker is started with
inline constexpr u64 kMaxFrameBytes = u64{1} << 30;

enum class MessageKind : u32 {
  Hello = 0x54570001,
  BeginTask,
  EndTask,
  Measure,
  TaskStarted,
  Measured,
  Emulate,
  Emulated
};

struct FrameHeader {
  MessageKind kind;
  u32 reserved = 0;
  u64 bytes = 0;
};

// Tuner to worker, first of all; no answer.
struct HelloMessage {
  int core = -1, device = -1;
  i64 memory_bytes = 0, data_bytes = 0;
  double reference_timeout_seconds = 0;
};

// Answered by TaskStarted with a TaskStart whose `task` is this `task`, or -1 with a status that says why.
struct BeginTaskMessage {
  int task = 0;
  Kernel reference;  // without code, if there are samples
  Tolerance tolerance;
  u64 seed = 0;
  std::array<std::vector<OutputSample>, kSets> samples;
  bool has_file =
      false;  // its descriptor follows: the worker keeps the reference's results there (runtime/worker/task.h)
};

// Answered by Measured with a MeasureResult. The worker remembers one incumbent per task.
struct MeasureMessage {
  int task = 0;
  Kernel candidate;
  MeasureOptions options;  // options.incumbent is not sent
  bool has_incumbent = false;
  std::vector<Kernel> new_incumbent;    // one, or none: the one the worker has
  double incumbent_seconds = 0;         // its smallest time so far in this task; 0 = unknown
  std::vector<DeviceCheck> new_checks;  // none: those the worker has
};

struct NamedBytes {
  std::string name, bytes;
};

// To tracewright-emulator; answered by Emulated with an EmulatedMessage. `library` is the path of the compiled kernels;
// the kernel has no code.
struct EmulateMessage {
  std::string library;
  Kernel kernel;
  std::vector<NamedBytes> arrays;  // inputs and constants
  EmulationOptions options;
};
struct EmulatedMessage {
  EmulationReport report;
  std::vector<NamedBytes> outputs;
  EmulationWrites writes;
};

// The bytes of a message, and back. Message: one of the above, TaskStart, MeasureResult, int for the task of EndTask,
// or a part that also travels alone: Kernel, std::vector<DeviceCheck>. decode is false if the bytes are not such a
// message.
template <class Message>
std::string encode(const Message& message);
template <class Message>
bool decode(std::string_view bytes, Message& message);

// Sends a whole frame. False if the other side is gone.
bool send_frame(int socket, MessageKind kind, std::string_view payload);
// A descriptor behind a frame. -1: nothing came.
bool send_descriptor(int socket, int descriptor);
int receive_descriptor(int socket);
// Receives a whole frame. False if the other side is gone, the frame is too long, or nothing came
// for `timeout_seconds` (< 0: no limit).
bool receive_frame(int socket, MessageKind& kind, std::string& payload, double timeout_seconds);

// A worker's side of the conversation: hands every request to server.hello(), begin_task(), end_task() or measure(),
// each of which takes its message, answers it, and is false if it cannot go on. Returns the worker's exit status: 0
// when the tuner has closed the socket, 1 when a request is not understood or one of them was false.
template <class Server>
int serve_requests(int socket, Server& server) {
  MessageKind kind{};
  std::string payload;
  auto hand = [&]<class Message>(Message message, bool (Server::*to)(Message&)) {
    return decode(payload, message) && (server.*to)(message);
  };
  while (receive_frame(socket, kind, payload, -1)) {
    bool good = kind == MessageKind::Hello       ? hand(HelloMessage{}, &Server::hello)
                : kind == MessageKind::BeginTask ? hand(BeginTaskMessage{}, &Server::begin_task)
                : kind == MessageKind::EndTask
                    ? hand(int{}, &Server::end_task)
                    : kind == MessageKind::Measure && hand(MeasureMessage{}, &Server::measure);
    // The process of a kernel gets a copy of this memory, and must not find samples there.
    explicit_bzero(payload.data(), payload.size());
    if (!good) return 1;
  }
  return 0;
}

}  // namespace tw

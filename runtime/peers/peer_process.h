// The process of a peer: a program, Python with the folder that serves all wheels, or a fork of this process; asked
// line by line on its standard input and output. Between requests it is stopped (SIGSTOP): threads that spin between
// calls, as OpenMP's do, would otherwise disturb whatever is measured next. Nothing here waits for ever. What is asked
// is said by peer.h and model_peer.h.
#pragma once
#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "dsl/base/arena.h"

namespace tw {

enum class PeerStatus : u8 {
  Ok,
  Missing,      // no such peer was built, it could not be started, or its wheel is not installed
  Unsupported,  // the library cannot do this problem
  Failed,       // the peer refused the request
  TimedOut,     // no answer in time; the process was killed
  Died,         // the process ended; with how, and its last words
};
const char* name_of(PeerStatus status);

// What came of a request; unless the status is Ok, `message` is a sentence for the user and `value`
// means nothing.
template <class T>
struct [[nodiscard]] PeerResult {
  PeerStatus status = PeerStatus::Ok;
  std::string message;
  T value{};
  explicit operator bool() const { return status == PeerStatus::Ok; }
};

// The same failure as the result of another request.
template <class T, class Other>
PeerResult<T> fail(const PeerResult<Other>& from) {
  return {from.status, from.message, {}};
}

struct PeerOptions {
  int threads = 1;
  int vector_bits = 0;    // 0: the widest vectors of the CPU; 256: AVX2 at most, for targets that have no more
  std::vector<int> cpus;  // to run on; empty: the first `threads` of those that this process may use
  std::string folder;     // where the peers' programs are; empty: beside this program
  std::chrono::milliseconds start_timeout{60'000}, prepare_timeout{60'000}, sample_timeout{30'000};
  std::function<bool()> stop = {};  // is asked about every second while an answer is awaited: true ends the peer
};

// The words that start a peer: "tracewright-peer-NAME", or Python with the folder of wheels and the name where
// `is_wheel`. Empty: it is not there.
std::vector<std::string> peer_words(const std::string& name, bool is_wheel, const std::string& folder);
inline constexpr const char* kWheelFolder = "tracewright-peer-wheel";

class PeerProcess {
 public:
  explicit PeerProcess(std::string name, PeerOptions options) : name_(std::move(name)), options_(std::move(options)) {}
  ~PeerProcess();  // kills the process
  PeerProcess(const PeerProcess&) = delete;
  PeerProcess& operator=(const PeerProcess&) = delete;

  // Starts it; the value is the version that it says of itself.
  PeerResult<std::string> launch(std::vector<std::string> words);
  // The same with a fork of this process, in which `serve` reads and writes the lines and ends.
  PeerResult<std::string> launch(const std::function<void()>& serve);
  // Wakes the process, asks, waits for the answer, stops the process again. The value is what follows "ok ".
  PeerResult<std::string> request(const std::string& line, std::chrono::milliseconds timeout);
  // Ends the process, if it still runs, and says how it ended.
  PeerResult<std::string> lost(PeerStatus status, const std::string& what);
  int pid() const { return pid_; }  // -1: there is none

 private:
  PeerResult<std::string> open_line(const std::string& program, int& their_end);
  PeerResult<std::string> read_version();
  PeerResult<std::string> read_line(std::chrono::milliseconds timeout);
  bool stop();
  std::string last_words() const;

  std::string name_;
  PeerOptions options_;
  int pid_ = -1, socket_ = -1,
      errors_ = -1;  // errors_: an unnamed file that collects the process's stderr
  std::string unread_;
};

}  // namespace tw

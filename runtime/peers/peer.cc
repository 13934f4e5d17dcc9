#include "runtime/peers/peer.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <optional>
#include <thread>

#include "dsl/base/text.h"
#include "runtime/measure/spawn.h"

namespace tw {
namespace {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

// An unnamed file in memory. The peer opens it through /proc, so nothing is left behind however
// either process ends.
class MemoryFile {
 public:
  explicit MemoryFile(std::size_t bytes) : fd_(memfd_create("tracewright", MFD_CLOEXEC)) {
    if (fd_ >= 0 && ftruncate(fd_, static_cast<off_t>(bytes)) != 0) reset();
  }
  MemoryFile(MemoryFile&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  MemoryFile& operator=(MemoryFile&&) = delete;
  ~MemoryFile() { reset(); }
  bool valid() const { return fd_ >= 0; }
  std::string path() const { return cat("/proc/", getpid(), "/fd/", fd_); }
  bool write(std::span<const std::byte> data) const { return transfer(data.data(), data.size(), pwrite); }
  bool read(std::span<std::byte> data) const { return transfer(data.data(), data.size(), pread); }

 private:
  template <class Byte, class Call>
  bool transfer(Byte* data, std::size_t size, Call call) const {
    for (std::size_t done = 0; done < size;) {
      const ssize_t step = call(fd_, data + done, size - done, static_cast<off_t>(done));
      if (step <= 0 && errno != EINTR) return false;
      done += static_cast<std::size_t>(std::max<ssize_t>(step, 0));
    }
    return true;
  }
  void reset() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  int fd_;
};

std::string request_text(const PeerProblem& problem, const std::vector<MemoryFile>& files) {
  boost::json::object args;
  for (const auto& [name, value] : problem.args) args[name] = value;
  boost::json::array inputs;
  for (std::size_t i = 0; i < files.size(); ++i)
    inputs.push_back({{"file", files[i].path()}, {"elements", problem.inputs[i].size()}});
  boost::json::object request{{"op", problem.op},
                              {"args", args},
                              {"epilogue", boost::json::array(problem.epilogue.begin(), problem.epilogue.end())},
                              {"inputs", inputs}};
  return "prepare " + boost::json::serialize(request);
}

// A file of the peers: in the given folder, or beside this program (tests lie one folder deeper). "": not there.
std::string find_file(const std::string& name, int access_mode, const std::string& folder) {
  namespace fs = std::filesystem;
  std::error_code ignored;
  const fs::path here = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  const std::vector<fs::path> folders =
      folder.empty() ? std::vector{here, here.parent_path()} : std::vector{fs::path(folder)};
  for (const fs::path& at : folders) {
    const fs::path file = at / name;
    if (access(file.c_str(), access_mode) == 0) return file;
  }
  return "";
}

struct Hint {
  const char* library;
  const char* package;
};
constexpr Hint kHints[] = {{"openblas", "libopenblas-dev"},
                           {"blis", "libblis-dev"},
                           {"onednn", "libdnnl-dev"},
                           {"libtorch", "libtorch-dev"},
                           {"mkl-wheel", ""},
                           {"openblas-wheel", ""},
                           {"onednn-wheel", ""},
                           {"torch-wheel", ""},
                           {"fma", ""}};
constexpr const char* kWheelFolder = "tracewright-peer-wheel";

bool is_wheel(const std::string& library) {
  return library.ends_with("-wheel") && std::ranges::count(peer_libraries(), library) > 0;
}

// The words that start a peer: its program, or Python with the folder that serves all wheels. Empty: not there.
std::vector<std::string> find_program(const std::string& library, const std::string& folder) {
  if (!is_wheel(library)) {
    const std::string program = find_file("tracewright-peer-" + library, X_OK, folder);
    return program.empty() ? std::vector<std::string>{} : std::vector{program};
  }
  const std::string script = find_file(cat(kWheelFolder, "/__main__.py"), R_OK, folder);
  if (script.empty()) return {};
  const char* chosen = std::getenv("TRACEWRIGHT_PYTHON");
  // -B: no compiled files are written into the folder.
  return {chosen && *chosen ? chosen : "python3", "-B", std::filesystem::path(script).parent_path(), library};
}

std::string way_to_get(const Hint& hint) { return cat("install the package ", hint.package, " and build again"); }

// For a peer that is there and does not start: most likely its library was removed since, or it is no Python.
std::string start_hint(const std::string& library) {
  for (const Hint& hint : kHints) {
    if (library == hint.library && *hint.package) return cat("; ", way_to_get(hint));
  }
  return is_wheel(library) ? "; TRACEWRIGHT_PYTHON names the Python that has the wheel" : "";
}

// Why a peer is missing, and what to do.
std::string missing_message(const std::string& library) {
  for (const Hint& hint : kHints) {
    if (library != hint.library) continue;
    if (is_wheel(library)) return cat("no peer for ", library, " is here: the folder ", kWheelFolder, " is missing");
    if (!*hint.package) return "the FMA probe was not built: it needs an x86-64 CPU";
    return cat("no peer for ", library, " was built; ", way_to_get(hint));
  }
  const std::string near = closest(library, peer_libraries());
  return cat("unknown library ", library, near.empty() ? "" : cat(": did you mean ", near, "?"),
             "; known: ", join(peer_libraries(), ", "));
}

template <class T, class Other>
PeerResult<T> fail(const PeerResult<Other>& from) {
  return {from.status, from.message, {}};
}

}  // namespace

const char* name_of(PeerStatus status) {
  static constexpr const char* kNames[] = {"ok", "missing", "unsupported", "failed", "timed out", "died"};
  return kNames[static_cast<int>(status)];
}

const std::vector<std::string>& peer_libraries() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Hint& hint : kHints) list.push_back(hint.library);
    return list;
  }();
  return names;
}

PeerResult<std::unique_ptr<Peer>> Peer::start(const std::string& library, const PeerOptions& options) {
  const std::vector<std::string> program = find_program(library, options.folder);
  if (program.empty()) return {PeerStatus::Missing, missing_message(library), {}};
  std::unique_ptr<Peer> peer(new Peer(library, options));
  PeerResult<std::string> ready = peer->launch(program);
  if (ready.status == PeerStatus::Died || (ready.status == PeerStatus::Missing && peer->pid_ < 0))
    ready.message += start_hint(library);
  if (!ready) return fail<std::unique_ptr<Peer>>(ready);
  peer->version_ = ready.value;
  return {PeerStatus::Ok, "", std::move(peer)};
}

Peer::~Peer() {
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (socket_ >= 0) close(socket_);
  if (errors_ >= 0) close(errors_);
}

PeerResult<std::string> Peer::launch(std::vector<std::string> words) {
  const std::string program = words[0];
  int ends[2];
  errors_ = memfd_create("tracewright-peer-errors", MFD_CLOEXEC);
  if (errors_ < 0 || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    return {PeerStatus::Missing, cat("cannot start ", program, ": ", std::strerror(errno)), {}};
  }
  socket_ = ends[0];
  words.insert(words.end(), {"--threads", cat(options_.threads), "--vector-bits", cat(options_.vector_bits)});
  if (!options_.cpus.empty()) words.insert(words.end(), {"--cpus", join(options_.cpus, ",")});
  // A process group of its own: Ctrl-C is for the bench command, which ends its peers itself.
  pid_ = spawn(words, {.descriptors = {{ends[1], STDIN_FILENO}, {ends[1], STDOUT_FILENO}, {errors_, STDERR_FILENO}},
                       .own_group = true,
                       .search_path = true});
  close(ends[1]);
  if (pid_ < 0) {
    const int failed = -std::exchange(pid_, -1);
    return {PeerStatus::Missing, cat("cannot start ", program, ": ", std::strerror(failed)), {}};
  }
  PeerResult<std::string> line = read_line(options_.start_timeout);
  if (!line) return line;
  if (line.value.starts_with("missing ")) return {PeerStatus::Missing, line.value.substr(std::strlen("missing ")), {}};
  if (!line.value.starts_with("ready ")) return lost(PeerStatus::Failed, cat("answered `", line.value, "` on start"));
  if (!stop()) return lost(PeerStatus::Died, "ended on start");
  return {PeerStatus::Ok, "", line.value.substr(std::strlen("ready "))};
}

PeerResult<PeerKernel> Peer::prepare(const PeerProblem& problem) {
  std::vector<MemoryFile> files;
  for (std::span<const float> input : problem.inputs) {
    files.emplace_back(input.size_bytes());
    if (!files.back().valid() || !files.back().write(std::as_bytes(input))) {
      return {PeerStatus::Failed,
              cat("cannot share ", input.size_bytes(), " bytes with ", library_, ": ", std::strerror(errno)),
              {}};
    }
  }
  const PeerResult<std::string> answer = request(request_text(problem, files), options_.prepare_timeout);
  if (!answer) return fail<PeerKernel>(answer);
  PeerKernel kernel;
  int detail_at = 0;
  long long elements = 0;
  if (std::sscanf(answer.value.c_str(), "%lf %lld %n", &kernel.flops, &elements, &detail_at) != 2) {
    return fail<PeerKernel>(lost(PeerStatus::Failed, cat("answered `", answer.value, "`")));
  }
  kernel.output_elements = output_elements_ = elements;
  kernel.detail = answer.value.substr(detail_at);
  return {PeerStatus::Ok, "", kernel};
}

PeerResult<double> Peer::sample(i64 calls) {
  const PeerResult<std::string> answer = request(cat("sample ", calls), options_.sample_timeout);
  if (!answer) return fail<double>(answer);
  return {PeerStatus::Ok, "", std::strtod(answer.value.c_str(), nullptr)};
}

PeerResult<std::vector<float>> Peer::output() {
  std::vector<float> result(output_elements_);
  const MemoryFile file(result.size() * sizeof(float));
  const PeerResult<std::string> answer = request(cat("output ", file.path()), options_.sample_timeout);
  if (!answer) return fail<std::vector<float>>(answer);
  if (!file.read(std::as_writable_bytes(std::span(result)))) {
    return {PeerStatus::Failed, cat("cannot read the result of ", library_), {}};
  }
  return {PeerStatus::Ok, "", std::move(result)};
}

// Wakes the process, asks, waits for the answer, stops the process again. The value is what follows
// "ok ".
PeerResult<std::string> Peer::request(const std::string& line, Milliseconds timeout) {
  if (pid_ < 0) return {PeerStatus::Died, cat("the ", library_, " peer has ended"), {}};
  kill(pid_, SIGCONT);
  const std::string sent = line + "\n";
  if (send(socket_, sent.data(), sent.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(sent.size())) {
    return lost(PeerStatus::Died, "takes no more requests");
  }
  PeerResult<std::string> answer = read_line(timeout);
  if (!answer) return answer;
  if (!stop()) return lost(PeerStatus::Died, "ended after its answer");
  const std::size_t space = std::min(answer.value.find(' '), answer.value.size());
  const std::string word = answer.value.substr(0, space),
                    rest = answer.value.substr(std::min(space + 1, answer.value.size()));
  if (word == "ok") return {PeerStatus::Ok, "", rest};
  return {word == "unsupported" ? PeerStatus::Unsupported : PeerStatus::Failed, rest, {}};
}

PeerResult<std::string> Peer::read_line(Milliseconds timeout) {
  const auto deadline = Clock::now() + timeout;
  while (unread_.find('\n') == std::string::npos) {
    const auto left = std::chrono::duration_cast<Milliseconds>(deadline - Clock::now()).count();
    pollfd ready{socket_, POLLIN, 0};
    const int count = poll(&ready, 1, static_cast<int>(std::max<i64>(left, 0)));
    if (count < 0 && errno == EINTR) continue;
    if (count == 0) return lost(PeerStatus::TimedOut, cat("gave no answer within ", timeout.count(), " ms"));
    char buffer[4096];
    const ssize_t got = recv(socket_, buffer, sizeof buffer, 0);
    if (got <= 0) return lost(PeerStatus::Died, "closed the line");
    unread_.append(buffer, got);
  }
  const std::size_t end = unread_.find('\n');
  const std::string line = unread_.substr(0, end);
  unread_.erase(0, end + 1);
  return {PeerStatus::Ok, "", line};
}

// Ends the process, if it still runs, and says how it ended.
PeerResult<std::string> Peer::lost(PeerStatus status, const std::string& what) {
  int how = 0;
  // What closed the line by ending is seen as ended within a moment; its own cause is worth more
  // than our kill.
  for (int wait = 0; wait < 100 && status == PeerStatus::Died && pid_ > 0; ++wait) {
    if (waitpid(pid_, &how, WNOHANG) == pid_)
      pid_ = -1;
    else
      std::this_thread::sleep_for(Milliseconds(1));
  }
  std::string cause;
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    waitpid(pid_, &how, 0);
    pid_ = -1;
  } else if (WIFSIGNALED(how)) {
    cause = cat(" (killed by signal ", WTERMSIG(how), ", ", strsignal(WTERMSIG(how)), ")");
  } else if (WIFEXITED(how)) {
    cause = cat(" (exit code ", WEXITSTATUS(how), ")");
  }
  return {status, cat("the ", library_, " peer ", what, cause, last_words()), {}};
}

// False if the process has ended instead.
bool Peer::stop() {
  kill(pid_, SIGSTOP);
  // A stop takes microseconds; a process that does not stop is stuck in the kernel, and counts as
  // ended.
  for (const auto deadline = Clock::now() + std::chrono::seconds(5); Clock::now() < deadline;) {
    siginfo_t info{};
    if (waitid(P_PID, pid_, &info, WSTOPPED | WEXITED | WNOHANG | WNOWAIT) != 0) return false;
    if (info.si_pid == 0)
      std::this_thread::yield();
    else
      return info.si_code == CLD_STOPPED || info.si_code == CLD_TRAPPED;
  }
  return false;
}

// The end of what the process wrote to stderr.
std::string Peer::last_words() const {
  char buffer[400];
  const off_t size = lseek(errors_, 0, SEEK_END), from = std::max<off_t>(0, size - static_cast<off_t>(sizeof buffer));
  const ssize_t got = pread(errors_, buffer, sizeof buffer, from);
  return got > 0 ? cat("; it said: ", std::string(buffer, got)) : "";
}

}  // namespace tw

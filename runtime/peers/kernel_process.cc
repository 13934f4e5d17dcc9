// KernelProcess of runtime/peers/bench.h: the forked process and the one question it answers.
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <map>

#include "dsl/base/check.h"
#include "dsl/base/text.h"
#include "runtime/measure/object_loader.h"
#include "runtime/measure/thread_pool.h"
#include "runtime/peers/bench.h"

namespace tw {
namespace {

constexpr int answer_timeout_ms = 120'000;

std::vector<int> first_cpus(int count) {
  cpu_set_t allowed;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE && static_cast<int>(cpus.size()) < count; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  }
  return cpus;
}

// Private memory as any program would get it, aligned to pages.
void* allocate(i64 bytes) {
  void* memory = mmap(nullptr, static_cast<std::size_t>(std::max<i64>(bytes, 1)), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) _exit(3);
  return memory;
}

// What runs in the child. Its exit code, if it ends by itself: 0 the parent went away, 2 a pool was
// not to be had, 3 no memory.
class Child {
 public:
  Child(const Kernel& kernel, const std::vector<KernelProcess::Input>& inputs, LoadedObject object,
        const std::vector<KernelProcess::Output>& outputs, int threads)
      : manifest_(kernel.manifest), inputs_(inputs), object_(std::move(object)), outputs_(outputs), threads_(threads) {}

  [[noreturn]] void serve(int socket) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    signal(SIGINT, SIG_IGN);
    pin();
    bind();
    for (i64 calls = 0; read(socket, &calls, sizeof calls) == sizeof calls;) {
      i64 nanoseconds = sample(calls);
      for (const KernelProcess::Output& output : outputs_)
        std::memcpy(output.data, buffers_[output.name], static_cast<std::size_t>(output.bytes));
      if (write(socket, &nanoseconds, sizeof nanoseconds) != sizeof nanoseconds) break;
    }
    _exit(0);
  }

 private:
  void pin() {
    std::vector<int> cpus = first_cpus(threads_);
    cpu_set_t mine;
    CPU_ZERO(&mine);
    if (!cpus.empty()) CPU_SET(cpus[0], &mine);
    if (!cpus.empty()) sched_setaffinity(0, sizeof mine, &mine);
    if (threads_ < 2) return;
    pool_ = tw_pool_create(threads_, static_cast<int>(cpus.size()) == threads_ ? cpus.data() : nullptr);
    if (!pool_) _exit(2);
  }

  void* buffer_of(const KernelArgument& argument) {
    auto [found, is_new] = buffers_.try_emplace(argument.name, nullptr);
    if (!is_new) return found->second;
    found->second = allocate(argument.bytes);
    for (const KernelProcess::Input& input : inputs_) {
      if (input.name == argument.name) std::memcpy(found->second, input.bytes.data(), input.bytes.size());
    }
    return found->second;
  }

  void bind() {
    std::vector<void*> prepack;
    for (const KernelArgument& argument : manifest_.prepack) prepack.push_back(buffer_of(argument));
    for (const KernelArgument& argument : manifest_.run) run_.push_back(buffer_of(argument));
    scratch_ = allocate(manifest_.scratch_bytes(threads_));
    if (!prepack.empty()) object_.prepack(manifest_.symbol)(prepack.data());
    entry_ = object_.run(manifest_.symbol);
  }

  i64 sample(i64 calls) {
    auto call = [&] { entry_(run_.data(), scratch_, pool_ ? tw_pool_run : nullptr, pool_); };
    for (const KernelProcess::Output& output : outputs_)
      std::memset(buffers_[output.name], 0xff, static_cast<std::size_t>(output.bytes));
    call();
    auto begin = std::chrono::steady_clock::now();
    for (i64 i = 0; i < calls; ++i) call();
    return std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
  }

  const KernelManifest& manifest_;
  const std::vector<KernelProcess::Input>& inputs_;
  LoadedObject object_;
  const std::vector<KernelProcess::Output>& outputs_;
  int threads_;
  tw_pool* pool_ = nullptr;
  std::map<std::string, void*> buffers_;
  std::vector<void*> run_;
  void* scratch_ = nullptr;
  tw_run_function entry_ = nullptr;
};

}  // namespace

std::unique_ptr<KernelProcess> KernelProcess::start(const Kernel& kernel, const std::vector<Input>& inputs, int threads,
                                                    std::string& error) {
  LoadedObject object = load_object(kernel.code, error);
  if (!error.empty()) return nullptr;
  bool has_entries =
      object.run(kernel.manifest.symbol) && (kernel.manifest.prepack.empty() || object.prepack(kernel.manifest.symbol));
  if (!has_entries) return error = "the kernel lacks an entry point", nullptr;
  std::unique_ptr<KernelProcess> process(new KernelProcess);
  for (const KernelArgument& argument : kernel.manifest.run) {
    if (argument.role != ArgumentRole::Output) continue;
    void* shared = mmap(nullptr, static_cast<std::size_t>(std::max<i64>(argument.bytes, 1)), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return error = cat("no memory for the kernel's outputs: ", std::strerror(errno)), nullptr;
    process->outputs_.push_back({argument.name, argument.dtype, argument.bytes, static_cast<char*>(shared)});
  }
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return error = cat("no socket for the kernel's process: ", std::strerror(errno)), nullptr;
  process->pid_ = fork();
  if (process->pid_ == 0) {
    close(ends[0]);
    Child(kernel, inputs, std::move(object), process->outputs_, threads).serve(ends[1]);
  }
  close(ends[1]);
  process->socket_ = ends[0];
  if (process->pid_ < 0) return error = cat("no process for the kernel: ", std::strerror(errno)), nullptr;
  return process;
}

KernelProcess::~KernelProcess() {
  if (socket_ >= 0) close(socket_);
  if (pid_ > 0) {
    kill(pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  for (const Output& output : outputs_) munmap(output.data, static_cast<std::size_t>(std::max<i64>(output.bytes, 1)));
}

bool KernelProcess::ask(i64 calls, i64& answer) {
  if (send(socket_, &calls, sizeof calls, MSG_NOSIGNAL) != sizeof calls) return false;
  pollfd ready{socket_, POLLIN, 0};
  int count = 0;
  while ((count = poll(&ready, 1, answer_timeout_ms)) < 0 && errno == EINTR) {
  }
  return count > 0 && recv(socket_, &answer, sizeof answer, MSG_WAITALL) == sizeof answer;
}

std::optional<double> KernelProcess::sample(i64 calls) {
  i64 nanoseconds = 0;
  if (pid_ > 0 && ask(calls, nanoseconds)) return static_cast<double>(nanoseconds);
  if (pid_ <= 0) return std::nullopt;
  kill(pid_, SIGKILL);  // says nothing to a process that has ended by itself
  int status = 0;
  while (waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  error_ = signal == SIGKILL ? cat("the kernel gave no answer within ", answer_timeout_ms / 1000, " s")
           : signal          ? cat("the kernel died of signal ", signal, ", ", strsignal(signal))
                             : cat("the kernel's process ended with code ", WEXITSTATUS(status));
  return std::nullopt;
}

}  // namespace tw

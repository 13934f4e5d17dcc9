#include "runtime/worker/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>

#include "dsl/base/text.h"

namespace tw {
namespace {

constexpr u64 kStackReach = u64{1} << 20;  // a fault so near the stack pointer is the stack's

const char* stage_text(Stage stage) {
  constexpr const char* kTexts[] = {"while it was started", "while it was loaded", "in prepack", "in run",
                                    "in a timed run"};
  return kTexts[static_cast<int>(stage)];
}

std::string hexadecimal(u64 value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? cat("SIG", name) : cat("signal ", signal);
}

// SIGSEGV and SIGBUS, by what lies at the address.
void explain_access(const ChildReport& report, const std::vector<const GuardedBuffer*>& buffers,
                    MeasureResult& result) {
  const char* verb = report.writing ? "wrote to " : "read from ";
  std::string where = stage_text(report.stage), text;
  bool inside = false;
  for (const GuardedBuffer* buffer : buffers) {
    if (!buffer->describe(report.address, text, inside)) continue;
    result.status = inside ? MeasureStatus::Cheat : MeasureStatus::OutOfBounds;
    result.message = cat(verb, text, inside ? ", which is read-only, " : ", ", where);
    return;
  }
  if (report.address >= report.code_begin && report.address < report.data_end && report.writing) {
    result.status = MeasureStatus::Cheat;
    result.message = cat("wrote to its own code or data, ", where, "; kernels must not keep state");
    return;
  }
  if (report.address + kStackReach > report.stack_pointer && report.address < report.stack_pointer + kStackReach) {
    result.status = MeasureStatus::OutOfMemory;
    result.message = cat("overflowed its stack ", where);
    return;
  }
  result.status = MeasureStatus::Crash;
  result.message = cat(signal_name(report.signal), ": ", verb, "address ", hexadecimal(report.address),
                       ", which is in none of its buffers, ", where);
}

void explain_caught(const ChildReport& report, const std::vector<const GuardedBuffer*>& buffers,
                    MeasureResult& result) {
  if (report.signal == SIGSYS) {
    result.status = MeasureStatus::Forbidden;
    result.message = cat("made the system call ", syscall_name(report.syscall), " ", stage_text(report.stage));
  } else if (report.signal == SIGSEGV || report.signal == SIGBUS) {
    explain_access(report, buffers, result);
  } else {
    result.status = MeasureStatus::Crash;
    std::string where = report.instruction >= report.code_begin && report.instruction < report.code_end
                            ? cat(" at offset ", hexadecimal(report.instruction - report.code_begin), " of its code")
                            : std::string();
    result.message = cat(signal_name(report.signal), report.signal == SIGFPE ? " (division by zero or overflow)" : "",
                         where, " ", stage_text(report.stage));
  }
}

}  // namespace

ChildProcess::ChildProcess(ChildJob& job, const Sandbox& sandbox, int tuner) : tuner_(tuner) {
  int commands[2], events[2];
  if (pipe2(commands, O_CLOEXEC) != 0) return;
  if (pipe2(events, O_CLOEXEC) != 0) {
    close(commands[0]);
    close(commands[1]);
    return;
  }
  job.commands = commands[0];
  job.events = events[1];
  pid_ = fork();
  if (pid_ == 0) run_child(job, sandbox);
  close(commands[0]);
  close(events[1]);
  commands_ = commands[1];
  events_ = events[0];
  if (pid_ < 0) return;
  setpgid(pid_, pid_);  // both sides set it, so that it is set whoever comes first
  schedstat_ = open(cat("/proc/", pid_, "/schedstat").c_str(), O_RDONLY | O_CLOEXEC);
}

ChildProcess::~ChildProcess() {
  kill_and_reap();
  for (int file : {commands_, events_, schedstat_}) {
    if (file >= 0) close(file);
  }
}

void ChildProcess::kill_and_reap() {
  if (pid_ <= 0) return;
  kill(-pid_, SIGKILL);
  kill(pid_, SIGKILL);
  while (waitpid(pid_, &wait_status_, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

double ChildProcess::waited_seconds() const {
  i64 waited = read_run_delay(schedstat_);
  return waited < 0 ? 0 : static_cast<double>(waited) * 1e-9;
}

PhaseEnd ChildProcess::run_phase(Phase phase, double limit_seconds) {
  i64 begin = monotonic_nanoseconds();
  char command = static_cast<char>(phase);
  PhaseEnd end = PhaseEnd::Died;
  if (phase == Phase::Load || write(commands_, &command, 1) == 1) end = wait_for(phase, limit_seconds);
  phase_seconds_ = static_cast<double>(monotonic_nanoseconds() - begin) * 1e-9;
  if (end == PhaseEnd::Died) {
    // It has ended by itself or is about to: its status matters, so no kill unless it hangs.
    while (waitpid(pid_, &wait_status_, 0) < 0 && errno == EINTR) {
    }
    pid_ = -1;
  } else if (end != PhaseEnd::Done) {
    kill_and_reap();
  }
  return end;
}

PhaseEnd ChildProcess::wait_for(Phase phase, double limit_seconds) {
  i64 deadline = monotonic_nanoseconds() + static_cast<i64>(limit_seconds * 1e9);
  for (;;) {
    i64 left = deadline - monotonic_nanoseconds();
    if (left <= 0) return PhaseEnd::TimedOut;
    pollfd files[] = {{events_, POLLIN, 0}, {tuner_, POLLRDHUP, 0}};
    int ready = poll(files, 2, static_cast<int>(std::min<i64>(left / 1000000 + 1, 1 << 30)));
    if (ready < 0 && errno != EINTR) return PhaseEnd::TunerGone;
    if (ready <= 0) continue;
    if (files[1].revents) return PhaseEnd::TunerGone;
    char event = 0;
    if (read(events_, &event, 1) != 1) return PhaseEnd::Died;  // all its ends of the pipe are closed
    if (event == static_cast<char>(phase)) return PhaseEnd::Done;
  }
}

void explain_death(const ChildReport& report, int wait_status, const std::vector<const GuardedBuffer*>& buffers,
                   MeasureResult& result) {
  int exited = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -1;
  int signal = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
  if (exited == kCaughtSignal && report.signal != 0) return explain_caught(report, buffers, result);
  if (exited == kLoadFailed) {
    result.status = MeasureStatus::BuildError;
    result.message = cat(report.loading_incumbent ? "the incumbent: " : "",
                         std::string(report.load_error, strnlen(report.load_error, sizeof report.load_error)));
  } else if (exited == kNoSandbox) {
    result.status = MeasureStatus::WorkerLost;
    result.message = "the system did not let the worker build its sandbox";
  } else if (exited >= 0) {
    result.status = MeasureStatus::Forbidden;
    result.message = cat("ended its process with status ", exited, " ", stage_text(report.stage));
  } else if (signal == SIGXCPU) {
    result.status = MeasureStatus::Timeout;
    result.message = cat("used up its CPU time ", stage_text(report.stage));
  } else if (signal == SIGKILL) {
    result.status = MeasureStatus::OutOfMemory;
    result.message = cat("was killed by the system, most likely for want of memory, ", stage_text(report.stage));
  } else {
    result.status = MeasureStatus::Crash;
    result.message = cat(signal_name(signal), " ", stage_text(report.stage), ", most likely in a thread of the pool");
  }
}

}  // namespace tw

#include "rules/lang/guard_call.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>

namespace tw::rules {
namespace {

constexpr std::array kCrashes = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
constexpr int kTooLong = SIGVTALRM;
constexpr std::size_t kStackBytes = 1 << 16;

std::array<struct sigaction, kCrashes.size()> before;
thread_local sigjmp_buf place;
thread_local volatile std::sig_atomic_t is_inside = 0;

void on_signal(int signal) {
  if (is_inside) siglongjmp(place, signal);
  if (signal == kTooLong) return;  // the call has just ended
  for (std::size_t i = 0; i < kCrashes.size(); ++i) {
    if (kCrashes[i] == signal) sigaction(signal, &before[i], nullptr);
  }
  raise(signal);
}

void set_handlers() {
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK | SA_NODEFER;
  for (std::size_t i = 0; i < kCrashes.size(); ++i) sigaction(kCrashes[i], &action, &before[i]);
  action.sa_flags |= SA_RESTART;
  sigaction(kTooLong, &action, nullptr);
}

// What a thread needs: a stack for handlers, for it may be its own that is full, and a timer of its processor time.
class ThreadGuard {
 public:
  ThreadGuard() : stack_(std::make_unique<char[]>(kStackBytes)) {
    stack_t stack{};
    stack.ss_sp = stack_.get();
    stack.ss_size = kStackBytes;
    sigaltstack(&stack, &old_stack_);
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = kTooLong;
    event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));
    has_timer_ = timer_create(CLOCK_THREAD_CPUTIME_ID, &event, &timer_) == 0;
  }
  ~ThreadGuard() {
    sigaltstack(&old_stack_, nullptr);
    if (has_timer_) timer_delete(timer_);
  }
  ThreadGuard(const ThreadGuard&) = delete;

  // 0 = no limit.
  void limit(double seconds) {
    itimerspec at{};
    at.it_value.tv_sec = static_cast<time_t>(seconds);
    at.it_value.tv_nsec = static_cast<long>((seconds - static_cast<double>(at.it_value.tv_sec)) * 1e9);
    if (has_timer_) timer_settime(timer_, 0, &at, nullptr);
  }

 private:
  std::unique_ptr<char[]> stack_;
  stack_t old_stack_{};
  timer_t timer_{};
  bool has_timer_ = false;
};

}  // namespace

CallEnd guard_call(double seconds, const std::function<void()>& call) {
  static std::once_flag once;
  std::call_once(once, set_handlers);
  thread_local ThreadGuard guard;
  guard.limit(seconds);
  CallEnd end;
  int signal = sigsetjmp(place, 0);  // handlers change no mask
  if (signal == 0) {
    is_inside = 1;
    try {
      call();
    } catch (...) {
      is_inside = 0;
      guard.limit(0);
      end.has_thrown = true;
      return end;
    }
  }
  is_inside = 0;
  guard.limit(0);
  end.is_too_long = signal == kTooLong;
  if (signal != 0 && !end.is_too_long) end.crash = sigdescr_np(signal);
  return end;
}

}  // namespace tw::rules

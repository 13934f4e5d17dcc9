#include "runtime/worker/child.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "runtime/measure/object_loader.h"
#include "runtime/measure/thread_pool.h"

namespace tw {
namespace {

ChildReport* report_of_handler = nullptr;

struct MachineState {
  u64 stack_pointer = 0, instruction = 0;
  bool was_writing = false;  // as far as the processor says so
};

#if defined(__aarch64__)
MachineState state_of(const mcontext_t& machine) {
  MachineState state{.stack_pointer = machine.sp, .instruction = machine.pc};
  // Records behind each other; that of the exception's cause has a bit for writes.
  constexpr u64 kWrites = u64{1} << 6;
  const auto* at = reinterpret_cast<const char*>(machine.__reserved);
  const char* end = at + sizeof machine.__reserved;
  while (at + sizeof(esr_context) <= end) {
    const auto& record = *reinterpret_cast<const _aarch64_ctx*>(at);
    if (record.magic == ESR_MAGIC) state.was_writing = (reinterpret_cast<const esr_context*>(at)->esr & kWrites) != 0;
    if (record.magic == 0 || record.size == 0) break;
    at += record.size;
  }
  return state;
}
#else
MachineState state_of(const mcontext_t& machine) {
  return {.stack_pointer = static_cast<u64>(machine.gregs[REG_RSP]),
          .instruction = static_cast<u64>(machine.gregs[REG_RIP]),
          .was_writing = (machine.gregs[REG_ERR] & 2) != 0};  // bit 1 of the page fault's error code
}
#endif

void report_signal(int signal, siginfo_t* info, void* context) {
  const MachineState state = state_of(static_cast<ucontext_t*>(context)->uc_mcontext);
  ChildReport* report = report_of_handler;
  report->address = reinterpret_cast<u64>(info->si_addr);
  report->syscall = signal == SIGSYS ? info->si_syscall : 0;
  report->writing = signal == SIGSEGV && state.was_writing;
  report->stack_pointer = state.stack_pointer, report->instruction = state.instruction;
  report->signal = signal;
  _exit(kCaughtSignal);
}

// On a stack of its own, so that an overflown stack can be told. Threads of the pool have none:
// there the signal kills.
void catch_signals(ChildReport* report) {
  static char stack[16384];
  report_of_handler = report;
  stack_t alternate{};
  alternate.ss_sp = stack;
  alternate.ss_size = sizeof stack;
  sigaltstack(&alternate, nullptr);
  struct sigaction action{};
  action.sa_sigaction = report_signal;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) sigaction(signal, &action, nullptr);
}

void pin_to(int cpu) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(cpu, &set);
  sched_setaffinity(0, sizeof set, &set);
}

// Moves the pipes to their fixed places, opens the scheduler's statistics, closes everything else.
void arrange_descriptors(const ChildJob& job, bool has_statistics, int statistics) {
  dup2(job.commands, kChildCommands);
  dup2(job.events, kChildEvents);
  if (has_statistics) dup2(statistics, kChildSchedstat);
  close_range(0, kChildCommands - 1, 0);
  close_range(has_statistics ? kChildSchedstat + 1 : kChildSchedstat, ~0u, 0);
}

// A task whose pieces wait for each other, so that every thread of the pool takes one.
struct Meeting {
  int expected;
  std::atomic<int> arrived = 0;
};
void meet(void* context, int64_t, int64_t) {
  Meeting& meeting = *static_cast<Meeting*>(context);
  ++meeting.arrived;
  while (meeting.arrived < meeting.expected) sched_yield();
}

// Timed runs may not ask the system for memory; what the child itself needs then comes from what is left of the heap,
// which free() keeps.
void reserve_heap() {
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_MMAP_MAX, 0);
  void* volatile room = std::malloc(1 << 20);  // volatile: compilers leave out a pair of malloc and free
  std::free(room);
}

// If memory runs out, the system is to kill this process first.
void die_first_for_memory() {
  int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  [[maybe_unused]] ssize_t written = write(file, "1000", 4);
  close(file);
}

class Child {
 public:
  Child(const ChildJob& job, const Sandbox& sandbox)
      : job_(job), report_(*job.report), sandbox_(sandbox), is_incumbent_packed_(job.is_incumbent_packed) {}

  [[noreturn]] void live() {
    enter();
    finish(Phase::Load);
    for (;;) {
      char command = 0;
      if (read(kChildCommands, &command, 1) != 1) _exit(0);
      if (command == static_cast<char>(Phase::Check)) check();
      if (command == static_cast<char>(Phase::Time)) time(job_.options);
      if (command == static_cast<char>(Phase::Confirm)) time(confirming(job_.options));
      finish(static_cast<Phase>(command));
    }
  }

 private:
  struct Loaded {
    LoadedObject object;
    tw_run_function run = nullptr;
    tw_prepack_function prepack = nullptr;
  };

  void finish(Phase phase) {
    char event = static_cast<char>(phase);
    if (write(kChildEvents, &event, 1) != 1) _exit(0);
  }

  [[noreturn]] void fail_load(const std::string& message, bool incumbent) {
    report_.loading_incumbent = incumbent;
    std::snprintf(report_.load_error, sizeof report_.load_error, "%s", message.c_str());
    _exit(kLoadFailed);
  }

  void enter() {
    setpgid(0, 0);
    die_first_for_memory();
    int statistics = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    schedstat_ = statistics >= 0 ? kChildSchedstat : -1;
    bool limited = sandbox_.limit_resources(job_.memory_bytes, job_.cpu_seconds) && sandbox_.forbid_files();
    arrange_descriptors(job_, statistics >= 0, statistics);
    catch_signals(&report_);
    if (!limited || !sandbox_.enter_loading()) _exit(kNoSandbox);
    report_.stage = Stage::Loading;
    if (!job_.cpus.empty()) pin_to(job_.cpus[0]);
    candidate_ = load(*job_.candidate, false);
    if (job_.incumbent) incumbent_ = load(*job_.incumbent, true);
    report_.code_begin = reinterpret_cast<u64>(candidate_.object.begin());
    report_.code_end = reinterpret_cast<u64>(candidate_.object.code_end());
    report_.data_end = reinterpret_cast<u64>(candidate_.object.end());
    start_pool();
    reserve_heap();
    if (!sandbox_.enter_running()) _exit(kNoSandbox);
  }

  Loaded load(const Kernel& kernel, bool incumbent) {
    Loaded out;
    std::string error;
    const std::string& symbol = kernel.manifest.symbol;
    out.object = load_object(kernel.code, error);
    if (!error.empty()) fail_load(error, incumbent);
    out.run = out.object.run(symbol);
    out.prepack = out.object.prepack(symbol);
    if (!out.run) fail_load("the object has no function `" + symbol + "_run`", incumbent);
    if (!out.prepack && !kernel.manifest.prepack.empty())
      fail_load("the object has no function `" + symbol + "_prepack`", incumbent);
    return out;
  }

  void start_pool() {
    if (job_.options.threads <= 1) return;
    pool_ = tw_pool_create(job_.options.threads, job_.cpus.empty() ? nullptr : job_.cpus.data());
    if (!pool_) fail_load("the threads of the pool cannot be started", false);
    // The next stage of the sandbox forbids what a starting thread does, so each must have come as
    // far as a task.
    Meeting meeting{job_.options.threads};
    tw_pool_run(pool_, meeting.expected, meet, &meeting);
  }

  BoundKernel bind(const Loaded& loaded, const Kernel& kernel, const KernelBinding& binding) const {
    bool parallel = pool_ && kernel.manifest.parallel;
    return {.run = loaded.run,
            .buffers = binding.run.data(),
            .scratch = binding.scratch,
            .parallel_for = parallel ? tw_pool_run : nullptr,
            .pool = parallel ? pool_ : nullptr,
            .cold = job_.options.cold_caches ? cold_operands(kernel.manifest, binding) : ColdOperands{}};
  }

  void prepack(const Loaded& loaded, const Kernel& kernel, const KernelBinding& binding) {
    if (kernel.manifest.prepack.empty()) return;
    std::int32_t returned = loaded.prepack(binding.prepack.data());
    if (returned != 0 && report_.log.returned == 0) report_.log.returned = returned;
  }

  void check() {
    if (job_.incumbent && !is_incumbent_packed_) prepack(incumbent_, *job_.incumbent, job_.incumbent_at);
    is_incumbent_packed_ = true;
    // A kernel that was quick before is called with all data, however long a busy machine makes a call.
    const double single = std::exchange(is_first_check_, false) ? job_.options.single_call_seconds : 0;
    for (int layout = 0; layout < kLayouts; ++layout) {
      const KernelBinding& binding = job_.candidate_at[layout];
      report_.stage = Stage::Prepack;
      i64 begin = monotonic_nanoseconds();
      prepack(candidate_, *job_.candidate, binding);
      i64 packed = monotonic_nanoseconds();
      report_.stage = Stage::Run;
      std::int32_t returned = bind(candidate_, *job_.candidate, binding).call();
      i64 end = monotonic_nanoseconds();
      if (returned != 0 && report_.log.returned == 0) report_.log.returned = returned;
      double prepack_seconds = static_cast<double>(packed - begin) * 1e-9;
      bool first = report_.prepack_seconds == 0;
      report_.prepack_seconds = first ? prepack_seconds : std::min(report_.prepack_seconds, prepack_seconds);
      report_.pack_seconds[layout] = prepack_seconds;
      report_.call_seconds[layout] = static_cast<double>(end - packed) * 1e-9;
      report_.only_one_call = single > 0 && report_.call_seconds[0] > single;
      if (report_.only_one_call) return;
    }
  }

  static MeasureOptions confirming(MeasureOptions options) {
    const MeasureOptions::Confirmation& longer = options.confirmation;
    options.pairs = longer.pairs, options.max_pairs = longer.max_pairs, options.budget_seconds = longer.budget_seconds;
    return options;
  }

  void time(const MeasureOptions& options) {
    report_.stage = Stage::Timing;
    BoundKernel candidate = bind(candidate_, *job_.candidate, job_.candidate_at[0]);
    BoundKernel incumbent;
    if (job_.incumbent) incumbent = bind(incumbent_, *job_.incumbent, job_.incumbent_at);
    take_samples(candidate, job_.incumbent ? &incumbent : nullptr, options, schedstat_, report_.log);
  }

  const ChildJob& job_;
  ChildReport& report_;
  const Sandbox& sandbox_;
  bool is_incumbent_packed_, is_first_check_ = true;
  Loaded candidate_, incumbent_;
  tw_pool* pool_ = nullptr;
  int schedstat_ = -1;
};

}  // namespace

ColdOperands cold_operands(const KernelManifest& manifest, const KernelBinding& binding) {
  ColdOperands found;
  for (std::size_t i = 0; i < manifest.run.size(); ++i) {
    const KernelArgument& argument = manifest.run[i];
    if (argument.role == ArgumentRole::Constant || argument.role == ArgumentRole::Packed)
      found.emplace_back(static_cast<const char*>(binding.run[i]), static_cast<std::size_t>(argument.bytes));
  }
  return found;
}

void run_child(const ChildJob& job, const Sandbox& sandbox) { Child(job, sandbox).live(); }

}  // namespace tw

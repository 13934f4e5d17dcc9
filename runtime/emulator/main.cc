// tracewright-emulator: runs one compiled CUDA kernel on the emulated device, answers, and ends. Started by
// runtime/emulation/emulation.cc with a socket. A signal in the kernel, or too much time, is an answer like any other.
// With `--compile FOLDER` and the words of a compiler's command it becomes that compiler, which may write into the
// folder only.
#include <setjmp.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "dsl/base/text.h"
#include "runtime/emulator/library.h"
#include "runtime/emulator/machine.h"
#include "runtime/measure/worker_protocol.h"
#include "runtime/worker/confine.h"

namespace tw::emulator {
namespace {

sigjmp_buf after_signal;
volatile sig_atomic_t caught = 0;

extern "C" void on_signal(int signal) {
  caught = signal;
  siglongjmp(after_signal, 1);
}

// `seconds` of processor time: a busy machine must not change the verdict.
void watch_signals(double seconds) {
  static char stack[64 << 10];
  stack_t alternate{.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
  sigaltstack(&alternate, nullptr);
  struct sigaction action{};
  action.sa_handler = on_signal;
  action.sa_flags = SA_ONSTACK;
  for (int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGPROF}) sigaction(signal, &action, nullptr);
  itimerval timer{};
  timer.it_value.tv_sec = static_cast<time_t>(seconds);
  timer.it_value.tv_usec = static_cast<suseconds_t>((seconds - static_cast<double>(timer.it_value.tv_sec)) * 1e6) + 1;
  setitimer(ITIMER_PROF, &timer, nullptr);
}

constexpr std::size_t kMostGaps = 4096;  // of one launch in one buffer

// Parts of scratch memory that overlap are one region.
struct Part {
  i64 begin, end;
};
std::vector<Part> scratch_parts(const KernelManifest& manifest) {
  std::vector<Part> all, out;
  for (const auto* launches : {&manifest.prepack_launches, &manifest.run_launches}) {
    for (const KernelLaunch& launch : *launches) {
      for (const KernelLaunch::Pointer& pointer : launch.pointers) {
        if (pointer.is_scratch) all.push_back({pointer.at, pointer.at + pointer.bytes});
      }
    }
  }
  std::sort(all.begin(), all.end(), [](const Part& a, const Part& b) { return a.begin < b.begin; });
  for (const Part& part : all) {
    if (!out.empty() && part.begin < out.back().end)
      out.back().end = std::max(out.back().end, part.end);
    else
      out.push_back(part);
  }
  return out;
}

// One run of a kernel: its memory, and the launches.
class Run {
 public:
  Run(const EmulateMessage& message, const Library& library, u64 seed)
      : message_(message), library_(library), seed_(seed) {}

  void go(EmulationReport& report) {
    if (!map_memory()) {
      report = {.status = EmulationStatus::Unavailable, .message = "there is no memory for the kernel's arguments"};
      return;
    }
    machine_ = std::make_unique<Machine>(memory_, message_.options, seed_, report);
    machine = machine_.get();
    report.is_complete = report.is_chain_complete = true;
    const KernelManifest& manifest = message_.kernel.manifest;
    report.status = EmulationStatus::Ok;
    run_all(manifest.prepack_launches, manifest.prepack, report) &&
        run_all(manifest.run_launches, manifest.run, report);
    machine = nullptr;
  }

  std::vector<NamedBytes> outputs() {
    std::vector<NamedBytes> out;
    for (const KernelArgument& argument : message_.kernel.manifest.run) {
      if (argument.role != ArgumentRole::Output) continue;
      const Region& region = memory_.global(at_[argument.name]);
      out.push_back({argument.name, std::string(region.data, region.bytes)});
    }
    return out;
  }

  EmulationWrites writes() {
    EmulationWrites out{.last_groups = machine_->groups_of_launch(), .outputs = {}, .gaps = std::move(gaps_)};
    for (const KernelArgument& argument : message_.kernel.manifest.run) {
      if (argument.role == ArgumentRole::Output)
        out.outputs.push_back({argument.name, memory_.writers_of(at_[argument.name], machine_->launch_epoch())});
    }
    return out;
  }

 private:
  bool map_memory() {
    const KernelManifest& manifest = message_.kernel.manifest;
    std::vector<Region> regions;
    for (const auto* list : {&manifest.run, &manifest.prepack}) {
      for (const KernelArgument& argument : *list) {
        if (!at_.emplace(argument.name, regions.size()).second) continue;
        bool is_input = argument.role == ArgumentRole::Input || argument.role == ArgumentRole::Constant;
        regions.push_back({.name = argument.name, .bytes = static_cast<u64>(argument.bytes), .is_input = is_input});
        i64 elements = 1;
        for (i64 extent : argument.shape) elements *= extent;
        regions.back().element_bytes = elements > 0 ? regions.back().bytes / static_cast<u64>(elements) : 0;
      }
    }
    scratch_ = scratch_parts(manifest);
    first_scratch_ = regions.size();
    for (const Part& part : scratch_)
      regions.push_back(
          {.name = cat("scratch memory from byte ", part.begin), .bytes = static_cast<u64>(part.end - part.begin)});
    if (!memory_.map_global(std::move(regions))) return false;
    memory_.set_shared(library_.shared_begin, library_.shared_end, library_.shared);
    memory_.set_image(library_.image_begin, library_.image_end);
    for (const NamedBytes& array : message_.arrays) {
      auto found = at_.find(array.name);
      if (found == at_.end()) continue;
      Region& region = memory_.global(found->second);
      std::memcpy(region.data, array.bytes.data(), std::min<u64>(region.bytes, array.bytes.size()));
    }
    return true;
  }

  std::size_t part_of(const KernelLaunch::Pointer& pointer) const {
    std::size_t i = 0;
    while (pointer.at >= scratch_[i].end) ++i;
    return i;
  }

  void* address_of(const KernelLaunch::Pointer& pointer, const std::vector<KernelArgument>& arguments) {
    if (!pointer.is_scratch) return memory_.global(at_[arguments[static_cast<std::size_t>(pointer.at)].name]).data;
    std::size_t part = part_of(pointer);
    return memory_.global(first_scratch_ + part).data + (pointer.at - scratch_[part].begin);
  }

  void note_gaps(const KernelLaunch& launch) {
    for (const KernelLaunch::Pointer& pointer : launch.pointers) {
      if (!pointer.is_scratch) continue;
      std::size_t part = part_of(pointer);
      i64 origin = scratch_[part].begin, begin = pointer.at - origin;
      for (auto [first, behind] : memory_.unwritten_since(first_scratch_ + part, begin, begin + pointer.bytes,
                                                          machine_->launch_epoch(), kMostGaps))
        gaps_.push_back({&launch - message_.kernel.manifest.run_launches.data(), origin + first, origin + behind});
    }
  }

  bool run_all(const std::vector<KernelLaunch>& launches, const std::vector<KernelArgument>& arguments,
               EmulationReport& report) {
    for (const KernelLaunch& from : launches) {
      Launch launch{.name = from.name, .groups = from.groups, .threads = from.threads};
      launch.dynamic_shared_bytes = from.dynamic_shared_bytes;
      launch.is_last = &from == &message_.kernel.manifest.run_launches.back();
      launch.call = reinterpret_cast<void (*)(void* const*)>(library_.find("tw_emu_call_" + from.name));
      if (!launch.call) {
        report = {.status = EmulationStatus::BuildError, .message = cat("the text has no kernel `", from.name, "`")};
        return false;
      }
      for (const KernelLaunch::Pointer& pointer : from.pointers)
        launch.pointers.push_back(address_of(pointer, arguments));
      launch_ = launch;
      if (!machine_->run(launch_)) return false;
      if (&launches == &message_.kernel.manifest.run_launches && !launch.is_last && report.is_chain_complete)
        note_gaps(from);
    }
    return true;
  }

  const EmulateMessage& message_;
  const Library& library_;
  u64 seed_;
  Memory memory_;
  std::unique_ptr<Machine> machine_;
  Launch launch_;
  std::map<std::string, std::size_t> at_;
  std::vector<Part> scratch_;
  std::size_t first_scratch_ = 0;
  std::vector<EmulationWrites::Gap> gaps_;
};

EmulatedMessage run_all(const EmulateMessage& message, const Library& library) {
  EmulatedMessage answer;
  for (int i = 0; i < message.options.runs; ++i) {
    EmulationReport report;
    auto run = std::make_unique<Run>(message, library, message.options.seed + static_cast<u64>(i));
    run->go(report);
    if (i == 0 || report.status != EmulationStatus::Ok) answer.report = report;
    if (report.status != EmulationStatus::Ok) break;
    if (i + 1 == message.options.runs) answer.outputs = run->outputs(), answer.writes = run->writes();
  }
  return answer;
}

// The memory it may take: the message and its arrays once more, 16 bytes of shadow memory for each byte written, and
// stacks.
i64 data_bytes_for(const EmulateMessage& message) {
  i64 bytes = message.kernel.manifest.scratch_shared_bytes;
  for (const auto* list : {&message.kernel.manifest.run, &message.kernel.manifest.prepack}) {
    for (const KernelArgument& argument : *list) bytes += argument.bytes;
  }
  return (i64{1} << 30) + 24 * bytes;
}

// The kernel's code runs after this: it may open no file, start no process, and take no more memory than this.
std::string enter_emulation(const EmulateMessage& message) {
  std::string refused = confine({.data_bytes = data_bytes_for(message),
                                 .cpu_seconds = static_cast<int>(message.options.timeout_seconds) + 60,
                                 .reads_files = false});
  return refused.empty() && !forbid_all_but_answering() ? "no filter of system calls" : refused;
}

EmulatedMessage answer_to(const EmulateMessage& message) {
  EmulatedMessage answer;
  Library library;
  if (!open_library(message.library, library, answer.report.message)) {
    // A function that nobody has is the text's mistake. All else (a file cut short, no memory) is this machine's.
    bool is_unknown = answer.report.message.find("undefined symbol") != std::string::npos;
    answer.report.status = is_unknown ? EmulationStatus::BuildError : EmulationStatus::Unavailable;
    return answer;
  }
  if (std::string refused = enter_emulation(message); !refused.empty()) {
    answer.report = {.status = EmulationStatus::Unavailable,
                     .message = cat("the emulator is not let confine itself: ", refused)};
    return answer;
  }
  if (sigsetjmp(after_signal, 1) == 0) {
    watch_signals(message.options.timeout_seconds);
    return run_all(message, library);
  }
  // What ran is abandoned as it stands, and still lives: nothing of it was on this stack but what the jump has cut off.
  std::string where = machine ? machine->where() : "the emulator";
  if (caught == SIGPROF)
    answer.report = {
        .status = EmulationStatus::Timeout,
        .message = cat(where, ": has not ended after ", message.options.timeout_seconds, " s of processor time")};
  else
    answer.report = {.status = EmulationStatus::Crash, .message = cat(where, ": ", strsignal(caught))};
  return answer;
}

constexpr int kCannotCompile = 127;  // as shells have it

// Does not return. A compiler needs half a GiB and some seconds for one text; the limits leave room for slow compilers.
int become_compiler(const char* folder, char** words) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  setenv("TMPDIR", folder, 1);
  setenv("CCACHE_DISABLE", "1", 1);  // it would write elsewhere
  std::string refused = confine(
      {.data_bytes = i64{8} << 30, .cpu_seconds = 600, .file_bytes = i64{1} << 30, .writable = {folder, "/dev"}});
  if (refused.empty()) execv(words[0], words);
  std::fprintf(stderr, "%s\n",
               refused.empty() ? cat(words[0], " does not start: ", std::strerror(errno)).c_str() : refused.c_str());
  return kCannotCompile;
}

}  // namespace
}  // namespace tw::emulator

int main(int count, char** words) {
  if (count > 3 && std::strcmp(words[1], "--compile") == 0) return tw::emulator::become_compiler(words[2], words + 3);
  struct stat about{};
  if (fstat(tw::kWorkerSocket, &about) != 0 || !S_ISSOCK(about.st_mode)) {
    std::fprintf(stderr, "tracewright-emulator: started by hand; tracewright starts it to check CUDA kernels\n");
    return 2;
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::signal(SIGINT, SIG_IGN);
  tw::MessageKind kind{};
  std::string payload;
  tw::EmulateMessage message;
  if (!tw::receive_frame(tw::kWorkerSocket, kind, payload, 60) || kind != tw::MessageKind::Emulate ||
      !tw::decode(payload, message))
    return 1;
  bool sent =
      tw::send_frame(tw::kWorkerSocket, tw::MessageKind::Emulated, tw::encode(tw::emulator::answer_to(message)));
  _exit(sent ? 0 : 1);  // what a kernel left behind is not torn down
}

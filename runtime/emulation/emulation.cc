#include "runtime/emulation/emulation.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "dsl/base/embedded_text.h"
#include "dsl/base/files.h"
#include "dsl/base/text.h"
#include "runtime/measure/measurer.h"
#include "runtime/measure/spawn.h"
#include "runtime/measure/worker_protocol.h"

namespace tw {
namespace {

constexpr const char* kLibrary = "kernels";
constexpr double kCompileSeconds = 600;  // a minute of work on a machine that is busy with other things
constexpr int kCannotCompile = 127;      // exit code of the emulator where it cannot become the compiler

// What makes the compiler tell us of every access and every wrong index. Without optimization, so that an access of the
// text is one access of the code. Linked with nothing: the emulator has what is called.
constexpr const char* kFlags[] = {"-x",
                                  "c++",
                                  "-std=c++20",
                                  "-O0",
                                  "-g0",
                                  "-w",
                                  "-fPIC",
                                  "-shared",
                                  "-nostdlib",
                                  "-fno-exceptions",
                                  "-fno-rtti",
                                  "-fno-stack-protector",
                                  "-ffp-contract=off",
                                  "-U_FORTIFY_SOURCE",
                                  "-ftrivial-auto-var-init=pattern",
                                  "-fsanitize=thread",
                                  "-fsanitize=bounds,alignment,signed-integer-overflow,integer-divide-by-zero,shift"};

bool is_program(const std::string& path) {
  return access(path.c_str(), X_OK) == 0 && !std::filesystem::is_directory(path);
}

std::string emulator_path(std::string& error) {
  std::string path = worker_path({.program = "tracewright-emulator", .device = 0}, error);
  if (path.empty()) error = "the program tracewright-emulator was not found beside the library or in its ../bin";
  return path;
}

std::string device_functions() {
  return std::string(embedded_text("runtime/emulator/device_functions.h").value_or(""));
}

// Each kernel's text in a namespace of its own, and a function that calls it.
std::string unit_of(std::span<const Kernel* const> kernels) {
  std::string out = device_functions();
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const KernelManifest& manifest = kernels[i]->manifest;
    out += cat("\nnamespace tw_emu_kernel_", i, " {\n#line 1 \"kernel.cu\"\n", kernels[i]->code,
               "\n}\n#line 1 \"calls\"\n");
    for (const auto* launches : {&manifest.prepack_launches, &manifest.run_launches}) {
      for (const KernelLaunch& launch : *launches) {
        std::vector<std::string> pointers;
        for (std::size_t p = 0; p < launch.pointers.size(); ++p)
          pointers.push_back(cat("tw_emu_pointer{pointers[", p, "]}"));
        out +=
            cat("extern \"C\" __attribute__((no_sanitize(\"thread\"))) void tw_emu_call_", launch.name,
                "(void* const* pointers) { tw_emu_kernel_", i, "::", launch.name, "(", join(pointers, ", "), "); }\n");
      }
    }
  }
  return out;
}

// A process that is waited for, and killed with this object.
class Child {
 public:
  // Standard output and error go to the file descriptor `errors`, if it is not -1.
  Child(const std::vector<std::string>& words, int socket, int errors) {
    // A compiler starts others; they are killed with it.
    SpawnOptions options{.close_from = socket >= 0 ? kWorkerSocket + 1 : STDERR_FILENO + 1, .own_group = true};
    if (errors >= 0) options.descriptors = {{errors, STDOUT_FILENO}, {errors, STDERR_FILENO}};
    if (socket >= 0) options.descriptors.push_back({socket, kWorkerSocket});
    pid_ = spawn(words, options);
    problem_ = std::max(-pid_, 0);
  }
  ~Child() {
    if (pid_ <= 0) return;
    kill(-pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int problem() const { return problem_; }
  // The wait status, or -1 if it has not ended by then.
  int wait(double seconds) {
    auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (pid_ > 0) {
      int status = 0;
      pid_t ended = waitpid(pid_, &status, WNOHANG);
      if (ended == pid_) return pid_ = -1, status;
      if (ended < 0 && errno != EINTR) break;
      if (std::chrono::steady_clock::now() > end) break;
      usleep(1000);
    }
    return -1;
  }

 private:
  pid_t pid_ = -1;
  int problem_ = 0;
};

// What came of compiling a text: Ok; BuildError if the compiler says no; Unavailable if it could not be asked. The
// emulator sets limits and becomes the compiler.
EmulationReport compile_text(const std::string& compiler, const std::string& text, const std::string& folder,
                             const std::string& name) {
  std::string path = cat(folder, "/", name, ".cc"), said = cat(folder, "/", name, ".errors");
  auto unavailable = [](const std::string& why) {
    return EmulationReport{.status = EmulationStatus::Unavailable, .message = why};
  };
  std::ofstream file(path);
  file << text;
  file.close();
  if (!file) return unavailable(cat("cannot write ", path, ": ", std::strerror(errno)));
  std::string error, emulator = emulator_path(error);
  if (emulator.empty()) return unavailable(error);
  std::vector<std::string> words = {emulator, "--compile", folder, compiler};
  words.insert(words.end(), std::begin(kFlags), std::end(kFlags));
  words.insert(words.end(), {path, "-o", cat(folder, "/", name, ".so")});
  int errors = open(said.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  Child child(words, -1, errors);
  int status = child.wait(kCompileSeconds);
  if (errors >= 0) close(errors);
  if (status == 0) return {.status = EmulationStatus::Ok};
  if (child.problem() != 0) return unavailable(cat(compiler, " does not start: ", std::strerror(child.problem())));
  if (status < 0) return unavailable(cat(compiler, " has not ended after ", kCompileSeconds, " s"));
  if (WIFSIGNALED(status)) return unavailable(cat(compiler, " was ended by: ", strsignal(WTERMSIG(status))));
  if (WEXITSTATUS(status) == kCannotCompile) return unavailable(read_whole_file(said).value_or(""));
  return {.status = EmulationStatus::BuildError,
          .message = cat(compiler, " does not compile the text: ", read_whole_file(said).value_or("").substr(0, 600))};
}

// A compiler that does not compile the device functions alone says nothing about a kernel: it is too old, or the disk
// is full.
EmulationReport compile_unit(const std::string& text, const std::string& folder) {
  std::string error, compiler = emulation_compiler(error);
  if (compiler.empty()) return {.status = EmulationStatus::Unavailable, .message = error};
  EmulationReport report = compile_text(compiler, text, folder, kLibrary);
  if (report.status != EmulationStatus::BuildError) return report;
  EmulationReport alone = compile_text(compiler, device_functions(), folder, "device_functions");
  if (alone.status == EmulationStatus::Ok) return report;
  return {.status = EmulationStatus::Unavailable, .message = cat("kernels cannot be emulated here: ", alone.message)};
}

// "__launch_bounds__(256) mm_run_0(": how many threads a group of this kernel may have; 0 if the text does not say.
i64 launch_bound(const std::string& code, const std::string& name) {
  constexpr std::string_view kWord = "__launch_bounds__(";
  std::size_t at = code.find(cat(" ", name, "("));
  std::size_t begin = at == std::string::npos ? at : code.rfind(kWord, at);
  return begin == std::string::npos ? 0 : std::atoll(code.c_str() + begin + kWord.size());
}

// Launches with too many threads fail on a device.
EmulationReport check_launches(const Kernel& kernel) {
  for (const auto* launches : {&kernel.manifest.prepack_launches, &kernel.manifest.run_launches}) {
    for (const KernelLaunch& launch : *launches) {
      i64 threads = launch.threads_of_group(), most = launch_bound(kernel.code, launch.name);
      if (most > 0 && threads > most)
        return {.status = EmulationStatus::Launch,
                .message = cat("kernel `", launch.name, "` is launched with ", threads,
                               " threads to a group, and made for ", most)};
      if (threads > 1024)
        return {.status = EmulationStatus::Launch,
                .message = cat("kernel `", launch.name, "` has ", threads, " threads to a group")};
    }
  }
  return {.status = EmulationStatus::Ok};
}

EmulateMessage message_of(const std::string& library, const KernelManifest& manifest, const NamedArrays& arrays,
                          const EmulationOptions& options) {
  EmulateMessage message{.library = library, .options = options};
  message.kernel.manifest = manifest;
  for (const auto& [name, array] : arrays)
    message.arrays.push_back({name, std::string(array.bytes.begin(), array.bytes.end())});
  return message;
}

}  // namespace

const char* name_of(EmulationStatus status) {
  constexpr const char* kNames[kEmulationStatuses] = {"ok",
                                                      "unavailable",
                                                      "build error",
                                                      "launch",
                                                      "out of bounds",
                                                      "misaligned",
                                                      "uninitialised",
                                                      "race",
                                                      "barrier",
                                                      "deadlock",
                                                      "asynchronous copy",
                                                      "arithmetic",
                                                      "crash",
                                                      "timeout"};
  return kNames[static_cast<int>(status)];
}

std::string emulation_compiler(std::string& error) {
  std::vector<std::string> names = {"g++", "c++", "clang++", "clang++-19"};
  if (const char* named = std::getenv("TRACEWRIGHT_CXX")) names = {named};
  std::string path = std::getenv("PATH") ? std::getenv("PATH") : "/usr/bin:/bin";
  for (const std::string& name : names) {
    if (name.find('/') != std::string::npos && is_program(name)) return name;
    std::istringstream folders(path);
    for (std::string folder; std::getline(folders, folder, ':');) {
      if (std::string program = cat(folder, "/", name); is_program(program)) return program;
    }
  }
  error = cat("CUDA kernels are emulated with a C++ compiler, and there is none of ", join(names, ", "),
              " in $PATH (set TRACEWRIGHT_CXX)");
  return "";
}

std::unique_ptr<EmulatedKernels> EmulatedKernels::compile(std::span<const Kernel* const> kernels,
                                                          EmulationReport& report) {
  std::unique_ptr<EmulatedKernels> out(new EmulatedKernels);
  const std::string& folder = out->folder_.path();
  if (folder.empty()) {
    report = {.status = EmulationStatus::Unavailable, .message = out->folder_.problem()};
    return nullptr;
  }
  out->library_ = cat(folder, "/", kLibrary, ".so");
  report = compile_unit(unit_of(kernels), folder);
  if (report.status != EmulationStatus::Ok) return nullptr;
  for (const Kernel* kernel : kernels) {
    out->manifests_.push_back(kernel->manifest);
    out->launches_.push_back(check_launches(*kernel));
  }
  return out;
}

EmulationReport EmulatedKernels::run(std::size_t index, NamedArrays& arrays, const EmulationOptions& options,
                                     EmulationWrites* writes) const {
  if (launches_[index].status != EmulationStatus::Ok) return launches_[index];
  auto unavailable = [](const std::string& why) {
    return EmulationReport{.status = EmulationStatus::Unavailable, .message = why};
  };
  std::string error, program = emulator_path(error);
  if (program.empty()) return unavailable(error);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return unavailable(cat("no socket for the emulator: ", std::strerror(errno)));
  Child child({program}, ends[1], -1);
  close(ends[1]);
  MessageKind kind{};
  std::string payload;
  EmulatedMessage answer;
  if (child.problem() != 0) {
    close(ends[0]);
    return unavailable(cat("the emulator could not be started: ", std::strerror(child.problem())));
  }
  bool good =
      send_frame(ends[0], MessageKind::Emulate, encode(message_of(library_, manifests_[index], arrays, options))) &&
      receive_frame(ends[0], kind, payload, 10 * options.timeout_seconds + 10) && decode(payload, answer);
  close(ends[0]);
  if (!good) {
    int status = child.wait(0.1);
    if (status > 0 && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
      return unavailable("the emulator was killed; is there too little memory?");
    return {.status = EmulationStatus::Crash,
            .message = status > 0 && WIFSIGNALED(status)
                           ? cat("the emulator was ended by: ", strsignal(WTERMSIG(status)))
                           : "the emulator did not answer"};
  }
  for (const KernelArgument& argument : manifests_[index].run) {
    for (const NamedBytes& output : answer.outputs) {
      if (output.name == argument.name)
        arrays[output.name] = {argument.dtype, argument.shape, {output.bytes.begin(), output.bytes.end()}};
    }
  }
  if (writes) *writes = std::move(answer.writes);
  return answer.report;
}

EmulationReport emulate(const Kernel& kernel, NamedArrays& arrays, const EmulationOptions& options) {
  EmulationReport report;
  const Kernel* one = &kernel;
  std::unique_ptr<EmulatedKernels> compiled = EmulatedKernels::compile({&one, 1}, report);
  return compiled ? compiled->run(0, arrays, options) : report;
}

}  // namespace tw

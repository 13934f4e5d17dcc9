// tracewright doctor: what this machine has, what is missing, and the command that brings it. Every
// check does the real thing: it compiles, starts the worker, writes a database, opens the
// libraries.
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include "backends/backend.h"
#include "backends/cuda/nvrtc.h"
#include "backends/topology.h"
#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/devices.h"
#include "costmodel/make_model.h"
#include "costmodel/xgboost_api.h"
#include "dsl/base/text.h"
#include "dsl/text/workload.h"
#include "graph/import_onnx.h"
#include "runtime/console/output.h"
#include "runtime/emulation/emulation.h"
#include "runtime/measure/machine_probe.h"
#include "runtime/measure/measurer.h"
#include "runtime/peers/peer.h"
#include "runtime/store/database.h"
#include "sampler/search/trial.h"

namespace tw::cli {
namespace {

enum class Need { Required, Optional };

struct Finding {
  std::string name;
  Need need = Need::Required;
  bool ok = false;
  std::string detail;  // what was found, or why not
  std::string fix;     // what to do, if not ok
};

Finding check_cpu() {
  const Target& host = host_target();
  std::string caches =
      cat("L1 ", host.l1_bytes >> 10, " KiB, L2 ", host.l2_bytes >> 10, " KiB, L3 ", host.l3_bytes >> 10, " KiB");
  return {"cpu", Need::Required, true,
          cat(host_description(), "; ", host.cpu, ", vectors of ", host.vector_bits, " bits, ", host.vector_registers,
              " registers, ", caches),
          ""};
}

std::string counted(int count, const char* one, const char* many) { return cat(count, " ", count == 1 ? one : many); }

Finding check_cores() {
  const Topology& machine = topology();
  if (machine.cores == 0)
    return {"cores", Need::Optional, false, "hwloc finds none",
            "the caches and cores of the target can be given in the task list"};
  std::string detail =
      cat(counted(machine.cores, "core", "cores"), " with ", counted(machine.cpus, "thread", "threads"), " in all, ",
          counted(machine.numa_nodes, "memory node", "memory nodes"));
  if (machine.l3_cores > 0) detail += cat(", L3 shared by ", machine.l3_cores);
  detail += cat("; this process may use ", usable_threads());
  double quota = cgroup_cpus();
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", quota);
  detail +=
      quota > 0 ? cat(" (a control group allows the time of ", text, ")") : ", no control group limits their time";
  bool is_whole = quota == 0 || quota >= 1;
  return {"cores", Need::Optional, is_whole, detail,
          "a kernel is stopped in the middle of its measurement: allow the container one CPU or more"};
}

Finding check_memory() {
  MachineFigures figures = measure_machine(usable_threads());
  char text[128];
  std::snprintf(text, sizeof text, "one thread reads %.1f GB/s, all together %.1f GB/s; threads start in %.1f us",
                1e-9 * figures.bandwidth, 1e-9 * figures.all_bandwidth, 1e6 * figures.start_seconds);
  return {"memory", Need::Optional, true, text, ""};
}

Finding check_governor() {
  std::ifstream file("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
  std::string governor;
  if (!(file >> governor))
    return {"frequency", Need::Optional, true, "the system does not say (a virtual machine, probably)", ""};
  bool is_steady = governor == "performance";
  return {"frequency", Need::Optional, is_steady, cat("governor ", governor),
          "measurements are steadier after: sudo cpupower frequency-set -g performance"};
}

Finding check_llvm() {
  Result<LlvmCompiler> compiler = LlvmCompiler::create({});
  if (!compiler)
    return {"llvm", Need::Required, false, to_string(compiler.rejected()),
            "rebuild tracewright with LLVM 19: sudo apt install llvm-19-dev"};
  return {"llvm", Need::Required, true,
          cat("LLVM ", TW_LLVM_VERSION, " built in, compiles for ", host_cpu_name(), " (", host_triple(), ")"), ""};
}

// A small product, compiled and measured in the worker: what a tune does for every trial.
Finding check_worker() {
  Finding finding{"worker", Need::Required, false, "",
                  "build the target tracewright-worker, or set TRACEWRIGHT_WORKER to its path"};
  WorkerStart worker = start_worker();
  if (!worker.measurer) return finding.detail = worker.error, finding;
  Diagnostics diagnostics(*operator_library().source);
  std::optional<OwnedProgram> program =
      instantiate(operator_library(), "matmul", {{"M", i64{32}}, {"N", i64{32}}, {"K", i64{32}}}, {}, diagnostics);
  Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(host_target()));
  if (!program || !compiler) return finding.detail = "the test kernel cannot be made", finding;
  BuiltKernel kernel = build_kernel(program->program, host_target(), *compiler),
              reference = build_reference(program->program, host_target(), *compiler);
  if (!kernel.kernel || !reference.kernel) return finding.detail = kernel.problem + reference.problem, finding;
  TaskStart start = worker.measurer->begin_task(*reference.kernel, tolerance_of(program->program), 1);
  if (start.task < 0) return finding.detail = start.error, finding;
  MeasureResult result = worker.measurer->measure(start.task, *kernel.kernel, {});
  finding.ok = result.status == MeasureStatus::Ok || result.status == MeasureStatus::Noisy;
  finding.detail = finding.ok ? cat("started, a 32x32x32 product was right and took ", show_time(result.seconds))
                              : cat("a test kernel failed: ", name_of(result.status), ", ", result.message);
  return finding;
}

Finding check_seccomp() {
  bool ok = prctl(PR_GET_SECCOMP, 0, 0, 0, 0) >= 0;
  return {"seccomp", Need::Required, ok, ok ? "kernels run behind a system call filter" : std::strerror(errno),
          "use a Linux kernel with CONFIG_SECCOMP_FILTER, or a container that allows seccomp"};
}

Finding check_landlock() {
  constexpr long create_ruleset = 444;
  long version = syscall(create_ruleset, nullptr, 0, 1 /* LANDLOCK_CREATE_RULESET_VERSION */);
  return {"landlock", Need::Optional, version > 0,
          version > 0 ? cat("version ", version, ", kernels see no file") : std::strerror(errno),
          "the system call filter protects files alone; Linux 5.13 or newer with landlock in its "
          "lsm= list adds a second wall"};
}

Finding check_database() {
  std::string path = cat("tracewright-doctor-", getpid(), ".db");
  std::string why;
  {
    DatabaseResult<Database> opened = Database::open(path, DatabaseMode::Write);
    if (!opened) why = opened.error();
  }
  std::error_code ignored;
  for (const char* suffix : {"", "-wal", "-shm"}) std::filesystem::remove(path + suffix, ignored);
  return {"database", Need::Required, why.empty(), why.empty() ? "the current folder can hold one" : why,
          "change to a folder that you may write to, or pass --database"};
}

// The script that makes the plugin in the bundle, where nothing else can be built; empty elsewhere.
std::string script_of_bundle() {
  std::error_code error;
  std::filesystem::path script =
      std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "../torch/build_torch_plugin.sh";
  return std::filesystem::exists(script, error) ? script.lexically_normal().string() : "";
}

std::string how_to_get_libtorch() {
  std::string script = script_of_bundle();
  return script.empty() ? "sudo apt install libtorch-dev, then build again"
                        : cat("install PyTorch and g++, then run ", script);
}

std::string how_to_get_opencl() {
  std::string error;
  Target target;
  target.kind = TargetKind::OpenCl;
  if (!worker_path(worker_options(target), error).empty())
    return "sudo apt install ocl-icd-libopencl1, and the OpenCL driver of your device (for processors: "
           "pocl-opencl-icd)";
  if (!script_of_bundle().empty()) return "make the bundle where opencl-c-headers is installed";
  return "sudo apt install opencl-c-headers ocl-icd-libopencl1 pocl-opencl-icd, then build again";
}

std::string how_to_get_peer(const std::string& package) {
  if (package.empty()) return "";
  if (!script_of_bundle().empty())
    return cat("build from source where ", package, " is installed: the bundle has no peer but fma");
  return cat("sudo apt install ", package, ", then build again");
}

Finding check_libtorch() {
  MadeModel made = make_model("mlp", /*columns=*/8, 0);
  return {"libtorch", Need::Optional, made.model != nullptr,
          made.model ? "the learned cost model `mlp` opens" : made.note + "; `tree` is used instead",
          how_to_get_libtorch()};
}

Finding check_xgboost() {
  std::string why;
  std::optional<xgboost::Api> api = xgboost::open_api(&why);
  return {"xgboost", Need::Optional, api.has_value(),
          api ? cat("XGBoost ", version_of(*api), ": the cost model `xgboost` opens") : why,
          "sudo apt install libxgboost0, or set TRACEWRIGHT_XGBOOST to the library"};
}

Finding check_onnx() {
  std::size_t count = graph::onnx_operators().size();
  return {"onnx", Need::Optional, count > 0,
          count > 0 ? cat("ONNX models can be read: ", count, " operators")
                    : "the plugin that reads ONNX models is missing",
          script_of_bundle().empty() ? "sudo apt install libonnx-dev libprotobuf-dev, then build again"
                                     : "build from source where libonnx-dev is installed: the bundle reads no models"};
}

Finding check_compiler() {
  bool ok = std::system("command -v cc >/dev/null 2>&1") == 0;
  return {"cc", Need::Optional, ok,
          ok ? "a C compiler is there for `tracewright export` and `compile`"
             : "no C compiler: export writes objects, header and sources only",
          "sudo apt install gcc"};
}

Finding check_peer(const std::string& library, const std::string& package) {
  PeerResult<std::unique_ptr<Peer>> peer = Peer::start(library, {});
  return {cat("bench against ", library), Need::Optional, static_cast<bool>(peer),
          peer ? peer.value->version() : peer.message, how_to_get_peer(package)};
}

// The worker of a kind of devices lists them: drivers are not loaded into this process.
Finding check_devices(TargetKind kind, const std::string& name, const std::string& fix) {
  Target target;
  target.kind = kind;
  DeviceList found = list_devices(worker_options(target));
  std::string problem = found.error;
  for (const std::string& line : found.devices) {
    if (problem.empty()) problem = why_unusable(line);
  }
  // Where the driver is there, what helps is said behind the reason.
  std::size_t cut = problem.find("; set ");
  if (cut != std::string::npos) return {name, Need::Optional, false, problem.substr(0, cut), problem.substr(cut + 2)};
  if (!problem.empty()) return {name, Need::Optional, false, problem, fix};
  return {name, Need::Optional, true, cat("devices: ", join(found.devices, ", ")), ""};
}

Finding check_nvrtc() {
  std::string error;
  std::optional<std::string> version = cuda::nvrtc_version(error);
  return {"nvrtc", Need::Optional, version.has_value(), version.value_or(error),
          "install the CUDA toolkit (nvidia-cuda-toolkit, or NVIDIA's own), or set CUDA_HOME to where it is; CUDA "
          "source can be printed without it"};
}

// A kernel of a few threads, compiled and run.
Finding check_emulator() {
  Kernel kernel{
      .code = "extern \"C\" __global__ void twice(const float* x, float* y) { y[threadIdx.x] = 2 * x[threadIdx.x]; }"};
  kernel.manifest.run = {{"x", ArgumentRole::Input, DType::F32, {4}, 16},
                         {"y", ArgumentRole::Output, DType::F32, {4}, 16}};
  kernel.manifest.run_launches = {{"twice", {1, 1, 1}, {4, 1, 1}, {{false, 0, 0}, {false, 1, 0}}}};
  NamedArrays arrays;
  arrays["x"] = HostArray::zeros(DType::F32, {4});
  arrays["x"].set(3, 21);
  EmulationReport report = emulate(kernel, arrays);
  std::string ignored;
  bool ok = report.status == EmulationStatus::Ok && arrays["y"].get(3) == 42;
  return {"cuda emulator", Need::Optional, ok,
          ok ? cat("runs CUDA C without a GPU, by ", emulation_compiler(ignored)) : report.message,
          "sudo apt install g++ (12 or newer), or set TRACEWRIGHT_CXX to a compiler"};
}

std::vector<Finding> examine() {
  std::vector<Finding> out{check_cpu(),     check_cores(),   check_memory(),   check_governor(), check_llvm(),
                           check_worker(),  check_seccomp(), check_landlock(), check_database(), check_libtorch(),
                           check_xgboost(), check_onnx(),    check_compiler()};
  const std::pair<const char*, const char*> packages[] = {{"openblas", "libopenblas-dev"},
                                                          {"blis", "libblis-dev"},
                                                          {"onednn", "libdnnl-dev"},
                                                          {"libtorch", "libtorch-dev"}};
  for (const auto& [library, package] : packages) out.push_back(check_peer(library, package));
  out.push_back(check_peer("fma", ""));
  out.push_back(check_devices(TargetKind::OpenCl, "opencl", how_to_get_opencl()));
  out.push_back(check_nvrtc());
  out.push_back(check_emulator());
  out.push_back(check_devices(
      TargetKind::Cuda, "cuda driver",
      "install the driver of your NVIDIA GPU (580 or newer for machine code of NVRTC 13, 525 for that of NVRTC 12; "
      "Debian: nvidia-driver, Ubuntu: `sudo ubuntu-drivers install`); `tune --compile-only` works without it"));
  return out;
}

}  // namespace

int run_doctor(int count, char** words) {
  bool json = false;
  App app("doctor",
          "What this machine has, what is missing, and how to get it. Exit code 0 if "
          "tuning for the CPU works, else 3.",
          "");
  app.add_flag("--json", json, "print JSON");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  bool works = true;
  boost::json::array checks;
  for (const Finding& finding : examine()) {
    bool is_required = finding.need == Need::Required;
    works &= finding.ok || !is_required;
    checks.push_back({{"name", finding.name},
                      {"ok", finding.ok},
                      {"required", is_required},
                      {"detail", finding.detail},
                      {"fix", finding.ok ? "" : finding.fix}});
    if (json) continue;
    std::printf("%-8s %-22s %s\n",
                finding.ok    ? "ok"
                : is_required ? "MISSING"
                              : "missing",
                finding.name.c_str(), finding.detail.c_str());
    if (!finding.ok && !finding.fix.empty()) std::printf("%31s -> %s\n", "", finding.fix.c_str());
  }
  if (json)
    print_json({{"works", works}, {"version", TW_VERSION}, {"target", to_string(host_target())}, {"checks", checks}});
  else
    std::printf("\n%s\n", works ? "tuning for this CPU works"
                                : "tuning for this CPU does not work yet: see the lines marked MISSING");
  return works ? Ok : Environment;
}

}  // namespace tw::cli

#include <boost/json/array.hpp>
#include <cmath>
#include <utility>

#include "backends/cuda/nvrtc.h"
#include "bench/gpu/conformance.h"
#include "bench/gpu/libraries.h"
#include "bench/gpu/sections.h"
#include "dsl/base/files.h"
#include "dsl/base/text.h"
#include "dsl/text/workload.h"

namespace tw::gpu_bench {
namespace {

// What is measured one after the other. A fault takes the context with it, so that nothing behind it could run: then
// nothing is begun any more.
class Steps {
 public:
  Steps(device::Device& device, const std::string& after, const Say& say)
      : device_(device), after_(after), say_(say), is_behind_(after.empty()) {}

  // False: an earlier process did it, or the device answers no more.
  bool begin(const std::string& name) {
    is_poisoned_ = is_poisoned_ || !device::Memory(device_, 16).is_there();
    if (is_poisoned_) return false;
    bool is_wanted = std::exchange(is_behind_, is_behind_ || name == after_);
    if (is_wanted) say_({{"begin", name}});
    return is_wanted;
  }
  bool is_poisoned() const { return is_poisoned_; }

 private:
  device::Device& device_;
  const std::string& after_;
  const Say& say_;
  bool is_behind_, is_poisoned_ = false;
};

void say_ceiling(const Say& say, const std::string& name, const char* unit, double work, const Times& times,
                 const std::string& detail) {
  if (!times.problem.empty()) return say({{"skipped", name}, {"problem", times.problem}});
  say({{"ceiling", name},
       {"unit", unit},
       {"value", work / times.median * 1e-9},
       {"us", times.median * 1e6},
       {"detail", detail}});
}

void copies(Clock& clock, Steps& steps, const Say& say) {
  if (!steps.begin("copies")) return;
  constexpr i64 kBytes = i64{1} << 30;
  device::Memory from(clock.device(), kBytes), to(clock.device(), kBytes);
  if (!from.is_there() || !to.is_there() || !write_noise(from))
    return say({{"skipped", "copy"}, {"problem", "no memory for 2 GiB"}});
  std::string error;
  const cuda::Api* api = cuda::api(error);
  Contestant copy{"copy", "", [&] {
                    return api->copy_async(cuda::address_of(to), cuda::address_of(from), kBytes, clock.stream());
                  }};
  Contestant set{"set", "", [&] { return api->set_bytes_async(cuda::address_of(to), 1, kBytes, clock.stream()); }};
  TimingOptions options{.cold_rounds = 0};
  say_ceiling(say, "copy 1 GiB, bytes read and written", "GB/s", 2.0 * kBytes, clock.interleave({copy}, options)[0],
              "cuMemcpyDtoDAsync");
  say_ceiling(say, "set 1 GiB", "GB/s", 1.0 * kBytes, clock.interleave({set}, options)[0], "cuMemsetD8Async");
}

// What a kernel that does nothing takes as a node of a graph: so much of every kernel's time is that of its launch.
void launches(Clock& clock, Steps& steps, const Say& say) {
  const char* name = "kernel that does nothing, in a graph";
  if (!steps.begin(name)) return;
  constexpr char kNothing[] = ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry nothing() { ret; }\n";
  std::string error;
  const cuda::Api* api = cuda::api(error);
  cuda::Handle module = nullptr, function = nullptr;
  int code = api->load_module(&module, kNothing);
  if (code == 0) code = api->find_function(&function, module, "nothing");
  if (code != 0) return say({{"skipped", name}, {"problem", device::error_text(code)}});
  cuda::LaunchConfig config{};
  config.grid[0] = config.grid[1] = config.grid[2] = config.block[1] = config.block[2] = 1;
  config.block[0] = 32;
  config.stream = clock.stream();
  Contestant nothing{"nothing", "", [&] { return api->launch(&config, function, nullptr, nullptr); }};
  Times times = clock.interleave({nothing}, {.cold_rounds = 0})[0];
  api->unload_module(module);
  if (!times.problem.empty()) return say({{"skipped", name}, {"problem", times.problem}});
  double us = times.median * 1e6;
  say({{"ceiling", name}, {"unit", "us"}, {"value", us}, {"us", us}, {"detail", "part of the time of every kernel"}});
}

struct ProductRow {
  const char* type;
  Precision precision;
  const char* name;
};
constexpr ProductRow kProducts[] = {{"f32", Precision::Full, "cublas f32 (pedantic)"},
                                    {"f32", Precision::Tf32, "cublas tf32"},
                                    {"bf16", Precision::Full, "cublas bf16"}};

DType type_named(const std::string& name) {
  return name == "f16" ? DType::F16 : name == "bf16" ? DType::BF16 : DType::F32;
}

std::unique_ptr<Problem> problem_of(device::Device& device, const std::string& op,
                                    const std::map<std::string, peers::i64>& args, const std::string& type,
                                    std::string& error) {
  Diagnostics diagnostics(*operator_library().source);
  WorkloadArguments arguments;
  for (const auto& [name, value] : args) arguments.push_back({name, i64{value}});
  if (type != "f32") arguments.push_back({"T", type_named(type)});
  std::optional<OwnedProgram> program = instantiate(operator_library(), op, arguments, {}, diagnostics);
  if (!program) return error = diagnostics.render(), nullptr;
  return Problem::make(device, op, args, {}, program->program, error);
}

void products(Clock& clock, Steps& steps, const Say& say) {
  std::string error;
  Cublas cublas(clock.device(), error);
  if (!error.empty()) return say({{"skipped", "cublas"}, {"problem", error}});
  for (i64 size : {1024, 4096, 8192}) {
    for (const ProductRow& row : kProducts) {
      std::string name = cat(row.name, " ", size, "^3"), problem_error;
      if (!steps.begin(name)) continue;
      std::unique_ptr<Problem> problem =
          problem_of(clock.device(), "matmul", {{"M", size}, {"N", size}, {"K", size}}, row.type, problem_error);
      std::optional<Contestant> best =
          problem ? cublas.best_of(*problem, row.precision, clock, problem_error) : std::nullopt;
      if (!best) {
        say({{"skipped", name}, {"problem", problem_error}});
        continue;
      }
      TimingOptions options{.rounds = 11, .cold_rounds = 0, .budget_seconds = 0.5};
      say_ceiling(say, name, "GFLOP/s", problem->shape().flops, clock.interleave({*best}, options)[0], best->detail);
    }
  }
}

void convolutions(Clock& clock, Steps& steps, const Say& say) {
  std::string error;
  Cudnn cudnn(clock.device(), error);
  if (!error.empty()) return say({{"skipped", "cudnn"}, {"problem", error}});
  struct Row {
    const char *name, *op;
    std::map<std::string, peers::i64> args;
  };
  const Row rows[] = {{"cudnn conv2d 16x56x56x64, 3x3",
                       "conv2d",
                       {{"N", 16}, {"H", 56}, {"W", 56}, {"CI", 64}, {"CO", 64}, {"K", 3}, {"padding", 1}}},
                      {"cudnn conv2d 16x14x14x256, 3x3",
                       "conv2d",
                       {{"N", 16}, {"H", 14}, {"W", 14}, {"CI", 256}, {"CO", 256}, {"K", 3}, {"padding", 1}}},
                      {"cudnn softmax 8192x4096", "softmax", {{"M", 8192}, {"N", 4096}}}};
  for (const Row& row : rows) {
    std::string why;
    if (!steps.begin(row.name)) continue;
    std::unique_ptr<Problem> problem = problem_of(clock.device(), row.op, row.args, "f32", why);
    std::optional<Contestant> best = problem ? cudnn.best_of(*problem, why) : std::nullopt;
    if (!best) {
      say({{"skipped", row.name}, {"problem", why}});
      continue;
    }
    bool by_bytes = problem->shape().flops == 0;
    Times times = clock.interleave({*best}, {.rounds = 11, .cold_rounds = 0, .budget_seconds = 0.5})[0];
    say_ceiling(say, row.name, by_bytes ? "GB/s" : "GFLOP/s", by_bytes ? problem->bytes() : problem->shape().flops,
                times, best->detail);
  }
}

}  // namespace

ExitCode run_conformance(device::Device& device, const std::string& expected_file, const std::string& after,
                         const Say& say) {
  std::string error;
  if (!cuda::nvrtc_version(error)) return say({{"skipped", "conformance"}, {"problem", error}}), Wrong;
  std::optional<std::string> text = read_whole_file(expected_file);
  Outputs expected = text ? parse_outputs(*text, error) : emulate_cases(error);
  if (!error.empty()) return say({{"skipped", "conformance"}, {"problem", error}}), Wrong;
  ExitCode out = Done;
  bool is_behind = after.empty();
  for (const Case& one : cases()) {
    bool is_wanted = std::exchange(is_behind, is_behind || one.name == after);
    if (!is_wanted || !(one.arch.empty() || one.arch == cuda::arch_of(device) + "a")) continue;
    say({{"begin", one.name}});
    Conformance found = check_on(device, one, expected);
    boost::json::object row{{"case", found.name}, {"right", found.is_right}, {"problem", found.problem}};
    row["worst"] = std::isfinite(found.worst) ? boost::json::value(found.worst) : nullptr;
    say(row);
    if (found.is_right) continue;
    // A kernel that faults takes the context with it: whatever came next would have no memory.
    if (!device::Memory(device, 16).is_there()) return Poisoned;
    out = Wrong;
  }
  return out;
}

ExitCode run_ceilings(device::Device& device, const std::string& after, const Say& say) {
  Steps steps(device, after, say);
  Clock clock(device);
  for (auto step : {copies, launches, products, convolutions}) step(clock, steps, say);
  return steps.is_poisoned() ? Poisoned : Done;
}

}  // namespace tw::gpu_bench

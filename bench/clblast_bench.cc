// Our best stored kernels of products against CLBlast's SGEMM and against the FMA peak of all cores, in turn in one run
// on an OpenCL device that is the processor (PoCL). The peak is fused multiply-adds on as many threads as there are
// CPUs, for about as long as a sample of ours takes, so that other work on the machine disturbs all three alike.
//   clblast_bench LIST.yaml --database DB [--task NAME] [--rounds 15]
// Both results are compared with each other, and with single ones in f64. Printed for each task: medians with the rate,
// the medians of the rounds' ratios, and both of the least times. Exit codes: 1 a task that could not be compared, 2 a
// wrong list, 3 no device.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <clblast_c.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <optional>
#include <thread>

#include "bench/gpu/loaded.h"
#include "bench/list_of.h"
#include "dsl/base/clock.h"
#include "dsl/base/quantile.h"
#include "dsl/base/text.h"
#include "runtime/measure/fma_probe.h"
#include "sampler/search/trial.h"
#include "sampler/tasks/best_kernel.h"

namespace tw::bench {
namespace {

using gpu_bench::Problem;

constexpr double kSampleSeconds = 0.05;  // at least one call

// One of those compared: seconds of `calls` calls one behind the other with the wait for the last one; < 0 on failure.
struct Contestant {
  const char* name;
  double flops;  // of a call
  std::function<double(int calls)> run;
  int calls = 1;  // of a sample
  std::vector<double> times = {};
};

// The device with that number among those of all platforms: as backends/opencl/device.cc counts them.
cl_device_id find_device(int index) {
  cl_uint platforms = 0;
  if (clGetPlatformIDs(0, nullptr, &platforms) != CL_SUCCESS) return nullptr;
  std::vector<cl_platform_id> all(platforms);
  clGetPlatformIDs(platforms, all.data(), nullptr);
  for (cl_platform_id platform : all) {
    cl_uint count = 0;
    if (clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count) != CL_SUCCESS) continue;
    std::vector<cl_device_id> devices(count);
    clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr);
    if (index < static_cast<int>(count)) return devices[static_cast<std::size_t>(index)];
    index -= static_cast<int>(count);
  }
  return nullptr;
}

// CLBlast's product of the problem's inputs, in a context and queue of its own.
class ClBlast {
 public:
  explicit ClBlast(int device) {
    cl_device_id id = find_device(device);
    cl_int code = CL_DEVICE_NOT_FOUND;
    if (id) context_.reset(clCreateContext(nullptr, 1, &id, nullptr, nullptr, &code));
    if (context_) queue_.reset(clCreateCommandQueue(context_.get(), id, 0, &code));
    if (!queue_) error_ = cat("no queue for CLBlast: error ", code);
  }
  // What is wrong, or "".
  std::string take(Problem& problem) {
    const auto* gemm = std::get_if<peers::Gemm>(&problem.shape().shape);
    if (!error_.empty()) return error_;
    if (!gemm || gemm->outer * gemm->inner != 1) return "is no product of two matrices";
    gemm_ = *gemm;
    std::vector<float> c(static_cast<std::size_t>(gemm->m * gemm->n));
    a_ = buffer(problem.input(0).values), b_ = buffer(problem.input(1).values), c_ = buffer(c);
    return a_ && b_ && c_ ? "" : "no memory for CLBlast";
  }
  double run(int calls) {
    double begin = seconds_now();
    bool good = true;
    for (int i = 0; i < calls && good; ++i) good = enqueue() == CLBlastSuccess;
    good = clFinish(queue_.get()) == CL_SUCCESS && good;
    return good ? seconds_now() - begin : -1;
  }
  std::vector<float> result() {
    std::vector<float> out(static_cast<std::size_t>(gemm_.m * gemm_.n));
    if (clEnqueueReadBuffer(queue_.get(), c_.get(), CL_TRUE, 0, out.size() * sizeof(float), out.data(), 0, nullptr,
                            nullptr) != CL_SUCCESS)
      out.clear();
    return out;
  }

 private:
  template <class T, auto release>
  struct Release {
    void operator()(T handle) const { release(handle); }
  };
  template <class T, auto release>
  using Owned = std::unique_ptr<std::remove_pointer_t<T>, Release<T, release>>;
  using Buffer = Owned<cl_mem, clReleaseMemObject>;

  Buffer buffer(std::vector<float>& values) {
    return Buffer(clCreateBuffer(context_.get(), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR,
                                 values.size() * sizeof(float), values.data(), nullptr));
  }
  CLBlastStatusCode enqueue() {
    auto size = [](i64 value) { return static_cast<std::size_t>(value); };
    cl_command_queue queue = queue_.get();
    return CLBlastSgemm(CLBlastLayoutRowMajor, CLBlastTransposeNo, CLBlastTransposeNo, size(gemm_.m), size(gemm_.n),
                        size(gemm_.k), 1, a_.get(), 0, size(gemm_.a.row), b_.get(), 0, size(gemm_.b.row), 0, c_.get(),
                        0, size(gemm_.c.row), &queue, nullptr);
  }

  Owned<cl_context, clReleaseContext> context_;
  Owned<cl_command_queue, clReleaseCommandQueue> queue_;
  peers::Gemm gemm_;
  Buffer a_, b_, c_;
  std::string error_;
};

// The widest FMA of this CPU; null if it has none.
const FmaVariant* widest_fma() {
  for (const FmaVariant& variant : fma_variants()) {
    if (variant.is_present()) return &variant;
  }
  return nullptr;
}

double run_fma(const FmaVariant& fma, i64 rounds) {
  double begin = seconds_now();
  {
    std::vector<std::jthread> helpers;
    for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) helpers.emplace_back([&] { fma.run(rounds); });
    fma.run(rounds);
  }
  return seconds_now() - begin;
}

// Warms up, and chooses how many calls a sample has.
bool prepare(Contestant& one) {
  one.run(1);  // compiles
  double seconds = one.run(1);
  if (seconds > 0) one.calls = static_cast<int>(std::clamp(kSampleSeconds / seconds, 1.0, 1e6));
  return seconds > 0;
}

// Every round runs all of them, each time beginning with another one.
bool interleave(std::vector<Contestant>& all, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < all.size(); ++i) {
      Contestant& one = all[(i + static_cast<std::size_t>(round)) % all.size()];
      double seconds = one.run(one.calls);
      if (seconds <= 0) return false;
      one.times.push_back(seconds / one.calls);
    }
  }
  return true;
}

double least(const Contestant& one) { return *std::min_element(one.times.begin(), one.times.end()); }

// `ours` does so many times the operations a second that `other` does.
void print_ratio(const Contestant& ours, const Contestant& other) {
  std::vector<double> ratios;
  double work = ours.flops / other.flops;
  for (std::size_t i = 0; i < ours.times.size(); ++i) ratios.push_back(work * other.times[i] / ours.times[i]);
  std::printf("  ours / %-8s %8.3f   of the least times %8.3f\n", other.name, median(ratios),
              work * least(other) / least(ours));
}

void print(const std::string& task, const std::vector<Contestant>& all) {
  std::printf("%s, %zu rounds\n", task.c_str(), all[0].times.size());
  for (const Contestant& one : all) {
    std::printf("  %-15s median %10.3f ms, %7.1f GFLOP/s   least %10.3f ms, %7.1f GFLOP/s\n", one.name,
                median(one.times) * 1e3, one.flops / median(one.times) * 1e-9, least(one) * 1e3,
                one.flops / least(one) * 1e-9);
  }
  for (std::size_t i = 1; i < all.size(); ++i) print_ratio(all[0], all[i]);
  std::fflush(stdout);
}

// What is wrong, or "".
std::string compare(const TuneTask& task, const TaskEntry& entry, Database& database, int rounds) {
  std::string error;
  device::Device device(worker_options(task.target).device, error);
  if (!error.empty()) return error;
  std::unique_ptr<Problem> problem = Problem::make(device, entry, task.program.program, error);
  if (!problem) return error;
  std::optional<StoredKernel> stored = stored_kernel(database, task, "ours", error);
  if (!stored) return error;
  error.clear();
  std::unique_ptr<gpu_bench::Loaded> ours = gpu_bench::load(device, stored->kernel, *problem, error);
  ClBlast clblast(worker_options(task.target).device);
  if (error.empty()) error = clblast.take(*problem);
  if (!error.empty()) return error;
  if (!problem->poison_output() || ours->kernel->prepack() != 0) return "the device does not pack";
  double flops = problem->shape().flops;
  std::vector<Contestant> all = {
      {"tracewright", flops,
       [&](int calls) {
         i64 nanoseconds = 0;
         return ours->kernel->run(calls, nanoseconds) == 0 ? static_cast<double>(nanoseconds) * 1e-9 : -1;
       }},
      {"CLBlast", flops, [&](int calls) { return clblast.run(calls); }}};
  constexpr i64 kRounds = 30000;  // about as many operations as a tenth of a millisecond takes
  if (const FmaVariant* fma = widest_fma()) {
    all.push_back(
        {"FMA peak",
         fma->flops_per_round * static_cast<double>(kRounds) * std::max(1U, std::thread::hardware_concurrency()),
         [fma](int calls) { return run_fma(*fma, kRounds * calls); }});
  }
  if (!std::all_of(all.begin(), all.end(), prepare) || !interleave(all, rounds)) return "a call failed";
  double difference = 0;
  if (std::string wrong = problem->check(clblast.result(), difference); !wrong.empty()) return wrong;
  print(task.name, all);
  return "";
}

int compare_list(LoadedList& list, const std::string& name, Database& database, int rounds) {
  int compared = 0, failed = 0;
  for (std::size_t i = 0; i < list.tasks.size(); ++i) {
    const TuneTask& task = list.tasks[i];
    if (!name.empty() && task.name != name) continue;
    ++compared;
    std::string error = task.target.kind == TargetKind::OpenCl ? "" : "is not for OpenCL";
    if (error.empty()) error = compare(task, list.list.tasks[i], database, rounds);
    if (!error.empty()) std::printf("%s: %s\n", task.name.c_str(), error.c_str()), ++failed;
  }
  if (compared == 0) std::fprintf(stderr, "the list has no task `%s`\n", name.c_str());
  return compared == 0 ? 2 : failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace tw::bench

int main(int count, char** words) {
  using namespace tw;
  std::string list_path, database_path, task;
  int rounds = 15;
  CLI::App app("Products on an OpenCL device against CLBlast and the FMA peak.");
  app.add_option("LIST", list_path, "a task list, YAML")->required();
  app.add_option("--database", database_path, "with records of the tasks")->required();
  app.add_option("--task", task, "only this one");
  app.add_option("--rounds", rounds, "of running each in turn")->check(CLI::PositiveNumber);
  CLI11_PARSE(app, count, words);
  std::optional<LoadedList> list = bench::list_of(list_path);
  if (!list) return 2;
  std::string error;
  if (device::names(error).empty()) return std::fprintf(stderr, "%s\n", error.c_str()), 3;
  std::optional<Database> database = bench::database_of(database_path, DatabaseMode::Read);
  return database ? bench::compare_list(*list, task, *database, rounds) : 2;
}

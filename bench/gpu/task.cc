#include <algorithm>
#include <atomic>
#include <boost/json/array.hpp>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "bench/gpu/libraries.h"
#include "bench/gpu/loaded.h"
#include "bench/gpu/sections.h"
#include "bench/list_of.h"
#include "dsl/base/clock.h"
#include "dsl/base/quantile.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "runtime/export/finalist_files.h"
#include "runtime/measure/found_device.h"
#include "sampler/search/finalists.h"
#include "sampler/search/trial.h"
#include "sampler/tasks/best_kernel.h"

namespace tw::gpu_bench {
namespace {

// The list's target for this device: what follows from the arch, as shared memory does, is that of the device; what the
// list says beside it stays. The description is the one whose name is part of the device's name, else any of its arch.
// What is wrong, or "".
std::string set_target(Target& target, const std::string& device_line) {
  FoundDevice found = found_device(device_line);
  if (found.arch.empty()) return cat("no known `arch` runs on ", device_line);
  target.gpu = found.gpu;
  std::string text = to_string(target);  // with `-arch`, and without what follows from it
  text.replace(text.find(target.arch), target.arch.size(), found.arch);
  Source source{"the target of this GPU", text};
  Diagnostics diagnostics(source);
  std::optional<Target> resolved = parse_target(text, 0, diagnostics);
  if (resolved) target = *resolved;
  return diagnostics.render();
}

// A kernel that is tried.
struct Tried {
  Kernel kernel;
  double predicted_seconds = 0;
};
struct TriedKernels {
  std::vector<Tried> kernels;
  std::string problem;  // why there is none
};

// Those of a folder of `tune --compile-only`, for a GPU that runs their machine code.
TriedKernels read_kernels(const std::string& folder, const TuneTask& task, int count) {
  TriedKernels out;
  std::optional<std::vector<FinalistFile>> files = read_finalists(folder, out.problem);
  if (!files) return out;
  const std::string workload = to_hex(structural_hash(task.program.program));
  for (FinalistFile& file : *files) {
    if (file.workload != workload || static_cast<int>(out.kernels.size()) == count) continue;
    Source source{"the target of a finalist", file.target};
    Diagnostics diagnostics(source);
    std::optional<Target> target = parse_target(file.target, 0, diagnostics);
    if (!target || target->arch != task.target.arch) continue;
    out.kernels.push_back({std::move(file.kernel), file.predicted_seconds});
  }
  if (out.kernels.empty()) out.problem = cat(folder, " has no kernel of this task for ", task.target.arch);
  return out;
}

// The fastest that a database has of the task.
TriedKernels best_of_database(const std::string& path, const TuneTask& task) {
  TriedKernels out;
  std::optional<Database> database = bench::database_of(path, DatabaseMode::Read);
  if (!database) return out.problem = cat("cannot read ", path), out;
  std::optional<StoredKernel> best = stored_kernel(*database, task, task.name, out.problem);
  if (!best) return out;
  BuiltKernel built = loadable({std::move(best->kernel), ""}, task.target);
  if (!built.kernel) return out.problem = built.problem, out;
  out.kernels.push_back({std::move(*built.kernel), best->record.seconds});
  return out;
}

class TaskRun {
 public:
  TaskRun(device::Device& device, const TaskOptions& options, const Say& say)
      : device_(device), options_(options), say_(say), clock_(device) {}

  ExitCode run(const TuneTask& task, const TaskEntry& entry, const rules::Library& library, const std::string& rules) {
    double begin = seconds_now();
    TriedKernels found = !options_.database.empty() ? best_of_database(options_.database, task)
                         : !options_.found.empty()  ? read_kernels(options_.found, task, options_.finalists)
                                                    : search(task, library, rules);
    std::string error = found.problem;
    if (error.empty()) problem_ = Problem::make(device_, entry, task.program.program, error);
    if (!problem_) return say_({{"skipped", task.name}, {"problem", error}}), Wrong;
    if (!options_.is_once) choose_library();
    for (std::size_t i = 0; i < found.kernels.size(); ++i) {
      if (best_ && seconds_now() - begin > 0.75 * options_.limit) break;
      if (std::find(options_.skip.begin(), options_.skip.end(), static_cast<int>(i)) != options_.skip.end()) continue;
      try_one(found.kernels[i], i);
      // A kernel that faults takes the context with it.
      if (!device::Memory(device_, 16).is_there()) return Poisoned;
    }
    if (options_.is_once) return Done;
    if (!best_) return say_({{"skipped", task.name}, {"problem", "no finalist runs and is right"}}), Wrong;
    return compare(task, found.kernels[best_index_]) ? Done : Wrong;
  }

 private:
  TriedKernels search(const TuneTask& task, const rules::Library& library, const std::string& rules) const {
    std::atomic<bool> stop{false};
    std::jthread timer([&](const std::stop_token& is_found) {
      std::mutex mutex;
      std::unique_lock lock(mutex);
      std::condition_variable_any().wait_for(lock, is_found, std::chrono::duration<double>(options_.limit / 2),
                                             [] { return false; });
      stop = true;
    });
    FinalistResult found =
        find_finalists(task, library, {.count = options_.finalists, .rounds = 4, .rules = rules}, stop);
    TriedKernels out{.kernels = {}, .problem = found.problem};
    for (Finalist& finalist : found.finalists) {
      finalist.source.code = finalist.compiled.cubin;
      out.kernels.push_back({std::move(finalist.source), finalist.seconds});
    }
    return out;
  }

  void choose_library() {
    std::string why;
    bool is_product = std::holds_alternative<peers::Gemm>(problem_->shape().shape);
    if (is_product) {
      cublas_ = std::make_unique<Cublas>(device_, why);
      if (why.empty()) library_ = cublas_->best_of(*problem_, Precision::Full, clock_, why);
    } else {
      cudnn_ = std::make_unique<Cudnn>(device_, why);
      if (why.empty()) library_ = cudnn_->best_of(*problem_, why);
    }
    if (!library_) return say_({{"skipped", is_product ? "cublas" : "cudnn"}, {"problem", why}});
    problem_->poison_output();
    int code = clock_.run(*library_);
    std::string wrong = code == 0 ? problem_->check({}, library_error_) : device::error_text(code);
    if (wrong.empty()) library_output_ = problem_->read_output();
    if (!wrong.empty()) say_({{"skipped", library_->name}, {"problem", wrong}}), library_.reset();
  }

  void try_one(const Tried& tried, std::size_t index) {
    say_({{"begin", index}});
    std::string problem;
    double error = 0, seconds = 0;
    std::unique_ptr<Loaded> loaded = load(device_, tried.kernel, *problem_, problem);
    if (loaded) {
      problem_->poison_output();
      int code = loaded->kernel->prepack();
      if (code == 0) code = loaded->kernel->run();
      if (code != 0) problem = device::error_text(code);
    }
    if (problem.empty()) problem = problem_->check(library_output_, error);
    if (problem.empty() && !options_.is_once) {
      int code = 0;
      seconds = clock_.median_of(contestant(*loaded), code);
      if (code != 0) problem = device::error_text(code);
    }
    say_({{"finalist", index},
          {"us", seconds * 1e6},
          {"predicted_us", tried.predicted_seconds * 1e6},
          {"problem", problem}});
    if (!problem.empty() || (best_ && seconds >= best_seconds_)) return;
    best_ = std::move(loaded), best_seconds_ = seconds, best_index_ = index, best_error_ = error;
  }

  static Contestant contestant(Loaded& loaded) {
    return {"tracewright", "", [kernel = loaded.kernel.get()] { return cuda::enqueue(*kernel); }};
  }

  bool compare(const TuneTask& task, const Tried& tried) {
    std::string error;
    const cuda::Api* api = cuda::api(error);
    // As many bytes as the operator must read and write, half of them each.
    std::size_t half = static_cast<std::size_t>(problem_->bytes() / 2);
    device::Memory from(device_, static_cast<i64>(half)), to(device_, static_cast<i64>(half));
    std::vector<Contestant> all = {contestant(*best_)};
    if (library_) all.push_back(*library_);
    if (from.is_there() && to.is_there() && write_noise(from))
      all.push_back({"copy", "the operator's bytes", [&] {
                       return api->copy_async(cuda::address_of(to), cuda::address_of(from), half, clock_.stream());
                     }});
    std::vector<Times> times = clock_.interleave(all, {.budget_seconds = options_.seconds});
    // What ran last is not what is checked here: once more, on a fresh output.
    problem_->poison_output();
    std::string wrong =
        best_->kernel->run() == 0 ? problem_->check(library_output_, best_error_) : "it does not run any more";
    boost::json::array against;
    for (std::size_t i = 1; i < all.size(); ++i) {
      against.push_back({{"library", all[i].name},
                         {"detail", all[i].detail},
                         {"us", times[i].median * 1e6},
                         {"graph", times[i].in_graph},
                         {"cold_us", times[i].cold * 1e6},
                         {"ratio", times[i].ratio},
                         {"ratio_quartiles", {times[i].ratio_lower, times[i].ratio_upper}},
                         {"cold_ratio", times[i].cold_ratio},
                         {"problem", times[i].problem}});
    }
    boost::json::object row{
        {"task", task.name},
        {"target", to_string(task.target)},
        {"predicted_us", tried.predicted_seconds * 1e6},
        {"finalist", best_index_},
        {"prepacks", !tried.kernel.manifest.prepack_launches.empty()},
        {"rounds", times[0].rounds},
        {"error", best_error_},
        {"problem", cat(times[0].problem, times[0].problem.empty() || wrong.empty() ? "" : "; ", wrong)},
        {"against", against}};
    if (times[0].problem.empty()) add_times(times[0], row);
    say_(row);
    return wrong.empty() && times[0].problem.empty();
  }

  void add_times(const Times& ours, boost::json::object& row) const {
    row["us"] = ours.median * 1e6;
    row["us_quartiles"] = {ours.lower * 1e6, ours.upper * 1e6};
    row["cold_us"] = ours.cold * 1e6;
    row["graph"] = ours.in_graph;
    row["gflops"] = problem_->shape().flops / ours.median * 1e-9;
    row["gb_per_second"] = problem_->bytes() / ours.median * 1e-9;
  }

  device::Device& device_;
  const TaskOptions& options_;
  const Say& say_;
  Clock clock_;
  std::unique_ptr<Problem> problem_;
  std::unique_ptr<Cublas> cublas_;
  std::unique_ptr<Cudnn> cudnn_;
  std::optional<Contestant> library_;
  std::vector<float> library_output_;
  std::unique_ptr<Loaded> best_;
  std::size_t best_index_ = 0;
  double best_seconds_ = 0, best_error_ = 0, library_error_ = 0;
};

}  // namespace

ExitCode run_task(device::Device& device, const std::string& device_name, const TaskOptions& options, const Say& say) {
  std::optional<LoadedList> list = bench::list_of(options.list);
  if (!list) return say({{"skipped", options.task}, {"problem", "the task list has errors"}}), Wrong;
  for (std::size_t i = 0; i < list->tasks.size(); ++i) {
    TuneTask& task = list->tasks[i];
    if (task.name != options.task) continue;
    if (std::string wrong = set_target(task.target, device_name); !wrong.empty())
      return say({{"skipped", options.task}, {"problem", wrong}}), Wrong;
    return TaskRun(device, options, say).run(task, list->list.tasks[i], list->library, list->list.rules.value);
  }
  return say({{"skipped", options.task}, {"problem", "the list has no such task"}}), Wrong;
}

std::vector<std::string> tasks_of(const std::string& list) {
  std::vector<std::string> out;
  if (std::optional<LoadedList> loaded = bench::list_of(list)) {
    for (const TuneTask& task : loaded->tasks) out.push_back(task.name);
  }
  return out;
}

}  // namespace tw::gpu_bench

#include <algorithm>
#include <map>

#include "backends/target.h"
#include "dsl/base/files.h"
#include "dsl/base/text.h"
#include "runtime/export/model_library.h"
#include "runtime/measure/machine_probe.h"
#include "runtime/store/trace_file.h"
#include "sampler/report/report.h"
#include "sampler/tasks/rebuild.h"

namespace tw {
namespace {

struct KernelWork {
  Work work;
  Target target;
};

// From the trace that an export has of each kernel; nullopt if it is missing or cannot be read.
std::optional<KernelWork> read_kernel(const std::string& folder, const std::string& kernel) {
  std::string why;
  std::optional<std::string> text = read_text_file(cat(folder, "/traces/", kernel, ".tw"), why);
  if (!text) return std::nullopt;
  Source source{kernel, *text};
  Diagnostics diagnostics(source);
  std::optional<TraceFile> file = parse_trace_file(source, diagnostics);
  if (!file) return std::nullopt;
  return KernelWork{work_of(file->program.program), target_of(*file)};
}

}  // namespace

bool add_model(Report& report, const std::string& folder, double seconds, std::string& error, bool& is_measured) {
  is_measured = false;
  std::optional<ModelLibrary> library = open_model(folder, error);
  if (!library) return false;
  ModelReport model{.folder = folder, .name = library->name, .memory_bytes = library->memory_bytes};
  std::map<std::string, std::optional<KernelWork>> kernels;
  Target target = host_target();
  target.threads = 1;
  for (const ModelLibrary::Step& step : library->steps) {
    auto [at, is_new] = kernels.try_emplace(step.kernel);
    if (is_new) at->second = read_kernel(folder, step.kernel);
    if (is_new && at->second) target = at->second->target;
  }
  model.threads = target.threads;
  model.target = to_string(target);
  is_measured = true;
  int threads = usable_threads();
  Roof roof = processor_roof(measure_roofs(rates_of(measure_machine(threads), threads)), target,
                             machine_of(report.host), "measured for this report");
  std::vector<double> times = time_steps(*library, random_inputs(library->inputs, 0), model.threads, seconds, error);
  if (!error.empty()) return false;
  for (std::size_t i = 0; i < library->steps.size(); ++i) {
    const ModelLibrary::Step& from = library->steps[i];
    ModelReport::Step step{.name = clean_text(from.name, report.limits.name_bytes),
                           .kernel = clean_text(from.kernel, report.limits.name_bytes),
                           .seconds = times[i]};
    const std::optional<KernelWork>& known = kernels[from.kernel];
    step.has_work = known.has_value();
    if (known) step.work = known->work, step.bound = bound_of(step.work, roof, model.threads);
    step.work.flops = from.flops > 0 ? from.flops : step.work.flops;
    model.steps.push_back(std::move(step));
  }
  model.roof = static_cast<int>(report.roofs.size());
  report.roofs.push_back(std::move(roof));
  report.models.push_back(std::move(model));
  return true;
}

}  // namespace tw

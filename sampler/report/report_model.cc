#include <algorithm>
#include <map>

#include "backends/target.h"
#include "dsl/base/files.h"
#include "dsl/base/text.h"
#include "runtime/export/model_entries.h"
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

using Kernels = std::map<std::string, std::optional<KernelWork>>;

// Times the steps of an entry; nullopt, and why in `error`.
std::optional<ModelReport> entry_report(const Report& report, const ModelLibrary& entry, const Kernels& kernels,
                                        const Target& target, const Roof& roof, double seconds, std::string& error) {
  ModelReport model{.folder = entry.folder,
                    .name = entry.name,
                    .target = to_string(target),
                    .threads = target.threads,
                    .memory_bytes = entry.memory_bytes};
  std::vector<double> times = time_steps(entry, random_inputs(entry.inputs, 0), model.threads, seconds, error);
  if (!error.empty()) return std::nullopt;
  for (std::size_t i = 0; i < entry.steps.size(); ++i) {
    const ModelLibrary::Step& from = entry.steps[i];
    ModelReport::Step step{.name = clean_text(from.name, report.limits.name_bytes),
                           .kernel = clean_text(from.kernel, report.limits.name_bytes),
                           .seconds = times[i]};
    const std::optional<KernelWork>& known = kernels.at(from.kernel);
    step.has_work = known.has_value();
    if (known) step.work = known->work, step.bound = bound_of(step.work, roof, model.threads);
    step.work.flops = from.flops > 0 ? from.flops : step.work.flops;
    model.steps.push_back(std::move(step));
  }
  return model;
}

}  // namespace

bool add_model(Report& report, const std::string& folder, double seconds, std::string& error, bool& is_measured) {
  is_measured = false;
  std::optional<std::vector<ModelLibrary>> entries = open_entries(folder, error);
  if (!entries) return false;
  if (const std::string& device = entries->front().device; !device.empty())
    return error = cat("`", folder, "` is a library for `", device, "`; `tracewright run ", folder,
                       " --profile` times its kernels, reports are of libraries for processors"),
           false;
  std::vector<std::string> labels = entry_labels(*entries);
  Kernels kernels;
  Target target = host_target();
  target.threads = 1;
  for (const ModelLibrary& entry : *entries) {
    for (const ModelLibrary::Step& step : entry.steps) {
      auto [at, is_new] = kernels.try_emplace(step.kernel);
      if (is_new) at->second = read_kernel(folder, step.kernel);
      if (is_new && at->second) target = at->second->target;
    }
  }
  is_measured = true;
  int threads = usable_threads();
  Roof roof = processor_roof(measure_roofs(rates_of(measure_machine(threads), threads)), target,
                             machine_of(report.host), "measured for this report");
  std::vector<ModelReport> models;
  for (std::size_t i = 0; i < entries->size(); ++i) {
    std::optional<ModelReport> model = entry_report(report, (*entries)[i], kernels, target, roof, seconds, error);
    if (!model) return false;
    model->roof = static_cast<int>(report.roofs.size());
    if (!labels[i].empty()) model->name = clean_text(cat(model->name, " ", labels[i]), report.limits.name_bytes);
    models.push_back(std::move(*model));
  }
  report.roofs.push_back(std::move(roof));
  std::ranges::move(models, std::back_inserter(report.models));
  return true;
}

}  // namespace tw

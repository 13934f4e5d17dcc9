#include "dsl/base/text.h"
#include "sampler/report/page.h"
#include "sampler/report/report.h"

namespace tw {
namespace {

std::string time_text(double seconds) { return seconds > 0 ? cat(seconds * 1e6, " us") : "-"; }

// What is shown where no script runs.
std::string plain_tables(const Report& report) {
  std::vector<std::vector<std::string>> tasks, steps;
  for (const TaskReport& task : report.tasks)
    tasks.push_back({task.name, task.target, std::to_string(task.trials), std::to_string(task.failed),
                     time_text(task.best.seconds)});
  for (const ModelReport& model : report.models) {
    for (const ModelReport::Step& step : model.steps)
      steps.push_back({model.name, step.name, step.kernel, time_text(step.seconds)});
  }
  return cat("<p>The charts of this page need JavaScript.</p>\n",
             plain_table({"task", "target", "trials", "failed", "best"}, tasks),
             plain_table({"model", "step", "kernel", "time"}, steps));
}

}  // namespace

std::string report_page(const Report& report) {
  return to_html(
      {.title = "tracewright report", .script = "report.js", .data = to_json(report), .plain = plain_tables(report)});
}

}  // namespace tw

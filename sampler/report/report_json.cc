#include <boost/json/array.hpp>
#include <map>

#include "dsl/base/text.h"
#include "sampler/report/report.h"

namespace tw {
namespace {

using boost::json::array;
using boost::json::object;
using boost::json::value;

// null where a number is not known.
value known(double number) { return number > 0 ? value(number) : value(nullptr); }
value microseconds(double seconds) { return known(seconds * 1e6); }

object to_json(const Roof& roof) {
  array levels;
  for (const Roof::Level& level : roof.levels)
    levels.push_back(object{{"name", level.name}, {"bytes", level.bytes}, {"gb_per_second", level.bandwidth * 1e-9}});
  return {{"machine", clean_text(roof.machine, 200)}, {"target", clean_text(roof.target, 200)}, {"source", roof.source},
          {"gflops", known(roof.f32 * 1e-9)},         {"half_gflops", known(roof.half * 1e-9)}, {"levels", levels}};
}

// What is known of a kernel that takes so long, beside its time.
void add_work(object& out, bool has_work, const Work& work, const RoofBound& bound, const Roof& roof, double seconds) {
  out["flops"] = has_work ? value(work.flops) : value(nullptr);
  out["bytes"] = has_work ? value(work.bytes) : value(nullptr);
  out["type"] = work.type == DType::I64 ? "" : name_of(work.type);
  out["gflops"] = known(has_work && seconds > 0 ? work.flops / seconds * 1e-9 : 0);
  out["bound_us"] = microseconds(bound.seconds);
  out["bound_by"] = bound.seconds <= 0 ? "" : bound.by_arithmetic ? "arithmetic" : "data";
  out["level"] = bound.level >= 0 ? value(roof.levels[static_cast<std::size_t>(bound.level)].name) : value(nullptr);
  out["share_of_roof"] = known(seconds > 0 ? bound.seconds / seconds : 0);
}

array to_json(const std::vector<ReportTrial>& trials) {
  array out;
  for (const ReportTrial& trial : trials) out.push_back(array{trial.trial, trial.seconds * 1e6, trial.record});
  return out;
}

array to_json(const std::vector<ReportFailure>& failures) {
  array out;
  for (const ReportFailure& failure : failures)
    out.push_back(object{{"status", failure.status},
                         {"count", failure.count},
                         {"record", failure.record},
                         {"message", failure.message}});
  return out;
}

array to_json(const std::vector<DecisionEffect>& effects) {
  array out;
  for (const DecisionEffect& effect : effects) {
    array values;
    for (const DecisionValue& one : effect.values)
      values.push_back(object{{"value", one.text}, {"trials", one.count}, {"best_us", one.best_seconds * 1e6}});
    out.push_back(object{{"name", effect.name},
                         {"kind", effect.kind},
                         {"chosen", effect.chosen},
                         {"importance", effect.importance < 0 ? value(nullptr) : value(effect.importance)},
                         {"values", values},
                         {"other_values", effect.other_values}});
  }
  return out;
}

object to_json(const TaskReport& task, const Report& report) {
  object out{{"database", task.database}, {"name", task.name},       {"workload", task.workload},
             {"target", task.target},     {"machine", task.machine}, {"roof", task.roof},
             {"trials", task.trials},     {"failed", task.failed},   {"timed", task.timed}};
  out["best_us"] = microseconds(task.best.seconds);
  out["best_cold_us"] = microseconds(task.best_cold);
  out["best_trial"] = task.best.trial;
  out["best_record"] = task.best.record;
  out["zero_trial_us"] = microseconds(task.first.seconds);
  out["untuned_us"] = microseconds(task.untuned);
  add_work(out, task.has_work, task.work, task.bound, report.roofs[static_cast<std::size_t>(task.roof)],
           task.best.seconds);
  out["curve"] = to_json(task.curve);
  out["curve_is_thinned"] = task.is_curve_thinned;
  out["dots"] = to_json(task.dots);
  out["failures"] = to_json(task.failures);
  out["decided_trials"] = task.decided;
  out["decisions"] = to_json(task.decisions);
  out["best_schedule"] = task.best_schedule;
  return out;
}

object to_json(const ModelReport& model, const Report& report) {
  const Roof& roof = report.roofs[static_cast<std::size_t>(model.roof)];
  double all = 0;
  for (const ModelReport::Step& step : model.steps) all += step.seconds;
  array steps;
  for (const ModelReport::Step& step : model.steps) {
    object one{{"name", step.name}, {"kernel", step.kernel}, {"us", step.seconds * 1e6}};
    one["share"] = all > 0 ? step.seconds / all : 0;
    add_work(one, step.has_work, step.work, step.bound, roof, step.seconds);
    steps.push_back(std::move(one));
  }
  return {{"folder", model.folder},   {"name", model.name},
          {"target", model.target},   {"roof", model.roof},
          {"threads", model.threads}, {"memory_bytes", model.memory_bytes},
          {"us", all * 1e6},          {"steps", steps}};
}

}  // namespace

object to_json(const Report& report) {
  array databases, roofs, tasks, models;
  for (const std::string& path : report.databases) databases.push_back(value(path));
  for (const Roof& roof : report.roofs) roofs.push_back(to_json(roof));
  for (const TaskReport& task : report.tasks) tasks.push_back(to_json(task, report));
  for (const ModelReport& model : report.models) models.push_back(to_json(model, report));
  return {{"version", report.version},
          {"host", report.host},
          {"created_ms", report.created},
          {"databases", databases},
          {"damaged", report.damaged},
          {"roofs", roofs},
          {"models", models},
          {"tasks", tasks}};
}

}  // namespace tw

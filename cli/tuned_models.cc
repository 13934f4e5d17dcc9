#include "cli/tuned_models.h"

#include <fmt/format.h>

#include <boost/json.hpp>

#include "cli/interrupt.h"
#include "dsl/base/text.h"
#include "graph/import_onnx.h"
#include "runtime/console/output.h"
#include "sampler/models/whole_model.h"
#include "sampler/tasks/drafted_layouts.h"

namespace tw::cli {
namespace {

constexpr double kSeconds = 3;   // for a model
constexpr double kApart = 0.05;  // a larger part of the time that is in no kernel is worth a word

std::optional<WholeModelTimes> times_of(const ListedModel& model, Database& database, const MachineRates& rates,
                                        const graph::OwnRewrites& rewrites, std::string& error) {
  graph::ImportOptions how{.modules = rewrites.modules()};
  for (const ModelShape& shape : model.shapes) how.shapes[shape.name] = shape.extents;
  auto imported = graph::import_onnx(model.path, how);
  if (auto* problems = std::get_if<graph::ImportProblems>(&imported))
    return error = join(problems->lines, "; "), std::nullopt;
  graph::Graph graph =
      simplified_for(std::get<graph::Graph>(imported), model.target, rewrites.modules(), model.precision);
  return time_whole_model(graph, model_tasks(graph, model.target),
                          {.library = "model",
                           .target = model.target,
                           .database = &database,
                           .rates = rates,
                           .threads = host_target().threads,
                           .stop = [] { return stop_wanted.load(); }},
                          kSeconds, error);
}

}  // namespace

boost::json::array time_tuned_models(const LoadedList& list, Database& database, const MachineRates& rates) {
  boost::json::array rows;
  for (const ListedModel& model : list.models) {
    if (is_device(model.target) || stop_wanted) continue;
    std::string error;
    std::optional<WholeModelTimes> times = times_of(model, database, rates, list.rewrites, error);
    if (times) {
      rows.push_back({{"name", model.name},
                      {"first_us", times->first * 1e6},
                      {"best_us", times->best * 1e6},
                      {"gain", times->gain},
                      {"kernels_us", times->kernels * 1e6}});
    } else if (!stop_wanted) {
      say(cat(model.name, ": the whole model cannot be timed: ", error));
    }
  }
  return rows;
}

void print_tuned_models(const boost::json::array& models) {
  for (const boost::json::value& model : models) {
    double best = model.at("best_us").as_double() * 1e-6, kernels = model.at("kernels_us").as_double() * 1e-6;
    fmt::print("{}: {} a call, {:.2f} times as fast as with the first kernels; its kernels alone take {}{}\n",
               std::string(model.at("name").as_string()), show_time(best), model.at("gain").as_double(),
               show_time(kernels),
               best - kernels > kApart * best ? cat(": ", show_time(best - kernels), " are in none of them") : "");
  }
}

}  // namespace tw::cli

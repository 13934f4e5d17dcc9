#include "cli/tune_checks.h"

#include <cstdio>

#include "cli/join_fleet.h"
#include "costmodel/make_model.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "sampler/tasks/global_model.h"
#include "sampler/tasks/list_search.h"

namespace tw::cli {

bool have_one_worker(const LoadedList& list) {
  const Target& first = list.tasks[0].target;
  for (const TuneTask& task : list.tasks) {
    if (task.target.kind == first.kind && task.target.device == first.device) continue;
    return say(cat("one run measures on one device, but ", task.name, " is for `", to_string(task.target), "` and ",
                   list.tasks[0].name, " for `", to_string(first), "`; write a list for each")),
           false;
  }
  return true;
}

bool have_device(const Target& target) {
  std::string problem = why_no_worker(target);
  if (problem.empty()) return true;
  if (target.kind == TargetKind::Cuda)
    problem +=
        "\n`tracewright tune --compile-only` searches without a device; `run-manifest` measures what it found "
        "elsewhere";
  return say(problem), false;
}

bool check_objective(const std::string& name) {
  if (parse_objective(name)) return true;
  say(cat("--objective: expected ", join(objective_names(), ", "), ", found `", name, "`"));
  return false;
}

bool choose_transfer(SearchChoice& choice, const std::string& said) {
  choice.transfer = said;
  std::vector<ChoiceError> errors = errors_of(choice);
  if (!errors.empty()) say(cat("--transfer: ", errors[0].text));
  return errors.empty();
}

std::optional<std::string> global_model_of(const TuneOptions& tuning, bool is_flag, const LoadedList& list) {
  const std::string& transfer = tuning.search.transfer;
  const Located<std::string>& listed = list.list.search.transfer;
  bool is_shipped = transfer == kShippedModel, is_said = is_flag || listed.given;
  if (transfer.empty() || transfer == kNoTransfer) return "";
  auto refuse = [&](const std::string& why) -> std::optional<std::string> {
    if (!is_said) return "";
    if (is_flag) return say(cat("--transfer ", transfer, ": ", why)), std::nullopt;
    Diagnostics diagnostics(list.source);
    diagnostics.error(listed.span, why);
    return std::fputs(diagnostics.render().c_str(), stderr), std::nullopt;
  };
  if (tuning.keep_model)
    return refuse("the cost model begins with --model-file, and not with another one; leave one of them away");
  // The shipped model has learned the order; what a file has learned is known when it is read.
  const Objective learned = is_shipped ? Objective::Rank : tuning.objective;
  if (std::string why = why_no_global_model(tuning.cost_model, tuning.objective, learned); !why.empty())
    return refuse(why);
  if (is_shipped && is_device(list.tasks[0].target))
    return refuse("the model that comes with tracewright is for processors");
  MadeModel local = is_said ? MadeModel() : make_model(tuning.cost_model, model_columns(tuning.cost_model), 0);
  if (!is_said && (!local.model || local.model->name() != std::string_view("mlp"))) return "";
  std::string error;
  std::optional<std::string> bytes = read_global_model(transfer, tuning.cost_model, tuning.objective, error);
  if (!bytes && is_said) return refuse(error);
  if (!bytes) say(cat(error, "; the search goes on without it"));
  return bytes.value_or("");
}

bool can_be_searched(const LoadedList& list, const TuneOptions& tuning) {
  if (std::string why = why_no_acquisition(tuning.search, tuning.cost_model); !why.empty()) return say(why), false;
  for (const TuneTask& task : list.tasks) {
    std::string why = why_not_searched(task, list.library, tuning);
    if (!why.empty()) return say(cat(task.name, ": ", why)), false;
  }
  return true;
}

}  // namespace tw::cli

#include "cli/check_compiled.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json/array.hpp>

#include "cli/commands.h"
#include "cli/devices.h"
#include "cli/interrupt.h"
#include "dsl/base/text.h"
#include "graph/input_ranges.h"
#include "runtime/console/output.h"
#include "runtime/export/model_library.h"
#include "sampler/models/check_model.h"
#include "sampler/models/check_steps.h"
#include "sampler/models/cuda_kernels.h"

namespace tw::cli {
namespace {

// One entry of a library, run once, and what is found of it.
class EntryCheck {
 public:
  EntryCheck(const CheckChoices& choices, const OpenedModel& model, const ExportPlan& plan, const ModelLibrary& library,
             const std::string& label, boost::json::object& report)
      : choices_(choices),
        model_(model),
        plan_(plan),
        library_(library),
        where_(label.empty() ? "" : label + ": "),
        report_(report) {}

  int run() {
    std::optional<std::vector<HostArray>> inputs =
        fill_inputs(graph::input_arguments(model_.imported), choices_.inputs, choices_.seed);
    if (!inputs) return Usage;
    inputs_ = std::move(*inputs);
    std::string error;
    std::optional<std::vector<HostArray>> expected = reference_outputs(model_.imported, inputs_, error, {}, is_stopped);
    if (!expected) return not_checked(cat("the model cannot be computed: ", error), Environment);
    run_ = run_model(library_, inputs_, choices_.threads);
    if (!run_.error.empty()) return not_checked(run_.error, run_.has_failed ? TargetMissed : Environment);
    for (std::size_t i = 0; i < expected->size(); ++i) {
      found_.push_back(difference((*expected)[i], run_.outputs[i], may_round()));
      is_void_ |= found_[i].compared == 0 && (*expected)[i].elements() > 0;
      i64 void_elements = (*expected)[i].elements() - found_[i].compared;
      if (void_elements > 0)
        say(cat(name(i), ": of ", choices_.inputs.empty() ? "random" : "these", " inputs the model makes ",
                void_elements, " elements that are no finite numbers"));
    }
    int code = model_.precision == DType::F32 ? judge_wide(*expected) : judge_narrow(*expected);
    if (is_void_ && code == Ok) return say("the model cannot be checked on random inputs"), TargetMissed;
    return code;
  }

 private:
  static bool is_stopped() { return stop_wanted; }
  // Ctrl-C ends the child that the library runs in, too.
  static int not_checked(const std::string& why, int code) {
    if (stop_wanted) return Interrupted;
    return say(why), code;
  }
  std::string name(std::size_t output) const { return where_ + model_.imported.output_names[output]; }

  // May outputs differ by kMostRelativeOfQuantized? Only where kernels are judged as well.
  bool may_round() const { return library_.device.empty() && is_quantized(model_.imported); }

  // Compares outputs with `expected`. `most`: what may be between them, by type.
  int judge_outputs(const std::vector<HostArray>& expected, const std::function<double(DType)>& most) {
    bool is_wrong = false;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      bool is_bad = found_[i].is_wrong(most(expected[i].dtype));
      is_wrong |= is_bad;
      boost::json::object row = described(i);
      row["wrong"] = is_bad;
      report_["check"].as_array().push_back(std::move(row));
      if (!choices_.is_json) fmt::print("checked {}: {}{}\n", name(i), in_words(found_[i]), is_bad ? ": WRONG" : "");
    }
    return is_wrong ? (say("the library computes something else than the model"), WrongResults) : Ok;
  }

  // The outputs against the model, then the kernels, each as a trial.
  int judge_wide(const std::vector<HostArray>& expected) {
    const double least = may_round() ? kMostRelativeOfQuantized : 0;
    int code = judge_outputs(expected, [&](DType type) { return std::max(most_relative(type), least); });
    return library_.device.empty() ? worse_code(code, judge_wide_steps()) : code;
  }

  int judge_wide_steps() {
    std::string error;
    std::optional<StepJudgement> judged = judge_steps(checked_run(), error, is_stopped);
    if (!judged) return not_checked(cat("the kernels cannot be checked: ", error), Environment);
    const JudgedStep* worst = nullptr;
    std::size_t wrong = 0;
    for (const JudgedStep& step : judged->steps) {
      const Comparison& found = step.found;
      if (!worst || found.distance > worst->found.distance) worst = &step;
      boost::json::object row{{"kernel", step.kernel},
                              {"name", step.value},
                              {"entry", library_.entry},
                              {"largest_error", json_number(found.max_error)},
                              {"distance", json_number(found.distance)},
                              {"wrong_elements", found.wrong},
                              {"wrong", !found.is_right()}};
      if (found.first >= 0) row["first"] = first_wrong(step);
      report_["kernel_check"].as_array().push_back(std::move(row));
      if (found.is_right()) continue;
      ++wrong;
      say_wrong(step.kernel, cat("of `", step.value, "` ",
                                 difference_text(found, graph::elements_of(step.type),
                                                 position_text(step.type.shape, found.first))));
    }
    if (worst && !judged->is_stopped && !choices_.is_json)
      fmt::print(
          "checked {}{} results of kernels, each on what those before it gave: {:.2g} times as far from the exact "
          "values as rounding explains at most, in {}{}\n",
          where_, judged->steps.size(), worst->found.distance, worst->kernel, wrong > 0 ? ": WRONG" : "");
    return code_of_steps(wrong, judged->is_whole_same, judged->is_stopped);
  }

  static boost::json::object first_wrong(const JudgedStep& step) {
    std::vector<i64> place = position_of(step.type.shape, step.found.first);
    return {{"at", boost::json::array(place.begin(), place.end())},
            {"value", json_number(step.found.actual)},
            {"expected", json_number(step.found.expected)}};
  }
  CheckedRun checked_run() const {
    return {model_.graph, model_.tasks, plan_, library_, inputs_, choices_.threads, run_.outputs};
  }
  void say_wrong(const std::string& kernel, const std::string& how) const {
    say(cat(where_, kernel, " computes something else than its part of the model: ", how));
  }
  int code_of_steps(std::size_t wrong, bool is_whole_same, bool is_stopped) const {
    if (!is_whole_same) say(cat(where_, "the library gives something else than its kernels in order"));
    int code = wrong > 0 || !is_whole_same ? WrongResults : Ok;
    return is_stopped ? worse_code(code, Interrupted) : code;
  }

  // With narrow values: the kernels against the graph that they were made of, and the outputs against the model.
  int judge_narrow(const std::vector<HostArray>& expected) {
    int code = library_.device.empty() ? judge_narrow_steps() : judge_device();
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (!is_float(expected[i].dtype)) continue;
      TopOne top = top_one(expected[i], run_.outputs[i]);
      boost::json::object row = described(i);
      row["rows"] = top.rows;
      row["same_largest"] = top.same;
      report_["accuracy"].as_array().push_back(std::move(row));
      if (!choices_.is_json)
        fmt::print("{} against f32: {}, the largest element is the same in {} of {} row(s)\n", name(i),
                   in_words(found_[i]), top.same, top.rows);
      if (found_[i].different > 0)
        say(cat(name(i), ": ", found_[i].different, " elements are finite in f32 and not in ",
                name_of(model_.precision), ", or the other way round"));
    }
    return code;
  }

  int judge_narrow_steps() {
    std::string error;
    std::optional<StepCheck> check = check_steps(checked_run(), error, is_stopped);
    if (!check) return not_checked(cat("the kernels cannot be checked: ", error), Environment);
    const StepDifference* worst = nullptr;
    std::size_t wrong = 0;
    for (const StepDifference& step : check->steps) {
      if (!worst || step.found.relative > worst->found.relative) worst = &step;
      wrong += step.is_wrong;
      if (step.is_wrong) say_wrong(step.kernel, cat(in_words(step.found), " in ", step.value));
      report_["check"].as_array().push_back({{"kernel", step.kernel},
                                             {"name", step.value},
                                             {"entry", library_.entry},
                                             {"largest_error", json_number(step.found.largest)},
                                             {"relative_error", json_number(step.found.relative)},
                                             {"cosine", json_number(step.found.cosine)},
                                             {"wrong", step.is_wrong}});
    }
    if (worst && !check->is_stopped && !choices_.is_json)
      fmt::print("checked {}{} steps, each on what those before it gave: relative error {:.2g} at most, in {}{}\n",
                 where_, check->steps.size(), worst->found.relative, worst->kernel, wrong > 0 ? ": WRONG" : "");
    return code_of_steps(wrong, check->is_whole_same, check->is_stopped);
  }

  // Steps on a device cannot be had one by one, so all of its roundings add up.
  int judge_device() {
    std::string error;
    std::optional<std::vector<HostArray>> expected = reference_outputs(model_.graph, inputs_, error, {}, is_stopped);
    if (!expected) return not_checked(cat("the model cannot be computed: ", error), Environment);
    std::vector<ModelDifference> against_model = found_;
    for (std::size_t i = 0; i < expected->size(); ++i) found_[i] = difference((*expected)[i], run_.outputs[i]);
    int code = judge_outputs(
        *expected, [&](DType type) { return std::max(most_relative(type), most_relative(model_.precision)); });
    found_ = std::move(against_model);
    return code;
  }

  static std::string in_words(const ModelDifference& found) {
    return fmt::format("largest error {:.2g}, relative {:.2g}, cosine {:.9f}", found.largest, found.relative,
                       found.cosine);
  }
  boost::json::object described(std::size_t output) const {
    return {{"name", model_.imported.output_names[output]},
            {"entry", library_.entry},
            {"largest_error", json_number(found_[output].largest)},
            {"relative_error", json_number(found_[output].relative)},
            {"cosine", json_number(found_[output].cosine)}};
  }

  const CheckChoices& choices_;
  const OpenedModel& model_;
  const ExportPlan& plan_;
  const ModelLibrary& library_;
  std::string where_;  // words in front of the names of outputs
  boost::json::object& report_;
  std::vector<HostArray> inputs_;
  ModelRun run_;
  std::vector<ModelDifference> found_;  // of each output, against the model as it was imported
  bool is_void_ = false;                // an output has no finite numbers
};

// All entries; the exit code of the worst one.
int check_entries(const CheckChoices& choices, const std::vector<OpenedModel>& models,
                  const std::vector<std::string>& labels, const ExportPlan& plan, boost::json::object& report) {
  std::string error;
  std::optional<std::vector<ModelLibrary>> entries = open_entries(choices.folder, error);
  if (!entries) return say(error), Environment;
  report["check"] = boost::json::array();
  bool is_wide = models[0].precision == DType::F32;
  if (!is_wide) report["accuracy"] = boost::json::array();
  if (is_wide && entries->front().device.empty()) report["kernel_check"] = boost::json::array();
  int code = Ok;
  for (std::size_t i = 0; i < models.size(); ++i) {
    if (stop_wanted) return worse_code(code, Interrupted);
    code = worse_code(code, EntryCheck(choices, models[i], plan, (*entries)[i], labels[i], report).run());
  }
  return code;
}

// Runs each kernel of a model for `cuda` in the emulator, whether there is a GPU or not.
int check_by_emulation(const CheckChoices& choices, const OpenedModel& model, const ExportPlan& plan,
                       boost::json::object& report) {
  std::vector<EmulationVerdict> verdicts =
      emulate_kernels(plan, model.tasks, host_target().threads, [] { return stop_wanted.load(); });
  boost::json::array kernels;
  std::size_t right = 0, wrong = 0;
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    const EmulationVerdict& verdict = verdicts[i];
    bool is_right = verdict.kind == EmulationVerdict::Right, is_wrong = verdict.kind == EmulationVerdict::Wrong;
    right += is_right, wrong += is_wrong;
    kernels.push_back({{"name", plan.tasks[i].name},
                       {"emulation", is_right   ? "right"
                                     : is_wrong ? "wrong"
                                                : "not checked"},
                       {"message", verdict.message}});
    if (is_wrong || (!is_right && !stop_wanted))
      say(cat(plan.tasks[i].name,
              is_wrong ? ": WRONG in the emulator: " : ": not checked in the emulator: ", verdict.message));
  }
  if (!choices.is_json) fmt::print("checked {} of {} kernels in the emulator\n", right, verdicts.size());
  report["emulation"] = std::move(kernels);
  return worse_code(wrong > 0 ? WrongResults : Ok, stop_wanted ? Interrupted : Ok);
}

}  // namespace

int check_compiled(const CheckChoices& choices, const std::vector<OpenedModel>& models,
                   const std::vector<std::string>& labels, const ExportPlan& plan, boost::json::object& report) {
  const OpenedModel& first = models.front();
  if (first.target.kind == TargetKind::Cuda) {
    if (int code = check_by_emulation(choices, first, plan, report); code != Ok) return code;
    if (std::string missing = why_no_device(first.target); !missing.empty())
      return say(cat("the library as a whole is not checked: ", missing)), Ok;
  }
  return check_entries(choices, models, labels, plan, report);
}

}  // namespace tw::cli

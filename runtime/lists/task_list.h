// The task list: what `tracewright tune` reads. YAML text to a checked value in which every field
// keeps its place, so that later stages (operators, workloads, rule modules) report against the
// same text. It opens no other file and starts nothing.
#pragma once
#include <functional>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "backends/target.h"
#include "dsl/ir/types.h"
#include "runtime/lists/device_file.h"
#include "runtime/lists/located.h"

namespace tw {

// A target as the list has it.
struct TargetEntry : Located<Target> {
  std::vector<TargetOption> to_find;  // what it says, if that is `device: auto`: find_devices makes the target of it
};

struct TaskArgument {
  std::string name;
  std::variant<i64, std::string> value;  // an integer, or a word such as a type
  Span name_span, span;
};

// A rule module and where its rules go in the rule set: next to or in the place of a rule, at most one of them given.
// Else they run where the module says.
struct ModuleEntry {
  Located<std::string> file;  // path as written
  Located<std::string> before, after, replace;
};

// What the caches of a device hold when kernels are timed to be compared: what the call before has left there, or other
// data.
enum class Timing : u8 { Warm, Cold };
enum class TaskLayout : u8 { Fixed, Free };  // Free: the tuner may choose the layout of inputs and outputs

// The shape of a model's input, as written.
struct ModelShape {
  std::string name;
  std::vector<i64> extents;
};

// An operator with arguments, or a workload file and a use of a workload in it, or a model, which stands for a task for
// each of its different kernels.
struct TaskEntry {
  Located<std::string> name;  // a C identifier: export makes symbols from it
  Located<std::string> op;
  std::vector<TaskArgument> args;
  Span args_span;
  bool args_readable = true;  // false: something about `args` was reported, so names may be lacking
  std::vector<Located<std::string>> epilogue;
  Located<std::string> workload;  // path as written
  Located<std::string> use;       // "banded(M = 512, B = 16)"; the span is that of the text inside its quotes
  Located<std::string> model;     // path as written, ONNX
  std::vector<ModelShape> shapes;
  Located<DType> precision{DType::F32};  // of the values between a model's kernels: f32 (as they are), bf16 or f16
  Located<double> weight{1.0};           // how often the task runs in the whole; divides trials between tasks
  Located<TaskLayout> layout{TaskLayout::Fixed};
  Located<Timing> timing{Timing::Warm};
  Located<Tolerance> tolerance;  // if not given: that of the workload, else by its types
  TargetEntry target;            // if not given: that of the list
  Located<std::string> machine;  // the same
};

// `search`: names and numbers as written; what they mean is known to whoever searches.
struct SearchEntry {
  struct Setting {
    std::string name;
    std::optional<double> value;  // nothing if it is no number
    std::string text;             // as a message names it
    Span name_span, span;
  };
  Located<std::string> strategy, select, acquisition, model, objective, transfer;
  std::vector<Setting> settings;
};
namespace yaml {
struct Item;
}
// Of a mapping like that of a task list.
void decode_search(const yaml::Item& item, SearchEntry& out);

struct TaskList {
  Located<i64> version{1};
  TargetEntry target;            // default: this machine
  Located<std::string> machine;  // of a fleet, that is to measure: words of its fingerprint; if not given: any
  Located<i64> trials{512};      // for each task, those of earlier runs included
  Located<i64> total_trials{0};  // of all tasks together, those of earlier runs included; 0 = no limit
  Located<double> seconds{0};    // for this run, all tasks together; 0 = no limit
  Located<double> min_gain{
      0.005};  // a task ends when another batch is expected to gain a smaller part; 0 = never early
  Located<std::string> database{"tuning.db"};  // path as written
  std::vector<ModuleEntry> modules;
  std::vector<Located<std::string>> rewrites;  // files of rewritings and operators for the models; paths as written
  Located<std::string> rules{"cpu"};           // name of a rule set
  SearchEntry search;
  Located<u64> seed{0};
  std::vector<TaskEntry> tasks;
};

// Reads the source of `diagnostics` and reports all errors at once. What could be read is returned
// also then, so that check_tasks can add what it finds; start nothing if `diagnostics` has errors.
TaskList parse_task_list(Diagnostics& diagnostics);

// The first CUDA device of this machine; nullopt with why in `error`.
using FindDevice = std::function<std::optional<FoundDevice>(std::string& error)>;
// Targets that say `device: auto` become those of the device that was found. Asks only if there are some.
void find_devices(TaskList& list, const FindDevice& first_device, Diagnostics& diagnostics);

// An operator that a task may name, as the caller found it in the operator library.
struct OperatorSignature {
  struct Parameter {
    std::string name;
    bool is_type = false;  // an element type such as f16, else an integer
    bool required = true;
    std::string default_text;  // for messages, if not required
    i64 least = 1;             // smallest legal integer (0 for a padding)
  };
  std::string name;
  std::vector<Parameter> parameters;
  std::vector<std::string> epilogues;  // that may follow it
};

// Checks operators, argument names and values, and epilogues against the library.
void check_tasks(const TaskList& list, const std::vector<OperatorSignature>& operators, Diagnostics& diagnostics);

// The list as JSON, defaults filled in: for `tune --dry-run --json`.
std::string to_json(const TaskList& list);

}  // namespace tw

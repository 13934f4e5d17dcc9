#include "cli/bench_models.h"

#include <fmt/core.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <chrono>

#include "cli/commands.h"
#include "cli/compile_to.h"
#include "cli/interrupt.h"
#include "cli/known_names.h"
#include "cli/open_graph.h"
#include "dsl/base/temporary_folder.h"
#include "dsl/base/text.h"
#include "graph/import_onnx.h"
#include "runtime/console/output.h"
#include "runtime/peers/model_peer.h"
#include "sampler/models/bench_model.h"
#include "sampler/models/check_model.h"

namespace tw::cli {
namespace {

std::chrono::milliseconds limit_of(const BenchModels& options) {
  return std::chrono::milliseconds(static_cast<i64>(options.limit * 1e3));
}

// What all models gave together.
struct Report {
  boost::json::array rows, skipped;  // skipped: libraries that gave no time, and why
  std::vector<std::vector<std::string>> table;
  bool is_wrong = false, has_failed = false;

  void skip(const std::string& model, const std::string& library, Verdict verdict, const std::string& reason) {
    skipped.push_back({{"model", model}, {"library", library}, {"verdict", name_of(verdict)}, {"reason", reason}});
  }
  void add(const std::string& model, int threads, const ModelRow& row) {
    bool is_own = row.library == "tracewright";
    is_wrong |= row.verdict == Verdict::Wrong;
    if (row.seconds == 0) {
      skip(model, row.library, row.verdict, row.detail);
      say(cat(model, ": ", row.library, ": ", row.detail));
      return;
    }
    const char* verdict = is_own ? "own" : name_of(row.verdict);
    rows.push_back({{"model", model},
                    {"threads", threads},
                    {"library", row.library},
                    {"version", row.version},
                    {"us", row.seconds * 1e6},
                    {"us_quartiles", {row.lower * 1e6, row.upper * 1e6}},
                    {"ratio", row.ratio},
                    {"ratio_quartiles", {row.ratio_lower, row.ratio_upper}},
                    {"rounds", row.rounds},
                    {"relative_difference", row.difference},
                    {"verdict", verdict},
                    {"detail", row.detail}});
    std::string ratio = fmt::format("{:.2f} ({:.2f} to {:.2f})", row.ratio, row.ratio_lower, row.ratio_upper);
    table.push_back({model, std::to_string(threads), row.library, row.version, show_time(row.seconds),
                     is_own ? "" : ratio, is_own ? "" : verdict, is_own ? "" : fmt::format("{:.1e}", row.difference)});
  }

  void print(bool is_json) const {
    if (is_json)
      print_json({{"rows", rows}, {"skipped", skipped}});
    else
      print_table(
          {"model", "threads", "library", "version", "time", "its time / ours", "tracewright is", "outputs differ by"},
          table);
  }
};

// nullopt after a message.
std::optional<std::vector<std::string>> parse_against(const std::string& text) {
  std::vector<std::string> names = split(text, ','), libraries;
  if (!are_known("--against", "library", names, model_library_names())) return std::nullopt;
  for (const std::string& name : names) {
    for (const std::string& library : model_libraries()) {
      bool is_meant = name == library || (name == "torch" && library.starts_with("torch-"));
      if (is_meant && std::ranges::count(libraries, library) == 0) libraries.push_back(library);
    }
  }
  return libraries;
}

// Takes those that are not there out of `libraries`, after a message for each. Compiling comes later: it takes longer.
void leave_out_missing(const BenchModels& options, int threads, std::vector<std::string>& libraries, Report& report) {
  std::erase_if(libraries, [&](const std::string& library) {
    auto started = ModelPeer::start(
        library, {.threads = threads, .start_timeout = limit_of(options), .stop = [] { return stop_wanted.load(); }});
    if (started.status != PeerStatus::Missing) return false;
    say(cat(library, ": ", started.message));
    for (const std::string& model : options.files) report.skip(model, library, Verdict::Unsupported, started.message);
    return true;
  });
}

// Those of --shape whose input the model has; all, so that the importer says what is wrong, if no model has it.
std::vector<std::string> shapes_of(const BenchModels& options, const std::string& file) {
  auto has = [](const std::string& model, const std::string& shape) {
    std::vector<std::string> inputs = graph::onnx_inputs(model);
    return std::ranges::count(inputs, shape.substr(0, shape.find('='))) > 0;
  };
  std::vector<std::string> out;
  for (const std::string& shape : options.shapes) {
    bool is_known = std::ranges::any_of(options.files, [&](const std::string& other) { return has(other, shape); });
    if (!is_known || has(file, shape)) out.push_back(shape);
  }
  return out;
}

// The relative difference to other libraries that is always allowed.
double least_allowed(const OpenedModel& model) {
  const double rounded = is_quantized(model.imported) ? kMostRelativeOfQuantized : 0;
  return model.precision == DType::F32 ? rounded : std::max(rounded, most_relative(model.precision));
}

// Compiles one model and measures it; an exit code.
int bench_one(const BenchModels& options, const OpenedModel& model, const CompileChoices& choices,
              const std::vector<std::string>& libraries, Report& report) {
  TemporaryFolder folder("model");
  if (folder.path().empty()) return say(folder.problem()), Environment;
  CompiledFolder made;
  if (int code = compile_to({&model, 1}, choices, folder.path(), made); code != Ok) return code;
  if (!made.has_library) return Environment;
  std::string error;
  std::optional<ModelLibrary> library = open_model(folder.path(), error);
  if (!library) return say(error), Environment;
  std::chrono::milliseconds limit = limit_of(options);
  auto stop = [] { return stop_wanted.load(); };
  ModelBench bench{.file = choices.file,
                   .library = *library,
                   .inputs = random_inputs(library->inputs, choices.seed),
                   .against = libraries,
                   .is_quantized = is_quantized(model.imported),
                   .least_allowed = least_allowed(model),
                   .peers = {.threads = choices.threads,
                             .start_timeout = limit,
                             .prepare_timeout = limit,
                             .sample_timeout = limit,
                             .stop = stop},
                   .race = {.seconds = options.seconds, .stop = stop}};
  ModelBenchResult result = bench_model(bench);
  if (!result.error.empty() && !stop_wanted) say(cat(choices.file, ": ", result.error)), report.has_failed = true;
  for (const ModelRow& row : result.rows) report.add(choices.file, choices.threads, row);
  return stop_wanted ? Interrupted : Ok;
}

}  // namespace

std::vector<std::string> model_library_names() {
  std::vector<std::string> names = model_libraries();
  names.emplace_back("torch");
  return names;
}

int bench_models(const BenchModels& options) {
  std::optional<std::vector<std::string>> libraries = parse_against(options.against);
  if (!libraries) return Usage;
  int threads = inference_threads(options.threads);
  if (threads > usable_threads())
    say(cat(threads, " threads share ", usable_threads(),
            " of the machine's cores; these times say little about as many cores"));
  std::vector<CompileChoices> choices;
  std::vector<OpenedModel> models;
  for (const std::string& file : options.files) {
    choices.push_back({.file = file,
                       .database = options.database,
                       .precision = options.precision,
                       .shapes = shapes_of(options, file),
                       .rewrites = options.rewrites,
                       .threads = threads});
    std::optional<OpenedModel> model = open_to_compile(choices.back());
    if (!model) return Usage;
    models.push_back(std::move(*model));
  }
  Report report;
  bool is_asked = !libraries->empty();
  catch_interrupts();
  leave_out_missing(options, threads, *libraries, report);
  if (stop_wanted) return Interrupted;
  if (is_asked && libraries->empty())
    return say("none of the libraries of --against is there, so nothing was compiled"), Environment;
  int code = Ok;
  for (std::size_t i = 0; i < models.size() && code == Ok; ++i)
    code = bench_one(options, models[i], choices[i], *libraries, report);
  report.print(options.json);
  return code != Ok ? code : report.is_wrong ? WrongResults : report.has_failed ? TargetMissed : Ok;
}

}  // namespace tw::cli

// tracewright report: what databases and compiled models have to say, as one page of HTML.
#include <boost/json/serialize.hpp>
#include <filesystem>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/stored.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "sampler/report/report.h"

namespace tw::cli {
namespace {

struct Options {
  std::vector<std::string> sources;
  std::string output;
  double seconds = 1;
  bool json = false;
};

bool is_folder(const std::string& path) {
  std::error_code error;
  return std::filesystem::is_directory(path, error);
}

int add_source(Report& report, const std::string& source, const Options& options) {
  if (is_folder(source)) {
    std::string error;
    bool is_measured = false;
    if (add_model(report, source, options.seconds, error, is_measured)) return Ok;
    return say(error), is_measured ? Environment : Usage;
  }
  std::optional<Database> database = open_database(source, DatabaseMode::Read);
  if (!database || !checked(add_database(report, *database))) return Environment;
  if (database->damaged() > 0)
    say(cat(database->damaged(), " damaged rows were left out; `tracewright db verify ", source, "` says more"));
  return Ok;
}

int make_report(const Options& options) {
  Report report = begin_report();
  for (const std::string& source : options.sources) {
    if (int code = add_source(report, source, options); code != Ok) return code;
  }
  thin_out(report);
  std::string text = options.json ? boost::json::serialize(to_json(report)) + "\n" : report_page(report);
  return write_output(options.output, text) ? Ok : Environment;
}

}  // namespace

int run_report(int count, char** words) {
  Options options;
  App app("report",
          "One HTML page, which needs no network and no other file, of databases and compiled models: tuning curves, "
          "roofline, failures,\ndecisions that matter, timelines of models. Databases are read; the kernels of a model "
          "are timed.",
          "examples:\n  tracewright report tuning.db --output report.html\n"
          "  tracewright report tuning.db resnet18 --output report.html    # and a folder that `compile` wrote");
  app.add_option("SOURCE", options.sources, "databases, and folders that `compile` has written").required();
  app.add_option("--output", options.output, "file to write to, instead of standard output");
  app.add_option("--seconds", options.seconds, "so long the kernels of each model are timed").range(0.0, 3600.0);
  app.add_flag("--json", options.json, "print the data of the page as JSON instead");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  return make_report(options);
}

}  // namespace tw::cli

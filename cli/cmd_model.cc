// tracewright model: cost models learned from databases, and how good they are.
#include <fmt/core.h>

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <ranges>
#include <sstream>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "cli/model_file.h"
#include "cli/open_list.h"
#include "cli/stored.h"
#include "cli/tune_checks.h"
#include "costmodel/evaluation.h"
#include "costmodel/make_model.h"
#include "costmodel/model_bytes.h"
#include "dsl/base/clock.h"
#include "dsl/base/files.h"
#include "dsl/base/temporary_folder.h"
#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "runtime/store/database_exchange.h"
#include "runtime/store/postgres_address.h"
#include "sampler/tasks/model_data.h"
#include "sampler/tasks/model_terms.h"

namespace tw::cli {
namespace {

constexpr const char* kDraft = "draft";  // the analytic model, which learns nothing
constexpr const char* kOwnRecords = "cpu_records.jsonl.gz";
constexpr const char *kLearning = "mlp,xgboost,tree",
                     *kBaselines = "draft,random";  // what eval judges if none is named

struct Options {
  std::vector<std::string> files;
  bool names_models = false;  // `models` are said
  std::string models, model = "auto", objective = "usual", output, effort = "full";
  int folds = 5, seeds = 1, recall = 10, programs = 300;
  bool json = false;
};

// Exported records (lines of JSON) as a database of its own, which is gone when this is.
class ImportedRecords {
 public:
  explicit ImportedRecords(const std::string& path) {
    std::string error = folder_.problem();
    std::optional<std::string> text = error.empty() ? read_exchange_file(path, error) : std::nullopt;
    if (!text) {
      say(error);
      return;
    }
    database_ = open_database(folder_.path() + "/records.db", DatabaseMode::Write);
    std::istringstream lines(std::move(*text));
    std::optional<ImportReport> report = database_ ? checked(import_records(*database_, lines)) : std::nullopt;
    if (!report || report->refused > 0) database_.reset();
    if (report && report->refused > 0) say(cat(path, ": ", report->problems[0]));
  }
  Database* database() { return database_ ? &*database_ : nullptr; }  // null after a message

 private:
  TemporaryFolder folder_{"records"};
  std::optional<Database> database_;
};

bool add_file(ModelData& data, const std::string& path) {
  if (path.ends_with(".jsonl") || path.ends_with(".jsonl.gz")) {
    ImportedRecords records(path);
    return records.database() && checked(add_model_data(data, *records.database()));
  }
  std::optional<Database> database = open_database(path, DatabaseMode::Read);
  return database && checked(add_model_data(data, *database));
}

// The data of all files together, of those that come with tracewright if none is named; nullopt after a message.
std::optional<ModelData> read_data(const Options& options, FeatureKind features) {
  std::vector<std::string> files = options.files;
  if (files.empty()) {
    std::optional<std::string> own = find_shared_file(kOwnRecords);
    if (!own) return say(cat(kOwnRecords, " is not installed: name a database with records")), std::nullopt;
    files.push_back(*own);
  }
  ModelData data{.features = features};
  for (const std::string& path : files) {
    if (!add_file(data, path)) return std::nullopt;
  }
  if (data.left_out > 0) say(cat(data.left_out, " records were left out, the first because ", data.first_left_out));
  if (data.repeated > 0)
    say(cat(data.repeated,
            " records are of a program that an earlier file has, for the same task and machine; they are "
            "taken once"));
  if (data.tasks.empty()) return say("there are no records to learn from"), std::nullopt;
  say(cat(data.data.size(), " candidates of ", data.tasks.size(), " tasks"));
  return data;
}

// ---- data

// How many programs of a task there are to learn from: those of the machine that measures for this database, without
// the untuned one, which has no trace. nullopt after a message.
std::optional<i64> programs_of(const TuneTask& task, Database& database, bool may_have_fleet) {
  const TaskKey key = key_of(task);
  const std::string& own = own_machine(key.target, task.timing);
  std::map<std::string, i64> programs;  // by machine
  DatabaseStatus read = database.visit({.workload = key.workload, .target = key.target}, [&](Record& record) {
    if (record.is_trial() && !record.trace.empty()) ++programs[machine_of(record.host)];
  });
  if (!read) return say_database_error(read.error()), std::nullopt;
  if (!may_have_fleet || programs.contains(own) || programs.empty()) return programs[own];
  return std::ranges::max(programs | std::views::values);
}

// Says which tasks have fewer programs than were asked for. False after a message.
bool say_short_tasks(const Options& options) {
  std::optional<LoadedList> list = open_list(options.files[0]);
  std::optional<Database> database = open_database(options.output, DatabaseMode::Read);
  if (!list || !database) return false;
  bool is_short = false;
  for (const TuneTask& task : list->tasks) {
    std::optional<i64> programs = programs_of(task, *database, is_database_address(options.output));
    if (!programs) return false;
    if (*programs >= options.programs) continue;
    is_short = true;
    say(cat(task.name, ": ", *programs, " of ", options.programs, " programs"));
  }
  if (double seconds = list->list.seconds.value; is_short && seconds > 0)
    say(cat("each of the three runs had the ", seconds,
            " s of the list's budget; the same command goes on where they stopped"));
  return true;
}

// A third of the programs are drawn at random, so that slow ones are there, too; a third are those that the draft model
// prefers, so that its errors are seen; the others a search proposes, among which it has to choose. All are runs of
// `tune`, which go on where they stopped; each has one trial more, since the first is that of the untuned program, of
// which nothing is learned.
int measure_data(const Options& options) {
  if (options.files.size() != 1 || options.output.empty())
    return say("data: name one task list, and the database by --output"), Usage;
  if (options.json) return say("data: --json is not for this action, which prints two tables of `tune`"), Usage;
  struct Part {
    const char *strategy, *model;
    int programs;  // with those of the parts before
  };
  for (const Part& part : {Part{"random", "random", options.programs / 3},
                           Part{"evolutionary", "draft", options.programs - options.programs / 3},
                           Part{"evolutionary", "auto", options.programs}}) {
    std::vector<std::string> words = {"tune",       options.files[0],
                                      "--database", options.output,
                                      "--strategy", part.strategy,
                                      "--model",    part.model,
                                      "--trials",   std::to_string(part.programs + 1),
                                      "--min-gain", "0",
                                      "--transfer", "none"};
    std::vector<char*> pointers;
    for (std::string& word : words) pointers.push_back(word.data());
    int code = run_tune(static_cast<int>(pointers.size()), pointers.data());
    if (code != Ok && code != TargetMissed) return code;
  }
  return say_short_tasks(options) ? Ok : Environment;
}

std::string learned_nothing(int candidates) {
  return cat("learned nothing of ", candidates, " candidates: they are too few");
}

// What --objective says; nullopt after a message.
std::optional<Objective> objective_of(const Options& options) {
  return check_objective(options.objective) ? parse_objective(options.objective) : std::nullopt;
}

// "rank" or "regression"; "" if it learns nothing, or that is not known.
std::string shown_objective(Objective objective) { return objective == Objective::Usual ? "" : name_of(objective); }

// ---- train

int train(const Options& options) {
  if (options.output.empty()) return say("--output: say where the model is to be written"), Usage;
  if (!is_model_name("--model", options.model) || !may_become_model_file(options.output)) return Usage;
  if (!learns(options.model)) return say(cat("--model: `", options.model, "` learns nothing")), Usage;
  std::optional<Objective> objective = objective_of(options);
  if (!objective) return Usage;
  MadeModel made = make_model(options.model, model_columns(options.model), 0, {.objective = *objective});
  if (!made.model) return say(made.note), Environment;
  std::optional<ModelData> data = read_data(options, feature_kind_of(options.model));
  if (!data) return Environment;
  if (!made.note.empty()) say(made.note);
  double begin = seconds_now();
  TrainReport report = made.model->update(data->data, Effort::Full);
  if (!report.problem.empty()) return say(cat("cost model: ", report.problem)), Environment;
  if (report.passes == 0) return say(cat(made.model->name(), " ", learned_nothing(report.candidates))), TargetMissed;
  if (!replace_file(options.output, made.model->save())) return Environment;
  double seconds = seconds_now() - begin;
  if (options.json)
    print_json({{"model", made.model->name()},
                {"objective", name_of(made.model->objective())},
                {"candidates", report.candidates},
                {"tasks", data->tasks.size()},
                {"passes", report.passes},
                {"loss", report.loss},
                {"seconds", seconds}});
  else
    fmt::print("{}, by {}: {} candidates of {} tasks, {} passes, {:.1f} s\n", made.model->name(),
               name_of(made.model->objective()), report.candidates, data->tasks.size(), report.passes, seconds);
  return Ok;
}

// ---- eval

// One row of the table: means over the seeds.
struct Row {
  std::string model;
  Objective objective;
  bool is_default;  // what `tune` uses if nothing is said
  Holdout holdout;
  Evaluation mean;
};

Evaluation evaluate_model(const std::string& name, Objective objective, const ModelData& data, Holdout holdout,
                          const Options& options) {
  Evaluation mean;
  for (int seed = 0; seed < options.seeds; ++seed) {
    const u64 split = static_cast<u64>(seed);
    std::vector<int> fold = holdout == Holdout::Candidates
                                ? folds_of(data.data, options.folds, split)
                                : folds_of(data.data, kinds_of(data, holdout), options.folds, split);
    auto make = [&] {
      return make_model(name, model_columns(name), static_cast<u64>(seed), {.objective = objective}).model;
    };
    Evaluation one =
        name == kDraft
            ? evaluate(data.draft, data.data, fold, options.recall)
            : evaluate(make, data.data, fold, options.effort == "round" ? Effort::Round : Effort::Full, options.recall);
    if (!one.problem.empty()) return one;
    if (learns(name) && one.untaught > 0) mean.untaught = one.untaught;
    double share = 1.0 / options.seeds;
    mean.accuracy.top1 += one.accuracy.top1 * share, mean.accuracy.top5 += one.accuracy.top5 * share;
    mean.accuracy.pairwise += one.accuracy.pairwise * share, mean.accuracy.rank += one.accuracy.rank * share;
    mean.accuracy.recall += one.accuracy.recall * share, mean.accuracy.clear_pairs += one.accuracy.clear_pairs * share;
    mean.accuracy.clear_groups = one.accuracy.clear_groups;
    mean.accuracy.k = one.accuracy.k, mean.accuracy.groups = one.accuracy.groups;
    mean.training_seconds += one.training_seconds * share, mean.scoring_seconds += one.scoring_seconds * share;
  }
  return mean;
}

// Why the shares of a row mean nothing; "" if they do.
std::string why_unknown(const Evaluation& found) {
  if (found.untaught > 0) return learned_nothing(found.untaught);
  return found.accuracy.groups > 0 ? "" : "the parts are too small to compare anything";
}

void print(const std::vector<Row>& rows, const Options& options) {
  constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
  boost::json::array json;
  std::vector<std::vector<std::string>> table;
  for (const Row& row : rows) {
    const Accuracy& found = row.mean.accuracy;
    const std::string why = why_unknown(row.mean);
    auto share = [&](double value) { return why.empty() ? value : kUnknown; };
    auto shown = [](double value) { return std::isnan(value) ? std::string("-") : fmt::format("{:.3f}", value); };
    const double clear_pairs = share(found.clear_groups > 0 ? found.clear_pairs : kUnknown);
    if (!why.empty()) say(cat(row.model, ", ", name_of(row.holdout), ": ", why));
    json.push_back({{"model", row.model},
                    {"objective", shown_objective(row.objective)},
                    {"default", row.is_default},
                    {"split", name_of(row.holdout)},
                    {"top1", json_number(share(found.top1))},
                    {"top5", json_number(share(found.top5))},
                    {"pairwise", json_number(share(found.pairwise))},
                    {"clear_pairs", json_number(clear_pairs)},
                    {"rank", json_number(share(found.rank))},
                    {"recall", json_number(share(found.recall))},
                    {"recall_at", found.k},
                    {"features", row.model == kDraft ? "" : name_of(feature_kind_of(row.model))},
                    {"training_seconds", row.mean.training_seconds},
                    {"scoring_us", row.mean.scoring_seconds * 1e6},
                    {"problem", why}});
    table.push_back({row.model, shown_objective(row.objective), name_of(row.holdout), shown(share(found.top1)),
                     shown(share(found.top5)), shown(share(found.pairwise)), shown(clear_pairs),
                     shown(share(found.rank)), shown(share(found.recall)),
                     fmt::format("{:.1f} s", row.mean.training_seconds),
                     fmt::format("{:.1f} us", row.mean.scoring_seconds * 1e6)});
  }
  if (options.json)
    print_json({{"models", json}});
  else
    print_table({"model", "objective", "split", "top-1", "top-5", "pairs", "clear pairs", "rank",
                 cat("recall@", options.recall), "training", "a score"},
                table);
}

// The models that are judged; empty after a message.
std::vector<std::string> judged_models(const Options& options, Objective objective) {
  if (options.names_models && options.models.empty()) return say("--models: name one"), std::vector<std::string>();
  const bool is_usual = objective == Objective::Usual;
  const std::string usual = is_usual ? cat(kLearning, ",", kBaselines) : kLearning;
  std::vector<std::string> names = split(options.names_models ? options.models : usual, ',');
  for (const std::string& name : names) {
    if (!is_model_name("--models", name)) return {};
    if (!is_usual && !learns(name))
      return say(cat("--objective: `", name, "` learns nothing")), std::vector<std::string>();
  }
  return names;
}

int evaluate_all(const Options& options) {
  if (options.effort != "full" && options.effort != "round")
    return say(cat("--effort: `full` or `round`, not `", options.effort, "`")), Usage;
  const std::optional<Objective> objective = objective_of(options);
  const std::vector<std::string> names = objective ? judged_models(options, *objective) : std::vector<std::string>();
  if (names.empty()) return Usage;
  std::map<FeatureKind, ModelData> by_kind;  // of the same candidates
  const MadeModel standard = make_model("auto", model_columns("auto"), 0);
  std::vector<Row> rows;
  for (const std::string& name : names) {
    MadeModel made = name == kDraft ? MadeModel{} : make_model(name, model_columns(name), 0, {.objective = *objective});
    if (name != kDraft && !made.model) {
      say(made.note);
      continue;
    }
    const Objective learned = made.model ? made.model->objective() : Objective::Usual;
    const bool is_default = made.model && made.model->name() == std::string_view(standard.model->name()) &&
                            learned == standard.model->objective();
    FeatureKind kind = feature_kind_of(name);
    if (!by_kind.contains(kind)) {
      std::optional<ModelData> data = read_data(options, kind);
      if (!data) return Environment;
      if (data->tasks.size() < 2) return say("one task alone says nothing of unseen tasks: name more databases"), Usage;
      by_kind.emplace(kind, std::move(*data));
    }
    for (Holdout holdout : {Holdout::Candidates, Holdout::Tasks, Holdout::Operators}) {
      std::vector<int> kinds = kinds_of(by_kind.at(kind), holdout);
      if (std::ranges::count(kinds, kinds[0]) == std::ssize(kinds) && holdout != Holdout::Candidates) continue;
      say(cat(name, ", ", name_of(holdout)));
      Evaluation found = evaluate_model(name, *objective, by_kind.at(kind), holdout, options);
      if (!found.problem.empty()) return say(cat(name, ": ", found.problem)), Environment;
      rows.push_back({name, learned, is_default, holdout, found});
    }
  }
  if (rows.empty()) return Environment;
  print(rows, options);
  return Ok;
}

// ---- terms

int show_terms(const Options& options) {
  std::optional<ModelData> data = read_data(options, FeatureKind::Stores);
  if (!data) return Environment;
  std::vector<RuleTerms> found = model_terms(*data);
  if (found.empty()) say(cat("no rule has ", kFewestPrograms, " programs that ran on a described GPU"));
  boost::json::array json;
  std::vector<std::vector<std::string>> table;
  for (const RuleTerms& row : found) {
    boost::json::object terms;
    for (const RuleTerms::Term& term : row.terms) terms[term.name] = term.correlation;
    json.push_back({{"task", row.task},
                    {"rule", row.rule},
                    {"programs", row.programs},
                    {"rank", row.rank},
                    {"measured_by_predicted", row.ratio},
                    {"terms", terms}});
    table.push_back({row.task, row.rule, std::to_string(row.programs), fmt::format("{:.2f}", row.rank),
                     fmt::format("{:.2f}", row.ratio),
                     fmt::format("{} {:+.2f}, {} {:+.2f}", row.terms[0].name, row.terms[0].correlation,
                                 row.terms[1].name, row.terms[1].correlation)});
  }
  if (options.json)
    print_json({{"rules", json}});
  else
    print_table({"task", "rule", "programs", "rank", "measured / predicted", "terms that go with the error"}, table);
  return Ok;
}

// ---- show

int show(const Options& options) {
  if (options.files.size() != 1) return say("show: name one file of a model"), Usage;
  std::optional<std::string> bytes = read_file(options.files[0]);
  if (!bytes) return Usage;
  std::optional<ModelHeader> header = model_header(*bytes);
  if (!header) return say(cat(options.files[0], " is no saved cost model")), Usage;
  MadeModel made = open_model(*bytes);
  const std::string problem = made.model ? "" : made.note;
  const std::string objective = shown_objective(made.model ? made.model->objective() : header->objective);
  if (options.json)
    print_json({{"model", header->kind},
                {"objective", objective},
                {"models", header->models},
                {"format", header->version},
                {"features", name_of(feature_kind_of(header->kind))},
                {"columns", header->columns},
                {"bytes", bytes->size()},
                {"problem", problem}});
  else
    fmt::print("{}{}{}, format {}, {} feature columns ({}), {} bytes; {}\n", header->kind,
               objective.empty() ? "" : cat(", by ", objective),
               header->models > 1 ? cat(", ", header->models, " models that predict together") : "", header->version,
               header->columns, name_of(feature_kind_of(header->kind)), bytes->size(),
               problem.empty() ? "this program can load it" : problem);
  return made.model ? Ok : TargetMissed;
}

struct Action {
  const char* name;
  const char* help;
  int (*run)(const Options& options);
};
constexpr Action actions[] = {
    {"data", "measure programs of the tasks of a list, random ones and those of searches, into --output", measure_data},
    {"train", "learn from the records of databases, and write the model to --output (for `tune --model-file`)", train},
    {"eval", "cross-validation on the records of databases: of candidates of known tasks, and of unseen tasks",
     evaluate_all},
    {"terms",
     "the analytic model of GPUs against what was measured: ranks for each rule, and which of its terms is off",
     show_terms},
    {"show", "what the file of a model holds, and whether this program can load it", show},
};

}  // namespace

int run_model(int count, char** words) {
  Options options;
  std::string wanted, help = "Cost models, learned from what databases hold:";
  std::vector<std::string> names;
  for (const Action& action : actions) {
    help += cat("\n  ", action.name, ": ", action.help);
    names.emplace_back(action.name);
  }
  App app("model", help,
          "examples:\n  tracewright model data tasks.yaml --output records.db\n  tracewright model eval tuning.db "
          "--models mlp,tree,draft\n"
          "  tracewright model train tuning.db --output tuning.model");
  app.add_option("ACTION", wanted, join(names, ", ")).required();
  app.add_option("FILE", options.files,
                 "databases with records, or records that `db export` wrote (.jsonl, .jsonl.gz); none: those that come "
                 "with tracewright; show: the file of a model");
  const Option said_models =
      app.add_option("--models", options.models,
                     cat("eval: of ", join(model_names(), ", "), "; if none is said, ", kLearning, ",", kBaselines));
  app.add_option("--folds", options.folds, "eval: parts of the data, each of which is held out once").range(2, 100);
  app.add_option("--seeds", options.seeds, "eval: of splits and models, whose mean is printed").range(1, 100);
  app.add_option("--recall", options.recall,
                 "eval: k of the column recall@k: the share of the k fastest among the k scored best")
      .range(1, 1000000);
  app.add_option("--effort", options.effort, "eval: `full`, or `round`: what a search takes between two batches");
  app.add_option("--model", options.model, cat("train: ", join(model_names(), ", ")));
  app.add_option("--objective", options.objective,
                 cat("train, eval: what the models learn, ", join(objective_names(), ", "),
                     ": what each was made for, as in `tune`, the order of a task's candidates, or their speed"));
  app.add_option("--output", options.output, "train: the file of the model; data: the database");
  app.add_option("--programs", options.programs, "data: different ones of each task").range(2, 1000000);
  app.add_flag("--json", options.json, "print JSON");
  if (std::optional<int> code = app.parse(count, words)) return *code;
  options.names_models = said_models.is_given();
  for (const Action& action : actions) {
    if (wanted == action.name) return action.run(options);
  }
  std::string near = closest(wanted, names);
  say(cat("model: unknown action `", wanted, "`", near.empty() ? "" : cat("; did you mean `", near, "`?")));
  return Usage;
}

}  // namespace tw::cli

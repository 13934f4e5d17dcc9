// Cost models as a search uses them: batches of candidates in the order of measuring, task by task in turn. Each batch
// is scored before it is learned, and the model learns from all before it (Effort::Round). Printed: how good the scores
// were, and what learning and scoring took. What a model can reach with all the time it needs: `tracewright model
// eval`.
//   model_bench DATABASE... [--models mlp,tree:rank] [--tasks 12] [--batch 32] [--seeds 3]
// With --transfer N each task is followed alone, with batches of 8, 16 and 32 as `tune` has them, with and without a
// global model (transfer_model.h) that was trained on other tasks only: tasks are in N folds, and a global model has
// learned from the folds that the task is not in. With --unseen-operators folds are of operators.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <map>
#include <numeric>

#include "costmodel/evaluation.h"
#include "costmodel/features.h"
#include "costmodel/make_model.h"
#include "costmodel/transfer_model.h"
#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "sampler/tasks/model_data.h"

namespace tw::bench {
namespace {

using Batch = std::vector<int>;  // candidates of one task

// Batches of about `tasks` tasks, spread evenly over those of the data, in rounds: the first of each task, the
// second...
std::vector<Batch> batches_of(const ModelData& data, int tasks, int size) {
  int every = std::max(1, static_cast<int>(data.tasks.size()) / tasks);
  std::vector<std::vector<Batch>> of_task(data.tasks.size());
  for (int i = 0; i < data.data.size(); ++i) {
    std::vector<Batch>& own = of_task[data.data.group[i]];
    if (own.empty() || static_cast<int>(own.back().size()) == size) own.emplace_back();
    own.back().push_back(i);
  }
  std::vector<Batch> out;
  for (std::size_t round = 0; round < static_cast<std::size_t>(data.data.size()); ++round) {
    for (std::size_t task = 0; task < of_task.size(); task += every) {
      if (round < of_task[task].size()) out.push_back(of_task[task][round]);
    }
  }
  return out;
}

void add(Dataset& to, const Dataset& from, const Batch& batch) {
  for (int i : batch) to.add(from, i);
}

struct Mean {
  double top1 = 0, top5 = 0, pairwise = 0, learning = 0, scoring = 0;
  int batches = 0;
};

// One search. Batches before the model has learned anything are not counted.
void follow(CostModel& model, const ModelData& data, const std::vector<Batch>& batches, Mean& mean) {
  Dataset learned;
  learned.features.columns = columns_of(data.features);
  for (const Batch& batch : batches) {
    if (learned.size() > 0) {
      Dataset next;
      next.features.columns = columns_of(data.features);
      add(next, data.data, batch);
      double begin = seconds_now();
      std::vector<float> scores = model.predict(next.features);
      mean.scoring += seconds_now() - begin;
      Accuracy found = accuracy(scores, next.seconds, next.group);
      if (found.groups > 0)
        mean.top1 += found.top1, mean.top5 += found.top5, mean.pairwise += found.pairwise, ++mean.batches;
    }
    add(learned, data.data, batch);
    double begin = seconds_now();
    TrainReport report = model.update(learned, Effort::Round);
    mean.learning += seconds_now() - begin;
    if (!report.problem.empty()) std::printf("%s: %s\n", model.name(), report.problem.c_str());
  }
}

// ---- transfer

constexpr int kBatches = 3;
constexpr std::size_t batch_sizes[kBatches] = {8, 16, 32};

struct Options {
  int folds = 0, seeds = 1;
  bool unseen_operators = false;
  std::vector<std::string> models;
};

// The fold of each task.
std::vector<int> task_folds(const ModelData& data, const Options& options) {
  std::vector<int> fold = kinds_of(data, options.unseen_operators ? Holdout::Operators : Holdout::Tasks);
  for (int& kind : fold) kind %= options.folds;
  return fold;
}

ModelOptions model_options(const std::string& objective) { return {.objective = parse_objective(objective).value()}; }

std::unique_ptr<CostModel> new_model(const std::string& name, u64 seed) {
  std::vector<std::string> parts = split(name + ":usual", ':');
  MadeModel made = make_model(parts[0], feature_columns(), seed, model_options(parts[1]));
  TW_CHECK(made.model, "a model that cannot run here");
  return std::move(made.model);
}

// Means over tasks of what each batch was scored by. A model that has learned nothing gives way to the draft model, as
// in `tune`.
struct Followed {
  double top1[kBatches] = {}, pairwise[kBatches] = {};
  int tasks[kBatches] = {};
};

void follow_task(CostModel* model, bool is_ready, bool learns, const ModelData& data, int task, Followed& sum) {
  std::vector<Batch> batches(kBatches);
  for (int i = 0, batch = 0; i < data.data.size() && batch < kBatches; ++i) {
    if (data.data.group[i] != task) continue;
    batches[batch].push_back(i);
    batch += batches[batch].size() == batch_sizes[batch];
  }
  Dataset learned;
  learned.features.columns = feature_columns();
  for (int b = 0; b < kBatches; ++b) {
    Dataset next;
    next.features.columns = feature_columns();
    add(next, data.data, batches[b]);
    std::vector<float> scores;
    if (model && is_ready)
      scores = model->predict(next.features);
    else
      for (int i : batches[b]) scores.push_back(data.draft[i]);
    Accuracy found = accuracy(scores, next.seconds, next.group);
    if (found.groups > 0) sum.top1[b] += found.top1, sum.pairwise[b] += found.pairwise, ++sum.tasks[b];
    add(learned, data.data, batches[b]);
    // As in tune(): a first batch alone is too little to learn from.
    if (!model || !learns || learned.size() < 16) continue;
    model->update(learned, Effort::Round);
    is_ready = true;
  }
}

void print(const std::string& name, const Followed& sum) {
  std::printf("%-26s", name.c_str());
  for (int b = 0; b < kBatches; ++b)
    std::printf("  batch %d: top-1 %.3f pairs %.3f", b + 1, sum.top1[b] / std::max(1, sum.tasks[b]),
                sum.pairwise[b] / std::max(1, sum.tasks[b]));
  std::printf("\n");
}

void compare_transfer(const ModelData& data, const Options& options) {
  std::vector<int> fold = task_folds(data, options);
  std::map<std::string, Followed> found;
  for (int f = 0; f < options.folds; ++f) {
    Dataset others = part_of(data.data, [&](int i) { return fold[data.data.group[i]] != f; });
    for (int seed = 0; seed < options.seeds; ++seed) {
      u64 number = static_cast<u64>(seed);
      std::unique_ptr<CostModel> trained = new_model("mlp", number);
      trained->update(others, Effort::Full);
      std::string bytes = trained->save();
      for (int task = 0; task < static_cast<int>(fold.size()); ++task) {
        if (fold[task] != f) continue;
        follow_task(nullptr, false, false, data, task, found["draft"]);
        follow_task(trained.get(), true, false, data, task, found["global"]);
        MadeModel adjusted = open_model(bytes, feature_columns());
        follow_task(adjusted.model.get(), true, true, data, task, found["global, adjusted"]);
        for (const std::string& name : options.models) {
          std::unique_ptr<CostModel> scratch = new_model(name, number);
          follow_task(scratch.get(), false, true, data, task, found[name]);
          TransferModel both(open_model(bytes, feature_columns()).model, new_model(name, number));
          follow_task(&both, true, true, data, task, found["global + " + name]);
        }
      }
    }
  }
  for (const auto& [name, sum] : found) print(name, sum);
}

// False after a message.
bool read_data(ModelData& data, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    auto database = Database::open(path, DatabaseMode::Read);
    if (!database) return std::fprintf(stderr, "%s\n", database.error().c_str()), false;
    if (auto added = add_model_data(data, *database); !added) return std::puts(added.error().c_str()), false;
  }
  return true;
}

}  // namespace
}  // namespace tw::bench

int main(int count, char** words) {
  using namespace tw;
  std::vector<std::string> paths, models = {"mlp", "tree"};
  int tasks = 12, batch = 32, seeds = 3, transfer = 0;
  bool unseen_operators = false;
  CLI::App app("Cost models as a search uses them.");
  app.add_option("DATABASE", paths, "with records")->required();
  app.add_option("--models", models, "to compare: NAME or NAME:OBJECTIVE")->delimiter(',');
  app.add_option("--tasks", tasks, "of the databases, every n-th");
  app.add_option("--batch", batch, "candidates scored, and then learned, at once");
  app.add_option("--seeds", seeds, "of every model");
  app.add_option("--transfer", transfer, "follow tasks alone, with and without a global model; folds of tasks");
  app.add_flag("--unseen-operators", unseen_operators, "--transfer: the global model has seen no task of the operator");
  CLI11_PARSE(app, count, words);
  if (transfer > 1) {
    ModelData data;
    return bench::read_data(data, paths)
               ? (bench::compare_transfer(data, {transfer, seeds, unseen_operators, models}), 0)
               : 1;
  }
  for (const std::string& name : models) {
    std::vector<std::string> parts = split(name + ":usual", ':');
    ModelOptions how{.objective = parse_objective(parts[1]).value()};
    ModelData data{.features = feature_kind_of(parts[0])};
    if (!bench::read_data(data, paths)) return 1;
    std::vector<bench::Batch> batches = bench::batches_of(data, tasks, batch);
    bench::Mean mean;
    for (int seed = 0; seed < seeds; ++seed) {
      MadeModel made = make_model(parts[0], model_columns(parts[0]), static_cast<u64>(seed), how);
      if (!made.model) return std::puts(made.note.c_str()), 1;
      bench::follow(*made.model, data, batches, mean);
    }
    double counted = std::max(1, mean.batches), all = static_cast<double>(batches.size()) * seeds;
    std::printf("%-18s top-1 %.3f  top-5 %.3f  pairs %.3f  learning %.0f ms a batch  scoring %.2f ms a batch\n",
                name.c_str(), mean.top1 / counted, mean.top5 / counted, mean.pairwise / counted,
                mean.learning / all * 1e3, mean.scoring / all * 1e3);
  }
  return 0;
}

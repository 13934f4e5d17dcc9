// Cost models as a search uses them: batches of candidates in the order of measuring, task by task in turn. Each batch
// is scored before it is learned, and the model learns from all before it (Effort::Round). Printed: how good the scores
// were, and what learning and scoring took. What a model can reach with all the time it needs: `tracewright model
// eval`.
//   model_bench DATABASE... [--models mlp,tree:rank] [--tasks 12] [--batch 32] [--seeds 3]
#include <CLI/CLI.hpp>
#include <cstdio>

#include "costmodel/evaluation.h"
#include "costmodel/features.h"
#include "costmodel/make_model.h"
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
  for (int i : batch) {
    to.features.add(from.features, i);
    to.seconds.push_back(from.seconds[i]);
    to.group.push_back(from.group[i]);
  }
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

}  // namespace
}  // namespace tw::bench

int main(int count, char** words) {
  using namespace tw;
  std::vector<std::string> paths, models = {"mlp", "tree"};
  int tasks = 12, batch = 32, seeds = 3;
  CLI::App app("Cost models as a search uses them.");
  app.add_option("DATABASE", paths, "with records")->required();
  app.add_option("--models", models, "to compare: NAME or NAME:OBJECTIVE")->delimiter(',');
  app.add_option("--tasks", tasks, "of the databases, every n-th");
  app.add_option("--batch", batch, "candidates scored, and then learned, at once");
  app.add_option("--seeds", seeds, "of every model");
  CLI11_PARSE(app, count, words);
  for (const std::string& name : models) {
    std::vector<std::string> parts = split(name + ":usual", ':');
    ModelOptions how{.objective = parse_objective(parts[1]).value()};
    ModelData data{.features = feature_kind_of(parts[0])};
    for (const std::string& path : paths) {
      auto database = Database::open(path, DatabaseMode::Read);
      if (!database) return std::fprintf(stderr, "%s\n", database.error().c_str()), 1;
      if (auto added = add_model_data(data, *database); !added) return std::puts(added.error().c_str()), 1;
    }
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

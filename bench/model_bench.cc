// Cost models compared on measured candidates: the first half of each task's records (in the order of measuring) is
// learned, the second half is ranked; or every other one is (--interleaved), so that slow ones are ranked too, which a
// search meets in its beginning only. Printed: share of pairs in the right order, the time of the fastest over that of
// the best-scored one (1 = found), and what learning and scoring take.
//   model_bench LIST.yaml DATABASE [--models tree,mlp:regression,random] [--share 0.5] [--interleaved] [--seeds 3]
//   [--together]
#include <CLI/CLI.hpp>
#include <cstdio>

#include "bench/list_of.h"
#include "costmodel/accuracy.h"
#include "costmodel/make_model.h"
#include "dsl/base/clock.h"
#include "sampler/search/task_state.h"

namespace tw::bench {
namespace {

class Quiet : public TuneObserver {
 public:
  void on_trial(const std::vector<TaskProgress>&, std::size_t, const Record&) override {}
  void on_message(const std::string& text) override { std::fprintf(stderr, "%s\n", text.c_str()); }
};

struct Halves {
  Dataset learned, ranked;
};

void add_task(const TaskState& state, int group, double share, bool interleaved, Halves& out) {
  std::size_t learned = static_cast<std::size_t>(static_cast<double>(state.sample.size()) * share), i = 0;
  state.sample.each([&](const auto& entry) {
    Dataset& half = (interleaved ? i % 2 == 0 : i < learned) ? out.learned : out.ranked;
    half.features.add(entry.value.features);
    half.seconds.push_back(entry.seconds);
    half.group.push_back(group);
    ++i;
  });
}

Halves read(const LoadedList& list, Database& database, double share, bool interleaved) {
  Halves out;
  out.learned.features.columns = out.ranked.features.columns = feature_columns();
  Quiet quiet;
  for (std::size_t i = 0; i < list.tasks.size(); ++i) {
    TaskState state;
    open_task(state, list.tasks[i], list.library, {.trials = 0, .rules = list.list.rules.value}, database, quiet);
    add_task(state, static_cast<int>(i), share, interleaved, out);
    std::printf("%s: %zu records\n", list.tasks[i].name.c_str(), state.sample.size());
  }
  return out;
}

// One model, with several seeds: means.
void measure(const std::string& name, const Halves& data, int seeds) {
  Accuracy mean;
  double learning[2] = {0, 0}, scoring = 0;
  for (int seed = 0; seed < seeds; ++seed) {
    const std::size_t colon = name.find(':');
    const ModelOptions options{.objective = colon == name.npos ? Objective::Usual
                                                               : parse_objective(name.substr(colon + 1)).value()};
    MadeModel made = make_model(name.substr(0, colon), feature_columns(), static_cast<u64>(seed), options);
    if (!made.model) return void(std::printf("%-20s %s\n", name.c_str(), made.note.c_str()));
    for (int pass = 0; pass < 2; ++pass) {  // the first one may include opening libraries
      double begin = seconds_now();
      TrainReport report = made.model->update(data.learned, Effort::Round);
      learning[pass] += (seconds_now() - begin) / seeds;
      if (!report.problem.empty()) std::printf("%s: %s\n", name.c_str(), report.problem.c_str());
    }
    double begin = seconds_now();
    std::vector<float> scores = made.model->predict(data.ranked.features);
    scoring += (seconds_now() - begin) / seeds;
    Accuracy found = accuracy(scores, data.ranked.seconds, data.ranked.group);
    mean.top1 += found.top1 / seeds, mean.top5 += found.top5 / seeds;
    mean.pairwise += found.pairwise / seeds, mean.recall += found.recall / seeds;
    mean.k = found.k, mean.groups = found.groups;
  }
  std::printf("%-20s %s  learning %.0f ms, then %.0f ms  scoring %.2f us/candidate\n", name.c_str(),
              to_string(mean).c_str(), learning[0] * 1e3, learning[1] * 1e3,
              scoring * 1e6 / std::max(1, data.ranked.size()));
}

// The part of a dataset that belongs to one task.
Dataset only(const Dataset& all, int group) {
  Dataset out;
  out.features.columns = all.features.columns;
  for (int i = 0; i < all.size(); ++i) {
    if (all.group[i] != group) continue;
    out.features.add(all.features, i);
    out.seconds.push_back(all.seconds[i]);
    out.group.push_back(group);
  }
  return out;
}

}  // namespace
}  // namespace tw::bench

int main(int count, char** words) {
  using namespace tw;
  std::string path, database_path;
  std::vector<std::string> models = {"tree", "mlp", "random"};
  double share = 0.5;
  int seeds = 3;
  bool interleaved = false, together = false;
  CLI::App app("Cost models compared on measured candidates.");
  app.add_option("LIST", path, "the task list, YAML")->required();
  app.add_option("DATABASE", database_path, "with records of its tasks")->required();
  app.add_option("--models", models, "to compare; NAME or NAME:OBJECTIVE")->delimiter(',');
  app.add_option("--share", share, "of each task's records that is learned");
  app.add_flag("--interleaved", interleaved, "every other record is learned");
  app.add_option("--seeds", seeds, "of every model");
  app.add_flag("--together", together, "one model for all tasks only, none for each task alone");
  CLI11_PARSE(app, count, words);
  std::optional<LoadedList> list = bench::list_of(path);
  if (!list) return 2;
  auto database = Database::open(database_path, DatabaseMode::Write);
  if (!database) return std::fprintf(stderr, "%s\n", database.error().c_str()), 1;
  bench::Halves data = bench::read(*list, *database, share, interleaved);
  std::printf("\nall tasks, one model: %d records learned, %d ranked\n", data.learned.size(), data.ranked.size());
  for (const std::string& model : models) bench::measure(model, data, seeds);
  for (std::size_t i = 0; i < list->tasks.size() && !together; ++i) {
    int group = static_cast<int>(i);
    std::printf("\n%s alone\n", list->tasks[i].name.c_str());
    for (const std::string& model : models) {
      bench::measure(model, {bench::only(data.learned, group), bench::only(data.ranked, group)}, seeds);
    }
  }
  return 0;
}

#include "sampler/models/whole_model.h"

#include <functional>
#include <memory>
#include <numeric>

#include "dsl/base/quantile.h"
#include "dsl/base/temporary_folder.h"
#include "runtime/peers/model_race.h"
#include "sampler/models/served_library.h"

namespace tw {
namespace {

// A library with its process, in a folder that is removed with the object.
class TemporaryLibrary {
 public:
  // Nothing runs where `error` says why.
  TemporaryLibrary(const graph::Graph& graph, const ModelTasks& tasks, const ModelOptions& options, std::string& error)
      : threads_(options.target.threads) {
    std::optional<ExportPlan> plan = compile_model(graph, tasks, options, error);
    if (!plan) return;
    plan->make_static = false;
    error = folder_.problem();
    if (!error.empty()) return;
    ExportResult written = write_export(*plan, folder_.path());
    error = written.error + written.note;
    if (error.empty()) library_ = open_model(folder_.path(), error);
    if (!library_) return;
    inputs_ = random_inputs(library_->inputs, options.seed);
    served_.emplace(*library_, inputs_, threads_);
    PeerResult<std::unique_ptr<ModelPeer>> started =
        ModelPeer::start("tracewright", *served_, patient({.threads = threads_}));
    if (started) peer_ = std::move(started.value);
    PeerResult<std::string> loaded =
        started ? peer_->load("", library_->inputs, inputs_, library_->outputs.size()) : PeerResult<std::string>{};
    if (!started || !loaded) error = started ? loaded.message : started.message;
  }

  ModelPeer* peer() const { return peer_.get(); }
  double seconds_of_steps(double seconds, std::string& error) const {
    std::vector<double> steps = time_steps(*library_, inputs_, threads_, seconds, error);
    return std::accumulate(steps.begin(), steps.end(), 0.0);
  }

 private:
  TemporaryFolder folder_{"model"};
  int threads_;
  std::optional<ModelLibrary> library_;
  std::vector<HostArray> inputs_;
  std::optional<ServedLibrary> served_;
  std::unique_ptr<ModelPeer> peer_;
};

}  // namespace

std::optional<WholeModelTimes> time_whole_model(const graph::Graph& graph, const ModelTasks& tasks,
                                                const ModelOptions& options, double seconds, std::string& error) {
  ModelOptions with_first = options;
  with_first.which = WhichRecord::FirstMeasured;
  TemporaryLibrary best(graph, tasks, options, error);
  if (!error.empty()) return std::nullopt;
  TemporaryLibrary first(graph, tasks, with_first, error);
  if (!error.empty()) return std::nullopt;
  std::vector<Racer> racers{{.peer = best.peer()}, {.peer = first.peer()}};
  race(racers, {.seconds = seconds, .stop = options.stop});
  for (const Racer& racer : racers) {
    if (!racer.problem.empty()) return error = racer.problem, std::nullopt;
  }
  double kernels = best.seconds_of_steps(seconds / 2, error);
  if (!error.empty() || racers[0].times.empty()) return std::nullopt;
  return WholeModelTimes{median(racers[1].times), median(racers[0].times), median(racers[1].ratios), kernels};
}

}  // namespace tw

#include "sampler/models/bench_model.h"

#include <algorithm>
#include <memory>

#include "dsl/base/quantile.h"
#include "dsl/base/text.h"
#include "sampler/models/check_model.h"
#include "sampler/models/served_library.h"

namespace tw {
namespace {

constexpr const char* kOurs = "tracewright";

struct Entrant {
  ModelRow row;
  std::unique_ptr<ModelPeer> peer;  // null, or not to be timed, where the row has a verdict that says so
  std::vector<HostArray> outputs;
};

void refuse(Entrant& entrant, PeerStatus status, const std::string& why) {
  bool cannot = status == PeerStatus::Missing || status == PeerStatus::Unsupported;
  entrant.row.verdict = cannot ? Verdict::Unsupported : Verdict::Failed;
  entrant.row.detail = why;
  entrant.peer.reset();
}

// Starts the peer, loads the model, gets its outputs.
Entrant enter(const ModelBench& bench, const std::string& library, PeerResult<std::unique_ptr<ModelPeer>> started) {
  Entrant out;
  out.row.library = library;
  if (!started) return refuse(out, started.status, started.message), std::move(out);
  out.peer = std::move(started.value);
  out.row.version = out.peer->version();
  const std::vector<KernelArgument>& tensors = bench.library.outputs;
  PeerResult<std::string> loaded = out.peer->load(bench.file, bench.library.inputs, bench.inputs, tensors.size());
  if (!loaded) return refuse(out, loaded.status, loaded.message), std::move(out);
  out.row.detail = loaded.value;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    PeerResult<HostArray> output = out.peer->output(i, tensors[i].dtype, tensors[i].shape);
    if (!output) return refuse(out, output.status, output.message), std::move(out);
    out.outputs.push_back(std::move(output.value));
  }
  return out;
}

// Compares with our outputs; what differs is not timed.
void compare(const ModelBench& bench, const Entrant& ours, Entrant& other) {
  for (std::size_t i = 0; i < other.outputs.size(); ++i) {
    const KernelArgument& tensor = bench.library.outputs[i];
    ModelDifference found = difference(other.outputs[i], ours.outputs[i], bench.is_quantized);
    other.row.difference = std::max(other.row.difference, found.relative);
    double most = std::max(most_relative(tensor.dtype), bench.least_allowed);
    if (other.row.verdict == Verdict::Wrong || !found.is_wrong(most)) continue;
    other.row.verdict = Verdict::Wrong;
    std::string how = found.different > 0 ? cat("in ", found.different, " elements that must be equal")
                                          : cat("by ", found.relative, ", more than ", most);
    other.row.detail =
        cat("output `", tensor.name, "` differs from ours ", how, "; `compile --check` says whether ours is right");
    other.peer.reset();
  }
  other.outputs.clear();
}

void add_times(ModelRow& row, const Racer& racer) {
  row.rounds = static_cast<int>(racer.times.size());
  if (!racer.problem.empty()) {
    row.verdict = Verdict::Failed, row.detail = racer.problem;
    return;
  }
  row.seconds = quantile(racer.times, 0.5);
  row.lower = quantile(racer.times, 0.25), row.upper = quantile(racer.times, 0.75);
  row.ratio = quantile(racer.ratios, 0.5);
  row.ratio_lower = quantile(racer.ratios, 0.25), row.ratio_upper = quantile(racer.ratios, 0.75);
  if (row.ratio_lower > 1) row.verdict = Verdict::Faster;
  if (row.ratio_upper < 1) row.verdict = Verdict::Slower;
}

}  // namespace

ModelBenchResult bench_model(const ModelBench& bench) {
  ModelBenchResult result;
  ServedLibrary model(bench.library, bench.inputs, bench.peers.threads);
  std::vector<Entrant> entrants;
  entrants.push_back(enter(bench, kOurs, ModelPeer::start(kOurs, model, patient(bench.peers))));
  if (!entrants[0].peer) return result.error = entrants[0].row.detail, result;
  for (const std::string& library : bench.against) {
    if (bench.race.stop && bench.race.stop()) break;
    entrants.push_back(enter(bench, library, ModelPeer::start(library, bench.peers)));
    if (entrants.back().peer) compare(bench, entrants[0], entrants.back());
  }
  std::vector<Racer> racers;
  for (const Entrant& entrant : entrants) {
    if (entrant.peer) racers.push_back({.peer = entrant.peer.get()});
  }
  race(racers, bench.race);
  if (!racers[0].problem.empty()) return result.error = racers[0].problem, result;
  std::size_t next = 0;
  for (Entrant& entrant : entrants) {
    if (entrant.peer) add_times(entrant.row, racers[next++]);
    result.rows.push_back(std::move(entrant.row));
  }
  return result;
}

}  // namespace tw

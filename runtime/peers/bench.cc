#include "runtime/peers/bench.h"

#include <algorithm>
#include <cmath>

#include "backends/target.h"
#include "dsl/base/quantile.h"
#include "dsl/base/text.h"
#include "runtime/measure/elements.h"

namespace tw {
namespace {

constexpr double sample_nanoseconds = 2e6;  // a sample repeats a kernel for about so long

// How many calls make one sample. `sample` gives the nanoseconds of so many calls, or nothing. The
// first ones may be slow: cold caches, threads that wake up.
template <class Sample>
i64 calibrate(Sample sample) {
  double best = sample_nanoseconds;
  i64 calls = 1;
  for (int i = 0; i < 4; ++i) {
    std::optional<double> took = sample(calls);
    if (!took) return 1;
    best = std::min(best, *took / static_cast<double>(calls));
    calls = std::clamp<i64>(static_cast<i64>(sample_nanoseconds / std::max(best, 1.0)), 1, 1'000'000);
  }
  return calls;
}

// A library in the race.
struct Rival {
  std::string library;
  std::unique_ptr<Peer> peer;
  PeerKernel kernel;
  i64 calls = 1;
  std::vector<double> times, ratios;  // seconds of a call; its time / our time
  std::string problem;
  bool is_unsupported = false;

  bool alive() const { return problem.empty(); }
  // Seconds of one call, or 0 after a failure.
  double sample() {
    PeerResult<double> took = peer->sample(calls);
    if (!took) problem = took.message;
    return took ? took.value * 1e-9 / static_cast<double>(calls) : 0;
  }
};

Rival enter(const std::string& library, const PeerProblem& problem, int threads, int vector_bits) {
  Rival rival{library, nullptr, {}, 1, {}, {}, ""};
  PeerOptions options;
  options.threads = threads;
  options.vector_bits = vector_bits <= 256 ? 256 : 0;
  PeerResult<std::unique_ptr<Peer>> started = Peer::start(library, options);
  rival.problem = started.message;
  if (!started) return rival;
  rival.peer = std::move(started.value);
  PeerResult<PeerKernel> prepared = rival.peer->prepare(problem);
  rival.problem = prepared.message;
  rival.is_unsupported = prepared.status == PeerStatus::Unsupported;
  if (!prepared) return rival;
  rival.kernel = prepared.value;
  rival.calls = calibrate([&](i64 calls) -> std::optional<double> {
    PeerResult<double> took = rival.peer->sample(calls);
    rival.problem = took.message;
    return took ? std::optional(took.value) : std::nullopt;
  });
  return rival;
}

// Runs the pairs: in every round ours and each rival in turn, who begins changes from round to
// round.
struct Race {
  KernelProcess& ours;
  i64 our_calls;
  std::vector<double> our_times;

  double sample_ours() {
    std::optional<double> took = ours.sample(our_calls);
    if (!took) return 0;
    our_times.push_back(*took * 1e-9 / static_cast<double>(our_calls));
    return our_times.back();
  }
  bool run(std::vector<Rival>& rivals, int rounds) {
    for (int round = 0; round < rounds; ++round) {
      for (Rival& rival : rivals) {
        if (!rival.alive()) continue;
        bool ours_first = round % 2 == 0;
        double first = ours_first ? sample_ours() : rival.sample(),
               second = ours_first ? rival.sample() : sample_ours();
        if (!ours.error().empty()) return false;
        if (!rival.alive()) continue;
        rival.times.push_back(ours_first ? second : first);
        rival.ratios.push_back(rival.times.back() / our_times.back());
      }
    }
    return true;
  }
};

// The results of a task's reference kernel.
class Reference {
 public:
  // Runs it once; `problem` says why that failed.
  Reference(const BenchTask& task, std::string& problem) : tolerance_(task.tolerance) {
    process_ = KernelProcess::start(task.reference, task.inputs, usable_threads(), problem);
    if (process_ && !process_->sample(0)) problem = process_->error();
    if (!problem.empty()) problem = cat("the reference: ", problem);
  }

  // "" if an output is right within rounding, else a description of the difference.
  std::string difference(const std::string& output, const Elements& actual) const {
    const KernelProcess::Output *expected = find(output), *variances = find(output + std::string(kVarianceSuffix));
    if (!expected) return cat("the reference has no output `", output, "`");
    Elements right{expected->data, expected->dtype, expected->bytes / bytes_of(expected->dtype)};
    if (actual.count != right.count)
      return cat("has ", actual.count, " elements of output, the reference has ", right.count);
    Comparison found =
        compare(actual, right, tolerance_, variances ? reinterpret_cast<const double*>(variances->data) : nullptr);
    return found.is_right() ? ""
                            : cat("output `", output, "`: ", difference_text(found, actual.count, "the first one"));
  }

 private:
  const KernelProcess::Output* find(const std::string& name) const {
    for (const KernelProcess::Output& output : process_->outputs()) {
      if (output.name == name) return &output;
    }
    return nullptr;
  }

  Tolerance tolerance_;
  std::unique_ptr<KernelProcess> process_;
};

// Compares all outputs of our kernel.
std::string difference(const KernelProcess& ours, const Reference& reference) {
  for (const KernelProcess::Output& output : ours.outputs()) {
    std::string wrong =
        reference.difference(output.name, {output.data, output.dtype, output.bytes / bytes_of(output.dtype)});
    if (!wrong.empty()) return wrong;
  }
  return "";
}

// Compares the one output of a library.
std::string difference(Rival& rival, const KernelProcess& ours, const Reference& reference) {
  PeerResult<std::vector<float>> theirs = rival.peer->output();
  if (!theirs) return theirs.message;
  return reference.difference(ours.outputs()[0].name, {reinterpret_cast<const char*>(theirs.value.data()), DType::F32,
                                                       static_cast<i64>(theirs.value.size())});
}

BenchRow row_of(Rival& rival, const KernelProcess& ours, const Reference& reference) {
  BenchRow row{.library = rival.library,
               .seconds = quantile(rival.times, 0.5),
               .ratio = quantile(rival.ratios, 0.5),
               .lower = quantile(rival.ratios, 0.25),
               .upper = quantile(rival.ratios, 0.75),
               .pairs = static_cast<int>(rival.ratios.size()),
               .verdict = Verdict::Same,
               .detail = rival.kernel.detail,
               .version = rival.peer ? rival.peer->version() : ""};
  std::string wrong = rival.alive() ? difference(rival, ours, reference) : "";
  if (!rival.alive())
    row.verdict = rival.is_unsupported ? Verdict::Unsupported : Verdict::Failed, row.detail = rival.problem;
  else if (!wrong.empty())
    row.verdict = Verdict::Wrong, row.detail = wrong;
  else if (row.lower > 1)
    row.verdict = Verdict::Faster;
  else if (row.upper < 1)
    row.verdict = Verdict::Slower;
  return row;
}

// Ours against the probe: the share of the peak in each pair.
BenchRow own_row(const BenchTask& task, const Race& race, const Rival& fma) {
  std::vector<double> shares;
  for (std::size_t i = 0; i < fma.times.size(); ++i) {
    double peak = fma.kernel.flops / fma.times[i], ours = task.flops * fma.ratios[i] / fma.times[i];
    shares.push_back(ours / peak);
  }
  BenchRow row{.library = "tracewright",
               .seconds = quantile(race.our_times, 0.5),
               .ratio = quantile(shares, 0.5),
               .lower = quantile(shares, 0.25),
               .upper = quantile(shares, 0.75),
               .pairs = static_cast<int>(shares.size()),
               .verdict = Verdict::Same,
               .detail = fma.problem};
  row.peak_share = row.ratio;
  return row;
}

const PeerProblem fma_problem{"fma", {}, {}, {}};

}  // namespace

const char* name_of(Verdict verdict) {
  constexpr const char* names[] = {"faster", "slower", "same", "wrong", "failed", "unsupported"};
  return names[static_cast<int>(verdict)];
}

BenchResult bench_task(const BenchTask& task, const std::vector<std::string>& libraries, int pairs) {
  BenchResult result;
  const Reference reference(task, result.error);
  if (!result.error.empty()) return result;
  std::unique_ptr<KernelProcess> ours = KernelProcess::start(task.kernel, task.inputs, task.threads, result.error);
  if (!ours) return result;
  i64 our_calls = calibrate([&](i64 calls) { return ours->sample(calls); });
  if (!ours->error().empty()) return result.error = ours->error(), result;
  std::vector<Rival> rivals;
  rivals.push_back(enter("fma", fma_problem, task.threads, task.vector_bits));
  for (const std::string& library : libraries) {
    if (!task.problem.op.empty() && library != "fma")
      rivals.push_back(enter(library, task.problem, task.threads, task.vector_bits));
  }
  Race race{*ours, our_calls, {}};
  if (!race.run(rivals, pairs)) return result.error = ours->error(), result;
  for (int i = 0; race.our_times.empty() && i < pairs; ++i) race.sample_ours();  // nobody to race with
  const Rival& fma = rivals[0];
  double fma_seconds = quantile(fma.times, 0.5);
  result.fma_gflops = fma_seconds > 0 ? fma.kernel.flops / fma_seconds * 1e-9 : 0;
  result.rows.push_back(own_row(task, race, fma));
  if (std::string wrong = difference(*ours, reference); !wrong.empty())
    result.rows[0].verdict = Verdict::Wrong, result.rows[0].detail = wrong;
  for (std::size_t i = 1; i < rivals.size(); ++i) {
    BenchRow row = row_of(rivals[i], *ours, reference);
    if (row.seconds > 0 && result.fma_gflops > 0) row.peak_share = task.flops / row.seconds * 1e-9 / result.fma_gflops;
    result.rows.push_back(std::move(row));
  }
  return result;
}

double measure_fma_peak(int threads, int vector_bits) {
  constexpr int samples = 20;
  Rival fma = enter("fma", fma_problem, threads, vector_bits);
  for (int i = 0; i < samples && fma.alive(); ++i) {
    if (double took = fma.sample(); took > 0) fma.times.push_back(took);
  }
  double seconds = quantile(fma.times, 0.5);
  return seconds > 0 ? fma.kernel.flops / seconds * 1e-9 : 0;
}

}  // namespace tw

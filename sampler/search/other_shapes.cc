#include "sampler/search/other_shapes.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>

#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "dsl/schedule/parse_schedule.h"
#include "dsl/text/workload.h"
#include "sampler/space/other_sketches.h"

namespace tw {
namespace {

constexpr std::size_t kMostSources = 4, kMostTraces = 32;
constexpr int kTries = 4;  // of a trace that is rejected in the new shape

bool is_of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

// How far apart two shapes are: their extents in octaves.
double distance(const std::vector<i64>& a, const std::vector<i64>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    sum += std::abs(std::log2(static_cast<double>(a[i] + 1) / static_cast<double>(b[i] + 1)));
  return sum;
}

// Records of one workload that one machine measured for one target, and how near they are to a task.
struct Origin {
  double distance = 0;
  bool is_other_target = false, is_other_machine = false;
  std::string workload, target, machine;
  auto order() const { return std::tie(distance, is_other_target, is_other_machine, workload, target, machine); }
  bool operator<(const Origin& other) const { return order() < other.order(); }
};

using Best = BoundedSample<std::string>;

// The kind of a target's text is its first word.
std::string_view kind_of(std::string_view target) { return target.substr(0, target.find(' ')); }

DatabaseStatus read_origins(const TaskState& state, Database& database, const std::string& workload, double distance,
                            const std::function<bool()>& stop, std::map<Origin, Best>& origins) {
  return database.visit({.workload = workload, .stop = stop}, [&](Record& record) {
    std::optional<Hash128> program = parse_hash(record.program);
    if (!program || !record.ok() || !record.is_trial() || record.trace.empty()) return;
    if (kind_of(record.target) != kind_of(state.target_key)) return;
    std::string machine = machine_of(record.host);
    Origin origin{distance, record.target != state.target_key, machine != state.machine, workload, record.target,
                  machine};
    origins.try_emplace(origin, SampleLimits{.fastest = kMostTraces, .others = 0})
        .first->second.add(record.seconds, *program, std::move(record.trace));
  });
}

// The fastest of each of the nearest origins in turn.
std::vector<std::string> in_turn(const std::map<Origin, Best>& origins) {
  std::vector<std::vector<const Best::Entry*>> sources;
  for (const auto& [origin, best] : origins) {
    if (sources.size() < kMostSources) sources.push_back(best.fastest(kMostTraces));
  }
  std::vector<std::string> traces;
  for (std::size_t rank = 0; rank < kMostTraces; ++rank) {
    for (const auto& source : sources) {
      if (rank < source.size() && traces.size() < kMostTraces) traces.push_back(source[rank]->value);
    }
  }
  return traces;
}

// The first try keeps all decisions that it can, further ones half of them.
std::optional<Candidate> carry(TaskState& state, int sketch, CandidateBuilder& builder, const Trace& trace,
                               u64 number) {
  for (int attempt = 0; attempt < kTries; ++attempt) {
    Rng rng(number, static_cast<u64>(attempt));
    Candidate candidate;
    auto keep = [&](std::size_t) { return attempt == 0 || rng.below(2) == 0; };
    if (!carry_decisions(state.space, sketch, trace, keep, candidate, rng)) return std::nullopt;
    if (builder.build(candidate, &rng)) return candidate;
  }
  return std::nullopt;
}

}  // namespace

WorkloadForm form_of(const std::string& workload) {
  WorkloadForm form;
  for (std::size_t at = 0; at < workload.size();) {
    bool begins = std::isdigit(static_cast<unsigned char>(workload[at])) && (at == 0 || !is_of_word(workload[at - 1]));
    std::size_t end = at + 1;
    while (begins && end < workload.size() && is_of_word(workload[end])) ++end;
    std::string_view word = std::string_view(workload).substr(at, end - at);
    i64 number = 0;
    auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    bool is_number = begins && error == std::errc() && rest == word.data() + word.size();
    if (is_number) form.numbers.push_back(number);
    form.text += is_number ? std::string_view("#") : word;
    at = end;
  }
  return form;
}

DatabaseStatus note_other_shapes(std::span<TaskState> states, Database& database, const std::function<bool()>& stop) {
  auto workloads = database.workloads();
  if (!workloads) return DatabaseError{workloads.error()};
  std::map<std::string, std::vector<std::pair<std::string, std::vector<i64>>>> of_form;
  for (const WorkloadText& workload : *workloads) {
    WorkloadForm form = form_of(workload.text);
    of_form[form.text].push_back({workload.hash, std::move(form.numbers)});
  }
  for (TaskState& state : states) {
    WorkloadForm form = form_of(workload_text(state.task->program.program));
    std::map<Origin, Best> origins;
    for (const auto& [hash, numbers] : of_form[form.text]) {
      if (hash == state.workload_key) continue;
      DatabaseStatus read = read_origins(state, database, hash, distance(form.numbers, numbers), stop, origins);
      if (!read) return read;
    }
    state.others = in_turn(origins);
  }
  return Done{};
}

void carry_other_shapes(TaskState& state, TuneObserver& observer, const std::function<bool()>& stop) {
  CandidateBuilder builder(state.space);
  HashSet programs;
  std::map<Hash128, int> sketches;  // of traces without their decisions: looking for one may take a while
  std::vector<std::string> traces = std::exchange(state.others, {});
  for (std::size_t i = 0; i < traces.size() && !(stop && stop()); ++i) {
    Source source{"record", traces[i]};
    Diagnostics diagnostics(source);
    std::optional<Trace> read = parse_schedule(source, diagnostics);
    if (!read) continue;
    Trace trace = read->without_postproc();
    auto [at, is_new] = sketches.try_emplace(trace.with_decisions(std::vector<Decision>(trace.sample_count())).hash());
    if (is_new) at->second = find_counterpart(state.space, trace);
    if (at->second < 0) continue;
    std::optional<Candidate> made = carry(state, at->second, builder, trace, i + 1);
    if (made && programs.insert(made->program).second) state.carried.push_back(std::move(*made));
  }
  if (!state.carried.empty())
    observer.on_message(cat(state.task->name, ": the search begins with ", state.carried.size(),
                            state.carried.size() == 1 ? " kernel" : " kernels", " of other shapes of this operator"));
}

}  // namespace tw

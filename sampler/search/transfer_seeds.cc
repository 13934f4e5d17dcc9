#include "sampler/search/transfer_seeds.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "dsl/schedule/parse_schedule.h"
#include "dsl/text/workload.h"
#include "sampler/space/other_sketches.h"

namespace tw {
namespace {

constexpr std::size_t kMostSources = 4, kMostTraces = 32;
constexpr int kTries = 4;  // of a trace that is rejected here

bool is_of_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

double octaves(i64 a, i64 b) { return std::abs(std::log2(static_cast<double>(a + 1) / static_cast<double>(b + 1))); }

// How far apart two shapes are: their numbers in octaves.
double distance(const std::vector<i64>& a, const std::vector<i64>& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += octaves(a[i], b[i]);
  return sum;
}

// "sm_90a": 90.
int arch_number(const std::string& arch) {
  int number = 0;
  if (arch.starts_with("sm_")) std::from_chars(arch.data() + 3, arch.data() + arch.size(), number);
  return number;
}

// Of one kind: the numbers that kernels depend on in octaves, and what other instructions make of them.
double distance(const Target& a, const Target& b) {
  constexpr double kOtherInstructions = 2, kOtherName = 0.25;
  double sum = octaves(a.threads, b.threads) + octaves(a.vector_bits, b.vector_bits) +
               octaves(a.vector_registers, b.vector_registers) + octaves(a.l1_bytes, b.l1_bytes) +
               octaves(a.l2_bytes, b.l2_bytes) + octaves(a.group_threads, b.group_threads) +
               octaves(a.shared_bytes, b.shared_bytes);
  int arch = arch_number(a.arch), other = arch_number(b.arch);
  bool has_other_instructions =
      has_lane_masks(a) != has_lane_masks(b) || a.triple != b.triple || arch / 10 != other / 10;
  bool has_other_name = a.cpu != b.cpu || a.arch != b.arch || a.gpu != b.gpu;
  return sum + octaves(arch, other) + has_other_instructions * kOtherInstructions + has_other_name * kOtherName;
}

// Infinite from what is no target, or one of another kind.
double distance_from(const Target& target, const std::string& text) {
  Source source{"target", text};
  Diagnostics diagnostics(source);
  std::optional<Target> other = parse_target(text, 0, diagnostics);
  return other && other->kind == target.kind ? distance(*other, target) : std::numeric_limits<double>::infinity();
}

// Records of one workload that one machine measured for one target, and how near they are to a task.
struct Origin {
  double distance = 0, target_distance = 0;
  bool is_other_machine = false;
  std::string workload, target, machine;
  auto order() const { return std::tie(distance, target_distance, is_other_machine, workload, target, machine); }
  bool operator<(const Origin& other) const { return order() < other.order(); }
};

using Best = BoundedSample<std::string>;

// A workload as it is compared with others: all of its text, and that of its anchor.
struct ComparedWorkload {
  std::string hash;
  WorkloadForm whole, anchor;
};

ComparedWorkload compared(const std::string& hash, const std::string& text) {
  return {hash, form_of(text), form_of(anchor_of(text))};
}

// What must be the same for decisions to be carried over.
const std::string& operator_text(const ComparedWorkload& workload) {
  return workload.anchor.text.empty() ? workload.whole.text : workload.anchor.text;
}

double distance(const ComparedWorkload& a, const ComparedWorkload& b) {
  constexpr double kOtherEpilogue = 1;
  if (a.whole.text == b.whole.text) return distance(a.whole.numbers, b.whole.numbers);
  return kOtherEpilogue + distance(a.anchor.numbers, b.anchor.numbers);
}

// Reads the records of a workload. If it is the task's own, those for the task's target are left out: they are no
// seeds.
DatabaseStatus read_origins(const TaskState& state, Database& database, const std::string& workload, double distance,
                            const std::function<bool()>& stop, std::map<Origin, Best>& origins) {
  bool is_own = workload == state.workload_key;
  std::map<std::string, double> target_distances;
  RecordFilter filter{.workload = workload, .stop = stop, .not_target = is_own ? state.target_key : ""};
  return database.visit(filter, [&](Record& record) {
    std::optional<Hash128> program = parse_hash(record.program);
    if (!program || !record.ok() || !record.is_trial() || record.trace.empty()) return;
    auto [to, is_new] = target_distances.try_emplace(record.target);
    if (is_new) to->second = distance_from(state.task->target, record.target);
    if (std::isinf(to->second)) return;
    std::string machine = machine_of(record.host);
    Origin origin{distance, to->second, machine != state.machine, workload, record.target, machine};
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

std::string anchor_of(const std::string& workload) {
  std::size_t begin = workload.find("\n  for "), last = workload.rfind(" init {");
  if (begin == workload.npos || last == workload.npos || last < begin) return "";
  std::set<std::string> types;
  std::string_view header = std::string_view(workload).substr(0, begin);
  for (std::size_t at = header.find(": "); at != header.npos; at = header.find(": ", at + 1)) {
    std::string_view declared = header.substr(at + 2, header.find('[', at) - at - 2);
    types.emplace(declared.substr(declared.rfind(' ') + 1));
  }
  std::string anchor = join(types, " ");
  return anchor.append(workload, begin, workload.find("\n  }", last) - begin);
}

DatabaseStatus note_transfer_seeds(std::span<TaskState> states, Database& database, const std::function<bool()>& stop) {
  auto workloads = database.workloads();
  if (!workloads) return DatabaseError{workloads.error()};
  std::map<std::string, std::vector<ComparedWorkload>> of_operator;
  for (const WorkloadText& workload : *workloads) {
    ComparedWorkload known = compared(workload.hash, workload.text);
    of_operator[operator_text(known)].push_back(std::move(known));
  }
  for (TaskState& state : states) {
    ComparedWorkload own = compared(state.workload_key, workload_text(state.task->program.program));
    std::map<Origin, Best> origins;
    for (const ComparedWorkload& other : of_operator[operator_text(own)]) {
      DatabaseStatus read = read_origins(state, database, other.hash, distance(own, other), stop, origins);
      if (!read) return read;
    }
    state.others = in_turn(origins);
  }
  return Done{};
}

void carry_transfer_seeds(TaskState& state, TuneObserver& observer, const std::function<bool()>& stop) {
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
                            state.carried.size() == 1 ? " kernel" : " kernels",
                            " of this operator: of other shapes, epilogues or targets"));
}

}  // namespace tw

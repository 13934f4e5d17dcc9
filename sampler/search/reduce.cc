#include "sampler/search/reduce.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "dsl/base/text.h"
#include "dsl/schedule/state.h"
#include "dsl/text/parse_program.h"
#include "dsl/text/workload.h"

namespace tw {
namespace {

// Integers of a text that are no part of a name or of a broken number: where they stand.
struct Number {
  std::size_t begin, end;
  i64 value;
};
std::vector<Number> numbers_in(const std::string& text) {
  auto part_of_word = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.'; };
  std::vector<Number> found;
  for (std::size_t i = 0; i < text.size();) {
    if (!part_of_word(text[i])) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < text.size() && part_of_word(text[end])) ++end;
    std::string word = text.substr(i, end - i);
    bool is_integer =
        word.size() < 10 && std::all_of(word.begin(), word.end(), [](unsigned char c) { return std::isdigit(c); });
    if (is_integer) found.push_back({i, end, std::stoll(word)});
    i = end;
  }
  return found;
}

std::string replace_numbers(const std::string& text, const std::vector<std::pair<i64, i64>>& changes) {
  std::string out;
  std::size_t at = 0;
  for (const Number& number : numbers_in(text)) {
    auto change =
        std::find_if(changes.begin(), changes.end(), [&](const auto& pair) { return pair.first == number.value; });
    if (change == changes.end()) continue;
    out += text.substr(at, number.begin - at) + std::to_string(change->second);
    at = number.end;
  }
  return out + text.substr(at);
}

// The program of a text whose numbers were changed; nullopt if it is none.
std::optional<OwnedProgram> program_of(const std::string& text) {
  Source source{"reduced workload", text};
  Diagnostics diagnostics(source);
  return parse_program(source, diagnostics);
}

class Reducer {
 public:
  Reducer(FailingCase start, const std::function<bool(const FailingCase&)>& fails, const ReduceOptions& options)
      : best_(std::move(start)), fails_(fails), options_(options) {}

  Reduced run() {
    adapts_ = try_case(best_);
    try_case({best_.program, best_.trace.without_dead_code()});
    // Extents first, because small extents make every later run short.
    for (bool smaller = true; smaller && runs_ < options_.most_runs;) {
      smaller = shrink_extents();
      smaller |= drop_instructions();
      smaller |= plainer_decisions();
    }
    return {std::move(best_), runs_};
  }

 private:
  bool try_case(FailingCase next) {
    if (runs_ >= options_.most_runs) return false;
    ++runs_;
    if (adapts_) next.trace = options_.adapt(next);
    if (!fails_(next)) return false;
    best_ = std::move(next);
    return true;
  }

  // Drops chunks of instructions with all that depends on them, from large chunks to single instructions, last ones
  // first. Instructions without effect are not dropped beforehand, because the one that fails may be among them.
  bool drop_instructions() {
    bool smaller = false;
    for (std::size_t size = std::max<std::size_t>(1, best_.trace.instructions().size() / 2); size >= 1; size /= 2) {
      for (std::size_t end = best_.trace.instructions().size(); end > 0;) {
        std::size_t begin = end > size ? end - size : 0;
        std::vector<bool> keep(best_.trace.instructions().size(), true);
        std::fill(keep.begin() + begin, keep.begin() + std::min(end, keep.size()), false);
        smaller |= try_case({best_.program, best_.trace.keeping(keep)});
        end = std::min(begin, best_.trace.instructions().size());
      }
    }
    return smaller;
  }

  // Every integer of the program's text, alone or with another one that keeps its distance (a padded extent).
  bool shrink_extents() {
    bool smaller = false;
    std::set<i64, std::greater<>> values;
    for (const Number& number : numbers_in(workload_text(best_.program.program))) values.insert(number.value);
    for (i64 value : values) {
      if (value < 2) break;
      for (i64 less : {i64{1}, i64{2}, i64{3}, value / 2, value - 1}) {
        if (less < 1 || less >= value) continue;
        if (try_extents({{value, less}}) || try_with_neighbour(value, less, values)) {
          smaller = true;
          break;
        }
      }
    }
    return smaller;
  }

  bool try_with_neighbour(i64 value, i64 less, const std::set<i64, std::greater<>>& values) {
    for (i64 other : values) {
      if (other <= value || other > value + 16) continue;
      if (try_extents({{value, less}, {other, less + other - value}})) return true;
    }
    return false;
  }

  bool try_extents(const std::vector<std::pair<i64, i64>>& changes) {
    std::string text = workload_text(best_.program.program), changed = replace_numbers(text, changes);
    if (changed == text) return false;
    std::optional<OwnedProgram> program = program_of(changed);
    return program && try_case({*program, best_.trace});
  }

  // Decisions with more ones in them, or the first candidate.
  bool plainer_decisions() {
    bool smaller = false;
    for (std::size_t sample = 0; sample < best_.trace.sample_count(); ++sample) {
      for (int place = 0; place < Decision::kMax; ++place) smaller |= plainer(sample, place);
    }
    return smaller;
  }

  bool plainer(std::size_t sample, int place) {
    const Decision decision = best_.trace.decisions()[sample];
    i64 least = decision.count == 1 ? 0 : 1;
    if (place >= decision.count || decision.values[place] <= least) return false;
    Decision plain = decision;
    plain.values[place] = least;
    if (try_decision(sample, plain)) return true;
    // A tile keeps its product: the factor goes to another place.
    for (int other = 0; other < decision.count; ++other) {
      Decision moved = plain;
      moved.values[other] *= decision.values[place];
      if (other != place && try_decision(sample, moved)) return true;
    }
    return false;
  }

  bool try_decision(std::size_t sample, const Decision& decision) {
    std::vector<Decision> decisions = best_.trace.decisions();
    decisions[sample] = decision;
    FailingCase next{best_.program, best_.trace.with_decisions(decisions)};
    if (adapts_) next.trace = options_.adapt(next);
    return size_of(next.trace) < size_of(best_.trace) && try_case(std::move(next));
  }

  // How many factors are not 1: plain decisions are small. The sum breaks ties, so that every step ends.
  static i64 size_of(const Trace& trace) {
    i64 size = 0;
    for (const Decision& decision : trace.decisions()) {
      for (int i = 0; i < decision.count; ++i)
        size += std::min<i64>(decision.values[i], 1 << 20) + (decision.values[i] > 1 ? 1 << 20 : 0);
    }
    return size;
  }

  FailingCase best_;
  const std::function<bool(const FailingCase&)>& fails_;
  ReduceOptions options_;
  int runs_ = 0;
  bool adapts_ = true;
};

}  // namespace

Trace adapted(const FailingCase& failing) {
  Arena arena;
  State state(arena, failing.program.program);
  std::vector<Decision> decisions = failing.trace.decisions();
  Rng rng(1);
  (void)replay(failing.trace, state, decisions, ReplayMode::Adapt, &rng);  // up to where it stops
  return failing.trace.with_decisions(decisions);
}

std::optional<FailingCase> shrunk(const FailingCase& failing, i64 most, const ReduceOptions& options) {
  std::string text = workload_text(failing.program.program);
  std::vector<std::pair<i64, i64>> changes;
  for (const Number& number : numbers_in(text)) {
    if (number.value > most) changes.emplace_back(number.value, most);
  }
  std::optional<OwnedProgram> program = program_of(replace_numbers(text, changes));
  if (changes.empty() || !program) return std::nullopt;
  FailingCase small{std::move(*program), failing.trace};
  small.trace = options.adapt(small);
  return small;
}

Reduced reduce(FailingCase start, const std::function<bool(const FailingCase&)>& fails, const ReduceOptions& options) {
  return Reducer(std::move(start), fails, options).run();
}

}  // namespace tw

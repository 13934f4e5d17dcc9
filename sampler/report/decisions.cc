#include "sampler/report/decisions.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "dsl/base/text.h"
#include "dsl/schedule/parse_schedule.h"

namespace tw {
namespace {

constexpr std::string_view kMark = " @ ";  // in front of a decision

std::string_view next_line(std::string_view& rest) {
  std::size_t end = rest.find('\n');
  std::string_view line = rest.substr(0, end);
  rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  std::size_t first = line.find_first_not_of(' ');
  return first == std::string_view::npos ? std::string_view() : line.substr(first);
}

// The integers of "13" or "[8, 1]".
std::vector<i64> integers_of(std::string_view text) {
  std::vector<i64> values;
  for (const char *at = text.data(), *end = at + text.size(); at < end;) {
    i64 value = 0;
    auto [behind, error] = std::from_chars(at, end, value);
    if (error == std::errc()) values.push_back(value);
    at = error == std::errc() ? behind : at + 1;
  }
  return values;
}

}  // namespace

DecisionTable::DecisionTable(const std::string& best) {
  Source source{"the best trial", best};
  Diagnostics diagnostics(source);
  std::optional<Trace> trace = parse_schedule(source, diagnostics);
  if (!trace) return;
  std::string printed = trace->print();
  std::string_view rest = printed;
  std::size_t samples = 0;
  for (const Instruction& instruction : trace->instructions()) {
    if (instruction.kind->meaning.starts_postproc) break;
    std::string_view line = next_line(rest);
    if (instruction.kind->samples) add_columns(*trace, instruction, samples++);
    lines_.push_back(
        {std::string(instruction.kind->samples ? line.substr(0, line.rfind(kMark)) : line), instruction.kind->samples});
  }
  codes_.resize(columns_.size());
  values_.resize(columns_.size());
  std::vector<std::vector<i64>> decisions;
  if (!read(printed, decisions)) columns_.clear();
  for (const Column& column : columns_) chosen_.push_back(value_of(column, decisions));
}

void DecisionTable::add_columns(const Trace& trace, const Instruction& instruction, std::size_t sample) {
  if (instruction.results == 0) return;
  Column column{std::string(trace.name_of_value(instruction.first_result)), instruction.kind->name, sample, -1, {}};
  if (instruction.kind->meaning.draws == Meaning::Draws::OneOf) {
    for (const Arg& candidate : instruction.arguments[0].items) column.candidates.push_back(candidate.integer);
  }
  bool has_parts = instruction.results > 1 && instruction.results == instruction.decision.count;
  for (u32 part = 0; has_parts && part < instruction.results; ++part) {
    column.name = trace.name_of_value(instruction.first_result + part), column.part = static_cast<int>(part);
    columns_.push_back(column);
  }
  if (!has_parts) columns_.push_back(column);
}

bool DecisionTable::read(const std::string& schedule, std::vector<std::vector<i64>>& decisions) const {
  decisions.clear();
  std::string_view rest = schedule;
  for (const Line& expected : lines_) {
    std::string_view line = next_line(rest);
    std::size_t mark = expected.samples ? line.rfind(kMark) : std::string_view::npos;
    if (line.substr(0, mark) != expected.text) return false;
    if (expected.samples)
      decisions.push_back(mark == std::string_view::npos ? std::vector<i64>() : integers_of(line.substr(mark)));
  }
  return true;
}

std::string DecisionTable::value_of(const Column& column, const std::vector<std::vector<i64>>& decisions) const {
  const std::vector<i64>& decision = decisions[column.sample];
  if (column.part >= 0)
    return static_cast<std::size_t>(column.part) < decision.size()
               ? std::to_string(decision[static_cast<std::size_t>(column.part)])
               : "open";
  if (decision.size() == 1 && decision[0] >= 0 && decision[0] < std::ssize(column.candidates))
    return std::to_string(column.candidates[static_cast<std::size_t>(decision[0])]);
  return decision.empty() ? "open" : join(decision, ", ");
}

void DecisionTable::add(const std::string& schedule, double seconds) {
  std::vector<std::vector<i64>> decisions;
  if (columns_.empty() || seconds <= 0 || !read(schedule, decisions)) return;
  seconds_.push_back(seconds);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    auto [at, is_new] = codes_[i].try_emplace(value_of(columns_[i], decisions), static_cast<u32>(codes_[i].size()));
    values_[i].push_back(at->second);
  }
}

DecisionEffect DecisionTable::effect_of(std::size_t column) const {
  DecisionEffect effect{columns_[column].name, columns_[column].kind, chosen_[column]};
  struct Group {
    double sum = 0;
    DecisionValue value;
  };
  std::vector<Group> groups(codes_[column].size());
  for (const auto& [text, code] : codes_[column]) groups[code].value.text = text;
  double sum = 0, squares = 0, between = 0, count = static_cast<double>(seconds_.size());
  for (std::size_t i = 0; i < seconds_.size(); ++i) {
    double log = std::log(seconds_[i]);
    sum += log, squares += log * log;
    Group& group = groups[values_[column][i]];
    group.sum += log;
    DecisionValue& value = group.value;
    value.best_seconds = value.count++ == 0 ? seconds_[i] : std::min(value.best_seconds, seconds_[i]);
  }
  for (const Group& group : groups) between += group.sum * group.sum / static_cast<double>(group.value.count);
  between -= sum * sum / count;
  double all = squares - sum * sum / count, values = static_cast<double>(groups.size());
  bool is_enough = trials() >= kLeastTrials && groups.size() > 1 && count - values >= kLeastTrials / 2;
  if (is_enough && all > 1e-12)
    effect.importance = std::clamp((between - (values - 1) * (all - between) / (count - values)) / all, 0.0, 1.0);
  std::ranges::stable_sort(groups, {}, [](const Group& group) { return group.value.best_seconds; });
  for (const Group& group : groups) {
    if (effect.values.size() < kMostValues) effect.values.push_back(group.value);
  }
  effect.other_values = std::ssize(groups) - std::ssize(effect.values);
  return effect;
}

std::vector<DecisionEffect> DecisionTable::effects() const {
  std::vector<DecisionEffect> effects;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    // The factors of a loop in two determine each other: the second one says nothing new.
    bool is_new = std::none_of(values_.begin(), values_.begin() + static_cast<std::ptrdiff_t>(i), [&](const auto& one) {
      std::size_t other = static_cast<std::size_t>(&one - values_.data());
      return columns_[other].sample == columns_[i].sample && one == values_[i];
    });
    if (is_new && !seconds_.empty()) effects.push_back(effect_of(i));
  }
  std::ranges::stable_sort(effects, std::greater(), &DecisionEffect::importance);
  return effects;
}

}  // namespace tw

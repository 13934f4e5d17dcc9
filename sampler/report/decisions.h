// Which decisions matter: of the trials of one sketch, how much of the difference between their times goes with the
// value of each decision. The trials are those that a search chose to measure, so this describes them, not the space.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "dsl/schedule/trace.h"

namespace tw {

struct DecisionValue {
  std::string text;  // "16"; "2, 0, 1" of an order
  i64 count = 0;     // of trials
  double best_seconds = 0;
};

struct DecisionEffect {
  std::string name;    // of the value in the trace
  std::string kind;    // of the instruction: "sample_categorical"
  std::string chosen;  // by the best trial
  // The part of the variance of log(time) that the value explains, corrected for the number of values (epsilon
  // squared), 0 to 1; negative: too few trials to say, or all have one value.
  double importance = -1;
  std::vector<DecisionValue> values;  // fastest first, at most kMostValues
  i64 other_values = 0;               // that are not listed
};

class DecisionTable {
 public:
  static constexpr std::size_t kMostValues = 12;
  static constexpr i64 kLeastTrials = 20;  // below it nothing is said of importance

  // The schedule text of the best trial. Without decisions, and where the text is none, the table stays empty.
  explicit DecisionTable(const std::string& best);
  // Counts a good trial if its schedule differs from the best one in decisions alone, before postprocessing.
  void add(const std::string& schedule, double seconds);
  i64 trials() const { return static_cast<i64>(seconds_.size()); }
  // Those that explain most come first.
  std::vector<DecisionEffect> effects() const;

 private:
  struct Line {
    std::string text;  // without the decision
    bool samples = false;
  };
  // One value of a sample, or all of it.
  struct Column {
    std::string name, kind;
    std::size_t sample;           // which of the samples
    int part;                     // of its decision; -1 = all
    std::vector<i64> candidates;  // by index, of categorical samples
  };
  void add_columns(const Trace& trace, const Instruction& instruction, std::size_t sample);
  bool read(const std::string& schedule, std::vector<std::vector<i64>>& decisions) const;
  std::string value_of(const Column& column, const std::vector<std::vector<i64>>& decisions) const;
  DecisionEffect effect_of(std::size_t column) const;

  std::vector<Line> lines_;
  std::vector<Column> columns_;
  std::vector<std::string> chosen_;                // by column
  std::vector<std::map<std::string, u32>> codes_;  // of values, by column
  std::vector<std::vector<u32>> values_;           // by column and trial, as codes
  std::vector<double> seconds_;                    // by trial
};

}  // namespace tw

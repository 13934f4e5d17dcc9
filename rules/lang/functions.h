// The analysis functions that rules may call: one table from which checking and documentation come. Each is written in
// C++ and asks something about the program; none changes it.
#pragma once
#include <functional>

#include "dsl/schedule/state.h"
#include "rules/lang/value.h"

namespace tw::rules {

// What a function sees. `is_open_loop` tells whether a loop's extent depends on a sample.
struct FunctionContext {
  const State& state;
  const TargetFacts& target;
  std::function<bool(LoopId)> is_open_loop;
};

// A value, or the sentence that says what is wrong with the arguments.
struct FunctionResult {
  RuleValue value;
  std::string error;
};

struct AnalysisFunction {
  const char* name;
  const char* signature;  // "(block) -> bool"
  const char* doc;        // one sentence
  int arity;
  FunctionResult (*call)(const FunctionContext&, const std::vector<RuleValue>&);
};

const std::vector<AnalysisFunction>& analysis_functions();
const AnalysisFunction* find_function(std::string_view name);

}  // namespace tw::rules

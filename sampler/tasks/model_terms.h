// The analytic model of GPUs against what was measured, for each task and rule: does it put programs in order, and
// which of its terms (costmodel/gpu/kernel_estimate.h) is off?
#pragma once
#include <string>
#include <vector>

#include "sampler/tasks/model_data.h"

namespace tw {

struct RuleTerms {
  std::string task, rule;  // that tiled the programs; "-": none says so
  int programs = 0;        // that ran
  double rank = 0;         // Spearman's correlation of the ranks by model and by time
  double ratio = 0;        // median of measured by predicted time
  // For each term Spearman's correlation, over the programs, of (term / predicted time) with (measured / predicted
  // time): above 0 the model counts too little of it, or makes too little of it; below 0 too much. Strongest first.
  struct Term {
    const char* name;
    double correlation;
  };
  std::vector<Term> terms;
};

// A row for each rule that has tiled at least so many programs of a task. Other targets than described GPUs have none.
inline constexpr int kFewestPrograms = 8;
std::vector<RuleTerms> model_terms(const ModelData& data);

}  // namespace tw

// Rows that are made of a trace and its decisions alone, without replaying it: the kinds `knobs` and `tokens`. They do
// not depend on names. Only what stands before postprocessing counts.
//
// Knobs: AutoTVM's configuration features, one row for a candidate. Sample s (in order, modulo kKnobSamples) and
// component c of its decision have the column s * Decision::kMax + c; samples that share a column add up. Behind them
// is one column for each of kKnobSketches values of a hash of the instructions without decisions, 1 for that of the
// sketch. So rows can be compared among candidates of one operator and space only: elsewhere a column means something
// else.
//
// Tokens: the features of TLP (ASPLOS 2023), one row for each instruction: its kind (one column for each), its place,
// the numbers of its arguments in order, the decision, the values that it takes from earlier instructions (how many
// instructions before, and which of its results), hashes of its texts. Names of blocks count by the order in which
// they are first met.
//
// A decision of sample_categorical counts as the number drawn, not as its index. Numbers are on the scale of
// log2(|x| + 1), with their sign.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "costmodel/feature_kind.h"
#include "dsl/schedule/trace.h"

namespace tw {

inline constexpr int kKnobSamples = 16, kKnobSketches = 32;
int knob_columns();
int token_columns();
// One name per column, all different: "unroll", "number_0", "decision_0", ...
const std::vector<std::string>& token_column_names();

// Replace `rows` by those of a trace with these decisions, one per sample, instead of its own. All finite.
void extract_knobs(const Trace& trace, std::span<const Decision> decisions, std::vector<float>& row);
void extract_tokens(const Trace& trace, std::span<const Decision> decisions, std::vector<float>& rows);
// Those of the kind, which needs no program.
void extract_trace_rows(FeatureKind kind, const Trace& trace, std::span<const Decision> decisions,
                        std::vector<float>& rows);

}  // namespace tw

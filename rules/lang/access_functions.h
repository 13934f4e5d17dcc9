// Analysis functions about how a block accesses its buffers, for the table in functions.cc. An
// operand is a number below n_reads(block). Private to rules/lang.
#pragma once
#include "rules/lang/functions.h"

namespace tw::rules {

FunctionResult calls(const FunctionContext& c, const std::vector<RuleValue>& v);
FunctionResult contiguous_loops(const FunctionContext& c, const std::vector<RuleValue>& v);
FunctionResult is_direct(const FunctionContext& c, const std::vector<RuleValue>& v);
FunctionResult is_injective(const FunctionContext& c, const std::vector<RuleValue>& v);
FunctionResult is_ordered(const FunctionContext& c, const std::vector<RuleValue>& v);
FunctionResult is_prepackable(const FunctionContext& c, const std::vector<RuleValue>& v);
FunctionResult loop_order_map(const FunctionContext& c, const std::vector<RuleValue>& v);
FunctionResult n_elements(const FunctionContext& c, const std::vector<RuleValue>& v);
FunctionResult n_writes(const FunctionContext& c, const std::vector<RuleValue>& v);

// One load per buffer that the block reads and does not write, in order of appearance (the order of
// cache_read's read_index).
std::vector<const Load*> operands_of(const Block* block);

}  // namespace tw::rules

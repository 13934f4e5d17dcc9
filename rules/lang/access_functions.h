// Analysis functions about how a block accesses its buffers, for the table in functions.cc, and what all analysis
// functions look at. An operand is a number below n_reads(block). Private to rules/lang.
#pragma once
#include "rules/lang/functions.h"

namespace tw::rules {

FunctionResult calls(const FunctionContext& c, const std::vector<RuleValue>& v);
FunctionResult consecutive(const FunctionContext& c, const std::vector<RuleValue>& v);
FunctionResult contiguous_loops(const FunctionContext& c, const std::vector<RuleValue>& v);
FunctionResult group_size(const FunctionContext& c, const std::vector<RuleValue>& v);
FunctionResult is_direct(const FunctionContext& c, const std::vector<RuleValue>& v);
FunctionResult is_injective(const FunctionContext& c, const std::vector<RuleValue>& v);
FunctionResult is_ordered(const FunctionContext& c, const std::vector<RuleValue>& v);
FunctionResult is_prepackable(const FunctionContext& c, const std::vector<RuleValue>& v);
FunctionResult loop_order_map(const FunctionContext& c, const std::vector<RuleValue>& v);
FunctionResult n_elements(const FunctionContext& c, const std::vector<RuleValue>& v);
FunctionResult n_writes(const FunctionContext& c, const std::vector<RuleValue>& v);
FunctionResult phases(const FunctionContext& c, const std::vector<RuleValue>& v);
FunctionResult step_of(const FunctionContext& c, const std::vector<RuleValue>& v);

// The block that a value is a handle of, and that is still there; else null.
const Block* block_of(const FunctionContext& c, const RuleValue& v);
// Around the block, outermost first.
Array<const For*> loops_of(const FunctionContext& c, const Block* block);
// The first target of the block's first store.
const StoreTarget& write_of(const Block* block);
// One load per buffer that the block reads and does not write, in order of appearance (the order of
// cache_read's read_index).
std::vector<const Load*> operands_of(const Block* block);
// The operand that a value counts; null if there is none.
const Load* operand_of(const Block* block, const RuleValue& v);

}  // namespace tw::rules

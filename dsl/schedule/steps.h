// Instructions that others are made of, as functions: each does what the instruction of its name does, and stands in
// that one's file. If a later step is rejected the program is half changed: who applies an instruction puts back what
// was before it.
#pragma once
#include "dsl/schedule/primitive.h"

namespace tw::steps {

Result<Loops> split(State& state, LoopId loop, Factors factors, bool preserve_unit_iters = true,
                    bool disable_predication = false);
Status reorder(State& state, Loops loops);
Status reorder_block_iter_var(State& state, BlockId block, Ints new_order);
Result<BlockId> rfactor(State& state, LoopId loop, i64 factor_axis);
Result<BlockId> cache_write(State& state, BlockId block, i64 write_index, Str scope, Blocks consumers = none);
Status reverse_compute_at(State& state, BlockId block, Location at, bool keep_units = false, bool unfinished = false,
                          Str position = "first");

}  // namespace tw::steps

// Analysis functions about contractions of two operands seen as products of matrices, for the table in functions.cc:
// convolutions as implicit products, batches. Private to rules/lang. They change nothing: maps go to transform_layout
// and transform_block_layout.
#pragma once
#include "rules/lang/functions.h"

namespace tw::rules {

FunctionResult is_gemm(const FunctionContext& c, const std::vector<RuleValue>& v);
FunctionResult gemm_map(const FunctionContext& c, const std::vector<RuleValue>& v);

}  // namespace tw::rules

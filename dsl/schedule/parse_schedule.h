// Schedule text -> Trace: what Trace::print writes, and what people write by hand as a schedule with open samples.
//
//   b = get_block("D")
//   i, j, k = get_loops(b)
//   t0, t1 = sample_perfect_tile(i, 2, max_innermost = 8) @ [16, 8]
//   i_0, i_1 = split(i, [t0, t1])
//
// One instruction per line; each result has its own name; arguments are literals, names, integer arithmetic,
// extent(loop), lists, index maps; the decision of a sample stands behind `@`; without it the sample is open.
#pragma once
#include "dsl/base/diagnostic.h"
#include "dsl/schedule/trace.h"
#include "dsl/text/parse_expr.h"

namespace tw {

// Statements up to a `}` that is left in place, or to the end of the text. Null results mean errors in the parser's
// diagnostics.
std::optional<Trace> parse_schedule(Parser& parser);
// A whole text.
std::optional<Trace> parse_schedule(const Source& source, Diagnostics& diagnostics);

}  // namespace tw

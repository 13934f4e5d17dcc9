// Pass lower_blocks: blocks become plain statements.
// Input: For, Seq, If, Store, Block. Output: no Block: iters are replaced by their bindings, predicates are Ifs as far
// out as their variables allow, and an init that was never decomposed runs before the reduction loops (or under an If
// where these are not directly around the block). Block annotations are dropped, loop annotations stay. Index
// expressions come out simplified.
#pragma once
#include "dsl/ir/program.h"

namespace tw {

Program lower_blocks(Arena& arena, Program program);

}  // namespace tw

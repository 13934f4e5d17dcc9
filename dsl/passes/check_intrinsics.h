// Tensorized loop nests in lowered programs. A nest is marked by the annotation kIntrinsicMark on
// its outermost loop; its loops are the meaning, and no pass takes them apart.
#pragma once
#include "dsl/base/result.h"
#include "dsl/intrinsics/intrinsic.h"

namespace tw {

bool is_tensorized(const For* loop);
// Such a nest, or one that a warp may do by a matrix instruction (warp_mma.h): it stays loops until code is generated.
bool is_one_instruction(const For* loop);

// Every marked nest of a flat program still is what its intrinsic computes, with registers at
// constant places.
Status check_intrinsics(Arena& arena, const Stmt* body);

}  // namespace tw

// An elementwise step behind a reduction becomes the value that the reduction starts from.
//   for i { for k { C[i] {init { C[i] = 0 } C[i] += A[i, k]} } };  for i { D[i] = C[i] + Bias[i] }
//   fuse_reduction_epilogue(C, D)   ->   for i { for k { C[i] {init { D[i] = Bias[i] } D[i] += A[i,
//   k]} } }
// Applies if the epilogue combines the result with something else by the reduction's own operation
// (sum, product, max, min), reads it at its iters and alone, and what else it reads is there before
// the reduction. Unlike the reference (FuseReductionEpilogue of TensorIR), a clip or max behind a
// sum is rejected: it needs the finished sum, and applied in every step it would be another
// program. The reduction keeps its handle.
#include "dsl/schedule/move.h"
#include "dsl/schedule/primitive.h"

using namespace tw;

PRIMITIVE(fuse_reduction_epilogue, Unit(BlockId reduction, BlockId epilogue))

static Result<Unit> apply(State& state, BlockId reduction, BlockId epilogue) {
  return fuse_into_reduction(state, reduction, epilogue);
}

REGISTER(fuse_reduction_epilogue,
         "An elementwise step behind a reduction becomes the value that the reduction starts from.")

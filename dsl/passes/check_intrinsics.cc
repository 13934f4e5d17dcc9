#include "dsl/passes/check_intrinsics.h"

#include "dsl/ir/walk.h"
#include "dsl/passes/warp_mma.h"

namespace tw {
namespace {

Status check(Arena& arena, const For* nest, const VarRanges& around) {
  const Annotation* mark = find_annotation(nest->annotations, kIntrinsicMark);
  const Intrinsic* intrinsic = find_intrinsic(mark->value.text);
  if (!intrinsic) return reject("there is no intrinsic `{a}`", mark->value.text).about_loop(nest->id.value);
  TW_TRY(std::vector<IntrinsicOperand> operands, match_intrinsic(arena, *intrinsic, nest, around));
  for (const IntrinsicOperand& operand : operands) {
    // unroll_register_loops has made every place in a register constant.
    TW_CHECK(operand.buffer->scope != Scope::Register || constant_of(operand.first),
             "a place in a register buffer that is not constant");
  }
  return ok();
}

}  // namespace

bool is_tensorized(const For* loop) { return find_annotation(loop->annotations, kIntrinsicMark) != nullptr; }

bool is_one_instruction(const For* loop) { return is_tensorized(loop) || find_mma_mark(loop) != nullptr; }

Status check_intrinsics(Arena& arena, const Stmt* body) {
  VarRanges around;
  Status status = ok();
  walk(body, [&](const Node* node) {
    const For* loop = as<For>(node);
    if (loop) around.set_extent(loop->var, loop->extent);
    if (!loop || !is_tensorized(loop)) return static_cast<bool>(status);
    if (status) status = check(arena, loop, around);
    return false;
  });
  return status;
}

}  // namespace tw

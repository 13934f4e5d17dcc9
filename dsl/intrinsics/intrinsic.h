// Tensor intrinsics: what one or a few vector instructions of a machine compute, written in the
// language as description (a program of plain loops: the meaning) and implementation (loads, calls
// of LLVM intrinsics, stores). Used by the primitive tensorize, by lowering, which checks the match
// again, and by the LLVM backend. Nothing here knows a machine.
//
//   intrinsic dot_u8i8_avx512vnni {
//     doc "16 sums of four products each"
//     arch "x86_64" needs "avx512vnni"           # features of the target, as LLVM names them
//     cost 1                                     # instructions
//     program description(A: input u8[4], B: input i8[16, 4], C: output i32[16]) { for i in 16 { ..
//     } } implementation {
//       a = splat(load(A, i32), 16)              # the operand's first bytes as one i32, 16 times
//       store(C, call(i32x16, "llvm.x86.avx512.vpdpbusd.512", load(C, i32x16), a, load(B, i32x16)))
//     }
//   }
//
// Operands lie in memory as their shapes say: row-major, without gaps. In an implementation:
// load(operand, type), load(operand, type, offset in elements), store(operand, value),
// store(operand, value, offset), splat(value, lanes), as(type, value): the same bits as another
// type, call(type, "LLVM's name", values).
#pragma once
#include <string>
#include <vector>

#include "dsl/analysis/affine.h"
#include "dsl/base/diagnostic.h"
#include "dsl/base/result.h"
#include "dsl/ir/program.h"

namespace tw {

class Parser;

// One step of an implementation; its result is named by its place in the list.
struct IntrinsicStep {
  enum class Op : u8 { Load, Store, Splat, As, Call };
  Op op = Op::Load;
  Type type;                   // of the result; Store: none
  std::string function;        // Call
  int operand = -1;            // Load, Store: position among the description's parameters
  i64 offset = 0;              // Load, Store: in elements of the operand
  std::vector<int> arguments;  // steps before this one
};

struct Intrinsic {
  std::string name, doc;
  std::string arch;                   // of LLVM's triple
  std::vector<std::string> features;  // all are needed
  i64 cost = 1;
  OwnedProgram description;  // loops around one store, which writes the only output
  std::vector<IntrinsicStep> steps;
};

// The mark of a tensorized block, and of its loop nest in lowered programs; the text is the
// intrinsic's name.
inline constexpr std::string_view kIntrinsicMark = "intrinsic";

// By name; null if there is none. Those of dsl/intrinsics/intrinsics.tw are always there.
const Intrinsic* find_intrinsic(std::string_view name);
// All names, sorted.
std::vector<std::string> intrinsic_names();
// Declares what was parsed; false if one of that name says something else. For the life of the
// process: replay needs it.
bool declare_intrinsic(std::shared_ptr<const Intrinsic> intrinsic);

// At the word `intrinsic`: reads one. Null after an error, which was reported.
std::shared_ptr<const Intrinsic> parse_intrinsic(Parser& parser);
// A whole text of intrinsics, declared; false after errors.
bool declare_intrinsics(const Source& source, Diagnostics& diagnostics);

// Where an operand begins: element of the buffer, counted in memory.
struct IntrinsicOperand {
  const Buffer* buffer = nullptr;
  const Expr* first = nullptr;
};
// One operand per parameter of the description, if the nest computes what the description does:
// loops of the same extents in any order around a store of the same value, with the operands'
// elements where the description has them. `around` = ranges of the variables outside of the nest
// that are known.
Result<std::vector<IntrinsicOperand>> match_intrinsic(Arena& arena, const Intrinsic& intrinsic,
                                                      const Stmt* nest, const VarRanges& around);

}  // namespace tw

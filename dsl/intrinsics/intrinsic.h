// Tensor intrinsics: what one or a few vector instructions of a machine compute, written in the
// language as description (a program of plain loops: the meaning) and implementation (loads, calls
// of LLVM intrinsics, stores). Used by the primitive tensorize, by lowering, which checks the match
// again, and by the LLVM backend. Nothing here knows a machine.
//
//   intrinsic dot_u8i8_avx512vnni {
//     doc "16 sums of four products each"
//     arch "x86_64" needs "avx512vnni"           # features of the target, as LLVM names them
//     cost 1                                     # instructions
//     program description(A: input u8[4], B: input i8[16, 4], C: output i32[16]) { for i in 16 { .. } }
//     implementation {
//       a = splat(load(A, i32), 16)              # the operand's first bytes as one i32, 16 times
//       store(C, call(i32x16, "llvm.x86.avx512.vpdpbusd.512", load(C, i32x16), a, load(B, i32x16)))
//     }
//   }
//
// Operands lie in memory as their shapes say: row-major, without gaps. In an implementation:
// load(operand, type), load(operand, type, offset in elements), store(operand, value),
// store(operand, value, offset), splat(value, lanes), as(type, value): the same bits as another
// type, call(type, "LLVM's name", values).
//
// What the lanes of a warp do together says who holds what, and its implementation is one instruction of PTX:
//
//   intrinsic mma_m16n8k8_f16 {
//     arch "nvptx" needs "sm_80" lanes 32
//     program description(A: input f16[16, 8], B: input f16[8, 8], C: output f32[16, 8]) { .. }
//     holds A (t, i) -> (t // 4 + i // 2 * 8, t % 4 * 2 + i % 2)   # of lane t element i (lane_layout.h)
//     holds B ..  holds C ..
//     implementation { ptx "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {C}, {A}, {B}, {C};" }
//   }
//
// {A} becomes the registers of A: its elements in the order of i, 4 bytes to a register, or one of 8 bytes. Sums fill a
// register each. The description, whose output comes last, adds products of elements along one loop; indices are loops,
// those of the output the outer ones in their order. `rounds "tf32"`: floats are rounded to 11 bits first. `lanes 128`:
// a group of warps, whose instructions may read an operand in shared memory: `in_shared B` in place of `holds B`; {B}
// is a descriptor, and {B.across} 1 where memory runs across the sum, else 0. Code is made where all operands lie
// there. The nests that become such an instruction are found by dsl/passes/warp_mma.h, and tensorize does not take one.
#pragma once
#include <string>
#include <vector>

#include "dsl/analysis/affine.h"
#include "dsl/base/diagnostic.h"
#include "dsl/base/result.h"
#include "dsl/intrinsics/lane_layout.h"
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
  std::vector<std::string> features;  // all are needed; of nvptx "sm_80" or later ones, "sm_90a" that one alone
  i64 cost = 1;
  OwnedProgram description;  // loops around one store, which writes the only output
  std::vector<IntrinsicStep> steps;
  // Of what several lanes do together:
  i64 lanes = 1;
  std::vector<LaneLayout> holds;  // of each parameter; without bits: it is read in shared memory
  std::string rounds;             // "tf32", "" = nothing
  std::string ptx;
};

inline constexpr i64 kWarpLanes = 32;  // threads that issue an instruction together
// Of the operand at this place among the parameters: elements to a register, registers of a lane.
i64 elements_of_register(const Intrinsic& intrinsic, std::size_t parameter);
i64 registers_of_lane(const Intrinsic& intrinsic, std::size_t parameter);
// Has a GPU of this architecture ("sm_80"; "" = all that there may be) what the intrinsic needs?
bool can_do(std::string_view gpu, const Intrinsic& intrinsic);

// The mark of a tensorized block, and of its loop nest in lowered programs; the text is the
// intrinsic's name.
inline constexpr std::string_view kIntrinsicMark = "intrinsic";

// By name; null if there is none. Those of dsl/intrinsics/intrinsics.tw are always there.
const Intrinsic* find_intrinsic(std::string_view name);
// All names, sorted.
std::vector<std::string> intrinsic_names();
// Those of several lanes, sorted by name.
std::vector<const Intrinsic*> warp_intrinsics();
// Declares what was parsed; false if one of that name says something else. For the life of the
// process: replay needs it.
bool declare_intrinsic(std::shared_ptr<const Intrinsic> intrinsic);

// At the word `intrinsic`: reads one. Null after an error, which was reported.
std::shared_ptr<const Intrinsic> parse_intrinsic(Parser& parser);
// A whole text of intrinsics, declared; false after errors.
bool declare_intrinsics(const Source& source, Diagnostics& diagnostics);

// Accesses of a store and of the store of a description that are in the same place.
struct AccessPair {
  const Buffer *buffer, *described;
  Array<const Expr*> indices, described_indices;
};
// Each way in which the store computes what the described one does: accesses in pairs, targets first. There are several
// where the operands of sums and products may change places.
std::vector<std::vector<AccessPair>> pairings(const Store* store, const Store* described);

// Where an operand begins: element of the buffer, counted in memory.
struct IntrinsicOperand {
  const Buffer* buffer = nullptr;
  const Expr* first = nullptr;
};
// One operand per parameter of the description, if the nest computes what the description does:
// loops of the same extents in any order around a store of the same value, with the operands'
// elements where the description has them. `around` = ranges of the variables outside of the nest
// that are known.
Result<std::vector<IntrinsicOperand>> match_intrinsic(Arena& arena, const Intrinsic& intrinsic, const Stmt* nest,
                                                      const VarRanges& around);

}  // namespace tw

// LinearIndex: an index as a constant plus what each loop around adds to it. Used by flat_program.cc, which turns
// thousands of candidates a second into arrays: exact for affine indices, an estimate for // and %, never a proof
// (dsl/analysis/affine.h proves).
#pragma once
#include <array>
#include <span>
#include <vector>

#include "dsl/ir/program.h"

namespace tw {

// No program nests deeper than this (dsl/schedule/state.h, Path).
inline constexpr int kMaxLoopDepth = 96;

// How many operations of each kind, in the order of the first columns of features.h.
enum class Op : u8 {
  FloatMad,
  FloatAddSub,
  FloatMul,
  FloatDivMod,
  FloatCmp,
  FloatMath,
  FloatOther,
  IntMad,
  IntAddSub,
  IntMul,
  IntDivMod,
  IntCmp,
  IntMath,
  IntOther,
  Bool,
  Select,
};
inline constexpr int kOps = 16;
using OpCounts = std::array<float, kOps>;
inline float& at(OpCounts& ops, Op op) { return ops[static_cast<int>(op)]; }
inline float at(const OpCounts& ops, Op op) { return ops[static_cast<int>(op)]; }
void add(OpCounts& to, const OpCounts& from);
// The kind of a binary operation on operands of a type.
Op op_of(BinaryOp op, DType operands);

// For whole numbers, as std::fmod(value, of) == 0, which takes ten times as long.
inline bool is_multiple(double value, double of) {
  return static_cast<double>(static_cast<i64>(value / of)) * of == value;
}

// A constant and a term for each loop that moves the index, outermost first.
struct LinearIndex {
  struct Term {
    int loop;           // its position in the chain, 0 = outermost
    float coefficient;  // what one step adds on average
    float span;         // >= 0: how far the index moves while the loop runs through its range
  };
  double constant = 0;
  bool irregular = false;  // depends on data
  OpCounts ops;            // that computing it takes
  int count = 0;           // of terms
  std::array<Term, kMaxLoopDepth> storage;

  LinearIndex() {}  // leaves terms as they are: clear() comes first
  std::span<Term> terms() { return {storage.data(), static_cast<std::size_t>(count)}; }
  std::span<const Term> terms() const { return {storage.data(), static_cast<std::size_t>(count)}; }
  // Makes a term without movement where the loop has none.
  Term& term(int loop);
  void clear();
  void copy(const LinearIndex& other);
  double lowest() const;
  double highest() const;
};

// What variables mean at one place of a program: loops, numbered by position in the chain of loops around, and block
// iters.
class LinearScope {
 public:
  void reset(u32 variables);
  void bind_loop(const Var* var, int position, i64 extent);
  void bind_zero(const Var* var);  // a loop of one iteration
  // Gives an iter its value, in which it does not occur itself. The result is valid until the next iter is bound.
  const LinearIndex& bind(const Var* var, const Expr* value);
  void evaluate(const Expr* expr, LinearIndex& out) const;
  // The same, where it lies if it is the value of an iter, or in `memory`.
  const LinearIndex& index_of(const Expr* expr, LinearIndex& memory) const;
  // The estimated share of points of the loops at which a condition holds, in [0, 1]; bounds are taken as independent.
  double share(const Expr* condition) const;

 private:
  struct Meaning {
    enum class Tag : u8 { Unknown, Loop, Value } tag = Tag::Unknown;
    int index = 0;  // position of a loop, or entry in values_
    float span = 0;
  };
  // These add `factor` times the expression to an index.
  void add_to(const Expr* expr, double factor, LinearIndex& out) const;
  bool moves(u32 id) const;  // does a loop move this variable?
  void add_variable(u32 id, double factor, LinearIndex& out) const;
  void add_binary(const Binary* expr, double factor, LinearIndex& out) const;
  Meaning& meaning(const Var* var);
  LinearIndex& value_of(const Var* var);

  std::vector<Meaning> meanings_;  // by id of the variable
  std::vector<LinearIndex> values_;
  std::size_t used_values_ = 0;
};

}  // namespace tw

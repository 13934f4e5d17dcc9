// Tensor expressions: a workload in C++. A Definition collects inputs and stages and turns them into a Program, one
// block per stage, in order. The text front end (dsl/text/workload.h) lowers through the same functions. Nothing is
// scheduled here.
//
//   te::Definition d("dense");
//   te::Tensor X = d.input("X", DType::F32, {M, K}), W = d.constant("W", DType::F32, {K, N});
//   IterVar i = d.axis("i", M), j = d.axis("j", N), k = d.reduce_axis("k", K);
//   te::Tensor D = d.sum("D", {i, j}, {k}, X(d[i], d[k]) * W(d[k], d[j]));
//   d.output("Y", {i, j}, te::max(D(d[i], d[j]), 0.0));
//   OwnedProgram program = d.finish();
//
// Types. Narrow types are storage types: reading f16 or bf16 gives f32, reading i8 or u8 gives i32, and a stage
// converts to the type of its buffer when it stores. Operands of different types are widened to the smaller type of
// bool < i32 < i64 < f32 < f64 that is not below either. A number literal takes the type of the other operand (a float
// literal beside an integer makes f32).
// `/` divides floats, `//` and `%` integers. A conversion to an integer type cuts off the fraction and saturates; from
// a wider to a narrower integer it wraps. A stage has the type of its value unless one is given; a reduction
// accumulates in the type of its value (so f16 in f32 and i8 in i32) unless an accumulator type is given; where the two
// differ, the reduction runs in a local buffer NAME_acc and the stage converts.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/check.h"
#include "dsl/ir/build.h"
#include "dsl/ir/program.h"

namespace tw::te {

// The type in which values of `type` are computed: f32 for f16 and bf16, i32 for i8, u8 and bool, else the type itself.
DType arithmetic_type(DType type);
// The type to which both are widened; an arithmetic type.
DType widened(DType a, DType b);

i64 highest_of(DType type);  // the largest value of an integer type

// A scalar value inside a stage.
struct Value {
  Arena* arena = nullptr;
  const Expr* expr = nullptr;
  bool literal = false;  // a number that takes the type of the other operand: an IntImm of I64 or a FloatImm of F32
  DType dtype() const { return expr->type.dtype; }
};

Value literal(Arena& arena, i64 value);
Value literal(Arena& arena, double value);

// Why the operation does not exist for these operands ("expected integers at `//`, found f32"), or "". The operations
// below TW_CHECK that it is "": a front end asks first.
std::string problem(BinaryOp op, const Value& a, const Value& b);
std::string problem(UnaryOp op, const Value& value);
std::string problem_of_condition(const Value& condition);
std::string problem_of_index(const Value& index);

Value binary(BinaryOp op, const Value& a, const Value& b);
Value unary(UnaryOp op, const Value& value);
Value call(Function function, std::vector<Value> arguments);  // integers become f32, but abs keeps them
Value select(const Value& condition, const Value& then, const Value& otherwise);
Value convert(DType type, const Value& value);
Value load(Arena& arena, const Buffer* buffer,
           const std::vector<Value>& indices);  // widened to arithmetic_type; bool stays

inline Value operator+(const Value& a, const Value& b) { return binary(BinaryOp::Add, a, b); }
inline Value operator-(const Value& a, const Value& b) { return binary(BinaryOp::Sub, a, b); }
inline Value operator*(const Value& a, const Value& b) { return binary(BinaryOp::Mul, a, b); }
inline Value operator/(const Value& a, const Value& b) { return binary(BinaryOp::Div, a, b); }
inline Value operator+(const Value& a, double b) { return a + literal(*a.arena, b); }
inline Value operator-(const Value& a, double b) { return a - literal(*a.arena, b); }
inline Value operator*(const Value& a, double b) { return a * literal(*a.arena, b); }
inline Value operator/(const Value& a, double b) { return a / literal(*a.arena, b); }
inline Value operator+(const Value& a, i64 b) { return a + literal(*a.arena, b); }
inline Value operator-(const Value& a, i64 b) { return a - literal(*a.arena, b); }
inline Value operator*(const Value& a, i64 b) { return a * literal(*a.arena, b); }
inline Value max(const Value& a, const Value& b) { return binary(BinaryOp::Max, a, b); }
inline Value min(const Value& a, const Value& b) { return binary(BinaryOp::Min, a, b); }
inline Value max(const Value& a, double b) { return max(a, literal(*a.arena, b)); }
inline Value min(const Value& a, double b) { return min(a, literal(*a.arena, b)); }

// A buffer that a stage can read.
struct Tensor {
  Arena* arena = nullptr;
  const Buffer* buffer = nullptr;
  template <class... Index>
  Value operator()(const Index&... indices) const {
    return load(*arena, buffer, {indices...});
  }
};

// What happens over the reduction axes. ArgMax and ArgMin have two results: the index (row-major over the reduction
// axes; the smallest one of equal values) and the value.
enum class Reducer : u8 { None, Sum, Prod, Max, Min, ArgMax, ArgMin };
std::optional<Reducer> parse_reducer(std::string_view name);  // "sum", ...
inline bool is_arg(Reducer reducer) { return reducer == Reducer::ArgMax || reducer == Reducer::ArgMin; }

struct Stage {
  std::vector<std::string> names;           // one; index and value for ArgMax and ArgMin
  std::vector<std::optional<DType>> types;  // one per name; none = as said above, i64 for an index
  std::vector<IterVar> axes;                // data-parallel: the shape of the result
  Reducer reducer = Reducer::None;
  std::vector<IterVar> reduce_axes;  // at least one unless the reducer is None
  std::optional<DType> accumulator;
  Value value;
  bool is_output = false;
  std::string layout;  // of the result
};

class Definition {
 public:
  explicit Definition(std::string_view name);

  Tensor input(std::string_view name, DType type, const std::vector<i64>& shape, std::string_view layout = "");
  Tensor constant(std::string_view name, DType type, const std::vector<i64>& shape, std::string_view layout = "");
  IterVar axis(std::string_view name, i64 extent);
  IterVar reduce_axis(std::string_view name, i64 extent);
  Value operator[](const IterVar& axis) const { return {arena_.get(), axis.var}; }

  // The results, one per name. A name that is taken gets a suffix _1, _2, ...
  std::vector<Tensor> add(const Stage& stage);
  Tensor compute(std::string_view name, const std::vector<IterVar>& axes, const Value& value);
  Tensor output(std::string_view name, const std::vector<IterVar>& axes, const Value& value);
  Tensor sum(std::string_view name, const std::vector<IterVar>& axes, const std::vector<IterVar>& over,
             const Value& value);

  void set_tolerance(Tolerance tolerance) { program_.tolerance = tolerance; }
  Arena& arena() { return *arena_; }
  OwnedProgram finish();

 private:
  const Buffer* buffer(std::string_view name, DType type, const std::vector<i64>& shape, std::string_view layout);
  Tensor placeholder(std::string_view name, DType type, const std::vector<i64>& shape, std::string_view layout,
                     Role role);
  Tensor result(const Stage& stage, std::size_t index, DType type, bool is_local);
  void emit(std::string_view name, const std::vector<IterVar>& axes, const Stmt* init, const Stmt* body);
  std::vector<Tensor> add_reduction(const Stage& stage);
  std::vector<Tensor> add_arg_reduction(const Stage& stage);

  Str fresh(std::string_view wanted);

  std::set<std::string, std::less<>> taken_;
  std::shared_ptr<Arena> arena_ = std::make_shared<Arena>();
  Program program_;
  std::vector<Param> params_;
  std::vector<const Buffer*> locals_;
  std::vector<const Stmt*> nests_;
};

}  // namespace tw::te

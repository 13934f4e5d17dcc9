// Every node of the IR, described here and nowhere else. Nodes are immutable, live in an Arena, and are shared freely.
// To add one: docs/add_a_node.md.
//
//   program = params, locals, body
//   stmt    = Store(targets, values)                       all values are computed before any target is written
//           | Seq(stmts) | If(condition, then, else?)
//           | For(id, var, extent, kind, thread, annotations, body)      var runs over [0, extent)
//           | Block(id, name, iters, bindings, predicate?, init?, body, annotations)
//           | Alloc(buffer, body)                          lowered programs only: the buffer lives inside body
//   expr    = IntImm | FloatImm | Var | Cast(e) | Unary(op, e) | Binary(op, a, b) | Select(c, a, b)
//           | Call(function, args) | Load(buffer, indices)
//           | Ramp(base, stride, lanes) | Broadcast(e, lanes)
//
// A Block is a piece of computation that is described by its iteration variables alone (TensorIR, ASPLOS 2023): each
// iter has a domain [0, extent) and a kind, S = data-parallel, R = reduction; `bindings` are the values of the iters in
// terms of the loops around. A block with R iters has an `init`, run when all R iters are 0, until it is decomposed.
// Regions read and written are not stored: dsl/analysis/region.h derives them from the body.
#pragma once
#include <tuple>

#include "dsl/ir/types.h"

namespace tw {

enum class Kind : u8 {
  IntImm,
  FloatImm,
  Var,
  Cast,
  Unary,
  Binary,
  Select,
  Call,
  Load,
  Ramp,
  Broadcast,
  Store,
  Seq,
  If,
  For,
  Block,
  Alloc,  // statements
};
// Those up to here have no children, those behind may have some.
inline constexpr Kind kLastLeaf = Kind::Var, kLastKind = Kind::Alloc;

struct Node {
  Kind kind;
};
struct Expr : Node {
  Type type;
};
struct Stmt : Node {};

// ---- lists of fields
//
// Each node has one list of its fields, `fields`, in the order in which they are visited and hashed; so have the
// records that lists inside of nodes consist of. Children, rebuilding, copying, hash and equality follow from it
// (walk.h, compare.cc, program.cc). The type of a field says what it is: `const Expr*` and `const Stmt*` are children,
// `const Var*` is a variable that the node defines, and `const Buffer*` a buffer. Two things are said in the list
// itself:

// A handle or a name, which does not count when programs are compared.
template <class Member>
struct Uncompared {
  Member member;
};

// These children may be null. Which of them are there counts when programs are compared, at this place of the order.
template <class... Members>
struct Nullable {
  std::tuple<Members...> members;
  constexpr explicit Nullable(Members... which) : members(which...) {}
};

// ---- expressions

struct IntImm : Expr {
  i64 value;
  static constexpr Kind own_kind = Kind::IntImm;
  static constexpr std::tuple fields{&IntImm::value};
};
struct FloatImm : Expr {
  double value;
  static constexpr Kind own_kind = Kind::FloatImm;
  static constexpr std::tuple fields{&FloatImm::value};
};
// Identity is the pointer. `id` is unique in its program and small, so that tables can be indexed by it.
struct Var : Expr {
  u32 id;
  Str name;
  static constexpr Kind own_kind = Kind::Var;
  static constexpr std::tuple fields{Uncompared{&Var::id}, Uncompared{&Var::name}};
};
struct Cast : Expr {  // to `type`
  const Expr* value;
  static constexpr Kind own_kind = Kind::Cast;
  static constexpr std::tuple fields{&Cast::value};
};
enum class UnaryOp : u8 { Neg, Not };
struct Unary : Expr {
  UnaryOp op;
  const Expr* value;
  static constexpr Kind own_kind = Kind::Unary;
  static constexpr std::tuple fields{&Unary::op, &Unary::value};
};
// Div is float division; integers divide by FloorDiv and FloorMod (Python's // and %). Min is `a < b ? a : b`, Max `a >
// b ? a : b`: the second operand if one of the two is a NaN. So a reduction with a NaN among its terms depends on their
// order.
enum class BinaryOp : u8 { Add, Sub, Mul, Div, FloorDiv, FloorMod, Min, Max, Lt, Le, Gt, Ge, Eq, Ne, And, Or };
struct Binary : Expr {
  BinaryOp op;
  const Expr *a, *b;
  static constexpr Kind own_kind = Kind::Binary;
  static constexpr std::tuple fields{&Binary::op, &Binary::a, &Binary::b};
};
struct Select : Expr {  // only the chosen side is evaluated
  const Expr *condition, *then, *otherwise;
  static constexpr Kind own_kind = Kind::Select;
  static constexpr std::tuple fields{&Select::condition, &Select::then, &Select::otherwise};
};
// ReduceX combines the lanes of a vector into one scalar; lowered programs only. Within(x, min, extent) is the index x,
// of which it is known that it lies in [min, min + extent): a fact for analysis, which the interpreter checks and
// lowering drops.
enum class Function : u8 {
  Exp,
  Log,
  Sqrt,
  Rsqrt,
  Tanh,
  Erf,
  Sigmoid,
  Abs,
  Floor,
  Ceil,
  Round,
  Pow,
  ReduceAdd,
  ReduceMul,
  ReduceMin,
  ReduceMax,
  Within,
};
struct Call : Expr {
  Function function;
  Array<const Expr*> arguments;
  static constexpr Kind own_kind = Kind::Call;
  static constexpr std::tuple fields{&Call::function, &Call::arguments};
};

// Where a buffer lives. Global: memory, shared by all workers unless the block sits inside a parallel loop. Register:
// must end up in registers, so every index is constant once loops are unrolled and vectorized. Shared, Local: GPU
// memories. Vtcm: a processor's own fast memory of a few MiB that is addressed as all else (Hexagon).
enum class Scope : u8 { Global, Register, Shared, Local, Vtcm };

// The stride of one dimension, in elements, is the smallest that is `offset` modulo `factor` and leaves room for the
// dimensions inside of it: rows are padded, so that they start in different banks or at aligned addresses.
inline constexpr i64 kMaxStrideFactor = 4096;
struct StrideRule {
  i64 axis, factor, offset;
};

struct Buffer {
  BufferId id;  // survives rewriting of the buffer (transform_layout keeps it)
  Str name;
  DType dtype;
  Array<i64> shape;
  Scope scope = Scope::Global;
  Str layout =
      {};  // "" = row-major; names a storage order that does not change indices (e.g. a swizzle); GPU backends read it
  Array<StrideRule> stride_rules = {};  // at most one per dimension; indices know nothing of them
};

struct Load : Expr {
  const Buffer* buffer;
  Array<const Expr*> indices;
  static constexpr Kind own_kind = Kind::Load;
  static constexpr std::tuple fields{&Load::buffer, &Load::indices};
};
struct Ramp : Expr {  // base, base + stride, ...
  const Expr *base, *stride;
  static constexpr Kind own_kind = Kind::Ramp;
  static constexpr std::tuple fields{&Ramp::base, &Ramp::stride};
};
struct Broadcast : Expr {
  const Expr* value;
  static constexpr Kind own_kind = Kind::Broadcast;
  static constexpr std::tuple fields{&Broadcast::value};
};

// ---- statements

struct StoreTarget {
  const Buffer* buffer;
  Array<const Expr*> indices;
  static constexpr std::tuple fields{&StoreTarget::buffer, &StoreTarget::indices};
};
struct Store : Stmt {
  Array<StoreTarget> targets;
  Array<const Expr*> values;
  static constexpr Kind own_kind = Kind::Store;
  static constexpr std::tuple fields{&Store::values, &Store::targets};
};
struct Seq : Stmt {
  Array<const Stmt*> stmts;
  static constexpr Kind own_kind = Kind::Seq;
  static constexpr std::tuple fields{&Seq::stmts};
};
struct If : Stmt {
  const Expr* condition;
  const Stmt *then, *otherwise;  // otherwise may be null
  static constexpr Kind own_kind = Kind::If;
  static constexpr std::tuple fields{Nullable(&If::otherwise), &If::condition, &If::then, &If::otherwise};
};

// What a mark says: an integer, a text, a finite number with a fraction, a list, or a dictionary.
struct Literal {
  enum class Tag : u8 { Int, Text, Number, List, Dictionary };
  Tag tag = Tag::Int;
  i64 integer = 0;
  Str text = {};
  double number = 0;
  Array<Literal> items = {};  // of List and Dictionary
  Array<Str> keys = {};       // of Dictionary: one per item, none twice

  static Literal of(i64 value) { return {.integer = value}; }
  static Literal of(Str value) { return {.tag = Tag::Text, .text = value}; }
  bool is(Tag wanted) const { return tag == wanted; }
};

// Marks on loops, blocks and the program.
struct Annotation {
  Str key;
  Literal value = {};
};

enum class LoopKind : u8 { Serial, Parallel, Vectorize, Unroll, Bind };
struct For : Stmt {
  LoopId id;
  const Var* var;
  i64 extent;
  LoopKind loop_kind;
  Str thread;  // of Bind: "blockIdx.x", "threadIdx.y", "vthread", ...
  Array<Annotation> annotations;
  const Stmt* body;
  static constexpr Kind own_kind = Kind::For;
  static constexpr std::tuple fields{Uncompared{&For::id}, &For::var,         &For::extent, &For::loop_kind,
                                     &For::thread,         &For::annotations, &For::body};
};

enum class IterKind : u8 { S, R };
struct IterVar {
  const Var* var;
  i64 extent;
  IterKind kind;
  static constexpr std::tuple fields{&IterVar::var, &IterVar::extent, &IterVar::kind};
};
struct Block : Stmt {
  BlockId id;
  Str name;
  Array<IterVar> iters;
  Array<const Expr*> bindings;  // one per iter, over the loop variables around
  const Expr* predicate;        // over the loop variables; null = always
  const Stmt* init;             // null = none
  const Stmt* body;
  Array<Annotation> annotations;
  static constexpr Kind own_kind = Kind::Block;
  static constexpr std::tuple fields{Uncompared{&Block::id},
                                     Uncompared{&Block::name},
                                     &Block::bindings,
                                     &Block::iters,
                                     Nullable(&Block::predicate, &Block::init),
                                     &Block::annotations,
                                     &Block::predicate,
                                     &Block::init,
                                     &Block::body};
};
struct Alloc : Stmt {
  const Buffer* buffer;
  const Stmt* body;
  static constexpr Kind own_kind = Kind::Alloc;
  static constexpr std::tuple fields{&Alloc::buffer, &Alloc::body};
};

// ---- access by kind

// The node as a T, or null if it is of another kind. as<T>(null) is null.
template <class T>
const T* as(const Node* node) {
  return node && node->kind == T::own_kind ? static_cast<const T*>(node) : nullptr;
}

// The table of kinds: calls visit(Struct<IntImm>{}), visit(Struct<Binary>{}), ... with the struct that nodes of this
// kind are.
template <class T>
struct Struct {
  using Type = T;
};
template <class Visit>
[[gnu::always_inline]] inline decltype(auto) with_struct(Kind kind, Visit&& visit) {
  switch (kind) {
    case Kind::IntImm:
      return visit(Struct<IntImm>{});
    case Kind::FloatImm:
      return visit(Struct<FloatImm>{});
    case Kind::Var:
      return visit(Struct<Var>{});
    case Kind::Cast:
      return visit(Struct<Cast>{});
    case Kind::Unary:
      return visit(Struct<Unary>{});
    case Kind::Binary:
      return visit(Struct<Binary>{});
    case Kind::Select:
      return visit(Struct<Select>{});
    case Kind::Call:
      return visit(Struct<Call>{});
    case Kind::Load:
      return visit(Struct<Load>{});
    case Kind::Ramp:
      return visit(Struct<Ramp>{});
    case Kind::Broadcast:
      return visit(Struct<Broadcast>{});
    case Kind::Store:
      return visit(Struct<Store>{});
    case Kind::Seq:
      return visit(Struct<Seq>{});
    case Kind::If:
      return visit(Struct<If>{});
    case Kind::For:
      return visit(Struct<For>{});
    case Kind::Block:
      return visit(Struct<Block>{});
    case Kind::Alloc:
      return visit(Struct<Alloc>{});
  }
  __builtin_unreachable();
}
// Calls visit with the node as what it is: const IntImm&, const Binary&, ...
template <class Visit>
[[gnu::always_inline]] inline decltype(auto) dispatch(const Node* node, Visit&& visit) {
  return with_struct(node->kind, [&](auto is) -> decltype(auto) {
    return visit(static_cast<const typename decltype(is)::Type&>(*node));
  });
}
inline bool is_expr(const Node* node) { return node->kind < Kind::Store; }

const char* name_of(BinaryOp op);  // "+"
const char* name_of(Function f);   // "exp"
std::optional<Function> parse_function(std::string_view name);
int arity_of(Function f);
// The function that combines lanes with this operation (+ * min max), and the operation of such a function.
std::optional<Function> reduction_by(BinaryOp op);
std::optional<BinaryOp> combined_by(Function f);
// A call of Within, or null.
const Call* as_within(const Node* node);
const char* name_of(LoopKind kind);  // "serial", "parallel", "vectorize", "unroll", "bind"
const char* name_of(Scope scope);    // "global"
std::optional<Scope> parse_scope(std::string_view name);

const Annotation* find_annotation(Array<Annotation> annotations, std::string_view key);
Array<Annotation> with_annotation(Arena& arena, Array<Annotation> annotations,
                                  const Annotation& added);  // replaces the key
Array<Annotation> without_annotation(Arena& arena, Array<Annotation> annotations, std::string_view key);
Literal copy_of(Arena& arena, const Literal& value);  // with its texts, lists and dictionaries

}  // namespace tw

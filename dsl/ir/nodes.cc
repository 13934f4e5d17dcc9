#include "dsl/ir/nodes.h"

#include <iterator>

#include "dsl/base/list.h"

namespace tw {
namespace {

constexpr const char* kBinaryNames[] = {"+", "-",  "*", "/",  "//", "%",  "min", "max",
                                        "<", "<=", ">", ">=", "==", "!=", "and", "or"};
struct FunctionRow {
  const char* name;
  int arity;
};
constexpr FunctionRow kFunctions[] = {
    {"exp", 1},        {"log", 1},        {"sqrt", 1},       {"rsqrt", 1},      {"tanh", 1},  {"erf", 1},
    {"sigmoid", 1},    {"abs", 1},        {"floor", 1},      {"ceil", 1},       {"round", 1}, {"pow", 2},
    {"reduce_add", 1}, {"reduce_mul", 1}, {"reduce_min", 1}, {"reduce_max", 1}, {"within", 3}};
struct ReductionRow {
  Function function;
  BinaryOp op;
};
constexpr ReductionRow kReductions[] = {{Function::ReduceAdd, BinaryOp::Add},
                                        {Function::ReduceMul, BinaryOp::Mul},
                                        {Function::ReduceMin, BinaryOp::Min},
                                        {Function::ReduceMax, BinaryOp::Max}};
constexpr const char* kLoopKinds[] = {"serial", "parallel", "vectorize", "unroll", "bind"};
constexpr const char* kScopes[] = {"global", "register", "shared", "local", "global.vtcm"};

}  // namespace

const char* name_of(BinaryOp op) { return kBinaryNames[static_cast<int>(op)]; }
const char* name_of(Function f) { return kFunctions[static_cast<int>(f)].name; }
int arity_of(Function f) { return kFunctions[static_cast<int>(f)].arity; }
const char* name_of(LoopKind kind) { return kLoopKinds[static_cast<int>(kind)]; }
const char* name_of(Scope scope) { return kScopes[static_cast<int>(scope)]; }

std::optional<Function> reduction_by(BinaryOp op) {
  for (const ReductionRow& row : kReductions) {
    if (row.op == op) return row.function;
  }
  return std::nullopt;
}

std::optional<BinaryOp> combined_by(Function f) {
  for (const ReductionRow& row : kReductions) {
    if (row.function == f) return row.op;
  }
  return std::nullopt;
}

const Call* as_within(const Node* node) {
  const Call* call = as<Call>(node);
  return call && call->function == Function::Within ? call : nullptr;
}

std::optional<Function> parse_function(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kFunctions); ++i) {
    if (name == kFunctions[i].name) return static_cast<Function>(i);
  }
  return std::nullopt;
}

std::optional<Scope> parse_scope(std::string_view name) {
  for (std::size_t i = 0; i < std::size(kScopes); ++i) {
    if (name == kScopes[i]) return static_cast<Scope>(i);
  }
  return std::nullopt;
}

const Annotation* find_annotation(Array<Annotation> annotations, std::string_view key) {
  for (const Annotation& annotation : annotations) {
    if (annotation.key == key) return &annotation;
  }
  return nullptr;
}

Array<Annotation> with_annotation(Arena& arena, Array<Annotation> annotations, const Annotation& added) {
  List<Annotation> list;
  for (const Annotation& annotation : annotations) {
    if (annotation.key != added.key) list.push_back(annotation);
  }
  list.push_back(added);
  return arena.copy(list);
}

Array<Annotation> without_annotation(Arena& arena, Array<Annotation> annotations, std::string_view key) {
  List<Annotation> list;
  for (const Annotation& annotation : annotations) {
    if (annotation.key != key) list.push_back(annotation);
  }
  return arena.copy(list);
}

Literal copy_of(Arena& arena, const Literal& value) {
  Literal copy = value;
  copy.text = arena.text(value.text);
  List<Literal> items;
  for (const Literal& item : value.items) items.push_back(copy_of(arena, item));
  copy.items = arena.copy(items);
  List<Str> keys;
  for (Str key : value.keys) keys.push_back(arena.text(key));
  copy.keys = arena.copy(keys);
  return copy;
}

}  // namespace tw

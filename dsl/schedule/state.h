// State: a program under transformation and the values that instructions have made. Primitives look nodes up by id and
// replace them; a step checks first and then replaces, so a Reject never leaves half a change.
#pragma once
#include "dsl/ir/program.h"
#include "dsl/ir/walk.h"
#include "dsl/schedule/instruction.h"

namespace tw {

// How deep statements may be nested, in a workload and after an instruction.
inline constexpr int kMostNesting = 90;

// The statements from the outermost one to a node, both included. It has room for twice kMostNesting, since an
// instruction may nest deeper while it is applied.
class Path {
 public:
  static constexpr int kMax = 2 * kMostNesting;
  int size() const { return size_; }
  const Stmt* operator[](int i) const { return nodes_[i]; }
  const Stmt* back() const { return nodes_[size_ - 1]; }
  void push(const Stmt* node) {
    TW_CHECK(size_ < kMax, "program nested too deeply");
    nodes_[size_++] = node;
  }
  void pop() { --size_; }
  int index_of(const Stmt* node) const {
    for (int i = 0; i < size_; ++i)
      if (nodes_[i] == node) return i;
    return -1;
  }

 private:
  const Stmt* nodes_[kMax];
  int size_ = 0;
};

class State {
 public:
  // New nodes go into `arena`; the program may live in an older one.
  State(Arena& arena, const Program& program) : arena_(&arena), program_(program) {}
  // As if new, with another program; keeps the memory of its values.
  void restart(const Program& program) {
    program_ = program;
    values_.clear();
  }

  const Program& program() const { return program_; }
  Arena& arena() const { return *arena_; }
  Build build() const { return {*arena_}; }

  // ---- lookup; a dead handle is a Reject
  Result<Path> path_to(LoopId id) const;
  Result<Path> path_to(BlockId id) const;
  Result<const For*> loop(LoopId id) const;
  Result<const Block*> block(BlockId id) const;
  const For* find_loop(LoopId id) const;  // null if dead
  const Block* find_block(BlockId id) const;
  // Loops around the last node of a path (itself not included), outermost first.
  Array<const For*> loops_on(const Path& path) const;
  Result<Array<const For*>> loops_around(BlockId id) const;
  // All blocks in program order; all blocks that write / read a buffer.
  Array<const Block*> blocks() const;

  // ---- change
  void set_program(const Program& program) { program_ = program; }
  void set_body(const Stmt* body) { program_.body = body; }
  // `old` (found by pointer) becomes `now`; null removes it, and loops that become empty with it.
  void replace(const Stmt* old, const Stmt* now);
  void add_local(const Buffer* buffer);
  void remove_local(const Buffer* buffer);
  // Every access to `from` goes to `to`, the list of params and locals included. Same rank of indices.
  void replace_buffer_everywhere(const Buffer* from, const Buffer* to);

  // Rejects a program that nests deeper than kMostNesting or has a local buffer of more than kMostElements.
  Status within_limits() const;

  // ---- fresh names and ids
  LoopId fresh_loop() { return {program_.next_loop++}; }
  BlockId fresh_block() { return {program_.next_block++}; }
  const Var* fresh_var(Str name) { return build().var(program_.next_var++, name); }
  // A buffer whose name does not occur yet: `name`, or name_1, name_2, ...
  const Buffer* fresh_buffer(Str name, DType dtype, Array<i64> shape, Scope scope);
  Str fresh_block_name(Str wanted) const;
  Str name(std::string_view base, std::string_view suffix) const;  // base + suffix, in the arena
  // A list of names with one more: `added` alone if there are none before.
  Str with_name(Str names, std::string_view separator, Str added) const {
    return names.empty() ? added : name(name(names, separator), added);
  }

  // ---- values of the trace
  List<Value>& values() { return values_; }
  const List<Value>& values() const { return values_; }
  // The integer that an argument stands for.
  Result<i64> integer(const Arg& arg) const;

 private:
  Arena* arena_;
  Program program_;
  List<Value> values_;
};

// The reject as text, with the program printed and the loops and blocks concerned marked.
std::string explain(const Reject& reject, const State& state);

}  // namespace tw

// Expressions of printed programs: ast -> typed IR nodes, with the names of loops, iters and buffers. Used by
// parse_program.cc.
#pragma once
#include <string_view>
#include <unordered_map>
#include <vector>

#include "dsl/ir/build.h"
#include "dsl/text/parse_expr.h"

namespace tw {

// Which variable or buffer a name means. Names nest; between enter_block() and leave_block() the variables outside are
// unknown.
class ProgramNames {
 public:
  struct Entry {
    Str name;
    const Var* var;  // or
    const Buffer* buffer;
    std::size_t block;
  };
  void push(const Var* var, Str name) { push({name, var, nullptr, block_}); }
  void push(const Buffer* buffer, Str name) { push({name, nullptr, buffer, block_}); }
  void pop() {
    by_name_[order_.back()].pop_back();
    order_.pop_back();
  }
  const Entry* find(std::string_view name) const;
  bool is_buffer(std::string_view name) const;
  std::vector<std::string> all() const;
  std::size_t enter_block() { return std::exchange(block_, ++blocks_); }
  void leave_block(std::size_t before) { block_ = before; }

 private:
  void push(const Entry& entry) {
    by_name_[entry.name].push_back(entry);
    order_.push_back(entry.name);
  }
  std::unordered_map<std::string_view, std::vector<Entry>> by_name_;
  std::vector<Str> order_;
  std::size_t block_ = 0, blocks_ = 0;
};

// Types are exact: nothing is converted unless the text says so. Null after an error, which is reported to the parser.
class ProgramExprs {
 public:
  ProgramExprs(Arena& arena, Parser& parser, const ProgramNames& names)
      : build_{arena}, parser_(parser), names_(names) {}
  const Expr* lower(const ast::Expr* e);
  const Expr* condition(const ast::Expr* e);               // Bool
  const Expr* index(const ast::Expr* e);                   // I64
  std::optional<StoreTarget> element(const ast::Expr* e);  // X[i, j]

 private:
  std::nullptr_t fail(Span span, std::string message, std::string note = "");
  const Expr* name(const ast::Name* e);
  const Expr* unary(const ast::Unary* e);
  const Expr* binary(const ast::Binary* e);
  const Expr* binary(BinaryOp op, const Expr* a, const Expr* b, Span at);
  const Expr* select(const ast::If* e);
  const Expr* call(const ast::Call* e);
  const Expr* convert(DType type, const ast::Expr* e);
  const Expr* vector(const ast::Call* e, Str kind);
  std::optional<std::vector<const Expr*>> arguments(const ast::Call* e, std::size_t count);

  Build build_;
  Parser& parser_;
  const ProgramNames& names_;
};

}  // namespace tw

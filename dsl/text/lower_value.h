// Values of stages: expression trees to te::Value. Resolves names, calls functions of the module and of the library,
// checks types and sizes. Used by instantiate.cc.
#pragma once
#include "dsl/text/lists.h"
#include "dsl/text/workload.h"

namespace tw::instantiation {

class ValueLowering : private ListLanguage {
 public:
  // `module` is where errors point; its functions come before those of the library.
  ValueLowering(Arena& arena, const WorkloadModule& module, Errors& errors);

  // Nothing after an error. `read_as`: buffers are read as this type where it is wider than their own (the accumulator
  // of a reduction); or none.
  std::optional<te::Value> lower(const ast::Expr* expr, const Names& scope,
                                 std::optional<DType> read_as = std::nullopt);

 private:
  using Maybe = std::optional<te::Value>;
  Found element(const ast::Expr* e, const Names& scope) override;
  Found combine(BinaryOp op, Span span, const Meaning& a, const Meaning& b) override;
  Meaning truth(bool value) override;
  Maybe value(const ast::Expr* e, const Names& scope);
  Maybe value_of(const Meaning& meaning, Span span);
  Found name(const ast::Name* e, const Names& scope);
  Maybe literal(i64 integer, Span span);
  Maybe unary(const ast::Unary* e, const Names& scope);
  Found binary(const ast::Binary* e, const Names& scope);
  Found select(const ast::If* e, const Names& scope);
  Found call(const ast::Call* e, const Names& scope);
  Found builtin(const ast::Call* e, Str name, const std::vector<Meaning>& arguments);
  Found user_function(const ast::Call* e, Str name, const std::vector<Meaning>& arguments);
  Found index(const ast::Index* e, const Names& scope);
  Maybe load(const ast::Index* e, Str name, const te::Tensor& tensor, const Names& scope);
  std::optional<std::vector<te::Value>> indices(const ast::Index* e, const Names& scope);
  bool small_enough(const Expr* expr, Span span);

  Arena& arena_;
  const WorkloadModule& module_;
  std::optional<DType> read_as_;
  // Functions see only the functions before them: the module and the number of those that are visible.
  const WorkloadModule* functions_of_;
  std::size_t visible_functions_;
  int depth_ = 0;
  i64 steps_ = 0;
};

}  // namespace tw::instantiation

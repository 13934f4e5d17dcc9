// Values of stages: expression trees to te::Value. Resolves names, calls functions of the module and of the library,
// checks types and sizes. Used by instantiate.cc.
#pragma once
#include "dsl/text/evaluate.h"
#include "dsl/text/workload.h"

namespace tw::instantiation {

class ValueLowering {
 public:
  // `module` is where errors point; its functions come before those of the library.
  ValueLowering(Arena& arena, const WorkloadModule& module, Errors& errors);

  // Nothing after an error. `read_as`: buffers are read as this type where it is wider than their own (the accumulator
  // of a reduction); or none.
  std::optional<te::Value> lower(const ast::Expr* expr, const Names& scope,
                                 std::optional<DType> read_as = std::nullopt);

 private:
  using Maybe = std::optional<te::Value>;
  std::nullopt_t fail(Span span, std::string message, std::string note = "");
  Maybe value(const ast::Expr* e, const Names& scope);
  Maybe name(const ast::Name* e, const Names& scope);
  Maybe literal(i64 integer, Span span);
  Maybe unary(const ast::Unary* e, const Names& scope);
  Maybe binary(const ast::Binary* e, const Names& scope);
  Maybe select(const ast::If* e, const Names& scope);
  Maybe call(const ast::Call* e, const Names& scope);
  Maybe builtin(const ast::Call* e, Str name, const std::vector<te::Value>& arguments);
  Maybe user_function(const ast::Call* e, Str name, const std::vector<te::Value>& arguments);
  Maybe index(const ast::Index* e, const Names& scope);
  std::optional<std::vector<te::Value>> indices(const ast::Index* e, const Names& scope);
  bool small_enough(const Expr* expr, Span span);

  Arena& arena_;
  const WorkloadModule& module_;
  Errors& errors_;
  std::optional<DType> read_as_;
  // Functions see only the functions before them: the module and the number of those that are visible.
  const WorkloadModule* functions_of_;
  std::size_t visible_functions_;
  int depth_ = 0;
  i64 steps_ = 0;
};

}  // namespace tw::instantiation

// Lists in workloads: [a, b], [f(x) for x in xs], xs[1:], xs + ys, all(x in xs: ...) and the functions on lists. A list
// of integers is a shape or a part of one, a list of values the axes of a stage: so one text serves tensors of all
// ranks. Base of the evaluators of both (evaluate.cc, lower_value.h), which know what an element is.
#pragma once
#include "dsl/text/evaluate.h"

namespace tw::instantiation {

// "len", "zip", ...
bool is_list_function(std::string_view name);

class ListLanguage {
 public:
  explicit ListLanguage(Errors& errors) : errors_(errors) {}
  virtual ~ListLanguage() = default;

 protected:
  using Found = std::optional<Meaning>;  // nothing after an error

  // What an expression stands for: an element or a list.
  Found item(const ast::Expr* e, const Names& scope);
  // The same of an expression that is not written as a list. It may still be one, as a name or a call.
  virtual Found element(const ast::Expr* e, const Names& scope) = 0;
  // The result of an operation on two elements.
  virtual Found combine(BinaryOp op, Span span, const Meaning& a, const Meaning& b) = 0;
  virtual Meaning truth(bool value) = 0;

  std::nullopt_t fail(Span span, std::string message, std::string note = "");
  // xs[0], xs[-1], xs[1:]
  Found part(const ast::Index* e, const Meaning& of, const Names& scope);
  Found joined(Span span, const Meaning& a, const Meaning& b);
  // A call of one of the functions on lists; also of min(xs) and max(xs).
  Found list_function(const ast::Call* e, Str name, const std::vector<Meaning>& arguments);

  Errors& errors_;

 private:
  Found list(const ast::List* e, const Names& scope);
  Found comprehension(const ast::Comprehension* e, const Names& scope);
  Found quantifier(const ast::Quantifier* e, const Names& scope);
  std::optional<std::vector<Meaning>> list_over(const ast::Expr* e, const Names& scope);
  bool count(Span span, std::size_t elements);  // against the limit of all lists
  Found made(Span span, std::vector<Meaning> items);
  Found search(const ast::Call* e, Str name, const std::vector<Meaning>& items, std::optional<i64> number);
  Found range(const ast::Call* e, const std::vector<Meaning>& arguments);
  Found of_one_list(const ast::Call* e, Str name, const std::vector<Meaning>& items);
  std::optional<Meaning> folded(BinaryOp op, Span span, const std::vector<Meaning>& items);
  bool bind(const Array<const ast::Name*>& names, const Meaning& to, Names& inside);
  std::optional<i64> position(const ast::Expr* e, i64 length, const Names& scope);
};

}  // namespace tw::instantiation

// What names mean while a workload is instantiated, and the expressions that are known then: integers (extents, lets,
// conditions) and element types. Values of stages are in dsl/text/lower_value.h.
#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "dsl/base/diagnostic.h"
#include "dsl/te/te.h"
#include "dsl/text/ast.h"

namespace tw::instantiation {

struct List;
using Meaning = std::variant<i64, DType, te::Tensor, te::Value, std::shared_ptr<const List>>;
struct List {
  std::vector<Meaning> items;
};
Meaning list_of(std::vector<Meaning> items);
// Null if it is no list.
const std::vector<Meaning>* items_of(const Meaning& meaning);
// The integer that it is or that is known of its value.
std::optional<i64> number_of(const Meaning& meaning);

// Names with what they stand for; looks into `outer` for what it does not know itself.
class Names {
 public:
  explicit Names(const Names* outer = nullptr) : outer_(outer) {}
  bool add(std::string_view name, Meaning meaning) { return names_.emplace(name, std::move(meaning)).second; }
  const Meaning* find(std::string_view name) const;
  std::vector<std::string> all() const;

 private:
  const Names* outer_;
  std::map<std::string, Meaning, std::less<>> names_;
};

// Reports at most kMaxErrors. While text of another module is evaluated (a function of the library) errors point at the
// place in this module that asked for it.
class Errors {
 public:
  explicit Errors(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}
  void operator()(Span span, std::string message, std::string note = "");
  bool any() const { return count_ > 0; }
  bool full() const;
  // Adds to the elements of all lists so far; false beyond `most`.
  bool count_elements(i64 more, i64 most) { return (elements_ += more) <= most; }

  // Sets the place to blame while it lives.
  class Blame {
   public:
    Blame(Errors& errors, std::optional<Span> span) : errors_(errors), before_(errors.blamed_) {
      if (span && !errors.blamed_) errors.blamed_ = span;
    }
    ~Blame() { errors_.blamed_ = before_; }
    Blame(const Blame&) = delete;

   private:
    Errors& errors_;
    std::optional<Span> before_;
  };

 private:
  Diagnostics& diagnostics_;
  std::optional<Span> blamed_;
  int count_ = 0;
  i64 elements_ = 0;
};

// Reports "unknown name `x`" with what may have been meant.
void report_unknown(const ast::Name* name, const Names& scope, Errors& errors);

// Nothing after an error. An integer, or a list of integers and lists. Conditions are 0 and 1; arithmetic that
// overflows is an error.
std::optional<Meaning> evaluate_constant(const ast::Expr* expr, const Names& scope, Errors& errors);
std::optional<i64> evaluate_integer(const ast::Expr* expr, const Names& scope, Errors& errors);
std::optional<DType> evaluate_type(const ast::Expr* expr, const Names& scope, Errors& errors);

}  // namespace tw::instantiation

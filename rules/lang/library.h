// The rules at hand: built-in modules (rules/*.tw) and the user's. Named sets say which rules run in which order; a user's module
// may define a rule anew with a name of its own and list it in a set.
#pragma once
#include "rules/lang/evaluate.h"

namespace tw::rules {

class Library {
 public:
  // The built-in modules. An error in them is a bug.
  static Library built_in();
  // Adds a module of the user; false with errors in `diagnostics`.
  bool add(std::shared_ptr<const Module> module, Diagnostics& diagnostics);

  std::vector<std::string> set_names() const;
  // The rules of a set in order, posts included; errors (unknown rule or parameter) were found by add(). Null: no such set.
  const std::vector<RuleUse>* find_set(std::string_view name) const;
  const FunctionTable& functions() const { return functions_; }
  const Rule* find_rule(std::string_view name) const;
  const std::vector<std::shared_ptr<const Module>>& modules() const { return modules_; }

 private:
  bool add_rules(const std::shared_ptr<const Module>& module, Diagnostics& diagnostics);
  bool add_sets(const std::shared_ptr<const Module>& module, Diagnostics& diagnostics);
  bool add_set(const std::shared_ptr<const Module>& module, const RuleSet& set, Diagnostics& diagnostics);

  std::vector<std::shared_ptr<const Module>> modules_;
  FunctionTable functions_;
  std::vector<std::pair<std::string, std::vector<RuleUse>>> sets_;
};

}  // namespace tw::rules

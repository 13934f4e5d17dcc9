// The rules at hand: built-in modules (rules/*.tw) and the user's. Named sets say which rules run in which order. A
// user's module lists its rules in a set of its own, says next to which rule they go, or takes the place of what is
// there with `replace`.
#pragma once
#include "rules/lang/evaluate.h"

namespace tw::rules {

class Library {
 public:
  // The built-in modules. An error in them is a bug.
  static Library built_in();
  // Adds a module of the user; false with errors in `diagnostics`, and nothing was added. Its imports must have been
  // added before.
  bool add(std::shared_ptr<const Module> module, Diagnostics& diagnostics);

  // Puts the rules of a module, in order, into a set: before, after or in the place of `anchor`. "" or what is wrong.
  enum class Place : u8 { Before, After, Instead };
  std::string place(const std::shared_ptr<const Module>& module, std::string_view set, Place where,
                    std::string_view anchor);

  std::vector<std::string> set_names() const;
  // The rules of a set in order, posts included; errors (unknown rule or parameter) were found by add(). Null: no such
  // set.
  const std::vector<RuleUse>* find_set(std::string_view name) const;
  const Declared& declared() const { return declared_; }
  const Rule* find_rule(std::string_view name) const;
  // What a misspelt rule may have meant, as a note; "" if nothing is near.
  std::string near_rule(std::string_view name) const;
  const std::vector<std::shared_ptr<const Module>>& modules() const { return modules_; }

 private:
  bool add_rules(const std::shared_ptr<const Module>& module, Diagnostics& diagnostics);
  void add_functions(const std::shared_ptr<const Module>& module, Diagnostics& diagnostics);
  // Errors where a function or step of the module is called as something that it would hide, or as another one that it
  // sees.
  template <class T>
  void check_name(const std::shared_ptr<const Module>& module, const T& definition, Diagnostics& diagnostics) const;
  void add_marks(const std::shared_ptr<const Module>& module, Diagnostics& diagnostics);
  bool add_sets(const std::shared_ptr<const Module>& module, Diagnostics& diagnostics);
  // Rules with `replace` go where the old ones were, in every set; those with `before` and `after` next to their
  // anchor.
  void rearrange_sets(const std::shared_ptr<const Module>& module, Diagnostics& diagnostics);
  // Schedules by hand join every set but those of their own module, which name what they want.
  void add_schedules(std::string_view set, std::vector<RuleUse>& uses) const;
  bool add_set(const std::shared_ptr<const Module>& module, const RuleSet& set, Diagnostics& diagnostics);

  std::vector<std::shared_ptr<const Module>> modules_;
  Declared declared_;
  std::vector<std::pair<std::string, std::vector<RuleUse>>> sets_;
};

}  // namespace tw::rules

// Functions on lists and integers that need no program: range, len, rev, flat, product, ... Bounded by the length of
// their lists.
#pragma once
#include <functional>
#include <optional>

#include "rules/lang/functions.h"

namespace tw::rules {

struct ListFunction {
  const char* name;
  const char* signature;
  const char* doc;
  // `apply` calls a function value on one argument; nothing if that failed (which has been reported).
  FunctionResult (*call)(Arena& arena, const std::vector<RuleValue>& values,
                         const std::function<std::optional<RuleValue>(const RuleValue&, const RuleValue&)>& apply);
};

// The error of a call in which `apply` failed: nothing is to be said about it.
inline constexpr const char* function_failed = "the function failed";

const std::vector<ListFunction>& list_functions();
const ListFunction* find_list_function(std::string_view name);

}  // namespace tw::rules

// Type checks of a rule module before any of its rules runs: names, functions, arguments, and that
// nothing that shapes the space depends on a sample. It reports only what is wrong in every run;
// the evaluator checks the rest while it runs.
#pragma once
#include "rules/lang/evaluate.h"

namespace tw::rules {

// Errors go to `diagnostics`, which must be about the module's source. `declared`: what all
// modules that are there declare.
void check_types(const Module& module, const Declared& declared, Diagnostics& diagnostics);
// What a set gives for a parameter of a rule is of the type of its value in the rule.
void check_parameter(const ast::Argument& given, const Module& set_module, const Rule& rule, const Module& home,
                     const Declared& declared, Diagnostics& diagnostics);

}  // namespace tw::rules

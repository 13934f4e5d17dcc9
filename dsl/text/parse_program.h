// Text -> Program, for exactly what dsl/ir/print.h prints: parse_program(print(p)) is structurally equal to p. Used for
// records, trace files, golden tests and bug reports. Ids are given anew in order of appearance; nothing is folded or
// simplified. What can be said but makes no sense (a loop variable outside of its loop is an unknown name, a race is
// not noticed) is for dsl/analysis/verify.h.
#pragma once
#include <optional>

#include "dsl/base/diagnostic.h"
#include "dsl/ir/program.h"
#include "dsl/text/parse_expr.h"

namespace tw {

// The whole source is one program. Nothing after an error.
std::optional<OwnedProgram> parse_program(const Source& source, Diagnostics& diagnostics);

// The program that begins at the parser's current token, `program`; the parser stands behind its closing brace
// afterwards.
std::optional<OwnedProgram> parse_program(Parser& parser);

}  // namespace tw

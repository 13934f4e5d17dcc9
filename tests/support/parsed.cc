#include "support/parsed.h"

#include <gtest/gtest.h>

#include "dsl/text/parse_program.h"

namespace tw::test {

OwnedProgram parsed(const std::string& text) {
  Source source{"test", text};
  Diagnostics diagnostics(source);
  std::optional<OwnedProgram> program = parse_program(source, diagnostics);
  EXPECT_TRUE(program) << diagnostics.render();
  return program ? *program : OwnedProgram{std::make_shared<Arena>(), {}};
}

}  // namespace tw::test

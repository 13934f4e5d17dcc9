// A module of rewritings and operators from the text of a test.
#pragma once
#include <string>
#include <utility>

#include "graph/rewrites.h"

namespace tw::graph::test {

struct ParsedRewrites {
  RewriteModule module;
  std::string errors;  // as a user reads them
};

inline ParsedRewrites parsed(const std::string& text) {
  Source source{"own.tw", text};
  Diagnostics diagnostics(source);
  RewriteModule module = parse_rewrites(source, diagnostics);
  return {std::move(module), diagnostics.render()};
}

}  // namespace tw::graph::test

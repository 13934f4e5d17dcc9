// The rules and the operator library, embedded in the binary as text by cmake/embed_text.cmake.
#pragma once
#include <optional>
#include <string_view>
#include <vector>

namespace tw {

struct EmbeddedText {
  std::string_view path;  // relative to the source tree, e.g. "rules/cpu/register_tiling.tw"
  std::string_view text;
};

// All embedded texts, sorted by path.
const std::vector<EmbeddedText>& embedded_texts();

// The one at this path; nullopt if there is none.
inline std::optional<std::string_view> embedded_text(std::string_view path) {
  for (const EmbeddedText& text : embedded_texts()) {
    if (text.path == path) return text.text;
  }
  return std::nullopt;
}

}  // namespace tw

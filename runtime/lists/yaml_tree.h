// A YAML text as a tree in which every node knows its place in the text. The wall around yaml-cpp:
// yaml_tree.cc is the only file that includes it. Used by the task list. Anchors, aliases, tags and
// several documents in one text are refused.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsl/base/diagnostic.h"

namespace tw {

enum class YamlKind { Nothing, Word, List, Mapping };

struct YamlNode {
  YamlKind kind = YamlKind::Nothing;
  std::string text;             // of a word
  bool quoted = false;          // a word in quotes is never a number
  Span span;                    // a word without its quotes; the opening bracket of a list or mapping in brackets,
                                // else its first line
  std::vector<YamlNode> items;  // of a list
  std::vector<std::pair<YamlNode, YamlNode>> entries = {};  // of a mapping, in their order, duplicates too

  // The value of the first entry with this key, or nullptr.
  const YamlNode* find(std::string_view key) const;
};

// The source of `diagnostics` as a tree. A text that is not YAML is reported there, at its first
// error; then nullopt.
std::optional<YamlNode> parse_yaml(Diagnostics& diagnostics);

}  // namespace tw

#include "runtime/lists/yaml_decode.h"

#include <cctype>
#include <cmath>

namespace tw::yaml {

std::string describe(const YamlNode& node) {
  if (node.kind == YamlKind::Nothing) return "nothing";
  if (node.kind == YamlKind::List) return node.items.empty() ? "an empty list" : "a list";
  if (node.kind == YamlKind::Mapping) return "a mapping";
  return node.quoted ? cat("the text \"", node.text, "\"") : cat("`", node.text, "`");
}

void Item::expected(const std::string& what, std::string note) const {
  if (note.empty() && node.quoted) note = "leave the quotes away";
  diagnostics.error(node.span, cat("expected `", name, "` to be ", what, ", found ", describe(node)), note);
}

void decode_positive(const Item& item, Located<double>& out) {
  std::optional<double> value = number<double>(item.node);
  if (!value || !(*value > 0) || !std::isfinite(*value)) return item.expected("a number above 0");
  out = {*value, item.node.span, true};
}

void decode_text(const Item& item, Located<std::string>& out) {
  if (item.node.kind != YamlKind::Word || item.node.text.empty()) return item.expected("text");
  out = {item.node.text, item.node.span, true};
}

std::string meant(const std::string& word, const std::vector<std::string>& known) {
  auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
  for (const std::string& name : known) {
    if (name != word && std::equal(word.begin(), word.end(), name.begin(), name.end(), same)) return name;
  }
  return word.size() <= 2 ? "" : closest(word, known);
}

std::string suggestion(const std::string& word, const std::vector<std::string>& known) {
  std::string near = meant(word, known);
  return near.empty() ? cat("known: ", join(known, ", ")) : cat("did you mean `", near, "`?");
}

}  // namespace tw::yaml

// From a YAML tree to values: mappings as tables of keys, with errors that name the place and what would be right. Used
// by the task list and device descriptions. It knows no key itself.
#pragma once
#include <algorithm>
#include <charconv>
#include <set>

#include "dsl/base/text.h"
#include "runtime/lists/located.h"
#include "runtime/lists/yaml_tree.h"

namespace tw::yaml {

// "a list", "`word`": for messages.
std::string describe(const YamlNode& node);

// What every decoding function gets: the name of the key for messages, its value, and where errors go.
struct Item {
  const std::string& name;
  const YamlNode& node;
  Diagnostics& diagnostics;

  // Reports "expected `name` to be WHAT, found ...".
  void expected(const std::string& what, std::string note = "") const;
};

// The number that the whole of the word is, if it is one.
template <class T>
std::optional<T> number(const YamlNode& node) {
  T value{};
  const char* end = node.text.data() + node.text.size();
  auto [stop, problem] = std::from_chars(node.text.data(), end, value);
  bool good = node.kind == YamlKind::Word && !node.quoted && problem == std::errc() && stop == end;
  return good ? std::optional<T>(value) : std::nullopt;
}

template <class T>
void decode_integer(const Item& item, T least, T most, Located<T>& out) {
  std::optional<T> value = number<T>(item.node);
  if (!value || *value < least || *value > most) return item.expected(cat("an integer from ", least, " to ", most));
  out = {*value, item.node.span, true};
}
void decode_positive(const Item& item, Located<double>& out);
void decode_text(const Item& item, Located<std::string>& out);

// One key of a mapping that becomes an Out.
template <class Out>
struct Key {
  const char* name;
  void (*decode)(const Item& item, Out& out);
  const char* missing = "";  // the note if the key is missing; "" = it may be
};

// The known name that the user may have meant, or "". Short names are alike by chance, so they match by letter case
// only.
std::string meant(const std::string& word, const std::vector<std::string>& known);
// A note: "did you mean ...?", or what is known.
std::string suggestion(const std::string& word, const std::vector<std::string>& known);

// Calls use(key, value) for every entry; reports keys that are not words, or appear twice, instead.
template <class Use>
void for_each_entry(const YamlNode& node, Diagnostics& diagnostics, Use use) {
  std::set<std::string> seen;
  for (const auto& [key, value] : node.entries) {
    if (key.kind != YamlKind::Word) {
      diagnostics.error(key.span, cat("expected a key, found ", describe(key)));
    } else if (!seen.insert(key.text).second) {
      diagnostics.error(key.span, cat("key `", key.text, "` is given twice"), "remove one of them");
    } else {
      use(key, value);
    }
  }
}

template <class Out>
void decode_mapping(const std::string& what, const YamlNode& node, const std::vector<Key<Out>>& keys, Out& out,
                    Diagnostics& diagnostics) {
  std::vector<std::string> known;
  for (const Key<Out>& key : keys) known.push_back(key.name);
  if (node.kind != YamlKind::Mapping) {
    diagnostics.error(node.span, cat("expected ", what, " to be a mapping, found ", describe(node)),
                      cat("its keys: ", join(known, ", ")));
    return;
  }
  std::set<std::string> present;
  for_each_entry(node, diagnostics, [&](const YamlNode& name, const YamlNode& value) {
    auto key = std::find_if(keys.begin(), keys.end(), [&](const Key<Out>& row) { return name.text == row.name; });
    if (key != keys.end()) {
      present.insert(name.text);
      return key->decode({name.text, value, diagnostics}, out);
    }
    diagnostics.error(name.span, cat("unknown key `", name.text, "` in ", what), suggestion(name.text, known));
    present.insert(meant(name.text, known));  // a misspelt key is not missing as well
  });
  for (const Key<Out>& key : keys) {
    if (*key.missing && !present.count(key.name))
      diagnostics.error(node.span, cat("missing key `", key.name, "` in ", what), key.missing);
  }
}

}  // namespace tw::yaml

#include "runtime/lists/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <sstream>

#include "dsl/base/check.h"
#include "dsl/base/text.h"

namespace tw {
namespace {

// The byte of `text` that a mark means. yaml-cpp does not count a byte order mark; -1 stands for no
// place.
std::size_t offset_of(const YAML::Mark& mark, const std::string& text) {
  std::size_t skipped = text.rfind("\xef\xbb\xbf", 0) == 0 ? 3 : 0;
  return std::min(static_cast<std::size_t>(std::max(mark.pos, 0)) + skipped, text.size());
}

std::size_t end_of_line(const std::string& text, std::size_t at) {
  return std::min(text.find_first_of("\r\n", at), text.size());
}

// Builds the tree from yaml-cpp's events; its node class knows where a node begins, but accepts
// duplicate keys silently.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(Diagnostics& diagnostics) : text_(diagnostics.source().text), diagnostics_(diagnostics) {}

  std::optional<YamlNode> root() { return std::move(root_); }

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ == 1) refuse(mark, "expected one YAML document, found another one");
  }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark& mark, YAML::anchor_t) override {
    add({.kind = YamlKind::Nothing, .span = place(mark, 1)});
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override {
    refuse(mark, "aliases such as `*name` are not supported; write the value out");
    add({.kind = YamlKind::Nothing, .span = place(mark, 1)});
  }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t, const std::string& value) override {
    add(word(mark, value));
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open_.push_back({.kind = YamlKind::List, .span = opening(mark)});
  }
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    open_.push_back({.kind = YamlKind::Mapping, .span = opening(mark)});
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override { close(); }

 private:
  Span place(const YAML::Mark& mark, std::size_t length) const {
    std::size_t begin = offset_of(mark, text_);
    return {begin, std::min(begin + length, text_.size())};
  }
  Span opening(const YAML::Mark& mark) const {
    Span span = place(mark, 1);
    bool bracket = span.begin < text_.size() && (text_[span.begin] == '[' || text_[span.begin] == '{');
    return bracket ? span : Span{span.begin, end_of_line(text_, span.begin)};
  }
  void refuse(const YAML::Mark& mark, std::string message) {
    Span span = place(mark, 1);
    diagnostics_.error({span.begin, end_of_line(text_, span.begin)}, std::move(message));
  }

  YamlNode word(const YAML::Mark& mark, const std::string& value) {
    YamlNode node{.kind = YamlKind::Word, .text = value, .span = place(mark, value.size())};
    std::size_t begin = node.span.begin;
    char first = begin < text_.size() ? text_[begin] : '\0';
    if (first == '"' || first == '\'') {
      std::size_t end = begin + 1;
      while (end < text_.size() && text_[end] != first) end += first == '"' && text_[end] == '\\' ? 2 : 1;
      // yaml-cpp lets this pass if the last line of the file ends with a newline.
      if (end >= text_.size()) refuse(mark, "the text in quotes does not end");
      node.quoted = true;
      node.span = {begin + 1, std::min(end, text_.size())};
    } else if (text_.compare(begin, value.size(), value) != 0) {
      node.quoted = first == '|' || first == '>';
      node.span.end = end_of_line(text_, begin);  // a word of several lines
    }
    return node;
  }

  void close() {
    TW_CHECK(!open_.empty());
    YamlNode node = std::move(open_.back());
    open_.pop_back();
    add(std::move(node));
  }

  // Keys and values of a mapping come in turn; a key waits in an entry whose value is still
  // missing.
  void add(YamlNode node) {
    if (open_.empty()) {
      if (documents_ == 1) root_ = std::move(node);
      return;
    }
    YamlNode& parent = open_.back();
    if (parent.kind == YamlKind::List) {
      parent.items.push_back(std::move(node));
    } else if (parent.items.empty()) {
      parent.items.push_back(std::move(node));
    } else {
      parent.entries.push_back({std::move(parent.items.back()), std::move(node)});
      parent.items.clear();
    }
  }

  const std::string& text_;
  Diagnostics& diagnostics_;
  std::vector<YamlNode> open_;
  std::optional<YamlNode> root_;
  int documents_ = 0;
};

}  // namespace

const YamlNode* YamlNode::find(std::string_view key) const {
  for (const auto& [name, value] : entries) {
    if (name.kind == YamlKind::Word && name.text == key) return &value;
  }
  return nullptr;
}

std::optional<YamlNode> parse_yaml(Diagnostics& diagnostics) {
  const std::string& text = diagnostics.source().text;
  TreeBuilder builder(diagnostics);
  try {
    std::istringstream in(text);
    YAML::Parser parser(in);
    // At some stray brackets yaml-cpp yields empty documents for ever; the second is refused
    // anyway.
    for (int documents = 0; documents < 2 && parser.HandleNextDocument(builder); ++documents) continue;
  } catch (const YAML::Exception& problem) {
    std::size_t at = offset_of(problem.mark, text);
    // yaml-cpp has no words of its own for a text that is nested too deeply.
    std::string message = problem.msg == YAML::ErrorMsg::BAD_FILE ? "nested too deeply" : problem.msg;
    diagnostics.error({at, at + 1}, cat("not valid YAML: ", message));
    return std::nullopt;
  }
  std::optional<YamlNode> root = builder.root();
  if (!root && !diagnostics.has_errors()) diagnostics.error({0, 0}, "the file is empty");
  return diagnostics.has_errors() ? std::nullopt : root;
}

}  // namespace tw

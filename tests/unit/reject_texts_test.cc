// Every text of reject(...) in the sources stands, whole, in a test that expects it: somebody has read it beside the
// program it is about.
#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "support/support.h"

namespace tw {
namespace {

using test::read_file;

// Literals that follow each other become one, as for the compiler.
std::string joined_literals(const std::string& text) {
  return std::regex_replace(text, std::regex("\"\\s*\n\\s*\""), "");
}

void for_each_file(const std::string& folder, const std::set<std::string>& suffixes,
                   const std::function<void(const std::string&, std::string)>& visit) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(TW_SOURCE_DIR) + "/" + folder)) {
    if (!entry.is_regular_file() || !suffixes.count(entry.path().extension().string())) continue;
    std::string path = entry.path().string().substr(std::string(TW_SOURCE_DIR).size() + 1);
    if (path != "tests/unit/reject_texts_test.cc") visit(path, joined_literals(read_file(entry.path().string())));
  }
}

// The texts, and a file that rejects with each.
std::map<std::string, std::string> reject_texts() {
  static const std::regex literal("reject\\(\\s*\"((?:[^\"\\\\]|\\\\.)*)\"");
  std::map<std::string, std::string> out;
  for (const char* folder : {"dsl", "sampler", "backends", "runtime", "rules", "costmodel"}) {
    for_each_file(folder, {".cc", ".h"}, [&](const std::string& path, std::string text) {
      for (std::sregex_iterator at(text.begin(), text.end(), literal), end; at != end; ++at)
        out.emplace((*at)[1].str(), path);
    });
  }
  return out;
}

std::string without_escapes(const std::string& text) { return std::regex_replace(text, std::regex("\\\\(.)"), "$1"); }

// What stands between the holes {0} and {a} of a text.
std::vector<std::string> parts_of(const std::string& text) {
  static const std::regex hole("\\{[^}]*\\}");
  return {std::sregex_token_iterator(text.begin(), text.end(), hole, -1), {}};
}

// The parts stand in `text` one behind the other, in the places of the holes something short.
bool contains(const std::string& text, const std::vector<std::string>& parts) {
  constexpr std::size_t kLongest = 80;
  for (std::size_t at = text.find(parts[0]); at != std::string::npos; at = text.find(parts[0], at + 1)) {
    std::size_t end = at + parts[0].size();
    bool found = true;
    for (std::size_t i = 1; i < parts.size() && found; ++i) {
      std::size_t next = text.find(parts[i], end);
      found = next <= end + kLongest;
      end = next + parts[i].size();
    }
    if (found) return true;
  }
  return false;
}

TEST(RejectTexts, EachIsExpectedByATest) {
  std::vector<std::string> tests;
  for_each_file("tests", {".cc", ".tw", ".txt"},
                [&](const std::string&, std::string text) { tests.push_back(without_escapes(text)); });
  std::map<std::string, std::string> texts = reject_texts();
  EXPECT_GT(texts.size(), 200u);
  // The words are LLVM's; an attempt at the untuned program of which nobody is told.
  for (const char* text : {"LLVM: {a}", "the rows of this block are not inside"})
    EXPECT_EQ(texts.erase(text), 1u) << text;
  for (const auto& [text, path] : texts) {
    std::vector<std::string> parts = parts_of(without_escapes(text));
    // Begins with a hole: the part behind it is looked for.
    if (parts.size() > 1 && parts[0].empty()) parts.erase(parts.begin());
    bool found =
        std::any_of(tests.begin(), tests.end(), [&](const std::string& test) { return contains(test, parts); });
    EXPECT_TRUE(found) << path << ": " << text;
  }
}

}  // namespace
}  // namespace tw

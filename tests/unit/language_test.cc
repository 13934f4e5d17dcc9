// What a person reads whose rule module is wrong: the files of tests/language, each case with the
// whole text. A case is
//
//   // ---- title
//   the module my.tw                 and, after a line `// file NAME`, another file beside it
//   expect
//   what `tracewright check my.tw --op matmul` says on standard error; of a set `s` if the module
//   has one
//
// Exit code 2, and nothing on standard output. TW_BLESS=1 rewrites what is expected.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <sstream>

#include "dsl/base/text.h"
#include "support/run_program.h"
#include "support/support.h"

namespace tw {
namespace {

const std::string folder_of_cases = TW_SOURCE_DIR "/tests/language";

struct Case {
  std::string title, text, expected;  // text: with its `// file` lines
};

std::vector<Case> parse_cases(const std::string& text) {
  std::vector<Case> cases;
  std::string* section = nullptr;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("// ---- ")) {
      cases.push_back({line.substr(8), "", ""});
      section = &cases.back().text;
    } else if (section && line == "expect") {
      section = &cases.back().expected;
    } else if (section) {
      *section += line + "\n";
    }
  }
  for (Case& c : cases) {
    for (std::string* part : {&c.text, &c.expected}) {
      while (part->ends_with("\n\n")) part->pop_back();
      if (*part == "\n") part->clear();
    }
  }
  return cases;
}

void write_files(const std::string& folder, const std::string& text) {
  std::string name = "my.tw", file;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("// file ")) {
      file += line + "\n";
      continue;
    }
    test::write_file(folder + "/" + name, file);
    name = line.substr(8);
    file.clear();
  }
  test::write_file(folder + "/" + name, file);
}

class Language : public testing::TestWithParam<std::string> {};

TEST_P(Language, SaysWhatIsWrong) {
  std::string path = cat(folder_of_cases, "/", GetParam(), ".txt"), out;
  std::vector<Case> cases = parse_cases(test::read_file(path));
  ASSERT_FALSE(cases.empty());
  bool bless = std::getenv("TW_BLESS");
  for (Case& c : cases) {
    SCOPED_TRACE(c.title);
    test::TemporaryDirectory folder;
    write_files(folder.path(), c.text);
    std::vector<std::string> words = {"check", "my.tw", "--op", "matmul", "--draws", "1", "--target", "cpu -threads=1"};
    if (c.text.find("rules s {") != std::string::npos) words.insert(words.end(), {"--rule", "s"});
    test::Finished found = test::tracewright(words, {.folder = folder.path()});
    EXPECT_EQ(found.code, 2) << c.text << found.out;
    EXPECT_EQ(found.out, "");
    if (!bless) {
      EXPECT_EQ(found.err, c.expected) << c.text;
    }
    out += cat(out.empty() ? "" : "\n", "// ---- ", c.title, "\n", c.text, "expect\n", found.err);
  }
  if (bless) test::write_file(path, out);
}

std::vector<std::string> case_files() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(folder_of_cases))
    out.push_back(entry.path().stem().string());
  std::sort(out.begin(), out.end());
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, Language, testing::ValuesIn(case_files()), [](const auto& info) { return info.param; });

// The texts of all messages in the sources of the language: what begins an argument of error() or
// fail() up to the end of that literal.
std::vector<std::string> messages_of(const std::string& source) {
  static const std::regex call(
      "(?:[^a-z_](?:error|error_expected|type_error|wrong_type|fail)|expect_[a-z]+)\\([^\";]*\"(("
      "?:[^\"\\\\]|\\\\.)*)\"");
  std::vector<std::string> found;
  for (std::sregex_iterator at(source.begin(), source.end(), call), end; at != end; ++at) found.push_back((*at)[1]);
  return found;
}

TEST(LanguageCases, EveryMessageHasOne) {
  std::string all;
  for (const std::string& name : case_files()) all += test::read_file(cat(folder_of_cases, "/", name, ".txt"));
  std::vector<std::string> sources = {TW_SOURCE_DIR "/rules/lang/rule_modules.cc"};
  for (const auto& entry : std::filesystem::directory_iterator(TW_SOURCE_DIR "/rules/lang")) {
    if (entry.path().extension() == ".cc") sources.push_back(entry.path().string());
  }
  // A block disappears under a rule only if an instruction was given it or one of its loops, and
  // then it has a handle.
  all += "the block no longer exists";
  int count = 0;
  for (const std::string& source : sources) {
    for (const std::string& message : messages_of(test::read_file(source))) {
      ++count;
      EXPECT_NE(all.find(message), std::string::npos) << source << ": no case shows `" << message << "`";
    }
  }
  EXPECT_GT(count, 50);
}

}  // namespace
}  // namespace tw

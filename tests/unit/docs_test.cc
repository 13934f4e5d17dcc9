// The documentation is true: its tables are those of the code, and its examples run.
//
// In docs/*.md, in the order of the text:
//   ```tw NAME  ```yaml NAME  ...   a file of this name beside the commands
//   ```tw                           a workload, a schedule or a rule module: it is parsed, modules
//   are checked by running
//   ```yaml                         a task list: every task's space is built
//   ```sh                           commands, run by bash with `tracewright` in the path; the exit
//   code must be 0
//   ```text output                  what the commands before printed; `...` stands for anything
//   ```cpp FILE  ```cmake FILE      that file of the source, as it is
//   skip="reason" behind the language: not run; the reason is in the text for readers, too
// All files of a page are written before its first command runs. So that this takes seconds, the
// numbers of trials and draws of the text are replaced by small ones. TW_BLESS=1 rewrites the
// tables.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <sstream>

#include "dsl/base/text.h"
#include "dsl/schedule/parse_schedule.h"
#include "dsl/text/workload.h"
#include "rules/lang/library.h"
#include "rules/lang/tables.h"
#include "support/run_program.h"
#include "support/support.h"

namespace tw {
namespace {

using test::Finished;

const std::string docs = TW_SOURCE_DIR "/docs";

// ---- tables

// What stands between <!-- table: NAME --> and <!-- end -->.
std::string with_tables(std::string text) {
  for (const rules::Table& table : rules::language_tables()) {
    std::string begin = cat("<!-- table: ", table.name, " -->\n"), end = "<!-- end -->";
    std::size_t from = text.find(begin);
    EXPECT_NE(from, std::string::npos) << "language.md has no table `" << table.name << "`";
    if (from == std::string::npos) continue;
    from += begin.size();
    text.replace(from, text.find(end, from) - from, cat("\n", rules::to_markdown(table), "\n"));
  }
  return text;
}

TEST(Docs, TheTablesOfTheLanguageAreThoseOfTheCode) {
  std::string path = docs + "/language.md", text = test::read_file(path);
  if (std::getenv("TW_BLESS")) test::write_file(path, with_tables(text));
  EXPECT_EQ(test::read_file(path), with_tables(text))
      << "TW_BLESS=1 would write what the code gives";
}

TEST(Docs, TheCommandPrintsTheTables) {
  Finished all = test::tracewright({"language"});
  EXPECT_EQ(all.code, 0);
  for (const rules::Table& table : rules::language_tables())
    EXPECT_NE(all.out.find(rules::to_markdown(table)), std::string::npos) << table.name;
  Finished one = test::tracewright({"language", "split"});
  EXPECT_EQ(
      one.out,
      "split(loop: ~loop, factors: ~[int or _], preserve_unit_iters: bool = true, disable_predication: bool = false) -> [loop]\n"
      "  Cuts one loop into a nest of several, outer to inner; `_` stands for what is left.\n");
  Finished set = test::tracewright({"language", "untuned"});
  EXPECT_EQ(set.out, cat("# rules/sets.tw of tracewright ", TW_VERSION, "\nrules untuned {\n}\n"));
  Finished function = test::tracewright({"language", "points"});
  EXPECT_EQ(function.out, cat("# rules/reference.tw of tracewright ", TW_VERSION, "\nfn points(ls) = product([extent(l) for l in ls])\n"));
  Finished none = test::tracewright({"language", "splt"});
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.err, "tracewright: no word `splt`; did you mean `split`?\n");
}

// Each rule, postprocessor and set that tracewright has can be read, copied and changed: the copy takes the place of the original.
TEST(Docs, TheCommandPrintsEachBuiltInRule) {
  rules::Library library = rules::Library::built_in();
  int printed = 0;
  for (const auto& module : library.modules()) {
    for (const rules::Rule& rule : module->rules) {
      SCOPED_TRACE(std::string(rule.name));
      Finished found = test::tracewright({"language", std::string(rule.name)});
      ASSERT_EQ(found.code, 0) << found.err;
      std::string copy = found.out;
      std::size_t word = copy.find(rule.is_post ? "\npost " : "\nrule ");
      ASSERT_NE(word, std::string::npos) << copy;
      copy.insert(word + 1, "replace ");
      auto source = std::make_shared<Source>(Source{"copy.tw", copy});
      Diagnostics diagnostics(*source);
      auto parsed = rules::parse_module(source, diagnostics);
      rules::Library with_copy = rules::Library::built_in();
      EXPECT_TRUE(parsed && with_copy.add(parsed, diagnostics)) << diagnostics.render();
      ++printed;
    }
  }
  EXPECT_GE(printed, 30);
  for (const std::string& set : library.set_names()) EXPECT_EQ(test::tracewright({"language", set}).code, 0) << set;
}

// ---- golden cases

// What reference_instructions.md says is shown by a case: "TITLE" of `FILE`.
TEST(Docs, EachCaseThatIsNamedExists) {
  static const std::regex title_or_file("\"([^\"]+)\"|of `([a-z_]+)`");
  std::istringstream in(test::read_file(docs + "/reference_instructions.md"));
  int cases = 0;
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("|")) continue;
    std::vector<std::string> titles;
    for (std::sregex_iterator at(line.begin(), line.end(), title_or_file), end; at != end; ++at) {
      if ((*at)[1].matched) {
        titles.push_back((*at)[1]);
        continue;
      }
      std::string file = test::read_file(cat(TW_SOURCE_DIR "/tests/golden/primitives/", (*at)[2].str(), ".tw"));
      for (const std::string& title : titles) EXPECT_NE(file.find(cat("// ---- ", title, "\n")), std::string::npos) << line;
      cases += static_cast<int>(titles.size());
      titles.clear();
    }
    EXPECT_TRUE(titles.empty()) << "no file is named: " << line;
  }
  EXPECT_GE(cases, 200);
}

// ---- examples

struct Block {
  std::string language, name, skip, text;
  int line = 0;
};

std::vector<Block> blocks_of(const std::string& page) {
  std::vector<Block> blocks;
  std::istringstream in(page);
  static const std::regex head("```([a-z]+)( skip=\"([^\"]*)\")?( ([A-Za-z0-9_./]+))?");
  bool inside = false;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    std::smatch match;
    if (line.starts_with("```") && inside) {
      inside = false;
    } else if (line.starts_with("```")) {
      inside = true;
      blocks.push_back({"", "", "", "", number});
      if (std::regex_match(line, match, head))
        blocks.back() = {match[1], match[5], match[3], "", number};
      else
        EXPECT_EQ(line, "```") << "line " << number << ": not understood";
    } else if (inside) {
      blocks.back().text += line + "\n";
    }
  }
  return blocks;
}

// Numbers of trials and draws as small as they may be.
std::string shortened(const std::string& text) {
  static const std::regex trials("(--trials |--more |trials: )[0-9]+"), draws("--draws [0-9]+"),
      pairs("--pairs [0-9]+");
  std::string out = std::regex_replace(text, trials, "$014");
  out = std::regex_replace(out, draws, "--draws 12");
  return std::regex_replace(out, pairs, "--pairs 3");
}

// Is `found` the expected text, in which `...` stands for anything?
bool matches(const std::string& expected, const std::string& found) {
  std::size_t at = 0, from = 0;
  bool first = true;
  while (true) {
    std::size_t dots = expected.find("...", from);
    std::string part = expected.substr(from, dots == std::string::npos ? dots : dots - from);
    std::size_t hit =
        first ? (found.starts_with(part) ? 0 : std::string::npos) : found.find(part, at);
    if (dots == std::string::npos)
      return found.ends_with(part) && hit != std::string::npos && found.size() - part.size() >= at;
    if (hit == std::string::npos) return false;
    at = hit + part.size();
    from = dots + 3;
    first = false;
  }
}

class Page {
 public:
  explicit Page(const std::string& name) : name_(name) {
    namespace fs = std::filesystem;
    for (const char* folder : {"examples", "bench", "tests", "docs"})
      fs::create_directory_symlink(cat(TW_SOURCE_DIR "/", folder), at(folder));
    fs::create_directory_symlink(TW_BINARY_DIR, at("build"));
  }
  std::string at(const std::string& file) const { return folder_.path() + "/" + file; }

  void run(const std::vector<Block>& blocks) {
    for (const Block& block : blocks) {
      if (block.name.empty() || block.language == "text" || block.language == "cpp" ||
          block.language == "cmake" || !block.skip.empty())
        continue;
      std::filesystem::create_directories(std::filesystem::path(at(block.name)).parent_path());
      test::write_file(at(block.name),
                       block.language == "yaml" ? shortened(block.text) : block.text);
    }
    for (const Block& block : blocks) {
      SCOPED_TRACE(cat(name_, ":", block.line));
      if (!block.skip.empty())
        std::printf("%s:%d: not run: %s\n", name_.c_str(), block.line, block.skip.c_str());
      else
        run(block);
    }
  }

 private:
  void run(const Block& block) {
    if (block.language == "sh") return run_shell(block.text);
    if (block.language == "text" && block.name == "output") {
      EXPECT_TRUE(matches(block.text, printed_)) << "printed was\n"
                                                 << printed_ << "and expected\n"
                                                 << block.text;
      return;
    }
    if (!block.name.empty() && (block.language == "cpp" || block.language == "cmake")) {
      EXPECT_EQ(block.text, test::read_file(cat(TW_SOURCE_DIR "/", block.name)));
      return;
    }
    if (block.language == "yaml") return run_list(block);
    if (block.language == "tw" && block.name.empty()) return run_text(block.text);
  }

  void run_shell(const std::string& text) {
    Finished finished =
        test::run_program({"bash", "-euo", "pipefail", "-c", shortened(text)},
                          {.folder = folder_.path(),
                           .environment = {cat("PATH=" TW_BINARY_DIR ":", std::getenv("PATH"))}});
    EXPECT_EQ(finished.code, 0) << text << finished.out << finished.err;
    printed_ = finished.out;
  }

  void run_list(const Block& block) {
    std::string file = block.name.empty() ? "list_in_the_text.yaml" : block.name;
    if (block.name.empty()) test::write_file(at(file), shortened(block.text));
    Finished finished = test::tracewright({"space", file, "--json"}, {.folder = folder_.path()});
    EXPECT_EQ(finished.code, 0) << block.text << finished.err;
  }

  // What a rule module begins with.
  static bool is_declaration(const std::string& word) {
    const char* words[] = {"rule", "replace", "import", "intrinsic", "rules", "post", "mark"};
    return std::find(std::begin(words), std::end(words), word) != std::end(words);
  }
  void run_text(const std::string& text) {
    Source source{name_, text};
    Diagnostics diagnostics(source);
    std::istringstream in(text);
    std::string word;
    while (in >> word && word == "#") std::getline(in, word);
    if (word == "workload" || word == "epilogue") {
      parse_workloads(source, diagnostics);
    } else if (is_declaration(word)) {
      test::write_file(at("module_in_the_text.tw"), text);
      Finished finished =
          test::tracewright({"check", "module_in_the_text.tw", "--op", "dense", "--draws", "8"},
                            {.folder = folder_.path()});
      EXPECT_EQ(finished.code, 0) << text << finished.out << finished.err;
    } else {
      parse_schedule(source, diagnostics);
    }
    EXPECT_EQ(diagnostics.render(), "");
  }

  std::string name_, printed_;
  test::TemporaryDirectory folder_;
};

class Examples : public testing::TestWithParam<std::string> {};

TEST_P(Examples, Run) {
  std::string name = GetParam() + ".md";
  Page(name).run(blocks_of(test::read_file(docs + "/" + name)));
}

std::vector<std::string> pages() {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::directory_iterator(docs)) {
    if (entry.path().extension() == ".md") out.push_back(entry.path().stem().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, Examples, testing::ValuesIn(pages()),
                         [](const auto& info) { return info.param; });

TEST(Docs, WhatIsPrintedIsComparedWithDots) {
  EXPECT_TRUE(matches("a ... c\n", "a b c\n"));
  EXPECT_TRUE(matches("...c\n", "a b c\n"));
  EXPECT_FALSE(matches("a ... d\n", "a b c\n"));
  EXPECT_FALSE(matches("a\n", "a b\n"));
  EXPECT_FALSE(matches("b ...", "a b c"));
}

}  // namespace
}  // namespace tw

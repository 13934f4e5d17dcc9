// The documentation is true: its tables are those of the code, and its examples run.
//
// In README.md and docs/*.md, in the order of the text:
//   ```tw NAME  ```yaml NAME  ...   a file of this name beside the commands
//   ```tw                           a workload, a schedule or a rule module: it is parsed, modules
//   are checked by running
//   ```yaml                         a task list: every task's space is built
//   ```sh                           commands, run by bash with `tracewright` in the path; the exit
//   code must be 0
//   ```text output                  what the commands before printed; `...` stands for anything
//   ```cpp FILE  ```cmake FILE      that file of the source, as it is
//   skip="reason" behind the language: not run; the reason is in the text for readers, too. Commands
//   are parsed: that programs, their flags and the files of the source that they name exist
// All files of a page are written before its first command runs. So that this takes seconds, the
// numbers of trials and draws of the text are replaced by small ones. TW_BLESS=1 rewrites the
// tables.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <regex>
#include <set>
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

namespace fs = std::filesystem;

const std::string root = TW_SOURCE_DIR;
const std::string docs = root + "/docs";

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
  EXPECT_EQ(test::read_file(path), with_tables(text)) << "TW_BLESS=1 would write what the code gives";
}

TEST(Docs, TheCommandPrintsTheTables) {
  Finished all = test::tracewright({"language"});
  EXPECT_EQ(all.code, 0);
  for (const rules::Table& table : rules::language_tables())
    EXPECT_NE(all.out.find(rules::to_markdown(table)), std::string::npos) << table.name;
  Finished one = test::tracewright({"language", "split"});
  EXPECT_EQ(one.out,
            "split(loop: ~loop, factors: ~[int or _], preserve_unit_iters: bool = true, disable_predication: bool = "
            "false) -> [loop]\n"
            "  Cuts one loop into a nest of several, outer to inner; `_` stands for what is left.\n");
  Finished set = test::tracewright({"language", "untuned"});
  EXPECT_EQ(set.out, cat("# rules/sets.tw of tracewright ", TW_VERSION, "\nrules untuned {\n}\n"));
  Finished function = test::tracewright({"language", "points"});
  EXPECT_EQ(function.out, cat("# rules/vocabulary.tw of tracewright ", TW_VERSION,
                              "\nfn points(ls) = product([extent(l) for l in ls])\n"));
  Finished none = test::tracewright({"language", "splt"});
  EXPECT_EQ(none.code, 2);
  EXPECT_EQ(none.err, "tracewright: no word `splt`; did you mean `split`?\n");
}

// Each rule, postprocessor and set that tracewright has can be read, copied and changed: the copy takes the place of
// the original.
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
      std::string file = test::read_file(cat(root, "/tests/golden/primitives/", (*at)[2].str(), ".tw"));
      for (const std::string& title : titles)
        EXPECT_NE(file.find(cat("// ---- ", title, "\n")), std::string::npos) << line;
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
    std::size_t hit = first ? (found.starts_with(part) ? 0 : std::string::npos) : found.find(part, at);
    if (dots == std::string::npos)
      return found.ends_with(part) && hit != std::string::npos && found.size() - part.size() >= at;
    if (hit == std::string::npos) return false;
    at = hit + part.size();
    from = dots + 3;
    first = false;
  }
}

// ---- commands that are not run

// The words of each command of a shell text, without comments.
std::vector<std::vector<std::string>> commands_of(const std::string& text) {
  static const std::regex separator("\\n|;|&&|\\|"), comment("(^|[ \t])#[^\n]*");
  std::string plain = std::regex_replace(text, comment, "");
  std::vector<std::vector<std::string>> commands;
  for (std::sregex_token_iterator at(plain.begin(), plain.end(), separator, -1), end; at != end; ++at) {
    std::istringstream in(at->str());
    std::vector<std::string> words{std::istream_iterator<std::string>(in), {}};
    if (!words.empty()) commands.push_back(words);
  }
  return commands;
}

// What `program --help` says, or nothing if there is no such program or command.
std::string help_of(const std::vector<std::string>& words) {
  Finished help;
  if (words[0] == "tracewright" && words.size() > 1)
    help = test::tracewright({words[1], "--help"});
  else if (words[0].starts_with("build/release/tracewright-") && words.size() > 1)
    help = test::run_program({cat(TW_BINARY_DIR, "/", fs::path(words[0]).filename().string()), words[1], "--help"});
  else if (words[0].starts_with("./") && fs::exists(root + "/" + words[0]))
    help = test::run_program({root + "/" + words[0], "--help"});
  return help.code == 0 ? help.out : "";
}

// Why these commands cannot be right, as far as that is known without running them.
std::vector<std::string> problems_of(const std::string& text) {
  static const std::regex built("build/release/([a-z_]+)"), flag("--[a-z-]+"), stored("(bench|examples)/.*");
  std::vector<std::string> problems;
  Finished parsed = test::run_program({"bash", "-n", "-c", text});
  if (parsed.code != 0) problems.push_back(parsed.err);
  for (const std::vector<std::string>& words : commands_of(text)) {
    std::string help = help_of(words);
    std::smatch match;
    if (std::regex_match(words[0], match, built)) {
      if (!fs::exists(cat(root, "/bench/", match[1].str(), ".cc"))) problems.push_back("no program " + words[0]);
    } else if (help.empty()) {
      problems.push_back("no command " + words[0] + (words.size() > 1 ? " " + words[1] : ""));
    }
    for (const std::string& word : words) {
      if (std::regex_match(word, stored) && !fs::exists(root + "/" + word)) problems.push_back("no file " + word);
      if (!help.empty() && std::regex_match(word, flag) &&
          !std::regex_search(help, std::regex("(^|[^a-z-])" + word + "($|[^a-z-])")))
        problems.push_back("no flag " + word + " of " + words[0]);
    }
  }
  return problems;
}

class Page {
 public:
  explicit Page(const std::string& name) : name_(name) {
    for (const char* folder : {"examples", "bench", "tests", "docs"})
      fs::create_directory_symlink(cat(root, "/", folder), at(folder));
    fs::create_directory_symlink(TW_BINARY_DIR, at("build"));
  }
  std::string at(const std::string& file) const { return folder_.path() + "/" + file; }

  void run(const std::vector<Block>& blocks) {
    for (const Block& block : blocks) {
      if (block.name.empty() || block.language == "text" || block.language == "excerpt" || block.language == "cpp" ||
          block.language == "cmake" || !block.skip.empty())
        continue;
      fs::create_directories(fs::path(at(block.name)).parent_path());
      test::write_file(at(block.name), block.language == "yaml" ? shortened(block.text) : block.text);
    }
    for (const Block& block : blocks) {
      SCOPED_TRACE(cat(name_, ":", block.line));
      if (block.skip.empty()) {
        run(block);
        continue;
      }
      std::printf("%s:%d: not run: %s\n", name_.c_str(), block.line, block.skip.c_str());
      if (block.language == "sh") {
        EXPECT_EQ(problems_of(block.text), std::vector<std::string>());
      }
    }
  }

 private:
  void run(const Block& block) {
    if (block.language == "sh") return run_shell(block.text);
    if (block.language == "text" && block.name == "output") {
      EXPECT_TRUE(matches(block.text, printed_)) << "printed was\n" << printed_ << "and expected\n" << block.text;
      return;
    }
    // ```excerpt FILE: the text stands in the file as it is.
    if (block.language == "excerpt") {
      EXPECT_NE(test::read_file(cat(root, "/", block.name)).find(block.text), std::string::npos)
          << "not in " << block.name;
      return;
    }
    if (!block.name.empty() && (block.language == "cpp" || block.language == "cmake")) {
      EXPECT_EQ(block.text, test::read_file(cat(root, "/", block.name)));
      return;
    }
    if (block.language == "yaml") return run_list(block);
    if (block.language == "tw" && block.name.empty()) return run_text(block.text);
  }

  void run_shell(const std::string& text) {
    Finished finished = test::run_program(
        {"bash", "-euo", "pipefail", "-c", shortened(text)},
        {.folder = folder_.path(), .environment = {cat("PATH=" TW_BINARY_DIR ":", std::getenv("PATH"))}});
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
    Source page{name_, text};
    Diagnostics diagnostics(page);
    std::istringstream in(text);
    std::string word;
    while (in >> word && word == "#") std::getline(in, word);
    if (word == "workload" || word == "epilogue") {
      parse_workloads(page, diagnostics);
    } else if (is_declaration(word)) {
      test::write_file(at("module_in_the_text.tw"), text);
      Finished finished = test::tracewright({"check", "module_in_the_text.tw", "--op", "dense", "--draws", "8"},
                                            {.folder = folder_.path()});
      EXPECT_EQ(finished.code, 0) << text << finished.out << finished.err;
    } else {
      parse_schedule(page, diagnostics);
    }
    EXPECT_EQ(diagnostics.render(), "");
  }

  std::string name_, printed_;
  test::TemporaryDirectory folder_;
};

class Examples : public testing::TestWithParam<std::string> {};

std::string path_of(const std::string& page) { return cat(page == "README" ? root : docs, "/", page, ".md"); }

TEST_P(Examples, Run) { Page(GetParam() + ".md").run(blocks_of(test::read_file(path_of(GetParam())))); }

// Files and folders of the source that a page names: with a folder of the source in front, or as a link.
TEST_P(Examples, FilesThatAreNamedExist) {
  static const std::regex named(
      "`((?:backends|bench|cli|cmake|costmodel|docs|dsl|examples|python|rules|runtime|sampler|tests)/[A-Za-z0-9_./"
      "-]*)`|\\]\\(([a-z][A-Za-z0-9_./-]*)\\)");
  std::string path = path_of(GetParam()), text = test::read_file(path);
  for (std::sregex_iterator at(text.begin(), text.end(), named), end; at != end; ++at) {
    std::string file = (*at)[1].matched ? cat(root, "/", (*at)[1].str())
                                        : cat(fs::path(path).parent_path().string(), "/", (*at)[2].str());
    EXPECT_TRUE(fs::exists(file)) << (*at)[0];
  }
}

std::vector<std::string> pages() {
  std::vector<std::string> out = {"README"};
  for (const auto& entry : fs::directory_iterator(docs)) {
    if (entry.path().extension() == ".md") out.push_back(entry.path().stem().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

INSTANTIATE_TEST_SUITE_P(All, Examples, testing::ValuesIn(pages()), [](const auto& info) { return info.param; });

// A newcomer's commands are all run or parsed: no block of the README is without a language.
TEST(Docs, EachBlockOfTheReadmeIsTested) {
  std::vector<Block> blocks = blocks_of(test::read_file(path_of("README")));
  EXPECT_GE(blocks.size(), 10U);
  for (const Block& block : blocks) EXPECT_NE(block.language, "") << "line " << block.line;
}

// design.md names files of the folder that its section is about without that folder.
TEST(Docs, FilesOfTheDesignExist) {
  std::set<std::string> files;
  for (const char* folder : {"backends", "bench", "cli", "cmake", "costmodel", "dsl", "graph", "python", "rules",
                             "runtime", "sampler", "tests"}) {
    for (const auto& entry : fs::recursive_directory_iterator(cat(root, "/", folder)))
      files.insert(entry.path().filename());
  }
  static const std::regex named("`([a-z_]+/)*([a-z_]+\\.(h|cc|tw|cmake))`");
  std::string text = test::read_file(docs + "/design.md");
  for (std::sregex_iterator at(text.begin(), text.end(), named), end; at != end; ++at)
    EXPECT_TRUE(files.contains((*at)[2])) << (*at)[0];
}

TEST(Docs, CommandsThatAreNotRunAreParsed) {
  using Problems = std::vector<std::string>;
  EXPECT_EQ(problems_of(
                "tracewright tune tasks.yaml --compile-only --output found   # --no-flag\n./quickstart --build-only\n"),
            Problems());
  EXPECT_EQ(problems_of("build/release/clblast_bench bench/opencl_gemm.yaml --database opencl.db"), Problems());
  EXPECT_EQ(problems_of("tracewright tune tasks.yaml --compile"), Problems{"no flag --compile of tracewright"});
  EXPECT_EQ(problems_of("true && tracewright tun tasks.yaml"),
            (Problems{"no command true", "no command tracewright tun"}));
  EXPECT_EQ(problems_of("./quickstart --fast"), Problems{"no flag --fast of ./quickstart"});
  EXPECT_EQ(problems_of("./quick"), Problems{"no command ./quick"});
  EXPECT_EQ(problems_of("build/release/some_bench bench/some.yaml"),
            (Problems{"no program build/release/some_bench", "no file bench/some.yaml"}));
  EXPECT_EQ(problems_of("./run-tests '").size(), 1U);
}

TEST(Docs, WhatIsPrintedIsComparedWithDots) {
  EXPECT_TRUE(matches("a ... c\n", "a b c\n"));
  EXPECT_TRUE(matches("...c\n", "a b c\n"));
  EXPECT_FALSE(matches("a ... d\n", "a b c\n"));
  EXPECT_FALSE(matches("a\n", "a b\n"));
  EXPECT_FALSE(matches("b ...", "a b c"));
}

// What examples/fleet gives to other launchers is understood by the commands, and by bash.
TEST(Docs, LaunchersOfAFleetGiveFlagsThatExist) {
  static const std::regex comment("(^|[ \t])#[^\n]*"), started("tracewright (measure|fleet) [^\n]*"),
      of_container("args: \\[([^\n]*)\\]"), separator("[, ]+");
  int commands = 0;
  for (const auto& entry : fs::directory_iterator(root + "/examples/fleet")) {
    SCOPED_TRACE(entry.path().filename());
    std::string text = std::regex_replace(test::read_file(entry.path()), comment, "");
    std::vector<std::string> found;
    for (std::sregex_iterator at(text.begin(), text.end(), started), end; at != end; ++at) found.push_back(at->str());
    for (std::sregex_iterator at(text.begin(), text.end(), of_container), end; at != end; ++at)
      found.push_back(cat("tracewright measure ", std::regex_replace((*at)[1].str(), separator, " ")));
    for (const std::string& command : found) {
      std::string quoted = std::regex_replace(command, std::regex("[$()]"), "_");
      EXPECT_EQ(problems_of(quoted), std::vector<std::string>()) << command;
    }
    commands += static_cast<int>(found.size());
    if (text.find("set -euo pipefail") != std::string::npos) {
      EXPECT_EQ(test::run_program({"bash", "-n", entry.path()}).code, 0);
    }
  }
  EXPECT_GE(commands, 5);
}

}  // namespace
}  // namespace tw

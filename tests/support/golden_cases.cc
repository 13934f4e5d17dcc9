#include "support/golden_cases.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "dsl/base/text.h"
#include "support/support.h"

namespace tw::test {
namespace {

// Empty lines at the end of a section do not count.
void strip_end(std::string& text) {
  while (text.size() >= 2 && text.ends_with("\n\n")) text.pop_back();
}

std::vector<GoldenCase> parse_cases(const std::string& text, const std::string& word) {
  std::vector<GoldenCase> cases;
  std::string* section = nullptr;
  for (const std::string& line : lines_of(text)) {
    if (line.starts_with("// ---- ")) {
      cases.push_back({line.substr(8), "", "", ""});
      section = &cases.back().program;
    } else if (section && line == word) {
      section = &cases.back().steps;
    } else if (section && line == "expect") {
      section = &cases.back().expected;
    } else if (section) {
      *section += line + "\n";
    }
  }
  for (GoldenCase& c : cases) {
    strip_end(c.program);
    strip_end(c.steps);
    strip_end(c.expected);
  }
  return cases;
}

std::string to_text(const std::vector<GoldenCase>& cases, const std::string& word) {
  std::string out;
  for (const GoldenCase& c : cases) {
    out +=
        cat(out.empty() ? "" : "\n", "// ---- ", c.title, "\n", c.program, word, "\n", c.steps, "expect\n", c.expected);
  }
  return out;
}

}  // namespace

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<GoldenCase> golden_cases(const std::string& path, const std::string& word) {
  return parse_cases(read_file(path), word);
}

void run_golden_file(const std::string& path, const std::string& word,
                     const std::function<std::string(const std::string& where, const GoldenCase&)>& run) {
  std::vector<GoldenCase> cases = golden_cases(path, word);
  ASSERT_FALSE(cases.empty()) << "no cases";
  bool bless = std::getenv("TW_BLESS");
  for (GoldenCase& c : cases) {
    SCOPED_TRACE(c.title);
    std::string found = run(cat(path, ": ", c.title), c);
    if (bless)
      c.expected = found;
    else
      EXPECT_EQ(found, c.expected) << "TW_BLESS=1 would write what was found";
  }
  if (bless) write_file(path, to_text(cases, word));
}

std::vector<std::string> golden_files(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(TW_SOURCE_DIR "/tests/" + folder)) {
    if (entry.path().extension() == ".tw") out.push_back(entry.path().string());
  }
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace tw::test

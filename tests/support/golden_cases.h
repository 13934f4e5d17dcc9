// Files of golden cases, for golden_test (schedules) and pass_golden_test (lowering passes): a title, a program, what
// is done with it, and the whole text that is expected afterwards. How a case is run is not here.
//
//   // ---- title
//   program ... { ... }
//   schedule                             (or another word)
//     what is done
//   expect
//   text
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace tw::test {

struct GoldenCase {
  std::string title, program, steps, expected;
};

std::vector<std::string> lines_of(const std::string& text);
std::vector<GoldenCase> golden_cases(const std::string& path, const std::string& word);
// Runs each case of a file whose second section begins with `word`; expects what `run(where, case)` gives, or writes it
// if TW_BLESS is set.
void run_golden_file(const std::string& path, const std::string& word,
                     const std::function<std::string(const std::string& where, const GoldenCase&)>& run);
// All .tw files below a folder of tests/, sorted.
std::vector<std::string> golden_files(const std::string& folder);

}  // namespace tw::test

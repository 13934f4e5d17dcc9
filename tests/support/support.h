// What several tests need: files of the source tree, numbers from the environment.
#pragma once
#include <string>

#include "dsl/base/arena.h"

namespace tw::test {

// The text of a file; fails the test (GoogleTest) if it cannot be read.
std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& text);
// The number that the environment variable `name` holds (TW_CASES and the like), else `fallback`.
i64 from_environment(const char* name, i64 fallback);
// The seeds of a test's random cases: TW_SEED=n is one case; else TW_CASES=n cases (`cases` by default), from
// TW_FIRST=n (0) on.
struct Seeds {
  i64 first, end;
  bool is_one_case;
};
Seeds seeds_from_environment(i64 cases);
// A fresh directory that is removed with the object.
class TemporaryDirectory {
 public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tw::test

#include "support/support.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace tw::test {

std::string read_file(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  EXPECT_TRUE(in.good()) << "cannot read " << path;
  std::ostringstream out;
  out << in.rdbuf();
  return out.str();
}

void write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  EXPECT_TRUE(out.good()) << "cannot write " << path;
}

i64 from_environment(const char* name, i64 fallback) {
  const char* text = std::getenv(name);
  return text ? std::atoll(text) : fallback;
}

Seeds seeds_from_environment(i64 cases) {
  bool is_one_case = std::getenv("TW_SEED") != nullptr;
  i64 first = is_one_case ? from_environment("TW_SEED", 0) : from_environment("TW_FIRST", 0);
  return {first, first + (is_one_case ? 1 : from_environment("TW_CASES", cases)), is_one_case};
}

TemporaryDirectory::TemporaryDirectory() {
  std::string pattern = (std::filesystem::temp_directory_path() / "tracewright-XXXXXX").string();
  EXPECT_NE(mkdtemp(pattern.data()), nullptr);
  path_ = pattern;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace tw::test

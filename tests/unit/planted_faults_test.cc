// The planted faults of tests/scripts can still be planted: the text that each replaces is in its file exactly once,
// and its tests exist. Whether the tests notice them is asked by tests/scripts/planted_faults.sh, which takes too long
// for every run.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "support/support.h"

namespace tw {
namespace {

std::vector<std::string> lines_of(const std::string& file) {
  std::istringstream text(test::read_file(file));
  std::vector<std::string> lines;
  for (std::string line; std::getline(text, line);) {
    if (!line.empty() && line[0] != '#') lines.push_back(line);
  }
  return lines;
}

std::size_t times_in(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

class PlantedFaults : public testing::TestWithParam<const char*> {};

TEST_P(PlantedFaults, CanBePlanted) {
  const std::string root = TW_SOURCE_DIR "/";
  std::vector<std::string> lines = lines_of(root + "tests/scripts/" + GetParam());
  ASSERT_EQ(lines.size() % 5, 0u) << "a fault has five lines";
  for (std::size_t i = 0; i < lines.size(); i += 5) {
    SCOPED_TRACE(lines[i]);
    EXPECT_EQ(times_in(test::read_file(root + lines[i + 1]), lines[i + 2]), 1u)
        << lines[i + 2] << "\nin " << lines[i + 1];
    EXPECT_NE(lines[i + 2], lines[i + 3]);
    std::istringstream tests(lines[i + 4]);
    for (std::string name; tests >> name;) {
      bool is_there = std::filesystem::exists(root + "tests/unit/" + name + ".cc") ||
                      std::filesystem::exists(root + "tests/" + name + ".cc");
      EXPECT_TRUE(is_there) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Lists, PlantedFaults, testing::Values("planted_faults.txt", "planted_faults_primitives.txt"),
                         [](const auto& info) {
                           return std::string(info.param).substr(0, std::string(info.param).find('.'));
                         });

}  // namespace
}  // namespace tw

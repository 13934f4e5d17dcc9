// What several tests need: files of the source tree.
#pragma once
#include <string>

namespace tw::test {

// The text of a file; fails the test (GoogleTest) if it cannot be read.
std::string read_file(const std::string& path);
void write_file(const std::string& path, const std::string& text);
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

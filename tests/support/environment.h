// Variables of the environment, which programs that a test starts inherit.
#pragma once
#include <cstdlib>
#include <string>

namespace tw::test {

// Sets a variable for as long as this lives.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, was_set_ = true;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { was_set_ ? setenv(name_, old_.c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::string old_;
  bool was_set_ = false;
};

}  // namespace tw::test

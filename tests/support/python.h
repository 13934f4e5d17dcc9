// An interpreter of Python for tests that need one of its modules.
#pragma once
#include <string>

namespace tw::test {

// "python3" of the path or Debian's, whichever can import the module; "" if none can.
std::string python_with(const std::string& module);

}  // namespace tw::test

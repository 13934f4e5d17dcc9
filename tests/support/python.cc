#include "support/python.h"

#include "support/run_program.h"

namespace tw::test {

std::string python_with(const std::string& module) {
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    if (run_program({python, "-c", "import " + module}).code == 0) return python;
  }
  return "";
}

}  // namespace tw::test

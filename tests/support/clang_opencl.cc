#include "support/clang_opencl.h"

#include <cstdlib>
#include <fstream>

#include "dsl/base/text.h"
#include "support/support.h"

namespace tw::test {

std::string opencl_front_end() {
  for (const char* name : {"clang-19", "clang"}) {
    if (std::system(cat("command -v ", name, " > /dev/null 2>&1").c_str()) == 0) return name;
  }
  return "";
}

std::string refused_by_clang(const std::string& clang, const std::string& text, const std::string& version,
                             const std::string& extension) {
  TemporaryDirectory folder;
  std::string file = cat(folder.path(), "/kernel.cl"), log = cat(folder.path(), "/log");
  std::ofstream(file) << text;
  std::string command = cat(clang, " -x cl -cl-std=", version,
                            " -target spir64 -Xclang -finclude-default-header -Xclang -cl-ext=", extension,
                            " -fsyntax-only -Wall -Wno-unused -Werror ", file, " > ", log, " 2>&1");
  if (std::system(command.c_str()) == 0) return "";
  std::ifstream said(log);
  return cat("refused: ", std::string(std::istreambuf_iterator<char>(said), {}), text);
}

}  // namespace tw::test

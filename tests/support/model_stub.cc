#include "support/model_stub.h"

#include <filesystem>

#include "dsl/base/text.h"
#include "support/support.h"

namespace tw::test {

namespace fs = std::filesystem;

ModelStubs::ModelStubs(std::string folder) : folder_(std::move(folder)) {
  fs::create_directories(folder_);
  // Called as: python -B FOLDER LIBRARY --threads N ...
  write_file(python(), cat("#!/bin/sh\nexec /bin/sh ", folder_, "/$3.sh\n"));
  fs::permissions(python(), fs::perms::owner_all);
}

void ModelStubs::add(const std::string& library, const ModelStub& stub) const {
  std::string own = cat(folder_, "/", library);
  fs::create_directories(own);
  write_file(cat(folder_, "/", library, ".sh"), cat("here=", own, "\nn=0\necho 'ready Stub 1.0'\n",
                                                    R"(while read -r word rest; do
  echo ")",
                                                    library, R"( $word" >> )", folder_, R"(/log
  case $word in
  load)
    input=${rest#*\"file\":\"}
    cat "${input%%\"*}" > "$here/input"
    )",
                                                    stub.load, R"(;;
  turn)
    n=$((n + 1))
    )",
                                                    stub.turn, R"(;;
  output)
    )",
                                                    stub.output, R"(;;
  esac
done
)"));
}

std::string ModelStubs::log() const { return fs::exists(folder_ + "/log") ? read_file(folder_ + "/log") : ""; }

}  // namespace tw::test

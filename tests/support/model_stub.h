// Libraries that run whole models, without any: a shell script stands in for the Python that serves their wheels, and
// answers the lines of runtime/peers/model_peer.h with what a test wants.
#pragma once
#include <string>

namespace tw::test {

// What a stub does with a request, in the words of the shell: `$rest` is what follows the word, `$n` counts the turns.
struct ModelStub {
  std::string load = R"(echo 'ok {"outputs":1,"detail":"a stub"}')";
  std::string turn = "echo 'ok 2000000 3'";
  // The output is the input.
  std::string output = R"(cat "$here/input" > "${rest#* }"; echo 'ok {"dtype":"f32","shape":[2,3]}')";
};

// Writes `folder`/python, to be named by TRACEWRIGHT_PYTHON. It serves the libraries that `add` was called for; each
// request goes to `folder`/log, a line "LIBRARY WORD".
class ModelStubs {
 public:
  explicit ModelStubs(std::string folder);
  void add(const std::string& library, const ModelStub& stub) const;
  std::string python() const { return folder_ + "/python"; }
  std::string log() const;  // what was written to it so far

 private:
  std::string folder_;
};

}  // namespace tw::test

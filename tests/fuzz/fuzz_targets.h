// What every parser is given to read by the fuzzers: any bytes. A target returns; it neither crashes nor hangs nor
// grows without bound. The preset `fuzz` builds one program for all; fuzz_test runs each over its damaged seeds in
// every test run.
#pragma once
#include <functional>
#include <string>
#include <vector>

namespace tw::fuzz {

struct Target {
  std::string name;
  std::function<void(const std::string&)> run;
  std::vector<std::string> seeds;  // texts that the parser accepts, and some that it does not
};
const std::vector<Target>& targets();

}  // namespace tw::fuzz

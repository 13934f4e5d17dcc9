// Reads the flags of one subcommand with CLI11, in our voice: one line of error with a suggestion,
// exit code 2. Used by cli/cmd_*.cc. CLI11 itself is included by arguments.cc alone: it takes seconds to compile.
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace tw::cli {

// What an argument has to be. All return the option itself.
class Option {
 public:
  explicit Option(CLI::Option* option) : option_(option) {}
  Option required();
  Option range(int least, int most);
  Option range(double least, double most);
  Option positive();
  Option needs(const Option& other);  // whoever gives this one gives the other, too
  bool is_given() const;              // an empty value, too; known after App::parse

 private:
  CLI::Option* option_;
};

// The arguments of a subcommand; `help` is what it does, `examples` is printed below the flags together with the exit
// codes.
class App {
 public:
  App(const std::string& name, const std::string& help, const std::string& examples);
  ~App();

  // `value` is written by parse and shown as the default. T: std::string, std::vector<std::string>, int, i64, u64,
  // double, std::optional of the last two. A name without dashes is a position.
  template <class T>
  Option add_option(const std::string& name, T& value, const std::string& help);
  Option add_flag(const std::string& name, bool& value, const std::string& help);
  // Nothing: go on. Else the exit code: help was printed, or the flags are wrong.
  std::optional<int> parse(int count, char** words);

 private:
  std::unique_ptr<CLI::App> app_;
};

}  // namespace tw::cli

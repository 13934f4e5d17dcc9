// Reads the flags of one subcommand with CLI11, in our voice: one line of error with a suggestion,
// exit code 2. Used by cli/cmd_*.cc.
#pragma once
#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <memory>
#include <optional>
#include <string>

namespace tw::cli {

// Nothing: go on. Else the exit code: help was printed, or the flags are wrong.
std::optional<int> parse_arguments(CLI::App& app, int count, char** words);

// A subcommand's App; `help` is what it does, `examples` is printed below the flags together with
// the exit codes.
std::unique_ptr<CLI::App> make_app(const std::string& name, const std::string& help,
                                   const std::string& examples);

}  // namespace tw::cli

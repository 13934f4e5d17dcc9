// How the command prints: tables, numbers for people, JSON, messages, files. Standard output is
// data, standard error is talk.
#pragma once
#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tw::cli {

// A message for the person at the terminal: "tracewright: text".
void say(const std::string& text);

// Columns aligned by their widest cell; those with a number in the first row are right-aligned.
void print_table(const std::vector<std::string>& head,
                 const std::vector<std::vector<std::string>>& rows);

// One JSON value and a newline on standard output.
void print_json(const boost::json::value& value);

// "812.3 us", "1.42 ms"; "-" for 0.
std::string show_time(double seconds);
// `digits` behind the point; "-" for 0.
std::string show_number(double value, int digits = 1);
// "3.2x"; "-" if either time is not known.
std::string show_gain(double before, double now);
// "1:07" (minutes and seconds).
std::string show_clock(double seconds);

// nullopt, and a message, if it cannot be read.
std::optional<std::string> read_file(const std::string& path);
// False, and a message, if it cannot be written.
bool write_file(const std::string& path, const std::string& text);
// To the file, or to standard output if `path` is empty or "-".
bool write_output(const std::string& path, const std::string& text);

}  // namespace tw::cli

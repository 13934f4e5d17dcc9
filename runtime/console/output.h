// How the commands print: tables, numbers for people, JSON, messages, files. Standard output is
// data, standard error is talk.
#pragma once
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>
#include <optional>
#include <string>
#include <vector>

namespace tw {

// A message for the person at the terminal: "tracewright: text". What a terminal would obey instead of showing it is
// escaped, here and in tables.
void say(const std::string& text);

// Columns aligned by their widest cell; those with a number in the first row are right-aligned.
void print_table(const std::vector<std::string>& head, const std::vector<std::vector<std::string>>& rows);

// One JSON value and a newline on standard output.
void print_json(const boost::json::value& value);

// "812.3 us", "1.42 ms"; "-" for 0.
std::string show_time(double seconds);
// The same for a time with warm caches and one with cold ones: "812.3 us, cold 1.42 ms"; only the first where the
// second is not known (0).
std::string show_times(double seconds, double cold_seconds);
// `object`, with "cold_us" where that time is known.
boost::json::object with_cold(boost::json::object object, double cold_seconds);
// null where the number is infinite or undefined, which JSON cannot say.
boost::json::value json_number(double value);
// `digits` behind the point; "-" for 0.
std::string show_number(double value, int digits = 1);
// "3.2x"; "-" if either time is not known.
std::string show_gain(double before, double now);
// "1:07" (minutes and seconds).
std::string show_clock(double seconds);

// read_text_file; a message on failure.
std::optional<std::string> read_file(const std::string& path);
// False, and a message, if it cannot be written.
bool write_file(const std::string& path, const std::string& text);
// The same by way of a file beside it, PATH.part: whoever opens `path` meanwhile has all of the old text or of the new
// one.
bool replace_file(const std::string& path, const std::string& text);
// To the file, by way of PATH.part where it is an ordinary one; to standard output if `path` is empty or "-".
bool write_output(const std::string& path, const std::string& text);

}  // namespace tw

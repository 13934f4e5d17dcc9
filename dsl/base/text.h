// Small helpers for text: cat(...) concatenates, join puts separators, closest() finds what the user may have meant.
#pragma once
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace tw {

template <class... Parts>
std::string cat(const Parts&... parts) {
  std::ostringstream out;
  (out << ... << parts);
  return out.str();
}

template <class List>
std::string join(const List& list, std::string_view separator) {
  std::ostringstream out;
  bool first = true;
  for (const auto& item : list) {
    if (!first) out << separator;
    out << item;
    first = false;
  }
  return out.str();
}

// The parts of a text between separators: "a,b" gives a and b, "" none.
std::vector<std::string> split(std::string_view text, char separator);

// The characters between quotes, with \\ \" \n \t escaped, as the lexer reads them back.
std::string quote(std::string_view characters);

// A C identifier made of a name: what cannot stand in one becomes `_`, and `k` goes in front of a digit.
std::string c_identifier(std::string name);

// Number of letters to insert, remove, replace or swap with their neighbour; quadratic, for short words.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The candidate nearest to `word`, or "" if none is near enough to be a likely typo; never the word itself.
std::string closest(std::string_view word, const std::vector<std::string>& candidates);

}  // namespace tw

// UTF-8 of strangers: what is a character, and what a terminal may be shown of it.
#pragma once
#include <string>
#include <string_view>

namespace tw {

// How many bytes the UTF-8 character at text[at] has; 0 = it is not one.
std::size_t utf8_length(std::string_view text, std::size_t at);

// One character (or byte that belongs to none) as a terminal may show it.
struct Shown {
  std::string text;
  std::size_t bytes;    // that it stands for
  std::size_t columns;  // that it takes; 1 for every character that is shown as it is
};
// Control characters, characters that are invisible or turn the direction of writing, and bytes that are no UTF-8 become \x1b, \u202e, \xff.
Shown shown_at(std::string_view text, std::size_t at);

// A text whose characters are all as shown_at() has them, but for line feeds and tabs, which stay.
std::string printable(std::string_view text);

}  // namespace tw

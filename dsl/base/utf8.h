// Text of unknown origin: where its UTF-8 characters end, and how to show them on a terminal that must not obey them.
#pragma once
#include <string>
#include <string_view>

namespace tw {

// The number of bytes of the UTF-8 character at text[at]; 0 if there is none.
std::size_t utf8_length(std::string_view text, std::size_t at);

// One character, or one byte that belongs to no character, in a form that a terminal may show.
struct Shown {
  std::string text;
  std::size_t bytes;    // that it stands for
  std::size_t columns;  // that it takes; 1 for every character that is shown as it is
};
// Control characters, characters that are invisible or turn the direction of writing, and bytes that are no UTF-8
// become \x1b, \u202e, \xff.
Shown shown_at(std::string_view text, std::size_t at);

// The whole text in that form (shown_at). Line feeds and tabs stay as they are.
std::string printable(std::string_view text);

}  // namespace tw

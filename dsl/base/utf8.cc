#include "dsl/base/utf8.h"

#include <cstdio>

namespace tw {
namespace {

unsigned byte_at(std::string_view text, std::size_t at) {
  return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
}

unsigned code_point(std::string_view text, std::size_t at, std::size_t length) {
  unsigned code = length == 1 ? byte_at(text, at) : byte_at(text, at) & (0x7fu >> length);
  for (std::size_t i = 1; i < length; ++i) code = code << 6 | (byte_at(text, at + i) & 0x3f);
  return code;
}

bool is_unfit(unsigned code) {
  bool is_control = code < 0x20 || (code >= 0x7f && code < 0xa0);
  bool is_invisible = (code >= 0x200b && code <= 0x200f) || (code >= 0x2028 && code <= 0x202e) ||
                      (code >= 0x2060 && code <= 0x206f) || code == 0xfeff;
  return is_control || is_invisible;
}

Shown escaped(const char* form, unsigned code, std::size_t bytes) {
  char text[16];
  int length = std::snprintf(text, sizeof text, form, code);
  return {text, bytes, static_cast<std::size_t>(length)};
}

}  // namespace

std::size_t utf8_length(std::string_view text, std::size_t at) {
  unsigned first = byte_at(text, at), second = byte_at(text, at + 1);
  if (first < 0x80) return 1;
  std::size_t length = first >= 0xc2 && first < 0xe0   ? 2
                       : first >= 0xe0 && first < 0xf0 ? 3
                       : first >= 0xf0 && first < 0xf5 ? 4
                                                       : 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((byte_at(text, at + i) & 0xc0) != 0x80) return 0;
  }
  bool overlong = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
  bool surrogate = first == 0xed && second >= 0xa0, too_large = first == 0xf4 && second >= 0x90;
  return overlong || surrogate || too_large ? 0 : length;
}

Shown shown_at(std::string_view text, std::size_t at) {
  std::size_t length = utf8_length(text, at);
  if (length == 0) return escaped("\\x%02x", byte_at(text, at), 1);
  unsigned code = code_point(text, at, length);
  if (is_unfit(code)) return escaped(length == 1 ? "\\x%02x" : "\\u%04x", code, length);
  return {std::string(text.substr(at, length)), length, 1};
}

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    Shown shown = shown_at(text, at);
    bool stays = text[at] == '\n' || text[at] == '\t';
    out += stays ? std::string(1, text[at]) : shown.text;
    at += shown.bytes;
  }
  return out;
}

}  // namespace tw

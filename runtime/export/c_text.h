// Pieces of C text as models write them. For runtime/export/model_*.cc only.
#pragma once
#include <string>
#include <utility>
#include <vector>

namespace tw {

// The text with every occurrence of each word replaced.
inline std::string with_words(std::string text, const std::vector<std::pair<std::string, std::string>>& words) {
  for (const auto& [word, value] : words) {
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + value.size()))
      text.replace(at, word.size(), value);
  }
  return text;
}

// A name of an ONNX file, inside of a comment.
inline std::string comment_text(std::string name) {
  for (char& c : name) {
    if (c == '*' || c == '/' || c == '\\' || static_cast<unsigned char>(c) < ' ') c = '_';
  }
  return name;
}

}  // namespace tw

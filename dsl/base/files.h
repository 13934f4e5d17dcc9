// Whole files as text. For everything that reads one at once; messages are the caller's.
#pragma once
#include <optional>
#include <string>

namespace tw {

// The bytes of a file; nullopt if it cannot be read to its end.
std::optional<std::string> read_whole_file(const std::string& path);

}  // namespace tw

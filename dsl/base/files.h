// Whole files as text. For everything that reads one at once; messages are the caller's.
#pragma once
#include <optional>
#include <string>

namespace tw {

// The bytes of a file; nullopt if it cannot be read to its end.
std::optional<std::string> read_whole_file(const std::string& path);

// The same of a file that people name, up to 64 MiB: a larger one is refused without reading on. On failure `error`
// says why, with the path.
inline constexpr long kMostFileBytes = 64L << 20;
std::optional<std::string> read_text_file(const std::string& path, std::string& error);

// A file that comes with tracewright: in share/tracewright beside this library or above its folder, or in the folder
// that TRACEWRIGHT_SHARE names. nullopt if it is in neither.
std::optional<std::string> find_shared_file(const std::string& name);

}  // namespace tw

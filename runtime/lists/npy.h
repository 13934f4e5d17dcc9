// Arrays as .npy files (NumPy's format 1.0 to 3.0): what `run` reads and writes. Little-endian, in C order; f16, f32,
// f64, bool and integers; bf16 is not known to the format.
#pragma once
#include <optional>
#include <string>

#include "backends/interpreter.h"

namespace tw {

// Nothing, and why in `error`.
std::optional<HostArray> read_npy(const std::string& path, std::string& error);
// The file's bytes; nothing for types that the format does not know.
std::optional<std::string> npy_bytes(const HostArray& array);

}  // namespace tw

// The shapes of --shape: "x=1,3,224,224".
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/lists/task_list.h"

namespace tw::cli {

// One for an input; nullopt after a message.
std::optional<std::vector<ModelShape>> parse_shapes(const std::vector<std::string>& texts);

// For a library of several entries: the i-th shape of an input belongs to entry i, and an input with one shape has it
// in all. nullopt after a message: inputs with other numbers of shapes, two entries with the same shapes, shapes of an
// input with different numbers of dimensions. At least one entry.
std::optional<std::vector<std::vector<ModelShape>>> parse_entry_shapes(const std::vector<std::string>& texts);

}  // namespace tw::cli

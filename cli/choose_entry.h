// Which entry of a compiled model is meant, by the shapes that a user gives.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/export/model_library.h"
#include "runtime/lists/task_list.h"

namespace tw::cli {

// The first entry whose inputs have these shapes, said or of files; inputs that none is given for may have any. nullopt
// after a message that lists the entries. Names that the model does not have are for the caller to refuse.
std::optional<ModelLibrary> choose_entry(const std::vector<ModelLibrary>& entries,
                                         const std::vector<ModelShape>& shapes);

}  // namespace tw::cli

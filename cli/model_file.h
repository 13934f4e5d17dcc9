// Cost models as `tune` and `model` take them: by name, and files with what they have learned.
#pragma once
#include <optional>
#include <string>

#include "costmodel/make_model.h"

namespace tw::cli {

// False after a message that names the option: there is no such cost model.
bool is_model_name(const std::string& option, const std::string& name);

// False after a message: no file can be written there, or there is one that is no saved model, and is not to be lost.
bool may_become_model_file(const std::string& path);

// The bytes of a file that a model of that name, made with these options, can load and goes on with; "" if there is no
// file yet, nullopt after a message.
std::optional<std::string> read_model_file(const std::string& path, const std::string& name,
                                           const ModelOptions& options);

}  // namespace tw::cli

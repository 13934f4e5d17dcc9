// What a model's library has beside the rest where it has several entries, each for other shapes of the inputs: C
// functions to choose one, and a word for each. For model_plan.cc, and for whoever names entries.
#pragma once
#include <string>
#include <vector>

#include "runtime/export/model_library.h"

namespace tw {

// "x=8,3,224,224 n=8" for each entry: the inputs whose shapes are not the same in all, as `--shape` takes them.
std::vector<std::string> entry_labels(const std::vector<std::vector<KernelArgument>>& inputs);
std::vector<std::string> entry_labels(const ModelPlan& model);
std::vector<std::string> entry_labels(const std::vector<ModelLibrary>& entries);

// Declarations and definitions of NAME_ENTRIES, NAME_create_entry and NAME_find_entry, where $NAME stands for the name
// of the library; "" for a model of one entry. The definitions need a function make_context.
std::string entry_declarations(const ModelPlan& model);
std::string entry_definitions(const ModelPlan& model);

}  // namespace tw

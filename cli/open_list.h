// Task lists and trace files as the subcommands open them: what is wrong with them goes to standard error.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "runtime/store/trace_file.h"
#include "sampler/tasks/load_list.h"

namespace tw::cli {

// load_list; nullopt after messages. `shapes`: of the inputs of an ONNX file, "x=1,3,224,224". `rewrites`: files.
// `precision`: of an ONNX file, "bf16"; "" = as its values are.
std::optional<LoadedList> open_list(const std::string& path, const std::string& rules = "",
                                    const std::string& strategy = "", const std::vector<std::string>& shapes = {},
                                    const std::vector<std::string>& rewrites = {}, const std::string& precision = "");

// False, after messages, if not all tasks (or the one of that name) can be measured in this machine's memory.
bool fits_in_memory(const LoadedList& list, const std::string& only = "");

// Is `name` one of the tasks `names`? False after a message; `where` says what has them.
bool is_task_name(const std::string& name, const std::vector<std::string>& names, const std::string& where);
// The same of a list; "" stands for all of its tasks.
bool has_task(const LoadedList& list, const std::string& name);

// A trace file from its text; nullopt after messages, which name `path`.
std::optional<TraceFile> read_trace_file(const std::string& path, const std::string& text);

}  // namespace tw::cli

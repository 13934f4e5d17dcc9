// Loads plugins. A plugin is first loaded in a child process, where its entry point may crash or
// hang without harm; only what came through that is loaded here. The one file that includes
// Boost.DLL is load_plugin.cc.
#pragma once
#include <memory>
#include <string>

#include "rules/lang/module.h"

namespace tw::rules {

// The rules of a shared library as a module, or null and one sentence in `error`. `seconds`: how
// long the entry point may take.
std::shared_ptr<const Module> load_plugin(const std::string& path, std::string& error, int seconds = 10);

bool is_plugin(const std::string& path);  // by its name: *.so

}  // namespace tw::rules

// Rule modules, text or plugins (*.so), from files into a library, with the modules that they import. Used by task
// lists and by `check`. A module may import files of its own folder and below only; nothing else of the file system can
// be reached from a module.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "rules/lang/library.h"

namespace tw::rules {

class RuleModules {
 public:
  explicit RuleModules(Library& library) : library_(library) {}

  // Reads, checks and adds the module of a file and what it imports; once per file. Null after errors, which are in
  // errors().
  std::shared_ptr<const Module> add_file(const std::string& path);
  // Rendered diagnostics of all files so far.
  const std::string& errors() const { return errors_; }

 private:
  std::shared_ptr<const Module> add_plugin(const std::string& path);
  bool add_imports(const std::string& path, const Module& module, Diagnostics& diagnostics);

  Library& library_;
  std::map<std::string, std::shared_ptr<const Module>> done_;  // null: being read, or with errors
  std::string errors_;
  int depth_ = 0;
};

}  // namespace tw::rules

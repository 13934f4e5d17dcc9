// Files of rewritings and operators of one's own, as a command line or a task list names them.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "graph/rewrites.h"

namespace tw::graph {

class OwnRewrites {
 public:
  // What a file holds, behind what is here. Each rewriting is proved by running before it is used; an operator is in
  // one file only. False after errors, which `messages` gets with their places; then nothing is added.
  bool add(const Source& file, std::string& messages);
  std::vector<const RewriteModule*> modules() const;  // in the order of the files; they live as long as this or a copy

 private:
  void check(const RewriteModule& module, Diagnostics& diagnostics) const;

  std::vector<std::shared_ptr<const RewriteModule>> modules_;
};

}  // namespace tw::graph

// Constants of several graphs of one file in memory once.
#pragma once
#include <map>
#include <memory>
#include <vector>

#include "dsl/ir/compare.h"
#include "graph/graph.h"

namespace tw::graph {

class SharedConstants {
 public:
  // Constants that an earlier graph has, too, become the same object.
  void share(Graph& graph);

 private:
  std::map<Hash128, std::vector<std::shared_ptr<const HostArray>>> known_;  // by their bytes
};

}  // namespace tw::graph

// Small models compiled for a device, and what they must give.
#pragma once
#include <string>
#include <vector>

#include "backends/target.h"
#include "dsl/base/rng.h"
#include "runtime/export/export_device_model.h"
#include "runtime/export/model_library.h"
#include "sampler/models/compile_model.h"
#include "support/graph_kit.h"
#include "support/support.h"

namespace tw::test {

// "cuda -device=a100", or device 0 of OpenCL.
Target target_for(TargetKind kind);

class DeviceGraphKit : public GraphKit {
 public:
  graph::ValueId random(const Ints& shape);  // a constant
  graph::ValueId plus(graph::ValueId x, const Ints& shape, const Ints& of) {
    return add("add", {}, {x, spread(random(of), shape)});
  }

 private:
  Rng rng_{7};
};

struct Compiled {
  graph::Graph imported;
  ModelTasks tasks;
  ExportPlan plan;
  std::vector<HostArray> inputs, expected;  // random, and what the graph interpreter gives for them
};
Compiled compiled(graph::Graph graph, TargetKind kind);

// The folder of a library, which is called `net`, and what it gives.
class Written {
 public:
  Written(const ExportPlan& plan, TargetKind kind);
  ModelRun run(const std::vector<HostArray>& inputs) const;
  TemporaryDirectory folder;
};

bool is_wrong(const std::vector<HostArray>& expected, const std::vector<HostArray>& found);

}  // namespace tw::test

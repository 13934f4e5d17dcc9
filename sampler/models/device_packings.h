// What a device packs when a model is created: the prepack entry points that run there once, on which constants, and
// where the results lie.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "backends/interpreter.h"
#include "runtime/export/model_plan.h"

namespace tw {

class DevicePackings {
 public:
  // One run of the prepack of a task's kernel. `sources`: the constants that it reads, in order. The offset of each
  // packed argument.
  std::vector<i64> add(const std::string& name, std::size_t task, const KernelManifest& manifest,
                       const std::vector<const HostArray*>& sources);
  // Puts the packings and their sources into the plan, whose weights are there.
  void finish(ModelPlan& plan);

 private:
  i64 source(const HostArray* array);

  std::vector<ModelStep> packings_;
  std::map<const HostArray*, i64> known_;
  std::string sources_;
  i64 packed_bytes_ = 0;
};

}  // namespace tw

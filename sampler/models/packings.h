// How kernels pack constants, so that the entries of one library can share what is packed.
#pragma once
#include <map>
#include <set>
#include <vector>

#include "dsl/ir/compare.h"
#include "runtime/export/export.h"
#include "sampler/models/compile_model.h"

namespace tw {

// Of what prepack of a scheduled program does: equal ones make the same bytes of the same constants. Zero if it packs
// nothing.
Hash128 packing_of(const Program& scheduled);
// The same of a kernel, by its trace.
Hash128 packing_of(const ExportedTask& kernel);

// What the kernels of some entries make of each constant.
class KnownPackings {
 public:
  // `kernel_of`: which of the kernels each group of the entry has.
  void add(const EntryGraph& entry, const std::vector<std::size_t>& kernel_of,
           const std::vector<ExportedTask>& kernels);
  // In which ways the constants of a task's groups are packed already.
  std::set<Hash128> of(const EntryGraph& entry, std::size_t task);

 private:
  std::map<Hash128, std::set<Hash128>> known_;  // by the constant's bytes
  std::map<std::size_t, Hash128> of_kernel_;
  std::map<const HostArray*, Hash128> of_constant_;

  Hash128 constant_hash(const HostArray* constant);
};

}  // namespace tw

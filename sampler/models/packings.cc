#include "sampler/models/packings.h"

#include "dsl/passes/split_entry_points.h"
#include "runtime/store/trace_file.h"
#include "sampler/tasks/rebuild.h"

namespace tw {
namespace {

// Each constant that a group reads, as it lies in memory.
template <class Visit>
void each_constant(const EntryGraph& entry, const graph::Group& group, Visit visit) {
  for (graph::ValueId constant : group.constants)
    visit(entry.graph.values[entry.tasks.fused.parts[constant].memory].data.get());
}

}  // namespace

Hash128 packing_of(const Program& scheduled) {
  Arena arena(1 << 16);
  Result<EntryPoints> parts = split_entry_points(arena, scheduled);
  return parts && parts->prepack.body ? structural_hash(parts->prepack) : Hash128{};
}

Hash128 packing_of(const ExportedTask& kernel) {
  if (kernel.kernel.manifest.prepack.empty()) return {};
  Source source{kernel.name, kernel.trace_file};
  Diagnostics diagnostics(source);
  std::optional<TraceFile> file = parse_trace_file(source, diagnostics);
  std::string error;
  std::optional<Rebuilt> rebuilt = file ? rebuild(file->program, file->trace, kernel.target, error) : std::nullopt;
  return rebuilt ? packing_of(rebuilt->scheduled) : Hash128{};
}

void KnownPackings::add(const EntryGraph& entry, const std::vector<std::size_t>& kernel_of,
                        const std::vector<ExportedTask>& kernels) {
  for (std::size_t g = 0; g < entry.tasks.fused.groups.size(); ++g) {
    std::size_t kernel = kernel_of[g];
    auto [packing, is_new] = of_kernel_.try_emplace(kernel);
    if (is_new) packing->second = packing_of(kernels[kernel]);
    if (packing->second == Hash128{}) continue;
    each_constant(entry, entry.tasks.fused.groups[g],
                  [&](const HostArray* constant) { known_[constant_hash(constant)].insert(packing->second); });
  }
}

std::set<Hash128> KnownPackings::of(const EntryGraph& entry, std::size_t task) {
  std::set<Hash128> found;
  for (std::size_t g = 0; g < entry.tasks.fused.groups.size(); ++g) {
    if (entry.tasks.task_of[g] != task) continue;
    each_constant(entry, entry.tasks.fused.groups[g], [&](const HostArray* constant) {
      if (auto known = known_.find(constant_hash(constant)); known != known_.end())
        found.insert(known->second.begin(), known->second.end());
    });
  }
  return found;
}

Hash128 KnownPackings::constant_hash(const HostArray* constant) {
  auto [at, is_new] = of_constant_.try_emplace(constant);
  if (is_new) at->second = hash_bytes({reinterpret_cast<const char*>(constant->bytes.data()), constant->bytes.size()});
  return at->second;
}

}  // namespace tw

#include "sampler/search/machine_bound.h"

#include <algorithm>
#include <set>
#include <thread>

#include "backends/topology.h"
#include "dsl/ir/walk.h"
#include "runtime/measure/fma_probe.h"
#include "runtime/measure/stream_probe.h"
#include "sampler/search/least_flops.h"

namespace tw {
namespace {

constexpr double kProbeSeconds = 0.02;
constexpr double kMostBytes = 512e6;  // of the stream probe

// True if the block reads every element of the buffer: each index is a variable of its own that runs over the whole
// dimension.
bool reads_all(const Block* block, const Load* load) {
  std::set<const Var*> used;
  for (std::size_t d = 0; d < load->indices.size(); ++d) {
    const Var* var = as<Var>(load->indices[d]);
    auto iter =
        std::find_if(block->iters.begin(), block->iters.end(), [&](const IterVar& one) { return one.var == var; });
    if (!var || iter == block->iters.end() || !used.insert(var).second || iter->extent != load->buffer->shape[d])
      return false;
  }
  return true;
}

bool has_condition(const Block* block) {
  bool found = false;
  walk(block->body, [&](const Node* node) {
    found |= node->kind == Kind::Select || node->kind == Kind::If;
    return !found;
  });
  return found;
}

double bytes_of_buffer(const Buffer* buffer) {
  double bytes = bytes_of(buffer->dtype);
  for (i64 extent : buffer->shape) bytes *= static_cast<double>(extent);
  return bytes;
}

}  // namespace

LeastBytes least_bytes(const Program& program) {
  std::set<const Buffer*> read;
  for_each<Block>(program.body, [&](const Block* block) {
    if (has_condition(block)) return;
    for_each<Load>(block->body, [&](const Load* load) {
      if (reads_all(block, load)) read.insert(load->buffer);
    });
  });
  LeastBytes least;
  for (const Param& param : program.params) {
    if (param.role == Role::Output)
      least.written += bytes_of_buffer(param.buffer);
    else if (read.count(param.buffer))
      least.read += bytes_of_buffer(param.buffer);
  }
  return least;
}

MachineBound::MachineBound() {
  cpu_set_t usable = cpus_of_thread();
  CPU_ZERO(&core_);
  for (int core = CPU_SETSIZE - 1; core >= 0; --core) {
    if (!CPU_ISSET(core, &usable)) continue;
    CPU_SET(core, &core_);
    break;
  }
}

Bound MachineBound::of(const TuneTask& task) {
  const Target& target = task.target;
  if (is_device(target) || target.cpu != host_target().cpu) return {};
  double flops = least_flops(task.program.program), arithmetic = 0, moving = 0;
  LeastBytes bytes = least_bytes(task.program.program);
  int threads = std::clamp(target.threads, 1, usable_threads());
  std::thread([&] {
    sched_setaffinity(0, sizeof core_, &core_);
    double& peak = peak_[target.vector_bits];
    if (flops > 0) peak = std::max(peak, measure_fma_peak(kProbeSeconds, target.vector_bits));
    if (peak > 0) arithmetic = flops / peak / threads;
    if (bytes.read + bytes.written <= kMostBytes)
      moving = measure_stream_seconds(static_cast<i64>(bytes.read), static_cast<i64>(bytes.written), target.vector_bits,
                                      kProbeSeconds) /
               threads;
  }).join();
  return arithmetic >= moving ? Bound{arithmetic, "the FMA peak"} : Bound{moving, "the bandwidth"};
}

}  // namespace tw

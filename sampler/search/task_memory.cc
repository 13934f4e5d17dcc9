#include "sampler/search/task_memory.h"

#include <cmath>
#include <set>

#include "dsl/analysis/points.h"
#include "dsl/base/text.h"
#include "runtime/measure/machine_memory.h"
#include "runtime/measure/measurer.h"
#include "sampler/search/sampled_reference.h"
#include "sampler/search/task_reference.h"
#include "sampler/search/trial.h"

namespace tw {
namespace {

double bytes_in(const Buffer* buffer) {
  double bytes = bytes_of(buffer->dtype);
  for (i64 extent : buffer->shape) bytes *= static_cast<double>(extent);
  return bytes;
}

struct Sizes {
  double inputs = 0, outputs = 0, locals = 0;
};
Sizes sizes_of(const Program& program) {
  Sizes out;
  for (const Param& param : program.params)
    (param.role == Role::Output ? out.outputs : out.inputs) += bytes_in(param.buffer);
  for (const Buffer* local : program.locals) out.locals += bytes_in(local);
  return out;
}

// Of the intermediate results that are sums.
double sums_of(const Program& program) {
  std::set<const Buffer*> sums;
  for_each<Block>(program.body, [&](const Block* block) {
    const Store* init = block->init ? as<Store>(block->init) : nullptr;
    for (const StoreTarget& target : init ? init->targets : Array<StoreTarget>()) sums.insert(target.buffer);
  });
  double bytes = 0;
  for (const Buffer* local : program.locals) bytes += sums.count(local) > 0 ? bytes_in(local) : 0;
  return bytes;
}

std::string gigabytes(double bytes) { return cat(std::round(bytes * 1e-8) / 10, " GB"); }

}  // namespace

TaskMemory memory_of(const Program& program, const Target& target) {
  Sizes own = sizes_of(program);
  // The inputs of each set, a copy of one set in each layout, and the outputs in each layout.
  double host = kSets * own.inputs + kSets * (own.inputs + own.outputs);
  Arena arena(1 << 18);
  Program judged = judged_program(arena, program);
  std::optional<double> sample = points_of(program) > kReferencePoints ? memory_of_sample(judged) : std::nullopt;
  if (sample) {
    // The search has inputs of its own, of which it computes the sample. Kernels have sums in each layout; what is
    // element-wise is mostly computed where it is read.
    host += own.inputs + *sample + kSets * sums_of(program);
  } else {
    // The reference has outputs and everything between in each layout, and its results are kept for each set.
    Sizes reference = sizes_of(judged);
    host += kSets * (2 * reference.outputs + reference.locals);
  }
  return {host, is_device(target) ? own.inputs + own.outputs : 0};
}

std::string why_too_large(const Program& program, const Target& target, i64 device_bytes) {
  TaskMemory needed = memory_of(program, target);
  double free = static_cast<double>(free_memory_bytes()), on_device = static_cast<double>(device_bytes);
  if (needed.host > free) {
    return cat("takes ", gigabytes(needed.host),
               " of memory to be measured (two sets of its data in two layouts, and what is expected), but ",
               gigabytes(free), " are free");
  }
  if (device_bytes > 0 && needed.device > on_device)
    return cat("takes ", gigabytes(needed.device), " of the device's memory, which has ", gigabytes(on_device));
  return "";
}

}  // namespace tw

#include "sampler/search/sampled_reference.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <random>

#include "backends/element_values.h"
#include "backends/target.h"
#include "backends/topology.h"
#include "dsl/analysis/index_ranges.h"
#include "dsl/base/clock.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "runtime/measure/elements.h"
#include "sampler/search/sample_cost.h"
#include "sampler/search/trial.h"
#include "sampler/space/parallel_for.h"

namespace tw {
namespace {

constexpr double kSeconds = 1.5;  // of all cores, for each output and set of data
constexpr i64 kFewest = 256, kMost = 4096, kFewestRows = 8;
constexpr i64 kSteps = 1'000'000'000;  // of a row; some 10 s
constexpr i64 kMostColumns = kFewest / kFewestRows;
constexpr i64 kNearEnd = 16;
constexpr double kKeptBytes = 64;  // of an element that ElementValues remembers

// The caller may have left a core to the worker, which waits for us now.
const cpu_set_t cores_at_start = cpus_of_thread();

class Sampler {
 public:
  Sampler(const Program& program, u64 seed, const std::function<bool()>& stop)
      : program_(judged_program(arena_, program)), ranges_(index_ranges(program_)), seed_(seed), stop_(stop) {
    std::random_device device;
    random_ = Rng(device(), device(), device());
  }

  std::optional<SampledReference> run() {
    if (!memory_of_sample(program_)) return std::nullopt;
    SampledReference out;
    for (const Param& param : program_.params) {
      const Buffer* buffer = param.buffer;
      if (is_variance(buffer)) continue;
      out.arguments.push_back({std::string(buffer->name),
                               role_of(param),
                               buffer->dtype,
                               {buffer->shape.begin(), buffer->shape.end()},
                               bytes_of(buffer),
                               range_of(buffer)});
    }
    for (int set = 0; set < kSets; ++set) {
      if (!draw_inputs(set)) return std::nullopt;
      for (const Param& param : program_.params) {
        if (param.role != Role::Output || is_variance(param.buffer)) continue;
        std::optional<OutputSample> sample = sample_of(param.buffer);
        if (!sample) return std::nullopt;
        out.samples[static_cast<std::size_t>(set)].push_back(std::move(*sample));
      }
    }
    return out;
  }

 private:
  static ArgumentRole role_of(const Param& param) {
    return param.role == Role::Output     ? ArgumentRole::Output
           : param.role == Role::Constant ? ArgumentRole::Constant
                                          : ArgumentRole::Input;
  }
  static bool is_variance(const Buffer* buffer) { return std::string_view(buffer->name).ends_with(kVarianceSuffix); }
  IndexRange range_of(const Buffer* buffer) const {
    auto found = ranges_.find(buffer);
    return found == ranges_.end() ? IndexRange{} : found->second;
  }
  bool must_stop() const { return stop_ && stop_(); }

  bool draw_inputs(int set) {
    std::size_t count = program_.params.size();
    inputs_.resize(count), pointers_.resize(count);
    std::atomic<bool> is_whole = true;
    parallel_for(static_cast<int>(count), threads_, [&](int item, int) {
      auto i = static_cast<std::size_t>(item);
      const Param& param = program_.params[i];
      if (param.role == Role::Output) return;
      inputs_[i] = HostArray::like(param.buffer);
      pointers_[i] = &inputs_[i];
      if (!fill_input(seed_, param.buffer->name, set, inputs_[i].dtype, inputs_[i].elements(),
                      reinterpret_cast<char*>(inputs_[i].bytes.data()), range_of(param.buffer), stop_))
        is_whole = false;
    });
    return is_whole;
  }

  // The elements of a row share intermediate values.
  std::optional<OutputSample> sample_of(const Buffer* output) {
    OutputSample out{.name = std::string(output->name), .count = elements_of(output)};
    const Buffer* variance = nullptr;
    for (const Param& param : program_.params) {
      if (is_variance(param.buffer) && cat(output->name, kVarianceSuffix) == param.buffer->name)
        variance = param.buffer;
    }
    double begin = seconds_now();
    if (!ElementValues(program_, pointers_, kSteps, stop_).at(output, pick(output))) return std::nullopt;
    double in_time = kSeconds * threads_ / std::max((seconds_now() - begin) * (variance ? 2 : 1), 1e-6);
    i64 count = std::clamp(static_cast<i64>(in_time), kFewest, kMost);
    i64 rows = std::clamp(static_cast<i64>(in_time), kFewestRows, count), columns = count / rows,
        length = output->shape.empty() ? 1 : output->shape.back();
    for (i64 row = 0; row < rows; ++row) {
      i64 first = pick(output) / length * length;
      for (i64 column = 0; column < columns; ++column) out.positions.push_back(first + pick(output) % length);
    }
    out.expected.resize(out.positions.size());
    if (variance) out.variances.resize(out.positions.size());
    std::atomic<bool> is_whole = true;
    parallel_for(static_cast<int>(rows), threads_, [&](int row, int) {
      ElementValues values(program_, pointers_, kSteps, stop_);
      for (i64 i = row * columns; i < (row + 1) * columns && is_whole; ++i) {
        auto at = static_cast<std::size_t>(i);
        std::optional<double> value = values.at(output, out.positions[at]);
        std::optional<double> its_variance = value && variance ? values.at(variance, out.positions[at]) : value;
        if (!its_variance || must_stop()) is_whole = false;
        if (value) out.expected[at] = *value;
        if (its_variance && variance) out.variances[at] = *its_variance;
      }
    });
    return is_whole ? std::optional(std::move(out)) : std::nullopt;
  }

  // The row-major position of an element.
  i64 pick(const Buffer* output) {
    bool is_anywhere = random_.below(2) == 0;
    i64 position = 0;
    for (i64 extent : output->shape) {
      i64 near = random_.below(std::min(extent, kNearEnd)), side = is_anywhere ? 0 : random_.below(4);
      i64 index = side == 2 ? near : side == 3 ? extent - 1 - near : random_.below(extent);
      position = position * extent + index;
    }
    return position;
  }

  Arena arena_{1 << 18};
  Program program_;
  std::map<const Buffer*, IndexRange> ranges_;
  u64 seed_;
  const std::function<bool()>& stop_;
  Rng random_{0};
  int threads_ = CPU_COUNT(&cores_at_start);
  std::vector<HostArray> inputs_;
  std::vector<const HostArray*> pointers_;
};

}  // namespace

std::optional<double> memory_of_sample(const Program& judged) {
  SampleCost cost = cost_of_sample(judged, kMostColumns);
  if (cost.steps > static_cast<double>(kSteps)) return std::nullopt;
  return kKeptBytes * cost.kept * CPU_COUNT(&cores_at_start);
}

std::optional<SampledReference> sample_reference(const Program& program, u64 seed, const std::function<bool()>& stop) {
  cpu_set_t before = cpus_of_thread();
  sched_setaffinity(0, sizeof cores_at_start, &cores_at_start);
  std::optional<SampledReference> out = Sampler(program, seed, stop).run();
  sched_setaffinity(0, sizeof before, &before);
  return out;
}

}  // namespace tw

#include "sampler/tasks/drafted_layouts.h"

#include <algorithm>
#include <limits>

#include "costmodel/draft_model.h"
#include "dsl/text/workload.h"
#include "graph/fusion.h"
#include "sampler/search/first_kernel.h"

namespace tw {
namespace {

constexpr double kNotTried = std::numeric_limits<double>::infinity();

// `count` elements need some vectors: the share of the lanes of these that they fill.
double lane_use(i64 count, i64 lanes) {
  const i64 vectors = std::max<i64>(1, (count + lanes - 1) / lanes);
  return static_cast<double>(count) / static_cast<double>(vectors * lanes);
}

}  // namespace

bool DraftedLayoutCosts::may_be_row_major(const graph::Graph& graph, const graph::Node& node) const {
  // Row-major, a kernel of it tests for each pixel which places of the image it comes from.
  if (node.op == "conv_transposed") return false;
  const OperandType& result = graph.values[node.outputs[0]].type;
  const i64 elements = graph::elements_of(result);
  if (elements == 0) return false;
  i64 channels = result.shape[1];
  const i64 pixels = elements / (result.shape[0] * channels),
            lanes = target_.vector_bits / (8 * bytes_of(result.dtype));
  const i64 groups = node.op == "conv" ? graph::integer(node.arguments, "groups") : 1;
  const bool is_depthwise = groups == channels && groups == graph.values[node.inputs[0]].type.shape[1];
  if (!is_depthwise) channels /= groups;
  return lane_use(pixels, std::max<i64>(1, lanes)) >
         graph::kClearlyFaster * lane_use(channels, std::max<i64>(1, lanes));
}

double DraftedLayoutCosts::window(const graph::Graph& graph, const graph::Node& node, graph::Layout layout) {
  if (layout == graph::Layout::RowMajor && !may_be_row_major(graph, node)) return kNotTried;
  const graph::Graph alone = graph::window_alone(graph, node, layout);
  double seconds = 0;
  for (const graph::Group& group : graph::fuse(alone).groups)
    seconds += kernel(graph::program_of(alone, group).program);
  return seconds;
}

double DraftedLayoutCosts::kernel(const Program& program) {
  auto [at, is_new] = known_.try_emplace(workload_text(program), kNotTried);
  if (!is_new) return at->second;
  if (!library_) library_ = rules::Library::built_in();
  std::string error;
  CandidateSpace space =
      make_candidate_space(program, *library_->find_set(name_of(target_.kind)), *library_, target_, error);
  if (error.empty()) at->second = estimated_seconds(space, target_, {.threads = threads_}, Rng(0));
  return at->second;
}

double DraftedLayoutCosts::conversion(const OperandType& type) {
  const FeatureTarget target = feature_target_of(target_);
  StoreProfile moved;
  moved.compute = static_cast<double>(graph::elements_of(type));
  const double bytes = 2 * static_cast<double>(graph::bytes_of(type));
  const double caches[] = {static_cast<double>(target.l1_bytes), static_cast<double>(target.l2_bytes),
                           static_cast<double>(target.l3_bytes)};
  for (std::size_t cache = 0; cache < std::size(caches); ++cache) {
    if (caches[cache] <= 0 || bytes <= caches[cache]) continue;
    moved.streamed_lines[cache] = bytes / static_cast<double>(target.cache_line);
    moved.traffic[cache] = bytes;
  }
  moved.speed_up = target.threads;
  return seconds_of(moved, target.rates);
}

graph::Graph simplified_for(const graph::Graph& graph, const Target& target,
                            const std::vector<const graph::RewriteModule*>& rewrites, DType precision) {
  if (is_device(target)) return graph::simplified(graph, rewrites, precision);
  DraftedLayoutCosts costs(target, usable_threads());
  return graph::simplified(graph, rewrites, precision, &costs);
}

}  // namespace tw

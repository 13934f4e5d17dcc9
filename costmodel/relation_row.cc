#include "costmodel/relation_row.h"

#include <algorithm>
#include <numeric>

#include "costmodel/log_scale.h"

namespace tw {
namespace {

constexpr int kBuffers = 4, kThresholds = 20;
constexpr double kStep = 1.5;  // of log2: up to 2^30
const char* const kBufferPairs[] = {"reuse_by_bytes", "top_down_by_bytes", "bytes_by_bottom_up"};
const char* const kLoopPairs[] = {"length_by_bottom_up", "vectorized_by_bottom_up", "unrolled_by_bottom_up",
                                  "parallel_by_top_down"};
constexpr int kPairsOfBuffer = std::size(kBufferPairs), kPairsOfLoops = std::size(kLoopPairs);

// One loop's part of the curve of a pair.
void raise(float* curve, float value, float by) {
  for (int t = kThresholds; t > 0 && by < static_cast<float>(kStep * t); --t)
    curve[t - 1] = std::max(curve[t - 1], value);
}

std::vector<std::string> make_names() {
  std::vector<std::string> names;
  auto add = [&](const std::string& pair) {
    for (int t = 1; t <= kThresholds; ++t) names.push_back(pair + "." + std::to_string(t));
  };
  for (int buffer = 0; buffer < kBuffers; ++buffer) {
    for (const char* pair : kBufferPairs) add("B" + std::to_string(buffer) + "." + pair);
  }
  for (const char* pair : kLoopPairs) add(pair);
  return names;
}

}  // namespace

int relation_columns() { return (kBuffers * kPairsOfBuffer + kPairsOfLoops) * kThresholds; }

const std::vector<std::string>& relation_column_names() {
  static const std::vector<std::string> names = make_names();
  return names;
}

void RelationRow::extract(const Program& program, std::vector<float>& row) {
  const FlatProgram& flat = contexts_.read(program);
  row.assign(static_cast<std::size_t>(relation_columns()), 0.0f);
  bytes_.assign(flat.buffers.size(), 0);
  for (u32 loop = 0; loop < flat.loops.size(); ++loop) {
    if (flat.loops[loop].parent >= 0) continue;
    for (const BufferTouch& touch : contexts_.touches_of(loop))
      bytes_[touch.buffer] += touch.accesses * flat.buffers[touch.buffer].element_bytes;
  }
  order_.resize(flat.buffers.size());
  std::iota(order_.begin(), order_.end(), 0u);
  std::stable_sort(order_.begin(), order_.end(), [&](u32 a, u32 b) { return bytes_[a] > bytes_[b]; });
  order_.resize(std::min<std::size_t>(order_.size(), kBuffers));

  for (u32 number = 0; number < flat.loops.size(); ++number) {
    const LoopContext& context = contexts_.of(number);
    if (context.bottom_up == 0) continue;
    const FlatLoop& loop = flat.loops[number];
    float top_down = slog(context.top_down), bottom_up = slog(context.bottom_up),
          length = slog(static_cast<double>(loop.extent));
    float* curve = row.data();
    for (int place = 0; place < kBuffers; ++place, curve += kPairsOfBuffer * kThresholds) {
      if (place >= static_cast<int>(order_.size())) continue;
      const BufferTouch& touch = contexts_.touches_of(number)[order_[place]];
      if (touch.accesses == 0) continue;
      float bytes = slog(touch.elements * flat.buffers[touch.buffer].element_bytes);
      raise(curve, slog(touch.reuse()), bytes);
      raise(curve + kThresholds, top_down, bytes);
      raise(curve + 2 * kThresholds, bytes, bottom_up);
    }
    raise(curve, length, bottom_up);
    if (loop.kind == LoopKind::Vectorize) raise(curve + kThresholds, length, bottom_up);
    if (loop.kind == LoopKind::Unroll) raise(curve + 2 * kThresholds, length, bottom_up);
    if (loop.kind == LoopKind::Parallel) raise(curve + 3 * kThresholds, length, top_down);
  }
}

}  // namespace tw

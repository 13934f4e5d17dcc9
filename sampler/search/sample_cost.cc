#include "sampler/search/sample_cost.h"

#include <algorithm>
#include <limits>
#include <map>
#include <vector>

#include "backends/kernel.h"
#include "dsl/analysis/affine.h"
#include "dsl/base/text.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

constexpr SampleCost kImpossible{std::numeric_limits<double>::infinity(), 0};

double length_of(const Interval& interval) { return static_cast<double>(interval.max - interval.min + 1); }

double expressions_in(const Node* node) {
  double count = 0;
  for_each_child(node, [&](const Node* child) { count += 1 + expressions_in(child); });
  return count;
}

// Goes from an output backwards through the blocks, and collects the box that is needed of each buffer.
class Demand {
 public:
  explicit Demand(const Program& program) {
    for_each<Block>(program.body, [&](const Block* block) { blocks_.push_back(block); });
  }

  void add_middle_of(const Buffer* output, i64 columns) {
    std::vector<Interval> box;
    for (i64 extent : output->shape) box.push_back({extent / 2, extent / 2});
    if (!box.empty()) {
      i64 last = output->shape.back(), length = std::min(last, columns), first = (last - length) / 2;
      box.back() = {first, first + length - 1};
    }
    add(output, std::move(box));
  }

  SampleCost cost() {
    SampleCost sum;
    for (std::size_t i = blocks_.size(); i-- > 0;) {
      if (!add_block(blocks_[i], sum)) return kImpossible;
    }
    return sum;
  }

 private:
  void add(const Buffer* buffer, std::vector<Interval> box) {
    auto [at, is_new] = boxes_.try_emplace(buffer, box);
    for (std::size_t d = 0; !is_new && d < box.size(); ++d)
      at->second[d] = {std::min(at->second[d].min, box[d].min), std::max(at->second[d].max, box[d].max)};
  }

  // False if the block is none that ElementValues takes.
  bool add_block(const Block* block, SampleCost& sum) {
    const Store* update = as<Store>(block->body);
    if (!update) return false;
    VarRanges ranges;
    for (const IterVar& iter : block->iters) ranges.set_extent(iter.var, iter.extent);
    bool is_needed = false;
    for (const StoreTarget& target : update->targets) {
      auto box = boxes_.find(target.buffer);
      if (box == boxes_.end()) continue;
      is_needed = true;
      double elements = 1;
      for (std::size_t d = 0; d < target.indices.size(); ++d) {
        const Var* iter = as<Var>(target.indices[d]);
        if (!iter) return false;
        ranges.set(iter, box->second[d]);
        elements *= length_of(box->second[d]);
      }
      sum.kept += elements;
    }
    if (!is_needed) return true;
    double points = 1;
    for (const IterVar& iter : block->iters) points *= length_of(*ranges.find(iter.var));
    sum.steps += points * expressions_in(update);
    for (const Stmt* stmt : {block->init, block->body}) add_loads(stmt, update, ranges);
    return true;
  }

  void add_loads(const Stmt* stmt, const Store* update, const VarRanges& ranges) {
    if (!stmt) return;
    for_each<Load>(stmt, [&](const Load* load) {
      auto is_own = [&](const StoreTarget& target) { return target.buffer == load->buffer; };
      if (std::any_of(update->targets.begin(), update->targets.end(), is_own)) return;
      std::vector<Interval> box;
      for (std::size_t d = 0; d < load->indices.size(); ++d) {
        i64 last = load->buffer->shape[d] - 1;
        Interval read = interval_of(load->indices[d], ranges).value_or(Interval{0, last});
        box.push_back({std::clamp<i64>(read.min, 0, last), std::clamp<i64>(read.max, 0, last)});
      }
      add(load->buffer, std::move(box));
    });
  }

  std::vector<const Block*> blocks_;
  std::map<const Buffer*, std::vector<Interval>> boxes_;
};

}  // namespace

SampleCost cost_of_sample(const Program& judged, i64 columns) {
  SampleCost most;
  for (const Param& output : judged.params) {
    if (output.role != Role::Output || std::string_view(output.buffer->name).ends_with(kVarianceSuffix)) continue;
    Demand demand(judged);
    demand.add_middle_of(output.buffer, columns);
    for (const Param& other : judged.params) {
      if (cat(output.buffer->name, kVarianceSuffix) == other.buffer->name) demand.add_middle_of(other.buffer, columns);
    }
    SampleCost cost = demand.cost();
    most = {std::max(most.steps, cost.steps), std::max(most.kept, cost.kept)};
  }
  return most;
}

}  // namespace tw

#include "dsl/analysis/index_ranges.h"

#include <algorithm>

#include "dsl/ir/walk.h"

namespace tw {
namespace {

class IndexRanges {
 public:
  explicit IndexRanges(const Program& program) : program_(program) {}

  std::map<const Buffer*, IndexRange> run() {
    for_each<Load>(program_.body, [&](const Load* load) { read_indices(load->buffer, load->indices); });
    for_each<Store>(program_.body, [&](const Store* store) {
      for (const StoreTarget& target : store->targets) read_indices(target.buffer, target.indices);
    });
    // What a buffer of indices is computed from has to be in its range, too.
    while (is_changed_) {
      is_changed_ = false;
      for_each<Store>(program_.body, [&](const Store* store) {
        for (std::size_t i = 0; i < store->targets.size(); ++i) {
          auto known = ranges_.find(store->targets[i].buffer);
          if (known != ranges_.end()) narrow_loads(store->values[i], IndexRange(known->second));
        }
      });
    }
    std::erase_if(ranges_, [&](const auto& range) { return !is_param(program_, range.first); });
    return std::move(ranges_);
  }

 private:
  void read_indices(const Buffer* buffer, Array<const Expr*> indices) {
    for (std::size_t d = 0; d < indices.size(); ++d) {
      bool has_test = false;
      for_each<Select>(indices[d], [&](const Select*) { has_test = true; });
      narrow_loads(indices[d], {has_test ? -buffer->shape[d] : 0, buffer->shape[d]});
    }
  }

  void narrow_loads(const Expr* expr, IndexRange range) {
    for_each<Load>(expr, [&](const Load* load) {
      if (!is_int(load->buffer->dtype)) return;
      auto [at, is_new] = ranges_.try_emplace(load->buffer, range);
      IndexRange narrow{std::max(at->second.lowest, range.lowest), std::min(at->second.below, range.below)};
      is_changed_ |= is_new || narrow != at->second;
      at->second = narrow;
    });
  }

  const Program& program_;
  std::map<const Buffer*, IndexRange> ranges_;
  bool is_changed_ = true;
};

}  // namespace

std::map<const Buffer*, IndexRange> index_ranges(const Program& program) { return IndexRanges(program).run(); }

}  // namespace tw

#include "dsl/passes/lifetimes.h"

#include <algorithm>

#include "dsl/ir/walk.h"

namespace tw {
namespace {

class LifetimeFinder {
 public:
  void visit(const Node* node) {
    if (const For* loop = as<For>(node)) return in_loop(loop);
    if (const Alloc* alloc = as<Alloc>(node)) around_.emplace(alloc->buffer, depth_);
    if (const Store* store = as<Store>(node)) {
      for (const StoreTarget& target : store->targets) touch(target.buffer);
    }
    if (const Load* load = as<Load>(node)) touch(load->buffer);
    for_each_child(node, [&](const Node* child) { visit(child); });
    now_ += node->kind == Kind::Store;
  }
  std::map<const Buffer*, Lifetime> found;

 private:
  void touch(const Buffer* buffer) {
    if (!around_.count(buffer)) return;
    auto [at, is_new] = found.try_emplace(buffer, Lifetime{now_, now_});
    if (!is_new) at->second.last = now_;
  }

  void in_loop(const For* loop) {
    i64 begin = now_;
    ++depth_;
    visit(loop->body);
    --depth_;
    for (auto& [buffer, lifetime] : found) {
      if (around_.at(buffer) > depth_ || lifetime.last < begin) continue;
      lifetime.first = std::min(lifetime.first, begin);
      lifetime.last = std::max(lifetime.last, now_ - 1);
    }
  }

  i64 now_ = 0;
  int depth_ = 0;
  std::map<const Buffer*, int> around_;  // how many loops are around its Alloc
};

}  // namespace

std::map<const Buffer*, Lifetime> lifetimes_of(const Stmt* nest) {
  LifetimeFinder finder;
  finder.visit(nest);
  return std::move(finder.found);
}

StoragePlan first_fit(const std::vector<StorageNeed>& needs, i64 alignment) {
  struct Taken {
    i64 begin, end;
  };
  StoragePlan plan;
  for (std::size_t i = 0; i < needs.size(); ++i) {
    std::vector<Taken> meeting;
    for (std::size_t j = 0; j < i; ++j) {
      if (needs[j].lifetime.meets(needs[i].lifetime))
        meeting.push_back({plan.offsets[j], plan.offsets[j] + needs[j].bytes});
    }
    std::sort(meeting.begin(), meeting.end(), [](const Taken& a, const Taken& b) { return a.begin < b.begin; });
    i64 offset = 0;
    for (const Taken& other : meeting) {
      if (offset + needs[i].bytes <= other.begin) break;
      offset = std::max(offset, (other.end + alignment - 1) / alignment * alignment);
    }
    plan.offsets.push_back(offset);
    plan.bytes = std::max(plan.bytes, (offset + needs[i].bytes + alignment - 1) / alignment * alignment);
  }
  return plan;
}

}  // namespace tw

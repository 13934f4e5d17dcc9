#include "dsl/passes/barriers.h"

#include <algorithm>
#include <set>

#include "dsl/ir/walk.h"
#include "dsl/passes/stage_copies.h"
#include "dsl/passes/thread_axes.h"

namespace tw {
namespace {

// What was touched since the last barrier.
struct Touched {
  std::set<const Buffer*> read, written;
  void add(const Touched& other) {
    read.insert(other.read.begin(), other.read.end());
    written.insert(other.written.begin(), other.written.end());
  }
};

bool is_seen_by_group(const Buffer* buffer) { return buffer->scope == Scope::Shared || buffer->scope == Scope::Global; }

Touched touched_by(const Stmt* step) {
  Touched out;
  walk(step, [&](const Node* node) {
    if (const Load* load = as<Load>(node); load && is_seen_by_group(load->buffer)) out.read.insert(load->buffer);
    if (const Store* store = as<Store>(node)) {
      for (const StoreTarget& target : store->targets) {
        if (is_seen_by_group(target.buffer)) out.written.insert(target.buffer);
      }
    }
    return true;
  });
  return out;
}

class BarrierFinder {
 public:
  explicit BarrierFinder(Array<SharedPlace> places) : places_(places) {}
  void visit(const Stmt* s) {
    if (is_step(s)) return step(s);
    const For* loop = as<For>(s);
    if (const If* branch = as<If>(s)) return either(branch);
    if (loop && find_annotation(loop->annotations, kStagedMark)) return staged(loop);
    int rounds = loop && !axis_of(loop) && loop->extent > 1 ? 2 : 1;
    for (int round = 0; round < rounds; ++round) {
      for_each_child(s, [&](const Node* child) {
        if (child->kind >= Kind::Store) visit(static_cast<const Stmt*>(child));
      });
    }
  }
  std::vector<const Stmt*> found;

 private:
  bool meet(const std::set<const Buffer*>& a, const std::set<const Buffer*>& b) const {
    return std::any_of(a.begin(), a.end(), [&](const Buffer* one) {
      return b.count(one) || std::any_of(b.begin(), b.end(), [&](const Buffer* other) { return lie_over(one, other); });
    });
  }
  bool lie_over(const Buffer* a, const Buffer* b) const {
    const SharedPlace *x = place(a), *y = place(b);
    return x && y && x->at < y->at + bytes_of(b) && y->at < x->at + bytes_of(a);
  }
  const SharedPlace* place(const Buffer* buffer) const {
    auto found =
        std::find_if(places_.begin(), places_.end(), [&](const SharedPlace& p) { return p.buffer == buffer->id; });
    return buffer->scope == Scope::Shared && found != places_.end() ? &*found : nullptr;
  }

  // One barrier at the beginning of each iteration: behind it, what the iteration reads has been copied by everybody,
  // and nobody reads any more what it copies over. That holds for copies, which have versions, and for nothing else
  // that work-items write there for each other.
  void staged(const For* loop) {
    std::set<const Buffer*> around = staged_;
    Touched own;
    for_each<For>(loop, [&](const For* copies) {
      if (find_annotation(copies->annotations, kCopiesMark)) own.add({{}, touched_by(copies).written});
    });
    own.read = own.written;
    staged_.insert(own.written.begin(), own.written.end());
    found.push_back(loop->body);
    pending_ = {}, copied_.clear();
    visit(loop->body);
    staged_ = around;
    pending_.add(own);
  }

  void step(const Stmt* s) {
    Touched now = touched_by(s);
    for (const Buffer* buffer : staged_) now.read.erase(buffer), now.written.erase(buffer);
    bool is_found = std::find(found.begin(), found.end(), s) != found.end();
    bool copies = makes_staged_copies(s);
    std::set<const Buffer*> written = pending_.written;
    if (copies) std::erase_if(written, [&](const Buffer* buffer) { return copied_.count(buffer) > 0; });
    if (!is_found && (meet(now.written, pending_.read) || meet(now.written, written) || meet(now.read, written))) {
      found.push_back(s);
      is_found = true;
    }
    if (is_found) pending_ = {}, copied_.clear();
    pending_.add(now);
    if (copies) copied_.insert(now.written.begin(), now.written.end());
  }

  void either(const If* branch) {
    Touched before = pending_;
    visit(branch->then);
    Touched then = std::exchange(pending_, before);
    if (branch->otherwise) visit(branch->otherwise);
    pending_.add(then);
  }

  Array<SharedPlace> places_;
  Touched pending_;
  std::set<const Buffer*> staged_;  // that the loop at hand stages
  std::set<const Buffer*>
      copied_;  // written by staged copies only, each to a version of its own, since the last barrier
};

}  // namespace

std::vector<const Stmt*> steps_behind_barriers(const Stmt* kernel, Array<SharedPlace> places) {
  BarrierFinder finder(places);
  finder.visit(kernel);
  return finder.found;
}

}  // namespace tw

#include "dsl/passes/share_storage.h"

#include <algorithm>

#include "dsl/ir/build.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/stage_copies.h"
#include "dsl/passes/thread_axes.h"

namespace tw {
namespace {

constexpr i64 kLeastBytes = 1024;  // of a buffer that takes turns; a smaller one is not worth a barrier

// Buffers that keep a place of their own: versions of staged copies, which have one barrier in an iteration only, what
// is touched by steps under a condition, before which no barrier may stand, and those with a layout of their own.
void remove_kept(const Stmt* kernel, std::map<const Buffer*, Lifetime>& lifetimes) {
  auto remove = [&](const Stmt* inside) {
    for_each<Load>(inside, [&](const Load* load) { lifetimes.erase(load->buffer); });
    for_each<Store>(inside, [&](const Store* store) {
      for (const StoreTarget& target : store->targets) lifetimes.erase(target.buffer);
    });
  };
  std::erase_if(lifetimes, [](const auto& one) { return !one.first->layout.empty(); });
  walk(kernel, [&](const Node* node) {
    if (node->kind < Kind::Store) return false;
    const Stmt* s = static_cast<const Stmt*>(node);
    const For* loop = as<For>(s);
    bool is_staged = loop && find_annotation(loop->annotations, kStagedMark);
    if (is_staged || (s->kind == Kind::If && !is_step(s))) remove(s);
    return !is_step(s);
  });
}

class Sharing {
 public:
  Sharing(Arena& arena, const std::vector<SharedRoom>& rooms) : arena_(arena), build_{arena}, rooms_(rooms) {
    shared_.resize(rooms.size());
  }

  const Stmt* stmt(const Stmt* s) {
    const Alloc* alloc = as<Alloc>(s);
    const Buffer* own = alloc ? shared(alloc->buffer) : nullptr;
    if (own) {
      bool is_inside = std::find(open_.begin(), open_.end(), own) != open_.end();
      open_.push_back(own);
      const Stmt* body = stmt(alloc->body);
      open_.pop_back();
      return is_inside ? body : build_.alloc(own, body);
    }
    const Stmt* out = with_children(arena_, s, map());
    const Store* store = as<Store>(out);
    if (!store) return out;
    std::vector<StoreTarget> targets(store->targets.begin(), store->targets.end());
    for (StoreTarget& target : targets) {
      if (const Buffer* to = shared(target.buffer)) target.buffer = to;
    }
    return build_.store(arena_.copy(targets), store->values);
  }

 private:
  ChildMap map() {
    return {this, [](void* self, const Expr* e) { return static_cast<Sharing*>(self)->expr(e); },
            [](void* self, const Stmt* s) { return static_cast<Sharing*>(self)->stmt(s); }};
  }

  const Expr* expr(const Expr* e) {
    const Expr* out = with_children(arena_, e, map());
    const Load* load = as<Load>(out);
    const Buffer* to = load ? shared(load->buffer) : nullptr;
    return to ? build_.load(to, load->indices) : out;
  }

  // What the buffer becomes; null = it stays.
  const Buffer* shared(const Buffer* buffer) {
    for (std::size_t r = 0; r < rooms_.size(); ++r) {
      const SharedRoom& room = rooms_[r];
      if (room.buffers.size() < 2) continue;
      if (std::find(room.buffers.begin(), room.buffers.end(), buffer->id) == room.buffers.end()) continue;
      if (!shared_[r]) {
        Buffer* made = arena_.make<Buffer>(*buffer);
        made->shape = arena_.list<i64>({room.bytes / bytes_of(buffer->dtype)});
        shared_[r] = made;
      }
      return shared_[r];
    }
    return nullptr;
  }

  Arena& arena_;
  Build build_;
  const std::vector<SharedRoom>& rooms_;
  std::vector<const Buffer*> shared_;  // one for each room
  std::vector<const Buffer*> open_;    // by Allocs around
};

}  // namespace

SharedRooms::SharedRooms(const Stmt* kernel, i64 taken) : lifetimes_(lifetimes_of(kernel)), bytes_(taken) {
  remove_kept(kernel, lifetimes_);
}

std::size_t SharedRooms::room_for(const Buffer* buffer) const {
  auto lifetime = lifetimes_.find(buffer);
  if (lifetime == lifetimes_.end() || bytes_of(buffer) < kLeastBytes) return rooms_.size();
  for (std::size_t r = 0; r < rooms_.size(); ++r) {
    const SharedRoom& room = rooms_[r];
    bool is_free = std::none_of(room.lifetimes.begin(), room.lifetimes.end(),
                                [&](const Lifetime& other) { return other.meets(lifetime->second); });
    if (room.dtype == buffer->dtype && !room.lifetimes.empty() && is_free) return r;
  }
  return rooms_.size();
}

i64 SharedRooms::bytes_with(const Buffer* buffer) const {
  std::size_t r = room_for(buffer);
  i64 before = r < rooms_.size() ? rooms_[r].bytes : 0;
  return bytes_ + std::max<i64>(0, aligned_shared(bytes_of(buffer)) - aligned_shared(before));
}

i64 SharedRooms::add(const Buffer* buffer) {
  bytes_ = bytes_with(buffer);
  std::size_t r = room_for(buffer);
  if (r == rooms_.size()) rooms_.push_back({buffer->dtype, 0, {}, {}});
  SharedRoom& room = rooms_[r];
  room.bytes = std::max(room.bytes, bytes_of(buffer));
  room.buffers.push_back(buffer->id);
  auto lifetime = lifetimes_.find(buffer);
  if (lifetime != lifetimes_.end() && bytes_of(buffer) >= kLeastBytes) room.lifetimes.push_back(lifetime->second);
  return bytes_;
}

Program share_storage(Arena& arena, Program program, const std::vector<SharedRoom>& rooms) {
  bool is_needed =
      std::any_of(rooms.begin(), rooms.end(), [](const SharedRoom& room) { return room.buffers.size() > 1; });
  if (is_needed && program.body) program.body = Sharing(arena, rooms).stmt(program.body);
  return program;
}

}  // namespace tw

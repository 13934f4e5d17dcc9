#include "dsl/passes/share_storage.h"

#include <algorithm>
#include <limits>
#include <set>

#include "dsl/ir/build.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/stage_copies.h"
#include "dsl/passes/thread_axes.h"

namespace tw {
namespace {

constexpr i64 kLeastBytes = 1024;  // of a buffer that takes turns; a smaller one is not worth a barrier

constexpr Lifetime kAlways{0, std::numeric_limits<i64>::max()};

using Lifetimes = std::map<const Buffer*, Lifetime>;

std::set<const Buffer*> touched(const Stmt* inside) {
  std::set<const Buffer*> out;
  for_each<Load>(inside, [&](const Load* load) { out.insert(load->buffer); });
  for_each<Store>(inside, [&](const Store* store) {
    for (const StoreTarget& target : store->targets) out.insert(target.buffer);
  });
  return out;
}

// What keeps a place of its own: small buffers, and what is touched by steps under a condition, before which no barrier
// may stand; but loops of staged copies have barriers wherever they are. Those in `staged`, and those with a layout,
// are not one with others.
void remove_kept(const Stmt* kernel, Lifetimes& spans, std::set<const Buffer*>& staged) {
  std::set<const Buffer*> conditional;
  walk(kernel, [&](const Node* node) {
    if (node->kind < Kind::Store) return false;
    const Stmt* s = static_cast<const Stmt*>(node);
    const For* loop = as<For>(s);
    bool is_staged = loop && find_annotation(loop->annotations, kStagedMark);
    if (is_staged) staged.merge(touched(s));
    if (s->kind == Kind::If && !is_step(s)) conditional.merge(touched(s));
    return !is_step(s);
  });
  std::erase_if(spans, [&](const auto& one) {
    return bytes_of(one.first) < kLeastBytes || (conditional.count(one.first) && !staged.count(one.first));
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

bool is_swizzled_matrix(const Buffer* buffer) {
  std::optional<XorLayout> layout = buffer->scope == Scope::Shared ? xor_layout(buffer) : std::nullopt;
  return layout && layout->bits == 3 && layout->span == 8 * kXorBytes;
}

i64 shared_alignment(const Buffer* buffer) { return is_swizzled_matrix(buffer) ? kMatrixAlignment : kSharedAlignment; }

SharedRooms::SharedRooms(const Stmt* kernel, i64 taken) : spans_(lifetimes_of(kernel)), taken_(taken) {
  std::set<const Buffer*> staged;
  remove_kept(kernel, spans_, staged);
  for (const auto& [buffer, lifetime] : spans_) {
    if (buffer->layout.empty() && !staged.count(buffer)) lifetimes_.emplace(buffer, lifetime);
  }
}

std::size_t SharedRooms::room_for(const Buffer* buffer) const {
  auto lifetime = lifetimes_.find(buffer);
  if (lifetime == lifetimes_.end()) return rooms_.size();
  for (std::size_t r = 0; r < rooms_.size(); ++r) {
    const SharedRoom& room = rooms_[r];
    bool is_free = std::none_of(room.lifetimes.begin(), room.lifetimes.end(),
                                [&](const Lifetime& other) { return other.meets(lifetime->second); });
    if (room.dtype == buffer->dtype && !room.lifetimes.empty() && is_free) return r;
  }
  return rooms_.size();
}

std::vector<SharedRoom> SharedRooms::rooms_with(const Buffer* buffer) const {
  std::vector<SharedRoom> rooms = rooms_;
  auto lifetime = lifetimes_.find(buffer), span = spans_.find(buffer);
  Lifetime own = span == spans_.end() ? kAlways : span->second;
  std::size_t r = room_for(buffer);
  if (r == rooms.size()) rooms.push_back({buffer->dtype, 0, {}, {}, own, kSharedAlignment});
  SharedRoom& room = rooms[r];
  room.alignment = std::max(room.alignment, shared_alignment(buffer));
  room.bytes = std::max(room.bytes, bytes_of(buffer));
  room.buffers.push_back(buffer->id);
  room.span = {std::min(room.span.first, own.first), std::max(room.span.last, own.last)};
  if (lifetime != lifetimes_.end()) room.lifetimes.push_back(lifetime->second);
  return rooms;
}

static i64 alignment_of(const std::vector<SharedRoom>& rooms) {
  i64 out = kSharedAlignment;
  for (const SharedRoom& room : rooms) out = std::max(out, room.alignment);
  return out;
}

// Places of rooms; nothing where each has bytes of its own.
static std::optional<StoragePlan> plan_of(const std::vector<SharedRoom>& rooms) {
  std::vector<StorageNeed> needs;
  i64 all = 0, alignment = alignment_of(rooms);
  for (const SharedRoom& room : rooms) {
    needs.push_back({room.span, aligned_shared(room.bytes, alignment)});
    all += needs.back().bytes;
  }
  StoragePlan plan = first_fit(needs, alignment);
  return plan.bytes < all ? std::optional(plan) : std::nullopt;
}

i64 SharedRooms::bytes_with(const Buffer* buffer) const {
  std::vector<SharedRoom> rooms = rooms_with(buffer);
  if (std::optional<StoragePlan> plan = plan_of(rooms)) return taken_ + plan->bytes;
  i64 all = taken_;
  for (const SharedRoom& room : rooms) all += aligned_shared(room.bytes, alignment_of(rooms));
  return all;
}

i64 SharedRooms::add(const Buffer* buffer) {
  i64 bytes = bytes_with(buffer);
  rooms_ = rooms_with(buffer);
  return bytes;
}

std::vector<SharedPlace> SharedRooms::places() const {
  std::vector<SharedPlace> out;
  std::optional<StoragePlan> plan = plan_of(rooms_);
  for (std::size_t r = 0; plan && r < rooms_.size(); ++r) {
    for (BufferId buffer : rooms_[r].buffers) out.push_back({buffer, plan->offsets[r]});
  }
  return out;
}

Program share_storage(Arena& arena, Program program, const std::vector<SharedRoom>& rooms) {
  bool is_needed =
      std::any_of(rooms.begin(), rooms.end(), [](const SharedRoom& room) { return room.buffers.size() > 1; });
  if (is_needed && program.body) program.body = Sharing(arena, rooms).stmt(program.body);
  return program;
}

}  // namespace tw

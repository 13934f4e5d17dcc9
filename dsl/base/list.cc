#include "dsl/base/list.h"

#include <bit>
#include <cstdint>
#include <new>

#include "dsl/base/sanitizer.h"

namespace tw {
namespace {

// Sizes are powers of two; what is larger than the largest comes from the heap. Of each size some wait for the next
// request, not all: a thread that only gives back what others took must not hoard it.
constexpr std::size_t kSmallest = 32;
constexpr int kSizes = 10;
constexpr int kMaxWaiting = 256;

struct Piece {
  Piece* next;
};
struct Waiting {
  Piece* first = nullptr;
  int count = 0;
};
struct ThreadPool {
  Waiting sizes[kSizes];
  bool is_watched = false;  // it is emptied when its thread ends
  bool has_ended = false;   // that has happened; lists may be destroyed later
};
// In a shared library each access would be a call, and one more because of a destructor, 10 % of a replay. So there is
// none, and the pool is small enough for the memory that programs keep for libraries which are opened later.
[[gnu::tls_model("initial-exec")]] constinit thread_local ThreadPool pool;

struct PoolWatch {
  ~PoolWatch() {
    pool.has_ended = true;
    for (Waiting& waiting : pool.sizes) {
      while (Piece* piece = waiting.first) {
        waiting.first = piece->next;
        ::operator delete(piece);
      }
    }
  }
};

void watch_pool() {
  thread_local PoolWatch watch;
  pool.is_watched = true;
}

constexpr bool is_pooling = !TW_SANITIZED;  // every use after free is to be seen

int size_index(std::size_t bytes) { return bytes <= kSmallest ? 0 : std::bit_width((bytes - 1) / kSmallest); }

}  // namespace

void* take_pooled(std::size_t bytes) {
  int size = size_index(bytes);
  if (!is_pooling || size >= kSizes) return ::operator new(bytes);
  Waiting& waiting = pool.sizes[size];
  if (Piece* piece = waiting.first) {  // none once it has ended
    waiting.first = piece->next;
    --waiting.count;
    return piece;
  }
  return ::operator new(kSmallest << size);
}

void give_pooled(void* data, std::size_t bytes) noexcept {
  int size = size_index(bytes);
  if (!is_pooling || size >= kSizes || pool.has_ended || pool.sizes[size].count == kMaxWaiting)
    return ::operator delete(data);
  if (!pool.is_watched) watch_pool();
  Waiting& waiting = pool.sizes[size];
  waiting.first = new (data) Piece{waiting.first};
  ++waiting.count;
}

}  // namespace tw

#include "dsl/base/list.h"

#include <bit>
#include <cstdint>
#include <new>

#include "dsl/base/sanitizer.h"

namespace tw {
namespace {

// Sizes are powers of two; what is larger than the largest comes from the heap. Of each size some wait for the next request, not
// all: a thread that only gives back what others took must not hoard it.
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
// In a shared library each access to these would be a call, 7 % of a replay; they are small enough for the memory that programs keep for
// libraries which are opened later.
#define TW_FAST_TLS [[gnu::tls_model("initial-exec")]]

// Outlives `ThreadPool`: lists may be destroyed later than the pool of their thread.
TW_FAST_TLS constinit thread_local bool has_ended = false;

struct ThreadPool {
  Waiting sizes[kSizes];
  constexpr ThreadPool() = default;
  ~ThreadPool() {
    has_ended = true;
    for (Waiting& waiting : sizes) {
      while (Piece* piece = waiting.first) {
        waiting.first = piece->next;
        ::operator delete(piece);
      }
    }
  }
};
TW_FAST_TLS constinit thread_local ThreadPool pool;

constexpr bool is_pooling = !TW_SANITIZED;  // every use after free is to be seen

int size_index(std::size_t bytes) { return bytes <= kSmallest ? 0 : std::bit_width((bytes - 1) / kSmallest); }

}  // namespace

void* take_pooled(std::size_t bytes) {
  int size = size_index(bytes);
  if (!is_pooling || size >= kSizes) return ::operator new(bytes);
  if (!has_ended && pool.sizes[size].first) {
    Waiting& waiting = pool.sizes[size];
    Piece* piece = waiting.first;
    waiting.first = piece->next;
    --waiting.count;
    return piece;
  }
  return ::operator new(kSmallest << size);
}

void give_pooled(void* data, std::size_t bytes) noexcept {
  int size = size_index(bytes);
  if (!is_pooling || size >= kSizes || has_ended || pool.sizes[size].count == kMaxWaiting) return ::operator delete(data);
  Waiting& waiting = pool.sizes[size];
  waiting.first = new (data) Piece{waiting.first};
  ++waiting.count;
}

}  // namespace tw

// Result<T>: a value, or the Reject that says why a step does not apply here. Rejects are expected, cheap and counted;
// they carry a static text and numbers, no built string. TW_TRY passes a Reject on.
#pragma once
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "dsl/base/arena.h"
#include "dsl/base/check.h"

namespace tw {

// Why one instruction does not apply. `reason` is a static text with holes: {0} {1} {2} are numbers, {a} {b} are names
// (names must outlive the reject: they live in an arena of the program or are static).
struct Reject {
  const char* reason = "";
  std::array<i64, 3> numbers{};
  std::array<Str, 2> names{};
  // Loops and blocks that the printed program marks; 0 = none. See State ids.
  std::array<u32, 2> loops{};
  std::array<u32, 2> blocks{};
  // Filled by the layer that applies instructions.
  const char* instruction = "";
  int step = -1;  // index in the trace, or -1

  Reject&& about_loop(u32 id) && {
    (loops[0] ? loops[1] : loops[0]) = id;
    return std::move(*this);
  }
  Reject&& about_block(u32 id) && {
    (blocks[0] ? blocks[1] : blocks[0]) = id;
    return std::move(*this);
  }
};

inline Reject reject(const char* reason) { return {.reason = reason}; }
inline Reject reject(const char* reason, i64 a, i64 b = 0, i64 c = 0) {
  return {.reason = reason, .numbers = {a, b, c}};
}
inline Reject reject(const char* reason, Str name, i64 a = 0, i64 b = 0, i64 c = 0) {
  return {.reason = reason, .numbers = {a, b, c}, .names = {name, {}}};
}
inline Reject reject(const char* reason, Str first, Str second, i64 a = 0, i64 b = 0, i64 c = 0) {
  return {.reason = reason, .numbers = {a, b, c}, .names = {first, second}};
}

// "split: factors multiply to 21, but loop `i` has extent 128": the reject as one line.
std::string to_string(const Reject& reject);

struct Unit {};

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}          // NOLINT: implicit on purpose, `return value;`
  Result(Reject reject) : reject_(std::move(reject)) {}  // NOLINT
  explicit operator bool() const { return value_.has_value(); }
  T& operator*() {
    TW_CHECK(value_, "value of a rejected Result");
    return *value_;
  }
  const T& operator*() const {
    TW_CHECK(value_, "value of a rejected Result");
    return *value_;
  }
  T* operator->() { return &**this; }
  const T* operator->() const { return &**this; }
  const Reject& rejected() const {
    TW_CHECK(!value_, "reject of an accepted Result");
    return reject_;
  }

 private:
  std::optional<T> value_;
  Reject reject_;
};

using Status = Result<Unit>;
inline Status ok() { return Unit{}; }

}  // namespace tw

#define TW_CONCAT_(a, b) a##b
#define TW_CONCAT(a, b) TW_CONCAT_(a, b)
// TW_TRY(auto x, f(...)): x = the value of f(...), or return its Reject from this function.
#define TW_TRY(declaration, ...)                                                     \
  auto TW_CONCAT(tw_try_, __LINE__) = __VA_ARGS__;                                   \
  if (!TW_CONCAT(tw_try_, __LINE__)) return TW_CONCAT(tw_try_, __LINE__).rejected(); \
  declaration = std::move(*TW_CONCAT(tw_try_, __LINE__))
// TW_TRY_STATUS(f(...)): return the Reject of f(...) from this function, if there is one.
#define TW_TRY_STATUS(...)                   \
  do {                                       \
    auto tw_try_ = __VA_ARGS__;              \
    if (!tw_try_) return tw_try_.rejected(); \
  } while (false)

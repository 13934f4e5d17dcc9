// What a call of a database gives: a value, or why there is none.
#pragma once
#include <string>
#include <utility>
#include <variant>

#include "dsl/base/check.h"

namespace tw {

struct DatabaseError {
  std::string message;  // one sentence: the file or address, what is wrong, what to do
  // Of a server only:
  std::string state = {};           // SQLSTATE, five characters; "" if the server said none
  bool is_connection_lost = false;  // the connection has ended: whether the server did what was asked is not known
};

// A value, or why there is none.
template <class T>
class [[nodiscard]] DatabaseResult {
 public:
  DatabaseResult(T value) : value_(std::move(value)) {}              // NOLINT: implicit on purpose, `return value;`
  DatabaseResult(DatabaseError error) : value_(std::move(error)) {}  // NOLINT
  explicit operator bool() const { return value_.index() == 0; }
  T& operator*() & {
    TW_CHECK(value_.index() == 0, "value of a failed database call");
    return std::get<0>(value_);
  }
  T operator*() && {
    return std::move(static_cast<DatabaseResult&>(*this).operator*());
  }  // by value, so that a loop over *call() is safe
  T* operator->() { return &**this; }
  const std::string& error() const { return failure().message; }
  const DatabaseError& failure() const {
    TW_CHECK(value_.index() == 1, "error of a good database call");
    return std::get<1>(value_);
  }

 private:
  std::variant<T, DatabaseError> value_;
};
struct Done {};
using DatabaseStatus = DatabaseResult<Done>;

}  // namespace tw

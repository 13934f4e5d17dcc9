// SQL arrays as values of statements. The inside of trial_queue.cc and build_queue.cc.
#pragma once
#include <string>
#include <vector>

#include "runtime/store/postgres_connection.h"

namespace tw {

// An SQL array of one member of each.
template <class T>
PostgresValue array_of(const std::vector<T>& list, std::string T::* part) {
  std::vector<std::string> texts;
  for (const T& element : list) texts.push_back(element.*part);
  return PostgresValue::texts(texts);
}

}  // namespace tw

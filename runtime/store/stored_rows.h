// What every kind of row (runtime/store/record.h) has, wherever it is kept.
#pragma once
#include <string>
#include <vector>

#include "dsl/ir/compare.h"
#include "runtime/store/record.h"

namespace tw {

// The names of its fields, in their order.
template <class Row>
std::vector<std::string> columns_of() {
  std::vector<std::string> names;
  const Row row;
  Row::fields(row, [&](const char* name, const auto&) { names.push_back(name); });
  return names;
}

// The digest of the content, whatever id it has.
template <class Row>
std::string content_digest(Row row) {
  row.id = 0;
  return digest(row);
}

// 64 bits that stand for texts in an index. Two tasks with the same are told apart by their texts.
inline i64 key_of_texts(const std::string& first, const std::string& second = "") {
  return static_cast<i64>(hash_bytes(first + '\n' + second).low);
}

}  // namespace tw

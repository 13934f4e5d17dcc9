// ONNX files that a test writes: fields of protobuf's wire format, numbered as in onnx.proto.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <variant>
#include <vector>

#include "backends/interpreter.h"
#include "dsl/base/text.h"
#include "graph/import_onnx.h"

namespace tw::graph::test {

inline std::string varint(u64 value) {
  std::string out;
  for (; value >= 128; value >>= 7) out += static_cast<char>(value % 128 + 128);
  return out + static_cast<char>(value);
}
inline std::string number(u64 field, u64 value) { return varint(field * 8) + varint(value); }
inline std::string part(u64 field, const std::string& bytes) {
  return varint(field * 8 + 2) + varint(bytes.size()) + bytes;
}

inline std::string node(const std::string& op, const std::vector<std::string>& inputs,
                        const std::vector<std::string>& outputs, const std::string& attributes = "",
                        const std::string& domain = "") {
  std::string out;
  for (const std::string& input : inputs) out += part(1, input);
  for (const std::string& output : outputs) out += part(2, output);
  return out + part(4, op) + attributes + part(7, domain);
}
// Attributes of a node.
inline std::string integer(const std::string& name, i64 value) {
  return part(5, part(1, name) + number(3, static_cast<u64>(value)) + number(20, 2));
}
inline std::string real(const std::string& name, float value) {
  char bytes[4];
  std::memcpy(bytes, &value, 4);
  return part(5, part(1, name) + varint(2 * 8 + 5) + std::string(bytes, 4) + number(20, 1));
}
inline std::string text(const std::string& name, const std::string& value) {
  return part(5, part(1, name) + part(4, value) + number(20, 3));
}
inline std::string integers(const std::string& name, const std::vector<i64>& values) {
  std::string all;
  for (i64 value : values) all += number(8, static_cast<u64>(value));
  return part(5, part(1, name) + all + number(20, 7));
}
inline std::string texts(const std::string& name, const std::vector<std::string>& values) {
  std::string all;
  for (const std::string& value : values) all += part(9, value);
  return part(5, part(1, name) + all + number(20, 8));
}

inline u64 onnx_type(DType dtype) {
  switch (dtype) {
    case DType::Bool:
      return 9;
    case DType::I64:
      return 7;
    case DType::U8:
      return 2;
    case DType::I8:
      return 3;
    case DType::I32:
      return 6;
    case DType::F64:
      return 11;
    default:
      return 1;
  }
}
inline std::string value_info(const std::string& name, DType dtype, const std::vector<i64>& shape) {
  std::string dims;
  for (i64 extent : shape) dims += part(1, number(1, static_cast<u64>(extent)));
  return part(1, name) + part(2, part(1, number(1, onnx_type(dtype)) + part(2, dims)));
}
// A value whose type the file leaves open.
inline std::string untyped(const std::string& name) { return part(1, name); }
// One with a dimension for each text: a number where it is one, else a name.
inline std::string open_value(const std::string& name, const std::vector<std::string>& dimensions, u64 type = 1) {
  std::string dims;
  for (const std::string& text : dimensions) {
    bool is_number = text.find_first_not_of("0123456789") == std::string::npos;
    dims += part(1, is_number ? number(1, std::stoull(text)) : part(2, text));
  }
  return part(1, name) + part(2, part(1, number(1, type) + part(2, dims)));
}
inline std::string model(const std::string& graph, const std::string& functions = "", u64 opset = 17) {
  return number(1, 8) + part(8, number(2, opset)) + part(7, graph) + functions;
}

inline std::variant<Graph, ImportProblems> import_bytes(const std::string& bytes, const ImportOptions& options = {}) {
  std::filesystem::path path = std::filesystem::path(testing::TempDir()) / cat("written_", getpid(), ".onnx");
  std::ofstream(path, std::ios::binary) << bytes;
  auto made = import_onnx(path.string(), options);
  std::filesystem::remove(path);
  return made;
}
// The graph as text, or what is wrong.
inline std::string imported(const std::string& bytes, const ImportOptions& options = {}) {
  auto made = import_bytes(bytes, options);
  auto* problems = std::get_if<ImportProblems>(&made);
  return problems ? join(problems->lines, "\n") : to_string(std::get<Graph>(made));
}

}  // namespace tw::graph::test

// Data of ONNX files as arrays.
#include <charconv>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "dsl/base/text.h"
#include "graph/onnx/node_import.h"

namespace tw::graph::onnx {
namespace {

constexpr i64 kMostElements = i64{1} << 32;

template <class List>
void copy_numbers(const List& list, HostArray& out) {
  for (int i = 0; i < list.size() && i < out.elements(); ++i) out.set(i, static_cast<double>(list[i]));
}

// 16-bit floats lie in int32_data as their bits.
void copy_bits(const proto::TensorProto& tensor, HostArray& out) {
  for (int i = 0; i < tensor.int32_data_size() && i < out.elements(); ++i) {
    auto bits = static_cast<std::uint16_t>(tensor.int32_data(i));
    std::memcpy(out.bytes.data() + 2 * i, &bits, 2);
  }
}

// A part of a file beside the model.
struct ExternalPart {
  std::string location;
  std::size_t offset = 0;
};

// Where the bytes of a tensor are, as the file says. Nothing, and why in `problem`, if that is for another tensor.
std::optional<ExternalPart> external_part(const proto::TensorProto& tensor, std::size_t bytes, std::string& problem) {
  ExternalPart part;
  std::size_t length = bytes;
  for (const proto::StringStringEntryProto& entry : tensor.external_data()) {
    const std::string& text = entry.value();
    if (entry.key() == "location") part.location = text;
    bool is_offset = entry.key() == "offset";
    if (!is_offset && entry.key() != "length") continue;
    auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), is_offset ? part.offset : length);
    if (failed != std::errc() || end != text.data() + text.size())
      return problem = cat("the ", entry.key(), " `", text, "` of its external data is no number"), std::nullopt;
  }
  if (length != bytes)
    return problem = cat("its external data has ", length, " bytes, but its shape and type need ", bytes), std::nullopt;
  return part;
}

// Both without symbolic links.
bool is_below(const std::filesystem::path& file, const std::filesystem::path& folder) {
  std::filesystem::path from_folder = file.lexically_relative(folder);
  return !from_folder.empty() && *from_folder.begin() != "..";
}

// The file of external data, if it lies in the folder of the model or below. Where the model is a symbolic link, as in
// caches of downloads, its data may also lie so beside the file that the link leads to.
std::optional<std::filesystem::path> external_file(const std::string& location, const std::filesystem::path& model) {
  if (location.empty() || model.empty()) return std::nullopt;
  std::error_code unreadable;  // then the file cannot be opened
  const std::filesystem::path own = model.has_parent_path() ? model.parent_path() : ".";
  const std::filesystem::path folder = std::filesystem::canonical(own, unreadable);
  const std::filesystem::path file = std::filesystem::weakly_canonical(folder / location, unreadable);
  if (unreadable || is_below(file, folder)) return unreadable ? folder / location : file;
  const std::filesystem::path target = std::filesystem::canonical(model, unreadable).parent_path();
  return !unreadable && is_below(file, target) ? std::optional(file) : std::nullopt;
}

// `model`: the path of the file that names it.
std::optional<std::string> external_bytes(const proto::TensorProto& tensor, const std::string& model, std::size_t bytes,
                                          std::string& problem) {
  std::optional<ExternalPart> part = external_part(tensor, bytes, problem);
  if (!part) return std::nullopt;
  const std::string& location = part->location;
  std::optional<std::filesystem::path> path = external_file(location, model);
  if (!path)
    return problem = cat("its data is to come from `", location, "`, which is not beside the model"), std::nullopt;
  std::error_code unreadable;
  std::size_t size = std::filesystem::file_size(*path, unreadable);
  if (unreadable || part->offset > size || bytes > size - part->offset)
    return problem = cat("`", location, "` does not have its data"), std::nullopt;
  std::ifstream file(*path, std::ios::binary);
  std::string read(bytes, '\0');
  file.seekg(static_cast<std::streamoff>(part->offset));
  if (!file.read(read.data(), static_cast<std::streamsize>(bytes)))
    return problem = cat("`", location, "` cannot be read"), std::nullopt;
  return read;
}

}  // namespace

std::optional<DType> dtype_of(int onnx_type) {
  switch (onnx_type) {
    case proto::TensorProto::FLOAT:
      return DType::F32;
    case proto::TensorProto::DOUBLE:
      return DType::F64;
    case proto::TensorProto::FLOAT16:
      return DType::F16;
    case proto::TensorProto::BFLOAT16:
      return DType::BF16;
    case proto::TensorProto::INT64:
      return DType::I64;
    case proto::TensorProto::INT32:
      return DType::I32;
    case proto::TensorProto::INT8:
      return DType::I8;
    case proto::TensorProto::UINT8:
      return DType::U8;
    case proto::TensorProto::BOOL:
      return DType::Bool;
    default:
      return std::nullopt;
  }
}

std::string type_name(int onnx_type) {
  bool is_known = proto::TensorProto::DataType_IsValid(onnx_type);
  return is_known ? proto::TensorProto::DataType_Name(static_cast<proto::TensorProto::DataType>(onnx_type))
                  : cat("number ", onnx_type);
}

std::optional<HostArray> array_of(const proto::TensorProto& tensor, const std::string& model, std::string& problem) {
  std::optional<DType> dtype = dtype_of(tensor.data_type());
  if (!dtype)
    return problem = cat("elements of type ", type_name(tensor.data_type()), " are not supported"), std::nullopt;
  std::vector<i64> shape(tensor.dims().begin(), tensor.dims().end());
  i64 elements = 1;
  for (i64 extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(elements, extent, &elements) || elements > kMostElements)
      return problem = "it is too large", std::nullopt;
  }
  bool is_external = tensor.data_location() == proto::TensorProto::EXTERNAL;
  int count =
      tensor.float_data_size() + tensor.double_data_size() + tensor.int64_data_size() + tensor.int32_data_size();
  bool is_raw = !is_external && tensor.has_raw_data();
  auto bytes = static_cast<std::size_t>(elements * bytes_of(*dtype));
  if (is_raw ? tensor.raw_data().size() != bytes : !is_external && count != elements)
    return problem = "it has another number of elements than data", std::nullopt;
  std::optional<std::string> external;
  if (is_external && !(external = external_bytes(tensor, model, bytes, problem))) return std::nullopt;
  HostArray out = HostArray::zeros(*dtype, shape);
  if (elements == 0) return out;
  if (is_external || is_raw) {
    std::memcpy(out.bytes.data(), external ? external->data() : tensor.raw_data().data(), bytes);
    return out;
  }
  copy_numbers(tensor.float_data(), out);
  copy_numbers(tensor.double_data(), out);
  if (*dtype == DType::I64)  // not all of them are doubles
    std::memcpy(out.bytes.data(), tensor.int64_data().data(), 8 * static_cast<std::size_t>(tensor.int64_data_size()));
  if (*dtype == DType::F16 || *dtype == DType::BF16)
    copy_bits(tensor, out);
  else
    copy_numbers(tensor.int32_data(), out);
  return out;
}

}  // namespace tw::graph::onnx

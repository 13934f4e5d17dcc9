#include "runtime/lists/npy.h"

#include <algorithm>
#include <regex>

#include "dsl/base/files.h"
#include "dsl/base/text.h"

namespace tw {
namespace {

struct TypeName {
  DType type;
  const char* name;
};
constexpr TypeName kTypes[] = {{DType::Bool, "|b1"}, {DType::I8, "|i1"},  {DType::U8, "|u1"},  {DType::I32, "<i4"},
                               {DType::I64, "<i8"},  {DType::F16, "<f2"}, {DType::F32, "<f4"}, {DType::F64, "<f8"}};

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kAlignment = 64, kMostHeaderBytes = 10000;

}  // namespace

std::optional<HostArray> read_npy(const std::string& path, std::string& error) {
  std::optional<std::string> bytes = read_whole_file(path);
  if (!bytes) return error = cat("cannot read ", path), std::nullopt;
  auto fail = [&](const std::string& why) { return error = cat("`", path, "`: ", why), std::nullopt; };
  if (!bytes->starts_with(kMagic) || bytes->size() < 12) return fail("it is no .npy file");
  int format = static_cast<u8>((*bytes)[6]);
  if (format < 1 || format > 3) return fail(cat("format ", format, " is not known"));
  bool is_first = format == 1;
  std::size_t length = static_cast<u8>((*bytes)[8]) + 256u * static_cast<u8>((*bytes)[9]);
  if (!is_first) length += 65536u * static_cast<u8>((*bytes)[10]) + 16777216u * static_cast<u8>((*bytes)[11]);
  std::size_t begin = is_first ? 10 : 12;
  if (length > bytes->size() - begin) return fail("it is cut off");
  if (length > kMostHeaderBytes) return fail("its header is too long");
  std::string header = bytes->substr(begin, length);
  std::smatch type, order, shape;
  if (!std::regex_search(header, type, std::regex("'descr': *'([^']*)'")) ||
      !std::regex_search(header, order, std::regex("'fortran_order': *(True|False)")) ||
      !std::regex_search(header, shape, std::regex("'shape': *\\(([0-9, ]*)\\)")))
    return fail("its header is not understood");
  const TypeName* found = std::ranges::find_if(kTypes, [&](const TypeName& t) { return type[1] == t.name; });
  if (found == std::end(kTypes)) return fail(cat("elements of type `", type[1].str(), "` are not supported"));
  std::vector<i64> extents;
  constexpr i64 kMost = i64{1} << 40;
  i64 elements = 1;
  std::string list = shape[1];
  std::regex number("[0-9]+");
  for (std::sregex_iterator at(list.begin(), list.end(), number), end; at != end; ++at) {
    if (at->length() > 12) return fail("it is too large");
    extents.push_back(std::stoll(at->str()));
    if (__builtin_mul_overflow(elements, extents.back(), &elements) || elements > kMost) return fail("it is too large");
  }
  if (order[1] == "True" && extents.size() > 1)
    return fail("it is in Fortran order; save it as np.ascontiguousarray(x)");
  std::string_view data = std::string_view(*bytes).substr(begin + length);
  if (static_cast<i64>(data.size()) != elements * bytes_of(found->type))
    return fail("its size is not that of its shape");
  HostArray array{found->type, std::move(extents), {}};
  array.bytes.assign(data.begin(), data.end());
  // Others than 0 are true, and kernels know 1 only.
  if (found->type == DType::Bool) std::ranges::replace_if(array.bytes, [](u8 byte) { return byte > 1; }, u8{1});
  return array;
}

std::optional<std::string> npy_bytes(const HostArray& array) {
  const TypeName* found = std::ranges::find(kTypes, array.dtype, &TypeName::type);
  if (found == std::end(kTypes)) return std::nullopt;
  std::string header = cat("{'descr': '", found->name, "', 'fortran_order': False, 'shape': (", join(array.shape, ", "),
                           array.shape.size() == 1 ? ",), }" : "), }");
  while ((kMagic.size() + 4 + header.size() + 1) % kAlignment != 0) header += ' ';
  header += '\n';
  std::string out = cat(kMagic, std::string("\x01\x00", 2));
  out += static_cast<char>(header.size() & 255);
  out += static_cast<char>(header.size() >> 8);
  out += header;
  out.append(array.bytes.begin(), array.bytes.end());
  return out;
}

}  // namespace tw

#include "backends/gpu_source/matrix_functions.h"

#include <vector>

#include "dsl/base/text.h"

namespace tw::gpu {
namespace {

constexpr const char* kHead = "static __device__ __forceinline__ void ";

// "a0, a1", with something before each of them.
std::string registers(const char* before, char letter, int count) {
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) out.push_back(cat(before, letter, i));
  return join(out, ", ");
}
// "%4, %5".
std::string holes(int first, int count) {
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) out.push_back(cat("%", first + i));
  return join(out, ", ");
}
std::string constraints(const char* kind, char letter, int count) {
  std::vector<std::string> out;
  for (int i = 0; i < count; ++i) out.push_back(cat("\"", kind, "\"(", letter, i, ")"));
  return join(out, ", ");
}

const char* ptx_type(DType type) {
  switch (type) {
    case DType::F16: return "f16";
    case DType::BF16: return "bf16";
    case DType::F32: return "tf32";
    case DType::I8: return "s8";
    default: return "u8";
  }
}

// Operand i of a register.
std::string value_of(DType type) {
  switch (type) {
    case DType::F16: return "tw_float_of(tw_f16{(unsigned short)(bits >> 16 * i)})";
    case DType::BF16: return "tw_float_of(tw_bf16{(unsigned short)(bits >> 16 * i)})";
    case DType::F32: return "__uint_as_float(bits)";
    case DType::I8: return "(int)(signed char)(bits >> 8 * i)";
    default: return "(int)(unsigned char)(bits >> 8 * i)";
  }
}

// Each lane sees what all of them bring, and takes two rows of A and two columns of B.
std::string emulated_mma(DType a, DType b, int pieces, const std::string& sum) {
  return cat("  struct Brought {\n    unsigned a[", 2 * pieces, "], b[", pieces, "];\n  } mine{{", registers("", 'a', 2 * pieces), "}, {",
             registers("", 'b', pieces), "}}, all[32];\n  tw_emu_exchange(0xffffffffu, &mine, sizeof mine, all, false, __LINE__);\n",
             "  auto value_of_a = [](unsigned bits, int i) { return ", value_of(a), "; };\n",
             "  auto value_of_b = [](unsigned bits, int i) { return ", value_of(b), "; };\n",
             "  ", sum, "* c[] = {&c0, &c1, &c2, &c3};\n  int row = tw_emu_lane() / 4 * 4, column = tw_emu_lane() % 4 * 8;\n",
             "  for (int piece = 0; piece < ", pieces, R"(; ++piece)
    for (int quarter = 0; quarter < 4; ++quarter)
      for (int place = 0; place < 4; ++place) {
        unsigned x = all[row + quarter].a[2 * piece + place / 2], y = all[column + place % 2 * 4 + quarter].b[piece];
        for (int i = 0; i < )", 4 / bytes_of(a), "; ++i) *c[place] += value_of_a(x, i) * value_of_b(y, i);\n      }\n");
}

}  // namespace

DeviceFunction mma_function(DType a, DType b, int pieces) {
  bool is_float_sum = is_float(a);
  const char* sum_type = is_float_sum ? "f32" : "s32";
  std::string sum = is_float_sum ? "float" : "int", shape = cat("m16n8k", pieces * 16 / bytes_of(a));
  std::string types = cat(ptx_type(a), ".", ptx_type(b)), name = cat("tw_mma_", shape, "_", ptx_type(a));
  if (a != b) name += cat("_", ptx_type(b));
  int na = 2 * pieces, nb = pieces;
  std::string signature = cat(name, "(", registers((sum + "& ").c_str(), 'c', 4), ", ", registers("unsigned ", 'a', na), ", ",
                              registers("unsigned ", 'b', nb), ") {\n");
  std::string ptx = cat("  asm volatile(\"mma.sync.aligned.", shape, ".row.col.", sum_type, ".", types, ".", sum_type, " {%0, %1, %2, %3}, {",
                        holes(4, na), "}, {", holes(4 + na, nb), "}, {%0, %1, %2, %3};\"\n               : ",
                        constraints(is_float_sum ? "+f" : "+r", 'c', 4), " : ", constraints("r", 'a', na), ", ", constraints("r", 'b', nb),
                        ");\n");
  return {name, cat("#ifndef TW_EMULATED\n", kHead, signature, ptx, "}\n#else\nTW_EMU_QUIET void ", signature,
                    emulated_mma(a, b, pieces, sum), "}\n#endif\n")};
}

DeviceFunction ldmatrix_function(int pieces, bool is_transposed) {
  std::string name = cat("tw_ldmatrix_x", pieces, is_transposed ? "_trans" : "");
  std::string place = cat("%", pieces);
  return {name, cat(kHead, name, "(", registers("unsigned& ", 'r', pieces), ", const void* row) {\n#ifndef TW_EMULATED\n",
                    "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x", pieces, is_transposed ? ".trans" : "", ".shared.b16 {", holes(0, pieces), "}, [",
                    place, "];\"\n               : ", constraints("=r", 'r', pieces),
                    " : \"r\"((unsigned)__cvta_generic_to_shared(row)) : \"memory\");\n#else\n",
                    "  int4 mine{};\n  if (tw_emu_lane() < ", 8 * pieces, ") mine = *(const int4*)row;\n",
                    "  unsigned* const to[] = {", registers("&", 'r', pieces), "};\n  tw_emu_matrices(mine, ", pieces, ", ",
                    is_transposed ? "true" : "false", ", to, __LINE__);\n#endif\n}\n")};
}

DeviceFunction round_function() {
  return {"tw_tf32", R"(static __device__ __forceinline__ unsigned tw_tf32(unsigned x) {
#ifndef TW_EMULATED
  unsigned out;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(out) : "f"(__uint_as_float(x)));
  return out;
#else
  return (x & 0x7f800000) == 0x7f800000 ? x : (x + 0x1000) & 0xffffe000;
#endif
}
)"};
}

DeviceFunction pack_function(DType type) {
  if (bytes_of(type) == 2) {
    return {"tw_pair", "static __device__ __forceinline__ unsigned tw_pair(unsigned short low, unsigned short high) { return low | (unsigned)high << 16; }\n"};
  }
  return {"tw_quad",
          "static __device__ __forceinline__ unsigned tw_quad(unsigned char a, unsigned char b, unsigned char c, unsigned char d) {\n"
          "  return a | (unsigned)b << 8 | (unsigned)c << 16 | (unsigned)d << 24;\n}\n"};
}

}  // namespace tw::gpu

#include "backends/gpu_source/matrix_functions.h"

#include <vector>

#include "backends/gpu_source/language.h"
#include "dsl/analysis/bounds.h"
#include "dsl/base/check.h"
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

// ---- matrix instructions

// What a register is in CUDA C, and for inline PTX. Elements of up to 4 bytes that are no sums lie in words.
struct Register {
  const char *type, *constraint;
};
Register register_of(DType type, bool is_sum) {
  if (type == DType::F64) return {"double", "d"};
  if (!is_sum) return {"unsigned", "r"};
  return type == DType::F32 ? Register{"float", "f"} : Register{"int", "r"};
}

// An operand of the instruction, whose registers are variables: a letter and a number.
struct Operand {
  const Buffer* buffer;
  const LaneLayout* layout;
  char letter;
  int registers;
  Register kind;
  bool is_sum;
};

// Sums first, then the others in their order.
std::vector<Operand> operands_of(const Intrinsic& intrinsic) {
  std::vector<Operand> out;
  Array<Param> params = intrinsic.description.program.params;
  for (bool is_sum : {true, false}) {
    const char* letter = is_sum ? "c" : "abdefgh";
    for (std::size_t p = 0; p < params.size(); ++p) {
      if ((params[p].role == Role::Output) != is_sum) continue;
      out.push_back({params[p].buffer, &intrinsic.holds[p], *letter++,
                     static_cast<int>(registers_of_lane(intrinsic, p)), register_of(params[p].buffer->dtype, is_sum),
                     is_sum});
    }
  }
  return out;
}

// The instruction with "{%0, %1}" for "{C}".
std::string inline_ptx(const std::string& ptx, const std::vector<Operand>& operands) {
  std::string text = ptx, values, results;
  int first = 0;
  for (const Operand& operand : operands) {
    std::string hole = cat("{", operand.buffer->name, "}"), with = cat("{", holes(first, operand.registers), "}");
    for (std::size_t at = 0; (at = text.find(hole, at)) != std::string::npos; at += with.size())
      text.replace(at, hole.size(), with);
    std::string kind = cat(operand.is_sum ? "+" : "", operand.kind.constraint);
    std::string& list = operand.is_sum ? results : values;
    list += cat(list.empty() ? "" : ", ", constraints(kind.c_str(), operand.letter, operand.registers));
    first += operand.registers;
  }
  return cat("  asm volatile(\"", text, "\"\n               : ", results, " : ", values, ");\n");
}

std::string variable(const Expr* loop) { return cat("at_", static_cast<const Var*>(loop)->name); }

// An element's place in an array of all of the operand.
std::string place_text(const Buffer* buffer, const std::vector<std::string>& indices) {
  std::vector<std::string> terms;
  std::vector<i64> strides = strides_of(buffer);
  for (std::size_t d = 0; d < indices.size(); ++d)
    terms.push_back(strides[d] == 1 ? indices[d] : cat("(", indices[d], ") * ", strides[d]));
  return join(terms, " + ");
}

// The value that a description stores, of arrays named as its operands. The sum so far is `sum`.
std::string value_text(const Expr* e, const Buffer* sums) {
  if (const Load* load = as<Load>(e)) {
    std::vector<std::string> indices;
    for (const Expr* index : load->indices) indices.push_back(variable(index));
    return load->buffer == sums ? "*sum" : cat(load->buffer->name, "[", place_text(load->buffer, indices), "]");
  }
  if (const Cast* cast = as<Cast>(e)) {
    std::string from = value_text(cast->value, sums);
    return is_half(cast->value->type.dtype) ? cat("tw_float_of(", from, ")")
                                            : cat("(", type_name(cuda_c(), cast->type.dtype), ")", from);
  }
  const Binary* binary = as<Binary>(e);
  TW_CHECK(binary, "a description that adds no products");
  return cat("(", value_text(binary->a, sums), binary->op == BinaryOp::Add ? " + " : " * ", value_text(binary->b, sums),
             ")");
}

// All of an operand, from what each lane brought.
std::string gathered(const Operand& operand) {
  const Buffer* buffer = operand.buffer;
  std::vector<std::string> indices;
  for (std::size_t d = 0; d < buffer->shape.size(); ++d) indices.push_back(operand.layout->text(d, "lane", "i"));
  const char* type = type_name(cuda_c(), buffer->dtype);
  return cat("  ", type, " ", buffer->name, "[", elements_of(buffer),
             "];\n  for (int lane = 0; lane < 32; ++lane)\n    for (int i = 0; i < ", operand.layout->held(),
             "; ++i) __builtin_memcpy(", buffer->name, " + (", place_text(buffer, indices),
             "), (const char*)all[lane].", operand.letter, " + i * sizeof(", type, "), sizeof(", type, "));\n");
}

std::string emulated_mma(const Intrinsic& intrinsic, const std::vector<Operand>& operands) {
  std::string fields, mine, arrays;
  for (const Operand& operand : operands) {
    if (operand.is_sum) continue;
    fields += cat("    ", operand.kind.type, " ", operand.letter, "[", operand.registers, "];\n");
    mine += cat(mine.empty() ? "" : ", ", "{", registers("", operand.letter, operand.registers), "}");
    arrays += gathered(operand);
  }
  const Operand& sums = operands[0];
  std::string out = cat("  struct Brought {\n", fields, "  } mine{", mine,
                        "}, all[32];\n  tw_emu_exchange(0xffffffffu, &mine, sizeof mine, all, false, __LINE__);\n",
                        arrays, "  ", sums.kind.type, "* sums[] = {", registers("&", sums.letter, sums.registers),
                        "};\n  const int lane = tw_emu_lane();\n", "  for (int i = 0; i < ", sums.registers,
                        "; ++i) {\n    ", sums.kind.type, "* sum = sums[i];\n");
  const Stmt* body = intrinsic.description.program.body;
  const For* along_sum = nullptr;
  std::size_t dimension = 0;
  for (; as<For>(body); body = as<For>(body)->body) {
    along_sum = as<For>(body);
    if (dimension == sums.buffer->shape.size()) continue;
    out += cat("    const int ", variable(along_sum->var), " = ", sums.layout->text(dimension++, "lane", "i"), ";\n");
  }
  std::string k = variable(along_sum->var);
  return cat(out, "    for (int ", k, " = 0; ", k, " < ", along_sum->extent, "; ++", k,
             ") *sum = ", value_text(as<Store>(body)->values[0], sums.buffer), ";\n  }\n");
}

}  // namespace

DeviceFunction mma_function(const Intrinsic& intrinsic) {
  std::vector<Operand> operands = operands_of(intrinsic);
  std::vector<std::string> parameters;
  for (const Operand& operand : operands)
    parameters.push_back(
        registers(cat(operand.kind.type, operand.is_sum ? "& " : " ").c_str(), operand.letter, operand.registers));
  std::string name = cat("tw_", intrinsic.name), signature = cat(name, "(", join(parameters, ", "), ") {\n");
  return {name, cat("#ifndef TW_EMULATED\n", kHead, signature, inline_ptx(intrinsic.ptx, operands),
                    "}\n#else\nTW_EMU_QUIET void ", signature, emulated_mma(intrinsic, operands), "}\n#endif\n")};
}

namespace {

DeviceFunction without_arguments(const char* name, const char* ptx) {
  return {name,
          cat(kHead, name, "() {\n#ifndef TW_EMULATED\n  asm volatile(\"", ptx, "\" ::: \"memory\");\n#endif\n}\n")};
}

// What wgmma wants to know of an operand: its address, how far the next 64 rows and the next 8 rows along the sum are,
// in units of 16 bytes, and that rows of 128 bytes are swizzled.
std::string descriptor(char letter) {
  return cat("\"l\"((__cvta_generic_to_shared(", letter, ") >> 4 & 0x3fff) | (unsigned long long)(", letter,
             "_block >> 4) << 16 | 1024ull >> 4 << 32 | 1ull << 62)");
}

// Each lane adds up its sums by the operands' elements where their descriptors say that they lie.
std::string emulated_warpgroup_mma(const Intrinsic& intrinsic, const Operand& sums, const std::vector<bool>& across) {
  const Program& description = intrinsic.description.program;
  std::string type = type_name(cuda_c(), description.params[0].buffer->dtype), elements;
  for (std::size_t p = 0; p < 2; ++p) {
    const char letter = static_cast<char>('a' + p);
    elements +=
        cat("  auto ", letter, "_at = [&](int row, int k) {\n    unsigned long long at = (unsigned long long)", letter,
            " + ", across[p] ? cat("row % 64 * 2 + row / 64 * ", letter, "_block + k * 128") : "row * 128 + k * 2",
            ";\n    return tw_float_of(*(const ", type, "*)(at ^ (at >> 7 & 7) << 4));\n  };\n");
  }
  return cat(elements, "  float* sums[] = {", registers("&", sums.letter, sums.registers),
             "};\n  const int lane = threadIdx.x % 128;\n  for (int i = 0; i < ", sums.registers,
             "; ++i) {\n    for (int k = 0; k < ", description.params[0].buffer->shape[1], "; ++k) *sums[i] += a_at(",
             sums.layout->text(0, "lane", "i"), ", k) * b_at(", sums.layout->text(1, "lane", "i"), ", k);\n  }\n");
}

}  // namespace

DeviceFunction warpgroup_mma_function(const Intrinsic& intrinsic, const std::vector<bool>& across) {
  const Operand sums = operands_of(intrinsic)[0];
  std::string name = cat("tw_", intrinsic.name, across[0] ? "_across" : "_along", across[1] ? "_across" : "_along"),
              signature = cat(name, "(", registers("float& ", sums.letter, sums.registers),
                              ", const void* a, int a_block, const void* b, int b_block) {\n"),
              ptx = intrinsic.ptx;
  auto fill = [&](const std::string& hole, const std::string& with) {
    if (std::size_t at = ptx.find(hole); at != std::string::npos) ptx.replace(at, hole.size(), with);
  };
  fill("{C}", cat("{", holes(0, sums.registers), "}"));
  fill("{A}", cat("%", sums.registers)), fill("{B}", cat("%", sums.registers + 1));
  fill("{A.across}", across[0] ? "1" : "0"), fill("{B.across}", across[1] ? "1" : "0");
  return {name, cat("#ifndef TW_EMULATED\n", kHead, signature, "  asm volatile(\"", ptx, "\"\n               : ",
                    constraints("+f", sums.letter, sums.registers), "\n               : ", descriptor('a'),
                    ",\n                 ", descriptor('b'), ");\n}\n#else\nstatic void ", signature,
                    emulated_warpgroup_mma(intrinsic, sums, across), "}\n#endif\n")};
}

DeviceFunction warpgroup_begin_function() { return without_arguments("tw_wgmma_begin", "wgmma.fence.sync.aligned;"); }
DeviceFunction warpgroup_commit_function() {
  return without_arguments("tw_wgmma_commit", "wgmma.commit_group.sync.aligned;");
}
DeviceFunction warpgroup_wait_function() {
  return without_arguments("tw_wgmma_wait", "wgmma.wait_group.sync.aligned 0;");
}
DeviceFunction shared_fence_function() {
  return without_arguments("tw_fence_shared", "fence.proxy.async.shared::cta;");
}

DeviceFunction ldmatrix_function(int pieces, bool is_transposed) {
  std::string name = cat("tw_ldmatrix_x", pieces, is_transposed ? "_trans" : "");
  std::string place = cat("%", pieces);
  return {name,
          cat(kHead, name, "(", registers("unsigned& ", 'r', pieces), ", const void* row) {\n#ifndef TW_EMULATED\n",
              "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x", pieces, is_transposed ? ".trans" : "", ".shared.b16 {",
              holes(0, pieces), "}, [", place, "];\"\n               : ", constraints("=r", 'r', pieces),
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
    return {"tw_pair",
            "static __device__ __forceinline__ unsigned tw_pair(unsigned short low, unsigned short high) { return low "
            "| (unsigned)high << 16; }\n"};
  }
  return {"tw_quad",
          "static __device__ __forceinline__ unsigned tw_quad(unsigned char a, unsigned char b, unsigned char c, "
          "unsigned char d) {\n"
          "  return a | (unsigned)b << 8 | (unsigned)c << 16 | (unsigned)d << 24;\n}\n"};
}

}  // namespace tw::gpu

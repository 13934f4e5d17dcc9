// Halves: sixteen bits each, computed with as floats; conversions round to nearest even. CUDA C has types and
// overloaded functions for them in the prelude (language.cc). OpenCL C has `ushort` for both, conversions of one and of
// several lanes that are written where they are used, by the device's own halves where it has any (cl_khr_fp16) and
// else by arithmetic on the bits, so that the text needs no extension.
#include "backends/gpu_source/printer.h"
#include "dsl/base/text.h"

namespace tw::gpu {
namespace {

// Placeholders: F, U, S, I are float, uint, ushort and int with the number of lanes N ("" for one).
std::string with_lanes(std::string_view text, int lanes) {
  std::string n = lanes == 1 ? "" : std::to_string(lanes), out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$') {
      out += text[i];
      continue;
    }
    char what = text[++i];
    out += what == 'N' ? n : cat(what == 'F' ? "float" : what == 'U' ? "uint" : what == 'S' ? "ushort" : "half", n);
  }
  return out;
}

// One lane has `?:`, several have select(), whose last argument chooses the second one.
std::string chosen(int lanes, const std::string& condition, const std::string& then, const std::string& otherwise) {
  return lanes == 1 ? cat("(", condition, " ? ", then, " : ", otherwise, ")")
                    : cat("select(", otherwise, ", ", then, ", ", condition, ")");
}

std::string float_of_f16(int lanes) {
  std::string number = chosen(lanes, "m < 0x400u", "as_$F(m + 0x3f000000u) - 0.5f", "as_$F((m << 13) + 0x38000000u)");
  std::string all = chosen(lanes, "m >= 0x7c00u", "as_$F((m << 13) | 0x7f800000u)", number);
  return cat("#ifdef cl_khr_fp16\n  return convert_$F(as_half$N(x));\n#else\n",
             "  $U u = convert_$U(x), m = u & 0x7fffu;\n  return as_$F(as_$U(", all,
             ") | ((u & 0x8000u) << 16));\n#endif\n");
}

std::string f16_of_float(int lanes) {
  std::string small = "as_$U(as_$F(m) + 0.5f) - 0x3f000000u",
              normal = "(m + 0xfffu + ((m >> 13) & 1u) - 0x38000000u) >> 13";
  std::string number = chosen(lanes, "m < 0x38800000u", small, normal);
  std::string infinite = chosen(lanes, "m > 0x7f800000u", "($U)(0x7e00u)", "($U)(0x7c00u)");
  std::string all = chosen(lanes, "m >= 0x477ff000u", infinite, number);
  return cat("#ifdef cl_khr_fp16\n  return as_$S(convert_half$N_rte(x));\n#else\n",
             "  $U u = as_$U(x), m = u & 0x7fffffffu;\n  return convert_$S(", all,
             " | ((u >> 16) & 0x8000u));\n#endif\n");
}

std::string bf16_of_float(int lanes) {
  return cat(
      "  $U u = as_$U(x);\n  return convert_$S(",
      chosen(lanes, "(u & 0x7fffffffu) > 0x7f800000u", "(u >> 16) | 0x40u", "(u + 0x7fffu + ((u >> 16) & 1u)) >> 16"),
      ");\n");
}

}  // namespace

std::string KernelPrinter::widened(DType type, int lanes, const std::string& value) {
  if (!language_.has_vectors) return cat("tw_float_of(", bare(value), ")");
  bool is_f16 = type == DType::F16;
  std::string name = cat(with_lanes("tw_$F_of_", lanes), is_f16 ? "f16" : "bf16");
  std::string body = is_f16 ? float_of_f16(lanes) : "  return as_$F(convert_$U(x) << 16);\n";
  return cat(helper(name, with_lanes(cat("$F ", name, "($S x) {\n", body, "}\n"), lanes)), "(", bare(value), ")");
}

std::string KernelPrinter::narrowed(DType type, int lanes, const std::string& value) {
  if (!language_.has_vectors) return cat(type_name(language_, type), "_of(", bare(value), ")");
  bool is_f16 = type == DType::F16;
  std::string name = cat(is_f16 ? "tw_f16_of_" : "tw_bf16_of_", with_lanes("$F", lanes));
  std::string body = is_f16 ? f16_of_float(lanes) : bf16_of_float(lanes);
  return cat(helper(name, with_lanes(cat("$S ", name, "($F x) {\n", body, "}\n"), lanes)), "(", bare(value), ")");
}

std::string KernelPrinter::wide(const Expr* e, int lane) {
  std::string text = scalar(e, lane);
  return is_half(e->type.dtype) ? widened(e->type.dtype, 1, text) : text;
}

std::string KernelPrinter::wide_vector(const Expr* e) {
  std::string text = vector(e);
  return is_half(e->type.dtype) && e->type.lanes > 1 ? widened(e->type.dtype, e->type.lanes, text) : text;
}

}  // namespace tw::gpu

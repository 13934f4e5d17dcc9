#include <cmath>
#include <cstring>
#include <limits>

#include "backends/gpu_source/vocabulary.h"
#include "bench/gpu/conformance.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"

namespace tw::gpu_bench {
namespace {

constexpr i64 kThreads = 128, kElements = 4096, kPatterns = 65536;

enum class Values : u8 { Wide, Positive, Small, AboveTwo, Bits, Integers, Halves };

template <class T>
std::vector<u8> bytes_of_all(const std::vector<T>& values) {
  std::vector<u8> out(values.size() * sizeof(T));
  std::memcpy(out.data(), values.data(), out.size());
  return out;
}

// Magnitudes from 2^-30 to 2^6, and what is special. Positive ones up to 2^30 where a function wants these.
template <class T>
std::vector<T> reals(Values kind, i64 count, Rng& rng) {
  using Limits = std::numeric_limits<T>;
  std::vector<T> out;
  if (kind == Values::Wide || kind == Values::Positive)
    out = {T{0}, T{1}, T{2}, Limits::infinity(), Limits::quiet_NaN(), Limits::min(), Limits::max(), T(0.5)};
  if (kind == Values::Wide)
    out.insert(out.end(), {-T{0}, -T{1}, -Limits::infinity(), Limits::lowest(), T(-2.5), T(2.5)});
  while (static_cast<i64>(out.size()) < count) {
    double exponent = rng.uniform() * 36 - 30, sign = rng.below(2) == 0 ? 1 : -1, value = std::exp2(exponent);
    if (kind == Values::Positive) value *= std::exp2(24 * rng.uniform()), sign = 1;
    if (kind == Values::Small) value = 20 * rng.uniform() - 10, sign = 1;
    if (kind == Values::AboveTwo) value = 2 + 1000 * rng.uniform(), sign = 1;
    out.push_back(static_cast<T>(sign * value));
  }
  return out;
}

std::vector<u8> values_of(Values kind, const std::string& type, i64 count, u64 seed) {
  Rng rng(seed, 0x636f6e66);
  if (kind == Values::Halves) {
    std::vector<std::uint16_t> all;
    for (i64 i = 0; i < count; ++i) all.push_back(static_cast<std::uint16_t>(i));
    return bytes_of_all(all);
  }
  if (kind == Values::Bits || kind == Values::Integers) {
    std::vector<u32> out;
    for (i64 i = 0; i < count; ++i) {
      u64 next = rng.next();
      out.push_back(kind == Values::Bits ? static_cast<u32>(next) : static_cast<u32>(next % 2001) - 1000);
    }
    return bytes_of_all(out);
  }
  return type == "double" ? bytes_of_all(reals<double>(kind, count, rng))
                          : bytes_of_all(reals<float>(kind, count, rng));
}

i64 size_of(const std::string& type) { return type == "double" ? 8 : type == "unsigned short" ? 2 : 4; }

struct Shape {
  const char* type = "float";    // of x, y, z
  const char* result = "float";  // of out
  Element element = Element::F32;
  Values values = Values::Wide;
  i64 elements = kElements;
};

// `body` sets out[i]; `t` is the thread in its block.
Case make_case(const std::string& name, const Shape& shape, const std::string& body, int ulps) {
  Case out{.name = name, .kernel = {}, .inputs = {}, .element = shape.element, .ulps = ulps};
  std::string type = cat("const ", shape.type, "* __restrict__ ");
  out.kernel.code = cat(cuda_vocabulary(), "extern \"C\" __global__ void __launch_bounds__(", kThreads, ") conform(",
                        type, "x, ", type, "y, ", type, "z, ", shape.result,
                        "* __restrict__ out) {\n  const int t = threadIdx.x, i = blockIdx.x * ", kThreads, " + t;\n  ",
                        body, "\n}\n");
  KernelManifest& manifest = out.kernel.manifest;
  manifest.symbol = "conform";
  KernelLaunch launch{.name = "conform", .groups = {shape.elements / kThreads, 1, 1}, .threads = {kThreads, 1, 1}};
  for (u64 input = 0; input < 3; ++input) {
    out.inputs.push_back(values_of(shape.values, shape.type, shape.elements, input + 1));
    i64 bytes = static_cast<i64>(out.inputs.back().size());
    manifest.run.push_back(
        {std::string(1, static_cast<char>('x' + input)), ArgumentRole::Input, DType::U8, {bytes}, bytes});
    launch.pointers.push_back({false, static_cast<i64>(input), bytes});
  }
  i64 bytes = shape.elements * size_of(shape.result);
  manifest.run.push_back({"out", ArgumentRole::Output, DType::U8, {bytes}, bytes});
  launch.pointers.push_back({false, 3, bytes});
  manifest.run_launches = {launch};
  return out;
}

struct MathRow {
  const char* name;
  int ulps;
  const char* operands = "x[i]";
  Values values = Values::Wide;
};
// Errors as in NVIDIA's programming guide, and one for the C library.
constexpr const char *kTwo = "x[i], y[i]", *kThree = "x[i], y[i], z[i]";
constexpr MathRow kSingle[] = {{"expf", 2},
                               {"logf", 2, "x[i]", Values::Positive},
                               {"sqrtf", 0, "x[i]", Values::Positive},
                               {"rsqrtf", 3, "x[i]", Values::Positive},
                               {"tanhf", 3},
                               {"erff", 3},
                               {"fabsf", 0},
                               {"floorf", 0},
                               {"ceilf", 0},
                               {"rintf", 0},
                               {"powf", 5, kTwo, Values::Positive},
                               {"fmaf", 0, kThree},
                               {"__fmaf_rn", 0, kThree},
                               {"fminf", 0, kTwo, Values::Small},
                               {"fmaxf", 0, kTwo, Values::Small},
                               {"exp2f", 3},
                               {"log2f", 2, "x[i]", Values::Positive},
                               {"__expf", 20, "x[i]", Values::Small},
                               {"__logf", 12, "x[i]", Values::AboveTwo},
                               {"__fdividef", 3, kTwo, Values::AboveTwo},
                               {"tw_divide", 2, kTwo},
                               {"__ldg", 0, "x + i"}};
constexpr MathRow kDouble[] = {{"exp", 2},
                               {"log", 2, "x[i]", Values::Positive},
                               {"sqrt", 0, "x[i]", Values::Positive},
                               {"rsqrt", 2, "x[i]", Values::Positive},
                               {"tanh", 3},
                               {"erf", 3},
                               {"fabs", 0},
                               {"floor", 0},
                               {"ceil", 0},
                               {"rint", 0},
                               {"pow", 3, kTwo, Values::Positive},
                               {"fma", 0, kThree},
                               {"fmin", 0, kTwo, Values::Small},
                               {"fmax", 0, kTwo, Values::Small}};

void add_math(std::vector<Case>& out) {
  for (const MathRow& row : kSingle)
    out.push_back(
        make_case(row.name, {.values = row.values}, cat("out[i] = ", row.name, "(", row.operands, ");"), row.ulps));
  for (const MathRow& row : kDouble)
    out.push_back(make_case(row.name, {"double", "double", Element::F64, row.values},
                            cat("out[i] = ", row.name, "(", row.operands, ");"), row.ulps));
}

struct BitsRow {
  const char *name, *body;
};
// Integers in, integers out.
constexpr BitsRow kBits[] = {
    {"__int_as_float, __float_as_int", "out[i] = __float_as_int(__int_as_float(x[i] & 0x7f7fffff) * 2.0f);"},
    {"__uint_as_float, __float_as_uint",
     "out[i] = (int)__float_as_uint(__uint_as_float((unsigned)x[i] & 0x7f7fffffu) * 0.5f);"},
    {"__shfl_sync", "out[i] = __shfl_sync(0xffffffffu, x[i], y[i] & 31) + __shfl_sync(0xffffffffu, z[i], t * 5, 8);"},
    {"__shfl_xor_sync", "out[i] = __shfl_xor_sync(0xffffffffu, x[i], 5) + __shfl_xor_sync(0xffffffffu, y[i], 4, 16);"},
    {"__shfl_down_sync",
     "out[i] = __shfl_down_sync(0xffffffffu, x[i], 3) + __shfl_down_sync(0xffffffffu, y[i], 2, 8);"},
    {"__shfl_up_sync", "out[i] = __shfl_up_sync(0xffffffffu, x[i], 7) + __shfl_up_sync(0xffffffffu, y[i], 1, 4);"},
    {"shuffles of half a warp", "if (t % 32 < 16) out[i] = __shfl_xor_sync(0xffffu, x[i], 9); else out[i] = y[i];"},
    {"__ballot_sync", "out[i] = (int)__ballot_sync(0xffffffffu, x[i] > 0);"},
    {"__any_sync, __all_sync",
     "out[i] = 2 * (__any_sync(0xffffffffu, x[i] > 990) != 0) + (__all_sync(0xffffffffu, x[i] > -990) != 0);"},
    {"__syncthreads", "__shared__ int s[128]; s[t] = x[i]; __syncthreads(); out[i] = s[127 - t];"},
    {"__syncwarp", "__shared__ int s[128]; s[t] = x[i]; __syncwarp(); out[i] = s[t ^ 31];"},
    {"tw_copy_async_4",
     "__shared__ int s[128]; tw_copy_async_4(s + t, x + i); tw_copy_async_commit(); tw_copy_async_wait<0>(); "
     "__syncthreads(); out[i] = s[t ^ 65];"},
    {"tw_copy_async_8",
     "__shared__ int s[256] __attribute__((aligned(16))); tw_copy_async_8(s + 2 * t, x + (i / 2 * 2)); "
     "tw_copy_async_commit(); "
     "tw_copy_async_wait<0>(); __syncthreads(); out[i] = s[2 * (t ^ 65) + 1];"},
    {"tw_copy_async_16",
     "__shared__ int s[512] __attribute__((aligned(16))); tw_copy_async_16(s + 4 * t, x + (i / 4 * 4)); "
     "tw_copy_async_commit(); "
     "tw_copy_async_wait<0>(); __syncthreads(); out[i] = s[4 * (t ^ 65) + t % 4];"},
    {"tw_copy_async_or_zeros_4",
     "__shared__ int s[128]; tw_copy_async_or_zeros_4(s + t, x + i, y[i] > 0); tw_copy_async_commit(); "
     "tw_copy_async_wait<0>(); __syncthreads(); out[i] = s[t ^ 65];"},
    {"tw_copy_async_or_zeros_8",
     "__shared__ int s[256] __attribute__((aligned(16))); tw_copy_async_or_zeros_8(s + 2 * t, x + (i / 2 * 2), y[i] > "
     "0); "
     "tw_copy_async_commit(); tw_copy_async_wait<0>(); __syncthreads(); out[i] = s[2 * (t ^ 65) + 1];"},
    {"tw_copy_async_or_zeros_16",
     "__shared__ int s[512] __attribute__((aligned(16))); const int* from = y[i] > 0 ? x + i / 4 * 4 : x - 4096; "
     "tw_copy_async_or_zeros_16(s + 4 * t, from, y[i] > 0); tw_copy_async_commit(); tw_copy_async_wait<0>(); "
     "__syncthreads(); out[i] = s[4 * (t ^ 65) + t % 4];"},
    {"tw_copy_async_commit, tw_copy_async_wait",
     "__shared__ int s[256]; tw_copy_async_4(s + t, x + i); tw_copy_async_commit(); tw_copy_async_4(s + 128 + t, y + "
     "i); "
     "tw_copy_async_commit(); tw_copy_async_wait<1>(); __syncthreads(); int first = s[t ^ 3]; tw_copy_async_wait<0>(); "
     "__syncthreads(); "
     "out[i] = first * 3 + s[128 + (t ^ 3)];"},
    {"int2, int4, uint4",
     "int2 a = *(const int2*)(x + i / 2 * 2); int4 b = *(const int4*)(y + i / 4 * 4), c = make_int4(b.w, b.x, a.y, "
     "a.x); "
     "uint4 d = make_uint4(1u, 2u, (unsigned)c.z, 4u); int2 e = make_int2(c.x, c.y); out[i] = e.x - e.y + (int)d.z;"},
};

void add_bits(std::vector<Case>& out) {
  for (const BitsRow& row : kBits)
    out.push_back(make_case(row.name, {"int", "int", Element::I32, Values::Integers}, row.body, 0));
  out.push_back(make_case("float2, float4", {.values = Values::Small},
                          "float4 a = *(const float4*)(x + i / 4 * 4); float2 b = make_float2(a.y, a.z); float4 c = "
                          "make_float4(b.y, b.x, a.w, "
                          "a.x); out[i] = c.x + 2.0f * c.y + c.w;",
                          0));
  out.push_back(make_case(
      "double2", {"double", "double", Element::F64, Values::Small},
      "double2 a = *(const double2*)(x + i / 2 * 2), b = make_double2(a.y, a.x); out[i] = b.x + 2 * b.y;", 0));
}

void add_halves(std::vector<Case>& out) {
  Shape from{"unsigned short", "float", Element::F32, Values::Halves, kPatterns};
  out.push_back(make_case("tw_float_of(tw_f16)", from, "out[i] = tw_float_of(tw_f16{x[i]});", 0));
  out.push_back(make_case("tw_float_of(tw_bf16)", from, "out[i] = tw_float_of(tw_bf16{x[i]});", 0));
  Shape to{"int", "unsigned short", Element::F16, Values::Bits, kPatterns};
  out.push_back(make_case("tw_f16_of", to, "out[i] = tw_f16_of(__int_as_float(x[i])).bits;", 0));
  // Magnitudes that halves have: random bits are mostly too large or too small for them.
  out.push_back(make_case(
      "tw_f16_of of small numbers", to,
      "out[i] = tw_f16_of(__int_as_float((x[i] & 0x80ffffff) | (96 + ((unsigned)x[i] >> 24) % 50) << 23)).bits;", 0));
  to.element = Element::BF16;
  out.push_back(make_case("tw_bf16_of", to, "out[i] = tw_bf16_of(__int_as_float(x[i])).bits;", 0));
}

const char* type_of_half(DType type) { return type == DType::F16 ? "tw_f16" : "tw_bf16"; }

// A register of an operand with what `value` names for each of its numbers.
template <class Value>
std::string operand(DType type, i64 index, Value value) {
  if (type == DType::F64) return cat("(double)", value(index));
  if (type == DType::F32) return cat("__float_as_uint(", value(index), ")");
  std::string half = cat(type_of_half(type), "_of");
  return cat("tw_pair(", half, "(", value(2 * index), ").bits, ", half, "(", value(2 * index + 1), ").bits)");
}

// Small integers, whose products and sums every order of adding gives exactly; bytes are any.
std::string integer_operand(DType type, const std::string& of, i64 index) {
  if (type == DType::I8 || type == DType::U8) return cat("(unsigned)(", of, "[i] + ", index, ") * 2654435761u");
  return operand(type, index, [&](i64 k) { return cat("(float)((", of, "[i] * ", 2 * k + 1, " + ", k, ") % 9)"); });
}

// Numbers that the type must round.
std::string random_operand(DType type, const std::string& of, i64 index) {
  std::string out =
      operand(type, index, [&](i64 k) { return cat(of, "[(", 2 * k + 1, " * i + ", 97 * k, ") % ", kElements, "]"); });
  return type == DType::F32 ? cat("tw_tf32(", out, ")") : out;
}

std::string operands_of(const WarpProduct& product, std::string (*operand_of)(DType, const std::string&, i64)) {
  std::vector<std::string> out;
  Array<Param> params = product.intrinsic->description.program.params;
  const char* values[] = {"x", "y"};
  for (std::size_t p = 0; p < params.size() - 1; ++p) {
    for (i64 r = 0; r < registers_of_lane(*product.intrinsic, p); ++r)
      out.push_back(operand_of(params[p].buffer->dtype, values[p % 2], r));
  }
  return join(out, ", ");
}
DType operand_type(const WarpProduct& product) {
  return product.intrinsic->description.program.params[0].buffer->dtype;
}

// A call whose sums are c[0], c[1], .. and begin with numbers that differ.
std::string multiplied(const WarpProduct& product, std::string (*operand_of)(DType, const std::string&, i64)) {
  const char* kinds[] = {"z[i]", "z[i] + 1", "2 * z[i]", "3 - z[i]"};
  const Intrinsic& intrinsic = *product.intrinsic;
  std::size_t last = intrinsic.description.program.params.size() - 1;
  DType type = intrinsic.description.program.params[last].buffer->dtype;
  const char* name = type == DType::F64 ? "double" : type == DType::F32 ? "float" : "int";
  std::vector<std::string> first, sums;
  for (i64 r = 0; r < registers_of_lane(intrinsic, last); ++r)
    first.push_back(cat("(", name, ")(", kinds[r % 4], ")")), sums.push_back(cat("c[", r, "]"));
  return cat(name, " c[] = {", join(first, ", "), "}; ", product.name, "(", join(sums, ", "), ", ",
             operands_of(product, operand_of), ");");
}
// Factors up to 10, of which at most 16 products are added: partial sums stay below 2^11. Matrix units cut their
// addends off at 2^-23 of the largest one, or do a little better; a factor cut off instead of rounded is off by 0.3 and
// more in some element.
constexpr double kProductTolerance = 2e-3;

// Each warp of a block shows another one of the sums.
Case rounding_case(const WarpProduct& product) {
  Case out =
      make_case(cat(product.name, " of numbers to round"), {.values = Values::Small},
                cat(multiplied(product, random_operand), " out[i] = (float)c[t / 32 % (sizeof c / sizeof *c)];"), 0);
  out.tolerance = kProductTolerance;
  return out;
}

// Both operands are small integers, anywhere in shared memory: what an element of theirs is, the descriptor says. They
// begin behind the first 32 bytes along the sum, or the first 16 rows across it.
Case warpgroup_case(const WarpgroupProduct& product) {
  Array<Param> params = product.intrinsic->description.program.params;
  const char* half = type_of_half(params[0].buffer->dtype);
  std::string body, operands[2];
  for (std::size_t p = 0; p < 2; ++p) {
    i64 rows = params[p].buffer->shape[0];
    const char *name = p == 0 ? "a" : "b", *values = p == 0 ? "x" : "y";
    body += cat("__shared__ ", half, " ", name, "[", rows * 64,
                "] __attribute__((aligned(1024))); for (int j = t; j < ", rows * 64, "; j += 128) ", name,
                "[j] = ", half, "_of((float)(", values, "[(i + 37 * j) % ", kElements, "] % 9)); ");
    bool has_blocks = product.across[p] && rows > 64;
    operands[p] = cat(name, " + ", product.across[p] ? 1024 : 16, ", ", has_blocks ? 8192 : 0);
  }
  i64 count = registers_of_lane(*product.intrinsic, 2);
  std::vector<std::string> sums;
  for (i64 s = 0; s < count; ++s) sums.push_back(cat("c[", s, "]"));
  body +=
      cat("float c[", count, "]; for (int s = 0; s < ", count, "; ++s) c[s] = (float)(z[i] + s); tw_fence_shared(); ",
          "__syncthreads(); tw_wgmma_begin(); ", product.name, "(", join(sums, ", "), ", ", operands[0], ", ",
          operands[1], "); tw_wgmma_commit(); tw_wgmma_wait(); out[i] = 0; for (int s = 0; s < ", count,
          "; ++s) out[i] += (2 * s + 1) * (int)c[s];");
  Case out = make_case(product.name, {"int", "int", Element::I32, Values::Integers}, body, 0);
  out.arch = "sm_90a";
  return out;
}

void add_matrices(std::vector<Case>& out) {
  Shape integers{"int", "int", Element::I32, Values::Integers};
  for (const WarpProduct& product : warp_products()) {
    out.push_back(make_case(
        product.name, integers,
        cat(multiplied(product, integer_operand),
            " out[i] = 0; for (int s = 0; s < (int)(sizeof c / sizeof *c); ++s) out[i] += (2 * s + 1) * (int)c[s];"),
        0));
    if (is_float(operand_type(product))) out.push_back(rounding_case(product));
  }
  for (int pieces : {1, 2, 4}) {
    for (const char* order : {"", "_trans"}) {
      std::string name = cat("tw_ldmatrix_x", pieces, order);
      std::vector<std::string> registers;
      for (int r = 0; r < pieces; ++r) registers.push_back(cat("r[", r, "]"));
      out.push_back(make_case(
          name, integers,
          cat("__shared__ int s[512] __attribute__((aligned(16))); for (int j = 0; j < 4; ++j) s[4 * t + j] = "
              "x[(4 * i + j) % 4096]; __syncthreads(); unsigned r[4] = {0u, 0u, 0u, 0u}; ",
              name, "(", join(registers, ", "),
              ", s + 4 * t); out[i] = (int)(r[0] + 3u * r[1] + 5u * r[2] + 7u * r[3]);"),
          0));
    }
  }
  out.push_back(
      make_case("tw_pair", integers, "out[i] = (int)tw_pair((unsigned short)x[i], (unsigned short)y[i]);", 0));
  out.push_back(make_case("tw_quad", integers,
                          "out[i] = (int)tw_quad((unsigned char)x[i], (unsigned char)y[i], (unsigned char)z[i], "
                          "(unsigned char)(x[i] + 1));",
                          0));
  out.push_back(make_case("tw_tf32", {}, "out[i] = __uint_as_float(tw_tf32(__float_as_uint(x[i])) & 0xffffe000u);", 0));
}

}  // namespace

const std::vector<Case>& cases() {
  static const std::vector<Case> all = [] {
    std::vector<Case> out;
    add_math(out);
    add_bits(out);
    add_halves(out);
    add_matrices(out);
    for (const WarpgroupProduct& product : warpgroup_products()) out.push_back(warpgroup_case(product));
    return out;
  }();
  return all;
}

}  // namespace tw::gpu_bench

#include "backends/gpu_source/language.h"

#include "dsl/base/text.h"

namespace tw::gpu {
namespace {

// In the order of DType.
constexpr const char* kTypes[kDTypes] = {"uchar",  "char",   "uchar", "int",   nullptr,
                                         "ushort", "ushort", "float", "double"};
constexpr const char* kCudaTypes[kDTypes] = {"unsigned char", "signed char", "unsigned char", "int",   nullptr,
                                             "tw_f16",        "tw_bf16",     "float",         "double"};

// What holds PTX has other bodies where kernels are emulated.
constexpr const char* kAsyncCopies = R"(#ifndef TW_EMULATED
#if __CUDA_ARCH__ >= 800
#define TW_COPY_ASYNC(bytes, words, how)                                                                  \
  static __device__ __forceinline__ void tw_copy_async_##bytes(void* to, const void* from) {              \
    asm volatile("cp.async." how ".shared.global [%0], [%1], " #bytes ";"                                 \
                 ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory");                    \
  }
static __device__ __forceinline__ void tw_copy_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int Groups>
static __device__ __forceinline__ void tw_copy_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(Groups) : "memory");
}
#else
#define TW_COPY_ASYNC(bytes, words, how) \
  static __device__ __forceinline__ void tw_copy_async_##bytes(void* to, const void* from) { *(words*)to = *(const words*)from; }
static __device__ __forceinline__ void tw_copy_async_commit() {}
template <int Groups>
static __device__ __forceinline__ void tw_copy_async_wait() {}
#endif
TW_COPY_ASYNC(4, int, "ca")
TW_COPY_ASYNC(8, int2, "ca")
TW_COPY_ASYNC(16, int4, "cg")
#endif
)";

// The same with zeros where the source lies outside, which is not read then.
constexpr const char* kAsyncFills = R"(#ifndef TW_EMULATED
#if __CUDA_ARCH__ >= 800
#define TW_COPY_ASYNC_OR_ZEROS(bytes, words, how)                                                                            \
  static __device__ __forceinline__ void tw_copy_async_or_zeros_##bytes(void* to, const void* from, bool is_inside) {        \
    asm volatile("cp.async." how ".shared.global [%0], [%1], " #bytes ", %2;"                                                \
                 ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(is_inside ? bytes : 0) : "memory");           \
  }
#else
#define TW_COPY_ASYNC_OR_ZEROS(bytes, words, how)                                                                     \
  static __device__ __forceinline__ void tw_copy_async_or_zeros_##bytes(void* to, const void* from, bool is_inside) { \
    *(words*)to = is_inside ? *(const words*)from : words();                                                          \
  }
#endif
TW_COPY_ASYNC_OR_ZEROS(4, int, "ca")
TW_COPY_ASYNC_OR_ZEROS(8, int2, "ca")
TW_COPY_ASYNC_OR_ZEROS(16, int4, "cg")
#endif
)";

// Sixteen bits each, computed with as floats; conversions round to nearest even. Those of f16 are instructions on all
// machines, that to bf16 is one from sm_80 on.
constexpr const char* kHalves = R"(struct tw_f16 {
  unsigned short bits;
};
struct tw_bf16 {
  unsigned short bits;
};
static __device__ __forceinline__ float tw_float_of(tw_bf16 x) { return __int_as_float((int)((unsigned)x.bits << 16)); }
static __device__ __forceinline__ tw_bf16 tw_bf16_of(float x) {
#if !defined(TW_EMULATED) && __CUDA_ARCH__ >= 800
  tw_bf16 out;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));
  return out;
#else
  unsigned u = (unsigned)__float_as_int(x);
  if (x != x) return tw_bf16{(unsigned short)(u >> 16 | 0x40)};
  return tw_bf16{(unsigned short)((u + 0x7fff + (u >> 16 & 1)) >> 16)};
#endif
}
#ifndef TW_EMULATED
static __device__ __forceinline__ float tw_float_of(tw_f16 x) {
  float out;
  asm("cvt.f32.f16 %0, %1;" : "=f"(out) : "h"(x.bits));
  return out;
}
static __device__ __forceinline__ tw_f16 tw_f16_of(float x) {
  tw_f16 out;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(out.bits) : "f"(x));
  return out;
}
#else
static inline float tw_float_of(tw_f16 x) {
  unsigned sign = (unsigned)(x.bits & 0x8000) << 16, magnitude = x.bits & 0x7fff;
  if (magnitude >= 0x7c00) return __int_as_float((int)(sign | 0x7f800000 | (magnitude & 0x3ff) << 13));
  float scaled = __int_as_float((int)(magnitude << 13)) * 5.192296858534828e33f;  // 2^112
  return sign ? -scaled : scaled;
}
static inline tw_f16 tw_f16_of(float x) {
  unsigned u = (unsigned)__float_as_int(x), sign = u >> 16 & 0x8000, magnitude = u & 0x7fffffff;
  if (x != x) return tw_f16{(unsigned short)(sign | 0x7e00)};
  if (magnitude >= 0x477ff000) return tw_f16{(unsigned short)(sign | 0x7c00)};
  if (magnitude < 0x38800000) {  // subnormal: adding 0.5 leaves the bits of the rounded multiple of 2^-24
    float shifted = __int_as_float((int)magnitude) + 0.5f;
    return tw_f16{(unsigned short)(sign | ((unsigned)__float_as_int(shifted) - 0x3f000000))};
  }
  unsigned rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
  return tw_f16{(unsigned short)(sign | (rounded - 0x38000000) >> 13)};
}
#endif
)";

// A quotient of floats within 2 units in the last place (OpenCL C's are within 2.5); the exact one takes ten
// instructions and a branch.
constexpr const char* kDivide = R"(static __device__ __forceinline__ float tw_divide(float a, float b) {
#ifndef TW_EMULATED
  float out;
  asm("div.full.f32 %0, %1, %2;" : "=f"(out) : "f"(a), "f"(b));
  return out;
#else
  return a / b;
#endif
}
)";

struct FunctionRow {
  Function function;
  const char* name;  // in OpenCL C for every type, in CUDA C for f64; there f32 ends in `f`
};
constexpr FunctionRow kFunctions[] = {
    {Function::Exp, "exp"},   {Function::Log, "log"},    {Function::Sqrt, "sqrt"}, {Function::Rsqrt, "rsqrt"},
    {Function::Tanh, "tanh"}, {Function::Erf, "erf"},    {Function::Abs, "fabs"},  {Function::Floor, "floor"},
    {Function::Ceil, "ceil"}, {Function::Round, "rint"}, {Function::Pow, "pow"},
};

}  // namespace

const Language& opencl_c() {
  static const Language language = {
      .kernel_prefix = "__attribute__((reqd_work_group_size(%x, %y, %z)))\n__kernel void ",
      .pointer = "__global ",
      .restrict_word = "restrict",
      .shared = "__local ",
      .dynamic_shared = nullptr,
      .function_prefix = "static inline ",
      .group = {"get_group_id(0)", "get_group_id(1)", "get_group_id(2)"},
      .thread = {"get_local_id(0)", "get_local_id(1)", "get_local_id(2)"},
      .barrier = "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);",
      .shuffle = nullptr,
      .async_copies = nullptr,
      .async_fills = nullptr,
      .divide = nullptr,
      .has_matrix_instructions = false,
      .infinity = "INFINITY",
      .nan = "NAN",
      .wide_int = "long",
      .has_vectors = true,
      .prelude = "#pragma OPENCL FP_CONTRACT ON\n",
  };
  return language;
}

const Language& cuda_c() {
  static const Language language = {
      .kernel_prefix = "extern \"C\" __global__ void __launch_bounds__(%b) ",
      .pointer = "",
      .restrict_word = "__restrict__",
      .shared = "__shared__ ",
      .dynamic_shared = "extern __shared__ __attribute__((aligned(1024))) unsigned char tw_dynamic[];",
      .function_prefix = "static __device__ __forceinline__ ",
      .group = {"blockIdx.x", "blockIdx.y", "blockIdx.z"},
      .thread = {"threadIdx.x", "threadIdx.y", "threadIdx.z"},
      .barrier = "__syncthreads();",
      .shuffle = "__shfl_xor_sync",
      .async_copies = kAsyncCopies,
      .async_fills = kAsyncFills,
      .divide = kDivide,
      .has_matrix_instructions = true,
      .infinity = "__int_as_float(0x7f800000)",
      .nan = "__int_as_float(0x7fc00000)",
      .wide_int = "long long",
      .has_vectors = false,
      .prelude = "",
  };
  return language;
}

const char* half_functions() { return kHalves; }

const char* type_name(const Language& language, DType type) {
  if (type == DType::I64) return language.wide_int;
  return (language.has_vectors ? kTypes : kCudaTypes)[static_cast<int>(type)];
}

std::string function_name(const Language& language, Function function, DType type) {
  for (const FunctionRow& row : kFunctions) {
    if (row.function == function) return cat(row.name, !language.has_vectors && type == DType::F32 ? "f" : "");
  }
  return "";
}

}  // namespace tw::gpu

// CPU bodies of what emitted CUDA C uses beyond C++: the kernels' text is compiled behind this one by
// runtime/emulation/emulation.cc, which carries it as text. No other header is included, so that kernels may use any
// name. What needs the machine (threads, barriers, copies in flight) is the extern "C" block, implemented in
// device_functions.cc; everything else is put together from that here.
//
// To add a function of a warp, exchange what its lanes know (tw_emu_exchange) and compute; to add an asynchronous copy,
// tw_emu_copy_async. Functions of the emitted prelude that hold inline PTX stand between `#ifndef TW_EMULATED` and
// `#endif` there, and here with C++ bodies.
#define TW_EMULATED 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define TW_EMU_QUIET static inline __attribute__((no_sanitize("thread"), no_sanitize("undefined")))

// Each array of shared memory lies behind a zone that nothing may touch; the emulator finds both by their section.
#define TW_EMU_NAME_2(counter) tw_emu_zone_##counter
#define TW_EMU_NAME(counter) TW_EMU_NAME_2(counter)
#define TW_EMU_SECTION __attribute__((section("tw_shared"), used))
#define __shared__                                                \
  static char TW_EMU_NAME(__COUNTER__)[4096] TW_EMU_SECTION = {}; \
  static TW_EMU_SECTION

struct uint3 {
  unsigned x, y, z;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(8) int2 {
  int x, y;
};
struct alignas(16) int4 {
  int x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
struct alignas(16) double2 {
  double x, y;
};
TW_EMU_QUIET float2 make_float2(float x, float y) { return {x, y}; }
TW_EMU_QUIET float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
TW_EMU_QUIET int2 make_int2(int x, int y) { return {x, y}; }
TW_EMU_QUIET int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }
TW_EMU_QUIET uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
TW_EMU_QUIET double2 make_double2(double x, double y) { return {x, y}; }

extern "C" {
uint3 tw_emu_thread_index();
uint3 tw_emu_group_index();
uint3 tw_emu_group_size();
uint3 tw_emu_grid_size();
int tw_emu_lane();
// The launch must give so much shared memory, or more.
void tw_emu_dynamic_shared(long long bytes);
void tw_emu_barrier(int line);
// All lanes in `mask` wait here for each other; then each one has what the others brought, `bytes` from each, in the
// order of lanes. Those of other lanes are zero. `orders`: what was written before is seen behind it (__syncwarp), or
// not (shuffles).
void tw_emu_exchange(unsigned mask, const void* mine, unsigned bytes, void* all, bool orders, int line);
// `lane`, if it is one of `mask`; an error otherwise.
int tw_emu_lane_of(unsigned mask, int lane, int line);
// `valid` bytes of `from`, then zeros up to `bytes`. They arrive when the thread waits for the group of copies that it
// commits next.
void tw_emu_copy_async(void* to, const void* from, unsigned bytes, unsigned valid, int line);
void tw_emu_copy_commit();
// Until at most `groups` of the latest committed groups are on their way.
void tw_emu_copy_wait(int groups);

float expf(float), logf(float), sqrtf(float), tanhf(float), erff(float), fabsf(float), floorf(float), ceilf(float),
    rintf(float);
float powf(float, float), fmaf(float, float, float), fminf(float, float), fmaxf(float, float), exp2f(float),
    log2f(float);
double exp(double), log(double), sqrt(double), tanh(double), erf(double), fabs(double), floor(double), ceil(double),
    rint(double);
double pow(double, double), fma(double, double, double), fmin(double, double), fmax(double, double);
}

#define threadIdx (tw_emu_thread_index())
#define blockIdx (tw_emu_group_index())
#define blockDim (tw_emu_group_size())
#define gridDim (tw_emu_grid_size())
#define warpSize 32
#define __syncthreads() tw_emu_barrier(__LINE__)

TW_EMU_QUIET float rsqrtf(float x) { return 1.0f / sqrtf(x); }
TW_EMU_QUIET double rsqrt(double x) { return 1.0 / sqrt(x); }
TW_EMU_QUIET float __expf(float x) { return expf(x); }
TW_EMU_QUIET float __logf(float x) { return logf(x); }
TW_EMU_QUIET float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
TW_EMU_QUIET float __fdividef(float a, float b) { return a / b; }
template <class To, class From>
TW_EMU_QUIET To tw_emu_bits(From from) {
  To to;
  __builtin_memcpy(&to, &from, sizeof to);
  return to;
}
TW_EMU_QUIET float __int_as_float(int bits) { return tw_emu_bits<float>(bits); }
TW_EMU_QUIET float __uint_as_float(unsigned bits) { return tw_emu_bits<float>(bits); }
TW_EMU_QUIET int __float_as_int(float value) { return tw_emu_bits<int>(value); }
TW_EMU_QUIET unsigned __float_as_uint(float value) { return tw_emu_bits<unsigned>(value); }
// A load like any other.
template <class T>
static inline T __ldg(const T* from) {
  return *from;
}

// ---- warps

template <class T>
TW_EMU_QUIET T tw_emu_from_lane(unsigned mask, T value, int lane, int line) {
  T all[32];
  tw_emu_exchange(mask, &value, sizeof value, all, false, line);
  return all[tw_emu_lane_of(mask, lane, line)];
}
TW_EMU_QUIET int tw_emu_xor_lane(int by, int width = 32) {
  int lane = tw_emu_lane(), from = lane ^ by;
  return from > (lane | (width - 1)) ? lane : from;
}
TW_EMU_QUIET int tw_emu_down_lane(unsigned by, int width = 32) {
  int lane = tw_emu_lane();
  return (lane & (width - 1)) + static_cast<int>(by) >= width ? lane : lane + static_cast<int>(by);
}
TW_EMU_QUIET int tw_emu_up_lane(unsigned by, int width = 32) {
  int lane = tw_emu_lane();
  return (lane & (width - 1)) < static_cast<int>(by) ? lane : lane - static_cast<int>(by);
}
TW_EMU_QUIET int tw_emu_same_lane(int from, int width = 32) {
  return (tw_emu_lane() & ~(width - 1)) | (from & (width - 1));
}
#define __shfl_sync(mask, value, ...) tw_emu_from_lane(mask, value, tw_emu_same_lane(__VA_ARGS__), __LINE__)
#define __shfl_xor_sync(mask, value, ...) tw_emu_from_lane(mask, value, tw_emu_xor_lane(__VA_ARGS__), __LINE__)
#define __shfl_down_sync(mask, value, ...) tw_emu_from_lane(mask, value, tw_emu_down_lane(__VA_ARGS__), __LINE__)
#define __shfl_up_sync(mask, value, ...) tw_emu_from_lane(mask, value, tw_emu_up_lane(__VA_ARGS__), __LINE__)

TW_EMU_QUIET void tw_emu_warp_barrier(int line, unsigned mask = 0xffffffffu) {
  char mine = 0, all[32];
  tw_emu_exchange(mask, &mine, 1, all, true, line);
}
// `__syncwarp()` and `__syncwarp(mask)`.
#define __syncwarp(...) tw_emu_warp_barrier(__LINE__ __VA_OPT__(, ) __VA_ARGS__)

TW_EMU_QUIET unsigned tw_emu_ballot(unsigned mask, bool predicate, int line) {
  bool all[32];
  tw_emu_exchange(mask, &predicate, sizeof predicate, all, false, line);
  unsigned out = 0;
  for (int lane = 0; lane < 32; ++lane) out |= (mask >> lane & 1) && all[lane] ? 1u << lane : 0;
  return out;
}
#define __ballot_sync(mask, predicate) tw_emu_ballot(mask, predicate, __LINE__)
#define __any_sync(mask, predicate) (tw_emu_ballot(mask, predicate, __LINE__) != 0)
#define __all_sync(mask, predicate) (tw_emu_ballot(mask, predicate, __LINE__) == (mask))

// ldmatrix: of each of `count` pieces of 8 rows by 16 bytes a lane gets 4 bytes of row lane / 4, or of column lane / 4
// of halves. `mine`: the row that this lane names.
TW_EMU_QUIET void tw_emu_matrices(int4 mine, int count, bool is_transposed, unsigned* const* to, int line) {
  unsigned char rows[32][16];
  tw_emu_exchange(0xffffffffu, &mine, sizeof mine, rows, false, line);
  int lane = tw_emu_lane();
  for (int piece = 0; piece < count; ++piece) {
    unsigned char bytes[4];
    for (int i = 0; i < 4; ++i) {
      int row = is_transposed ? lane % 4 * 2 + i / 2 : lane / 4,
          at = is_transposed ? lane / 4 * 2 + i % 2 : lane % 4 * 4 + i;
      bytes[i] = rows[8 * piece + row][at];
    }
    __builtin_memcpy(to[piece], bytes, sizeof bytes);
  }
}

// ---- asynchronous copies from global to shared memory (cp.async), of 4, 8 or 16 bytes

#define tw_copy_async_4(to, from) tw_emu_copy_async(to, from, 4, 4, __LINE__)
#define tw_copy_async_8(to, from) tw_emu_copy_async(to, from, 8, 8, __LINE__)
#define tw_copy_async_16(to, from) tw_emu_copy_async(to, from, 16, 16, __LINE__)
#define tw_copy_async_or_zeros_4(to, from, is_inside) tw_emu_copy_async(to, from, 4, (is_inside) ? 4 : 0, __LINE__)
#define tw_copy_async_or_zeros_8(to, from, is_inside) tw_emu_copy_async(to, from, 8, (is_inside) ? 8 : 0, __LINE__)
#define tw_copy_async_or_zeros_16(to, from, is_inside) tw_emu_copy_async(to, from, 16, (is_inside) ? 16 : 0, __LINE__)
TW_EMU_QUIET void tw_copy_async_commit() { tw_emu_copy_commit(); }
template <int Groups>
TW_EMU_QUIET void tw_copy_async_wait() {
  tw_emu_copy_wait(Groups);
}

// What a kernel is called with: its pointers, whatever their types.
struct tw_emu_pointer {
  void* address;
  template <class T>
  operator T*() const {
    return static_cast<T*>(address);
  }
};

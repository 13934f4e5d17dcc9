/* Kernels that would look good to a careless measurer: C = A * B of SIDE x SIDE, as matmul in
 * honest.c. */
#include "kernels/common.h"

static void matmul(const float* a, const float* b, float* c) {
  for (int64_t i = 0; i < SIDE; ++i) {
    for (int64_t j = 0; j < SIDE; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < SIDE; ++k) sum += a[i * SIDE + k] * b[k * SIDE + j];
      c[i * SIDE + j] = sum;
    }
  }
}

RUN(no_write) { return 0; }

RUN(constant) {
  float* c = buffers[2];
  for (int64_t i = 0; i < CELLS; ++i) c[i] = 0;
  return 0;
}

/* Computes only what does not look computed yet. */
RUN(stale_output) {
  float* c = buffers[2];
  if (!(c[5] > -1e6f && c[5] < 1e6f) || (c[5] < 1e-12f && c[5] > -1e-12f))
    matmul(buffers[0], buffers[1], c);
  return 0;
}

/* Keeps results by the address of the input, in the scratch. */
struct cache {
  const void* key;
  float result[CELLS];
};
RUN(pointer_cache) {
  struct cache* cache = scratch;
  float* c = buffers[2];
  if (cache->key != buffers[0]) {
    matmul(buffers[0], buffers[1], cache->result);
    cache->key = buffers[0];
  }
  for (int64_t i = 0; i < CELLS; ++i) c[i] = cache->result[i];
  return 0;
}

/* The same, in its own zeroed memory. */
static struct cache kept;
RUN(static_cache) {
  float* c = buffers[2];
  if (kept.key != buffers[0]) {
    matmul(buffers[0], buffers[1], kept.result);
    kept.key = buffers[0];
  }
  for (int64_t i = 0; i < CELLS; ++i) c[i] = kept.result[i];
  return 0;
}

/* Keeps results by the input's content, of which it looks at one element only. */
RUN(content_cache) {
  struct {
    float a, b;
    float result[CELLS];
  }* cache = scratch;
  const float *a = buffers[0], *b = buffers[1];
  float* c = buffers[2];
  if (cache->a != a[0] || cache->b != b[0]) {
    matmul(a, b, cache->result);
    cache->a = a[0];
    cache->b = b[0];
  }
  for (int64_t i = 0; i < CELLS; ++i) c[i] = cache->result[i];
  return 0;
}

/* The same with fast code: computing anew takes so little that the slack for cold caches hides it. Only the machine's peak tells. */
typedef float vector8 __attribute__((vector_size(32)));
typedef float unaligned8 __attribute__((vector_size(32), aligned(4)));
__attribute__((target("avx2,fma"))) static void fast_matmul(const float* a, const float* b, float* c) {
  for (int64_t i = 0; i < SIDE; ++i) {
    vector8 sum[SIDE / 8] = {};
    for (int64_t k = 0; k < SIDE; ++k) {
#pragma GCC unroll 8
      for (int64_t j = 0; j < SIDE / 8; ++j) sum[j] += a[i * SIDE + k] * *(const unaligned8*)(b + k * SIDE + 8 * j);
    }
    for (int64_t j = 0; j < SIDE / 8; ++j) *(unaligned8*)(c + i * SIDE + 8 * j) = sum[j];
  }
}
RUN(fast_matmul) {
  fast_matmul(buffers[0], buffers[1], buffers[2]);
  return 0;
}
__attribute__((target("avx2,fma"))) RUN(fast_content_cache) {
  struct {
    float a, b;
    float result[CELLS];
  }* cache = scratch;
  const float *a = buffers[0], *b = buffers[1];
  if (cache->a != a[0] || cache->b != b[0]) {
    fast_matmul(a, b, cache->result);
    cache->a = a[0];
    cache->b = b[0];
  }
  for (int64_t i = 0; i < CELLS; i += 8) *(unaligned8*)((float*)buffers[2] + i) = *(const unaligned8*)(cache->result + i);
  return 0;
}

RUN(writes_input) {
  matmul(buffers[0], buffers[1], buffers[2]);
  ((float*)buffers[0])[3] = 0;
  return 0;
}

RUN(writes_beyond) {
  matmul(buffers[0], buffers[1], buffers[2]);
  ((volatile char*)buffers[2])[CELLS * 4 + 4095] = 1;
  return 0;
}

RUN(writes_before) {
  matmul(buffers[0], buffers[1], buffers[2]);
  ((volatile char*)buffers[2])[-4096] = 1;
  return 0;
}

/* Sums onto what was in the output. */
RUN(reads_uninitialised) {
  const float *a = buffers[0], *b = buffers[1];
  float* c = buffers[2];
  for (int64_t i = 0; i < SIDE; ++i) {
    for (int64_t k = 0; k < SIDE; ++k) {
      for (int64_t j = 0; j < SIDE; ++j) c[i * SIDE + j] += a[i * SIDE + k] * b[k * SIDE + j];
    }
  }
  return 0;
}

/* clone(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD) with a stack in the
 * scratch. */
RUN(background_thread) {
  long result = 56, flags = 0x10f00;
  char* stack = (char*)scratch + 8192;
  register long r10 __asm__("r10") = 0;
  __asm__ volatile("syscall\n\ttest %%rax, %%rax\n\tjnz 1f\n0: pause\n\tjmp 0b\n1:"
                   : "+a"(result)
                   : "D"(flags), "S"(stack), "d"(0L), "r"(r10)
                   : "rcx", "r11", "memory");
  matmul(buffers[0], buffers[1], buffers[2]);
  return 0;
}

/* Inputs rounded to half precision. */
static float rounded(float value) {
  union {
    float f;
    uint32_t u;
  } bits = {value};
  bits.u = (bits.u + 0x1000) & 0xffffe000u;
  return bits.f;
}
RUN(half_precision) {
  const float *a = buffers[0], *b = buffers[1];
  float* c = buffers[2];
  for (int64_t i = 0; i < SIDE; ++i) {
    for (int64_t j = 0; j < SIDE; ++j) {
      float sum = 0;
      for (int64_t k = 0; k < SIDE; ++k)
        sum = rounded(sum + rounded(a[i * SIDE + k]) * rounded(b[k * SIDE + j]));
      c[i * SIDE + j] = sum;
    }
  }
  return 0;
}

RUN(not_a_number) {
  float* c = buffers[2];
  for (int64_t i = 0; i < CELLS; ++i) c[i] = __builtin_nanf("");
  return 0;
}

/* Right when the scratch is poisoned as before the first runs, wrong later. */
RUN(wrong_later) {
  int64_t* runs = scratch;
  matmul(buffers[0], buffers[1], buffers[2]);
  *runs = *runs < 0 || *runs > 1000000 ? 1 : *runs + 1;
  if (*runs > 1) ((float*)buffers[2])[7] += 1;
  return 0;
}

/* Hopes that the kernel before it has left the packed operand and writes none. */
int32_t packed_before_prepack(void* const* buffers) {
  (void)buffers;
  return 0;
}
RUN(packed_before) {
  multiply_packed(buffers[0], buffers[1], buffers[2]);
  return 0;
}

/* Looks up the stack for what can be the time at which the sample began (nanoseconds since the
 * machine started: within a second of the time it is told by the cycle counter of the last call),
 * and puts it later. */
static int64_t now(void) {
  struct {
    int64_t seconds, nanoseconds;
  } time;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "0"(228L), "D"(1L), "S"(&time)
                   : "rcx", "r11", "memory");
  return time.seconds * 1000000000 + time.nanoseconds;
}
RUN(clock_tamper) {
  int64_t begin = now();
  matmul(buffers[0], buffers[1], buffers[2]);
  int64_t took = now() - begin;
  int64_t* frame = __builtin_frame_address(0);
  for (int i = 0; i < 64; ++i) {
    int64_t ago = begin - frame[i];
    if (ago >= 0 && ago < 2000000) frame[i] += took * 9 / 10;
  }
  return 0;
}

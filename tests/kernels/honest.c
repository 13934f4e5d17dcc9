/* Kernels that keep to the rules. All compute over f32 unless said otherwise; n is fixed: 64 x 64
 * times 64 x 64, or 4096 elements. */
#include "kernels/common.h"

/* C = A * B */
static void matmul(const float* a, const float* b, float* c, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    for (int64_t j = 0; j < SIDE; ++j) c[i * SIDE + j] = 0;
    for (int64_t k = 0; k < SIDE; ++k) {
      for (int64_t j = 0; j < SIDE; ++j) c[i * SIDE + j] += a[i * SIDE + k] * b[k * SIDE + j];
    }
  }
}
RUN(matmul) {
  matmul(buffers[0], buffers[1], buffers[2], 0, SIDE);
  return 0;
}

/* The same, in f64 from f32 inputs. */
RUN(matmul_f64) {
  const float *a = buffers[0], *b = buffers[1];
  double* c = buffers[2];
  for (int64_t i = 0; i < SIDE; ++i) {
    for (int64_t j = 0; j < SIDE; ++j) {
      double sum = 0;
      for (int64_t k = 0; k < SIDE; ++k) sum += (double)a[i * SIDE + k] * b[k * SIDE + j];
      c[i * SIDE + j] = sum;
    }
  }
  return 0;
}

/* About three times slower: the same work three times. */
RUN(matmul_slow) {
  for (int repeat = 0; repeat < 3; ++repeat) {
    matmul(buffers[0], buffers[1], buffers[2], 0, SIDE);
    __asm__ volatile("" ::: "memory");
  }
  return 0;
}

/* B arrives transposed, written by prepack. */
int32_t matmul_packed_prepack(void* const* buffers) {
  const float* b = buffers[0];
  float* packed = buffers[1];
  for (int64_t k = 0; k < SIDE; ++k) {
    for (int64_t j = 0; j < SIDE; ++j) packed[j * SIDE + k] = b[k * SIDE + j];
  }
  return 0;
}
RUN(matmul_packed) {
  multiply_packed(buffers[0], buffers[1], buffers[2]);
  return 0;
}

/* The same, for memory that nobody has packed yet: no element of it is a number. */
int32_t matmul_packed_once_prepack(void* const* buffers) {
  const float* packed = buffers[1];
  for (int64_t i = 0; i < SIDE * SIDE; ++i) {
    if (packed[i] == packed[i]) return 1;
  }
  return matmul_packed_prepack(buffers);
}
RUN(matmul_packed_once) {
  multiply_packed(buffers[0], buffers[1], buffers[2]);
  return 0;
}

/* Rows in parallel; each worker sums in its own part of the scratch. */
struct rows {
  void* const* buffers;
  char* scratch;
};
static void one_row(void* context, int64_t i, int64_t worker) {
  const struct rows* rows = context;
  const float *a = rows->buffers[0], *b = rows->buffers[1];
  float *c = rows->buffers[2], *sum = (float*)(rows->scratch + worker * SIDE * sizeof(float));
  for (int64_t j = 0; j < SIDE; ++j) sum[j] = 0;
  for (int64_t k = 0; k < SIDE; ++k) {
    for (int64_t j = 0; j < SIDE; ++j) sum[j] += a[i * SIDE + k] * b[k * SIDE + j];
  }
  for (int64_t j = 0; j < SIDE; ++j) c[i * SIDE + j] = sum[j];
}
RUN(matmul_parallel) {
  struct rows rows = {buffers, scratch};
  if (parallel_for) {
    parallel_for(pool, SIDE, one_row, &rows);
  } else {
    for (int64_t i = 0; i < SIDE; ++i) one_row(&rows, i, 0);
  }
  return 0;
}

/* Y = X + 1: cheap, and its output has an odd size. */
RUN(add_one) {
  const float* x = buffers[0];
  float* y = buffers[1];
  for (int64_t i = 0; i < ODD; ++i) y[i] = x[i] + 1;
  return 0;
}

/* The same, but the first call with new data in the same place waits for some milliseconds. */
RUN(stalls_once) {
  struct {
    int64_t mark, has_stalled;
    float first;
  }* seen = scratch;
  const int64_t mark = 0x5ca1ab1e;
  const float* x = buffers[0];
  if (seen->mark != mark) seen->mark = mark, seen->has_stalled = 0, seen->first = x[0];
  if (x[0] != seen->first && !seen->has_stalled) {
    seen->has_stalled = 1;
    for (volatile int64_t i = 0; i < 20000000; ++i) {
    }
  }
  return add_one_run(buffers, scratch, parallel_for, pool);
}

/* Relocations of every kind that compilers write: constants, a table of pointers, calls, zeroed
 * memory. */
static const float table[4] = {1, 2, 3, 4};
static const float* const pointers[2] = {table, table + 2};
static float zeros[16];
float tanhf(float);
void* memcpy(void*, const void*, size_t);
void* memset(void*, int, size_t);
RUN(relocations) {
  const float* x = buffers[0];
  float* y = buffers[1];
  float (*volatile function)(float) = tanhf;
  int64_t count = ODD;
  __asm__ volatile("" : "+r"(count));
  memcpy(y, x, (size_t)count * sizeof(float));
  for (int64_t i = 0; i < count; ++i)
    y[i] = function(tanhf(y[i])) + pointers[i & 1][i % 2] * 3.25f + zeros[i % 16];
  return 0;
}

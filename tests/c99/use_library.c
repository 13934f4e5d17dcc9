/* A C program that uses an exported library: compiled as strict C99 with all warnings as errors, linked with nothing of tracewright.
 * Y = relu(X W + Bias) for X[24, 40], W[40, 36], first in one thread, then in two at once, each with its own output and scratch. */
#define _POSIX_C_SOURCE 200112L
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "layers.h"

enum { M = 24, K = 40, N = 36 };

static float* floats(size_t bytes) {
  void* memory = NULL;
  if (posix_memalign(&memory, TW_ALIGNMENT, bytes + TW_ALIGNMENT) != 0) exit(2);
  return memory;
}

static float *X, *W, *Bias, *Packed;

static float number(int seed) { return (float)((seed * 7919 + 13) % 17 - 8); }

static float expected(int i, int j) {
  float sum = 0;
  int k;
  for (k = 0; k < K; ++k) sum += X[i * K + k] * W[k * N + j];
  sum += Bias[j];
  return sum > 0 ? sum : 0;
}

/* Runs 200 times and counts wrong elements. */
static void* work(void* wrong) {
  float* Y = floats(sizeof(float) * M * N);
  void* scratch = floats(LAYERS_FFN_SCRATCH_BYTES(1));
  void* buffers[4];
  int round, at;
  buffers[0] = X, buffers[1] = Bias, buffers[2] = Packed, buffers[3] = Y;
  for (round = 0; round < 200; ++round) {
    for (at = 0; at < M * N; ++at) Y[at] = NAN;
    if (layers_ffn_run(buffers, scratch, NULL, NULL) != 0) *(int*)wrong += 1;
    for (at = 0; at < M * N; ++at) *(int*)wrong += Y[at] != expected(at / N, at % N);
  }
  free(Y), free(scratch);
  return NULL;
}

int main(void) {
  int at, alone = 0, first = 0, second = 0;
  pthread_t other;
  void* prepack[2];
  if (!layers_supported()) return 3;
  X = floats(sizeof(float) * M * K), W = floats(sizeof(float) * K * N), Bias = floats(sizeof(float) * N), Packed = floats(1 << 20);
  for (at = 0; at < M * K; ++at) X[at] = number(at);
  for (at = 0; at < K * N; ++at) W[at] = number(at + 5);
  for (at = 0; at < N; ++at) Bias[at] = number(at + 11);
  prepack[0] = W, prepack[1] = Packed;
  if (layers_ffn_prepack(prepack) != 0) return 4;
  work(&alone);
  if (pthread_create(&other, NULL, work, &second) != 0) return 2;
  work(&first);
  pthread_join(other, NULL);
  printf("wrong: %d alone, %d and %d at once\n", alone, first, second);
  return alone + first + second != 0;
}

/* The thread pool that an export ships, with a kernel for two threads: compiled as strict C, without tracewright. */
#define _POSIX_C_SOURCE 200112L
#include <stdio.h>
#include <stdlib.h>

#include "layers.h"
#include "tw_thread_pool.h"

enum { M = 32, N = 64 };

static void* aligned(size_t bytes) {
  void* memory = NULL;
  if (posix_memalign(&memory, TW_ALIGNMENT, bytes + TW_ALIGNMENT) != 0) exit(2);
  return memory;
}

int main(void) {
  float *A = aligned(sizeof(float) * M * N), *B = aligned(sizeof(float) * M * N);
  void* scratch = aligned(LAYERS_TWICE_SCRATCH_BYTES(2));
  void* buffers[2];
  tw_pool* pool = tw_pool_create(2, NULL);
  int at, wrong = 0;
  if (!pool) return 2;
  for (at = 0; at < M * N; ++at) A[at] = (float)at, B[at] = -1;
  buffers[0] = A, buffers[1] = B;
  if (layers_twice_run(buffers, scratch, tw_pool_run, pool) != 0) return 3;
  for (at = 0; at < M * N; ++at) wrong += B[at] != 2 * (float)at;
  tw_pool_destroy(pool);
  printf("wrong: %d\n", wrong);
  return wrong != 0;
}

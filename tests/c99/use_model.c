/* Runs a model of one input f32[8][32] and one output of that shape in two contexts on two threads: what a user's program
 * does. Writes the output to a file.
 *   use_model WEIGHTS OUTPUT */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "net.h"

enum { ELEMENTS = 8 * 32 };

/* One more element, so that a pointer behind the first one is not aligned. */
typedef struct {
  float values[ELEMENTS + 16];
} tensor;

/* Stand before those of the C library, so that calls of the model's library are counted, too. */
extern void* __libc_malloc(size_t bytes);
extern void* __libc_calloc(size_t count, size_t bytes);
extern void* __libc_realloc(void* memory, size_t bytes);
extern void* __libc_memalign(size_t alignment, size_t bytes);

static volatile long calls = 0; /* of functions that take memory */

void* malloc(size_t bytes) {
  ++calls;
  return __libc_malloc(bytes);
}
void* calloc(size_t count, size_t bytes) {
  ++calls;
  return __libc_calloc(count, bytes);
}
void* realloc(void* memory, size_t bytes) {
  ++calls;
  return __libc_realloc(memory, bytes);
}
int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  ++calls;
  *memory = __libc_memalign(alignment, bytes);
  return *memory ? 0 : 12;
}

static float* aligned(tensor* t) { return t->values + (64 - (size_t)t->values % 64) % 64 / sizeof(float); }

typedef struct {
  net_context* context;
  tensor in, out;
  int32_t code;
} job;

static void* run(void* argument) {
  job* own = (job*)argument;
  const void* inputs[1];
  void* outputs[1];
  int i;
  inputs[0] = aligned(&own->in);
  outputs[0] = aligned(&own->out);
  own->code = 0;
  for (i = 0; i < 100; ++i) own->code |= net_run(own->context, inputs, outputs, NULL, NULL);
  return NULL;
}

static int is_refused(job* own) {
  const void* inputs[1];
  void* outputs[1];
  inputs[0] = aligned(&own->in) + 1;
  outputs[0] = aligned(&own->out);
  if (net_run(own->context, inputs, outputs, NULL, NULL) != net_MISALIGNED) return 0;
  inputs[0] = aligned(&own->in);
  outputs[0] = aligned(&own->out) + 1;
  return net_run(own->context, inputs, outputs, NULL, NULL) == net_MISALIGNED;
}

/* Both contexts at the same time. */
static int run_both(job* jobs) {
  pthread_t thread;
  if (pthread_create(&thread, NULL, run, &jobs[1]) != 0) return 0;
  run(&jobs[0]);
  return pthread_join(thread, NULL) == 0 && jobs[0].code == 0 && jobs[1].code == 0;
}

static int takes_no_memory(job* own) {
  long before = calls;
  run(own);
  return calls == before;
}

static int write_output(job* own, const char* path) {
  FILE* file = fopen(path, "wb");
  size_t written = file ? fwrite(aligned(&own->out), sizeof(float), ELEMENTS, file) : 0;
  return file && fclose(file) == 0 && written == ELEMENTS;
}

int main(int count, char** words) {
  static job jobs[2];
  int i, j;
  if (count != 3) return 2;
  if (net_create("/no/such/file", 1, &jobs[0].context) != net_NO_WEIGHTS) return printf("a missing file\n"), 1;
  for (i = 0; i < 2; ++i) {
    if (net_create(words[1], 1, &jobs[i].context) != 0) return printf("create\n"), 1;
    for (j = 0; j < ELEMENTS; ++j) aligned(&jobs[i].in)[j] = (float)(j % 11) * 0.125f - 0.5f;
  }
  if (calls == 0) return printf("calls that take memory are not counted\n"), 1;
  if (!run_both(jobs)) return printf("run\n"), 1;
  if (memcmp(aligned(&jobs[0].out), aligned(&jobs[1].out), ELEMENTS * sizeof(float)) != 0) return printf("results\n"), 1;
  for (j = 0; j < ELEMENTS && aligned(&jobs[0].out)[j] == 0; ++j) continue;
  if (j == ELEMENTS) return printf("zeros\n"), 1;
  if (!is_refused(&jobs[0])) return printf("alignment\n"), 1;
  if (!takes_no_memory(&jobs[0])) return printf("a run takes memory\n"), 1;
  if (!write_output(&jobs[0], words[2])) return printf("the output cannot be written\n"), 1;
  for (i = 0; i < 2; ++i) net_destroy(jobs[i].context);
  net_destroy(NULL);
  return 0;
}

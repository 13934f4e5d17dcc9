/* Runs a model of one input f32[8][32] and one output of that shape in two contexts on two threads: what a user's program
 * does. */
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
  return net_run(own->context, inputs, outputs, NULL, NULL) == net_MISALIGNED;
}

int main(int count, char** words) {
  static job jobs[2];
  pthread_t thread;
  int i, j;
  if (count != 2) return 2;
  if (net_create("/no/such/file", 1, &jobs[0].context) != net_NO_WEIGHTS) return printf("a missing file\n"), 1;
  for (i = 0; i < 2; ++i) {
    if (net_create(words[1], 1, &jobs[i].context) != 0) return printf("create\n"), 1;
    for (j = 0; j < ELEMENTS; ++j) aligned(&jobs[i].in)[j] = (float)(j % 11) * 0.1f - 0.5f;
  }
  if (pthread_create(&thread, NULL, run, &jobs[1]) != 0) return printf("a thread\n"), 1;
  run(&jobs[0]);
  pthread_join(thread, NULL);
  if (jobs[0].code != 0 || jobs[1].code != 0) return printf("run\n"), 1;
  if (memcmp(aligned(&jobs[0].out), aligned(&jobs[1].out), ELEMENTS * sizeof(float)) != 0) return printf("results\n"), 1;
  for (j = 0; j < ELEMENTS && aligned(&jobs[0].out)[j] == 0; ++j) continue;
  if (j == ELEMENTS) return printf("zeros\n"), 1;
  if (!is_refused(&jobs[0])) return printf("alignment\n"), 1;
  for (i = 0; i < 2; ++i) net_destroy(jobs[i].context);
  net_destroy(NULL);
  return 0;
}

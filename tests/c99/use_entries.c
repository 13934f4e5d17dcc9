/* Runs all entries of a model of two inputs and two outputs at the same time, each on a thread of its own, and compares
 * with expected outputs. inN0, inN1, outN0 and outN1 in the folder: inputs and outputs of entry N.
 *   use_entries WEIGHTS FOLDER */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "net.h"

enum { ROUNDS = 100 };

static const int64_t rows[net_ENTRIES] = {1, 8, 33};
static const int64_t columns = 160;

typedef struct {
  net_context* context;
  void *inputs[2], *outputs[2], *expected[2];
  size_t bytes[2]; /* of the outputs */
  int is_wrong;
} job;

static void* read_aligned(const char* folder, const char* kind, int entry, int index, size_t* bytes) {
  char path[4096];
  FILE* file;
  char* memory;
  long size;
  snprintf(path, sizeof path, "%s/%s%d%d", folder, kind, entry, index);
  file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END) != 0) exit(2);
  size = ftell(file);
  rewind(file);
  memory = (char*)malloc((size_t)size + 2 * TW_ALIGNMENT);
  memory += TW_ALIGNMENT - (size_t)((uintptr_t)memory % TW_ALIGNMENT);
  if (fread(memory, 1, (size_t)size, file) != (size_t)size) exit(2);
  fclose(file);
  *bytes = (size_t)size;
  return memory;
}

static int differs(const job* own) {
  int i;
  size_t e;
  for (i = 0; i < 2; ++i) {
    const float *found = (const float*)own->outputs[i], *expected = (const float*)own->expected[i];
    for (e = 0; e < own->bytes[i] / sizeof(float); ++e) {
      if (!(fabsf(found[e] - expected[e]) <= 1e-6f)) return 1;
    }
  }
  return 0;
}

static void* run(void* argument) {
  job* own = (job*)argument;
  int round, i;
  size_t e;
  for (round = 0; round < ROUNDS; ++round) {
    for (i = 0; i < 2; ++i) {
      for (e = 0; e < own->bytes[i] / sizeof(float); ++e) ((float*)own->outputs[i])[e] = -1;
    }
    own->is_wrong |=
        net_run(own->context, (const void* const*)own->inputs, own->outputs, NULL, NULL) != 0 || differs(own);
  }
  return NULL;
}

/* The entry of x[count][columns] and z[1][columns]. */
static int entry_of(int64_t count) {
  int64_t x[2], z[2];
  const int64_t* shapes[2];
  x[0] = count, x[1] = columns, z[0] = 1, z[1] = columns;
  shapes[0] = x, shapes[1] = z;
  return net_find_entry(shapes);
}

int main(int count, char** words) {
  static job jobs[net_ENTRIES];
  pthread_t threads[net_ENTRIES];
  net_context* none = NULL;
  int entry, i;
  if (count != 3) return 2;
  if (entry_of(2) != -1) return printf("an entry for other shapes\n"), 1;
  for (entry = -1; entry <= net_ENTRIES; entry += net_ENTRIES + 1) {
    if (net_create_entry(words[1], entry, 1, &none) != net_NO_ENTRY || none) return printf("entry %d\n", entry), 1;
  }
  for (entry = 0; entry < net_ENTRIES; ++entry) {
    job* own = &jobs[entry];
    size_t bytes;
    if (entry_of(rows[entry]) != entry) return printf("find %d\n", entry), 1;
    if (net_create_entry(words[1], entry, 1, &own->context) != 0) return printf("create %d\n", entry), 1;
    for (i = 0; i < 2; ++i) {
      own->inputs[i] = read_aligned(words[2], "in", entry, i, &bytes);
      own->outputs[i] = read_aligned(words[2], "out", entry, i, &own->bytes[i]);
      own->expected[i] = read_aligned(words[2], "out", entry, i, &own->bytes[i]);
    }
  }
  for (entry = 0; entry < net_ENTRIES; ++entry) {
    if (pthread_create(&threads[entry], NULL, run, &jobs[entry]) != 0) return printf("thread\n"), 1;
  }
  for (entry = 0; entry < net_ENTRIES; ++entry) {
    if (pthread_join(threads[entry], NULL) != 0 || jobs[entry].is_wrong) return printf("results of %d\n", entry), 1;
  }
  for (entry = 0; entry < net_ENTRIES; ++entry) net_destroy(jobs[entry].context);
  /* net_create makes a context of the first one. */
  if (net_create(words[1], 1, &jobs[0].context) != 0) return printf("create\n"), 1;
  run(&jobs[0]);
  net_destroy(jobs[0].context);
  return jobs[0].is_wrong ? (printf("results of create\n"), 1) : 0;
}

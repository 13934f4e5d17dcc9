/* Runs a compiled kernel once on a machine of another kind: linked with its object, for an emulator of that machine.
 * Buffers are files "0", "1", ... of the folder; all are written back.
 *   run_kernel FOLDER SCRATCH_BYTES COUNT BYTES... PREPACK_COUNT INDEX... RUN_COUNT INDEX... */
#include <stdio.h>
#include <stdlib.h>

#include "backends/kernel_abi.h"

extern int32_t kernel_run(void* const* buffers, void* scratch, tw_parallel_for parallel_for, void* pool);
#ifdef HAS_PREPACK
extern int32_t kernel_prepack(void* const* buffers);
#endif

enum { MOST = 64 };

static int transfer(const char* folder, int index, void* data, size_t bytes, const char* mode) {
  char path[4096];
  snprintf(path, sizeof path, "%s/%d", folder, index);
  FILE* file = fopen(path, mode);
  if (!file) return 0;
  size_t moved = mode[0] == 'r' ? fread(data, 1, bytes, file) : fwrite(data, 1, bytes, file);
  return fclose(file) == 0 && moved == bytes;
}

static void* aligned(size_t bytes) {
  return aligned_alloc(TW_ALIGNMENT, (bytes + TW_ALIGNMENT) / TW_ALIGNMENT * TW_ALIGNMENT);
}

/* The buffers of one entry point. */
static int read_list(char*** word, void* const* all, void** chosen) {
  int count = atoi(*(*word)++);
  for (int i = 0; i < count; ++i) chosen[i] = all[atoi(*(*word)++)];
  return count;
}

int main(int words, char** word) {
  void *buffers[MOST], *prepack[MOST], *run[MOST];
  size_t bytes[MOST];
  const char* folder = word[1];
  void* scratch = aligned((size_t)atoll(word[2]));
  int count = atoi(word[3]), failed = 0;
  if (words < 6 || count > MOST) return 2;
  word += 4;
  for (int i = 0; i < count; ++i) {
    bytes[i] = (size_t)atoll(*word++);
    buffers[i] = aligned(bytes[i]);
    if (!transfer(folder, i, buffers[i], bytes[i], "rb")) return 2;
  }
  read_list(&word, buffers, prepack);
  read_list(&word, buffers, run);
#ifdef HAS_PREPACK
  failed = kernel_prepack(prepack);
#endif
  if (!failed) failed = kernel_run(run, scratch, NULL, NULL);
  for (int i = 0; i < count; ++i) {
    if (!transfer(folder, i, buffers[i], bytes[i], "wb")) return 2;
  }
  return failed;
}

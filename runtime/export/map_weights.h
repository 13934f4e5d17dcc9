/* Maps the file of weights of a compiled model. In C99, for a copy in each model's library. */
#ifndef TRACEWRIGHT_MAP_WEIGHTS_H
#define TRACEWRIGHT_MAP_WEIGHTS_H
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* NULL if the file cannot be read, has another size, or does not begin with `digest`. To be given to munmap(). */
static char* tw_map_weights(const char* path, const char* digest, size_t bytes) {
  struct stat about;
  char* found = NULL;
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return NULL;
  if (fstat(file, &about) == 0 && (size_t)about.st_size == bytes) {
    void* mapped = mmap(NULL, bytes, PROT_READ, MAP_SHARED, file, 0);
    if (mapped != MAP_FAILED) found = (char*)mapped;
  }
  close(file);
  if (found && memcmp(found, digest, strlen(digest) + 1) != 0) {
    munmap(found, bytes);
    found = NULL;
  }
  return found;
}
#endif

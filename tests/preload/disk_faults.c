// See disk_faults.h. Calls the kernel itself, so it needs nothing of the functions that it replaces.
#define _GNU_SOURCE
#include "disk_faults.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MOST_FILES = 1024 };

static char watched[PATH_MAX];
static char paths[MOST_FILES][PATH_MAX];  // of open files that are watched; "" = not watched
static atomic_llong counts[TW_DISK_CALLS];
static struct tw_disk_fault planned;
static void (*listening)(const struct tw_disk_event*);

void tw_disk_watch(const char* folder) {
  snprintf(watched, sizeof watched, "%s", folder);
  for (int call = 0; call < TW_DISK_CALLS; ++call) counts[call] = 0;
  planned = (struct tw_disk_fault){0};
}
void tw_disk_set_fault(struct tw_disk_fault fault) { planned = fault; }
int64_t tw_disk_count(enum tw_disk_call call) { return counts[call]; }
void tw_disk_listen(void (*listener)(const struct tw_disk_event*)) { listening = listener; }

static const char* const names[TW_DISK_CALLS] = {"open", "write", "sync", "truncate", "map", "link", "unlink"};

__attribute__((destructor)) static void write_counts(void) {
  const char* path = getenv("TW_DISK_COUNTS");
  FILE* file = path ? fopen(path, "w") : NULL;
  if (!file) return;
  for (int call = 0; call < TW_DISK_CALLS; ++call) fprintf(file, "%s %lld\n", names[call], (long long)counts[call]);
  fclose(file);
}

__attribute__((constructor)) static void read_environment(void) {
  const char *folder = getenv("TW_DISK_FOLDER"), *fault = getenv("TW_DISK_FAULT"), *error = getenv("TW_DISK_ERRNO");
  if (folder) tw_disk_watch(folder);
  if (!folder || !fault) return;
  for (int call = 0; call < TW_DISK_CALLS; ++call) {
    size_t length = strlen(names[call]);
    if (strncmp(fault, names[call], length) != 0 || fault[length] != ':') continue;
    planned = (struct tw_disk_fault){call, atoll(fault + length + 1), strchr(fault, '+') != NULL, error ? atoi(error) : EIO};
  }
}

static int is_watched_path(const char* path, char* absolute) {
  if (!watched[0]) return 0;
  char here[PATH_MAX] = "";
  if (path[0] != '/' && syscall(SYS_getcwd, here, sizeof here) < 0) return 0;
  if (snprintf(absolute, PATH_MAX, path[0] == '/' ? "%s%s" : "%s/%s", here, path) >= PATH_MAX) return 0;
  return strncmp(absolute, watched, strlen(watched)) == 0;
}
static int is_watched(int file) { return file >= 0 && file < MOST_FILES && paths[file][0]; }

// Counts a call; the errno that it is to fail with, 0 = none, -1 = half a write.
static int fault_of(enum tw_disk_call call) {
  long long number = ++counts[call];
  if (planned.at == 0 || planned.call != call) return 0;
  if (planned.for_ever ? number < planned.at : number != planned.at) return 0;
  return planned.error ? planned.error : -1;
}
static void tell(struct tw_disk_event event) {
  if (listening) listening(&event);
}
static int failed(int error) { return errno = error, -1; }

// ---- the calls

static int open_file(const char* path, int flags, mode_t mode) {
  char absolute[PATH_MAX];
  int watch = is_watched_path(path, absolute), error = watch ? fault_of(TW_DISK_OPEN) : 0;
  if (error > 0) return failed(error);
  int is_new = watch && (flags & O_CREAT) && syscall(SYS_access, path, F_OK) != 0;
  int file = (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
  if (file >= 0 && file < MOST_FILES) snprintf(paths[file], PATH_MAX, "%s", watch ? absolute : "");
  if (watch && file >= 0) tell((struct tw_disk_event){.call = TW_DISK_OPEN, .path = absolute, .is_new = is_new});
  return file;
}

#define OPEN(name)                                     \
  int name(const char* path, int flags, ...) {         \
    mode_t mode = 0;                                   \
    if (flags & (O_CREAT | __O_TMPFILE)) {             \
      va_list list;                                    \
      va_start(list, flags);                           \
      mode = va_arg(list, mode_t);                     \
      va_end(list);                                    \
    }                                                  \
    return open_file(path, flags, mode);               \
  }
OPEN(open)
OPEN(open64)

int close(int file) {
  if (is_watched(file)) paths[file][0] = 0;
  return (int)syscall(SYS_close, file);
}

static ssize_t write_at(int file, const void* data, size_t bytes, off64_t offset, int at_end) {
  int error = is_watched(file) ? fault_of(TW_DISK_WRITE) : 0;
  if (error > 0) return failed(error);
  if (error < 0) bytes = (bytes + 1) / 2;
  if (is_watched(file) && at_end) offset = syscall(SYS_lseek, file, 0, SEEK_CUR);
  ssize_t written = at_end ? syscall(SYS_write, file, data, bytes) : syscall(SYS_pwrite64, file, data, bytes, offset);
  if (is_watched(file) && written > 0)
    tell((struct tw_disk_event){.call = TW_DISK_WRITE, .path = paths[file], .offset = offset, .bytes = written, .data = data});
  return written;
}
ssize_t write(int file, const void* data, size_t bytes) { return write_at(file, data, bytes, 0, 1); }
ssize_t pwrite(int file, const void* data, size_t bytes, off_t offset) { return write_at(file, data, bytes, offset, 0); }
ssize_t pwrite64(int file, const void* data, size_t bytes, off64_t offset) { return write_at(file, data, bytes, offset, 0); }

static int sync_file(int file, long number) {
  int error = is_watched(file) ? fault_of(TW_DISK_SYNC) : 0;
  if (error > 0) return failed(error);
  int done = (int)syscall(number, file);
  if (is_watched(file) && done == 0) tell((struct tw_disk_event){.call = TW_DISK_SYNC, .path = paths[file]});
  return done;
}
int fsync(int file) { return sync_file(file, SYS_fsync); }
int fdatasync(int file) { return sync_file(file, SYS_fdatasync); }

static int truncate_file(int file, off64_t size) {
  int error = is_watched(file) ? fault_of(TW_DISK_TRUNCATE) : 0;
  if (error > 0) return failed(error);
  int done = (int)syscall(SYS_ftruncate, file, size);
  if (is_watched(file) && done == 0) tell((struct tw_disk_event){.call = TW_DISK_TRUNCATE, .path = paths[file], .bytes = size});
  return done;
}
int ftruncate(int file, off_t size) { return truncate_file(file, size); }
int ftruncate64(int file, off64_t size) { return truncate_file(file, size); }

static void* map_file(void* address, size_t bytes, int protection, int flags, int file, off64_t offset) {
  int error = is_watched(file) ? fault_of(TW_DISK_MAP) : 0;
  if (error > 0) return errno = error, MAP_FAILED;
  return (void*)syscall(SYS_mmap, address, bytes, protection, flags, file, offset);
}
void* mmap(void* address, size_t bytes, int protection, int flags, int file, off_t offset) {
  return map_file(address, bytes, protection, flags, file, offset);
}
void* mmap64(void* address, size_t bytes, int protection, int flags, int file, off64_t offset) {
  return map_file(address, bytes, protection, flags, file, offset);
}

static int name_file(const char* from, const char* to, long number, int is_rename) {
  char source[PATH_MAX], target[PATH_MAX];
  int watch = is_watched_path(from, source) && is_watched_path(to, target), error = watch ? fault_of(TW_DISK_LINK) : 0;
  if (error > 0) return failed(error);
  int done = (int)syscall(number, from, to);
  if (watch && done == 0) tell((struct tw_disk_event){.call = TW_DISK_LINK, .path = source, .other = target, .is_rename = is_rename});
  return done;
}
int link(const char* from, const char* to) { return name_file(from, to, SYS_link, 0); }
int rename(const char* from, const char* to) { return name_file(from, to, SYS_rename, 1); }

int unlink(const char* path) {
  char absolute[PATH_MAX];
  int watch = is_watched_path(path, absolute), error = watch ? fault_of(TW_DISK_UNLINK) : 0;
  if (error > 0) return failed(error);
  int done = (int)syscall(SYS_unlink, path);
  if (watch && done == 0) tell((struct tw_disk_event){.call = TW_DISK_UNLINK, .path = absolute});
  return done;
}

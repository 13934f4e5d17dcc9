// disk_faults: stands between a program and the C library's file calls, for the files of one folder. It makes the n-th
// call of a kind fail, or writes down every call so that a test can play a power cut. Linked into a test, or preloaded
// into a whole program (LD_PRELOAD) and then set up by TW_DISK_FOLDER, TW_DISK_FAULT="KIND:N" or "KIND:N+" (from the
// N-th on) and TW_DISK_ERRNO; at the end it writes the counts into the file TW_DISK_COUNTS.
#pragma once
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum tw_disk_call {
  TW_DISK_OPEN,
  TW_DISK_WRITE,
  TW_DISK_SYNC,
  TW_DISK_TRUNCATE,
  TW_DISK_MAP,
  TW_DISK_LINK,
  TW_DISK_UNLINK,
  TW_DISK_CALLS
};

struct tw_disk_fault {
  enum tw_disk_call call;
  int64_t at;    // counts from 1; 0 = never
  int for_ever;  // this call and all later ones of its kind
  int error;     // errno; 0 = a write of half the bytes, the others do not fail
};

// Files below this folder count (an absolute path); "" = none. Forgets the counts and the fault.
void tw_disk_watch(const char* folder);
void tw_disk_set_fault(struct tw_disk_fault fault);
int64_t tw_disk_count(enum tw_disk_call call);

// One call that succeeded. `path` of a folder that was synced is that folder's.
struct tw_disk_event {
  enum tw_disk_call call;
  const char *path, *other;  // other: the new name of a link or rename
  int64_t offset, bytes;     // of a write; the size after a truncation
  const void* data;
  int is_new, is_rename;  // an open that made the file; a link that moved it
};
// Called in the thread that made the call; 0 = nobody.
void tw_disk_listen(void (*listener)(const struct tw_disk_event* event));

#ifdef __cplusplus
}
#endif

// process_faults: preloaded into a program, makes its n-th start of a thread or a process, or its n-th pair of sockets, fail with EAGAIN.
// TW_PROCESS_FAULT="thread:N", "spawn:N" or "socket:N"; "N+" = from the N-th on.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static int is_to_fail(const char* call, atomic_int* count) {
  const char* fault = getenv("TW_PROCESS_FAULT");
  size_t length = strlen(call);
  if (!fault || strncmp(fault, call, length) != 0 || fault[length] != ':') return 0;
  int at = atoi(fault + length + 1), number = ++*count;
  return strchr(fault, '+') ? number >= at : number == at;
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
  static atomic_int count;
  static int (*real)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  if (is_to_fail("thread", &count)) return EAGAIN;
  if (!real) *(void**)&real = dlsym(RTLD_NEXT, "pthread_create");
  return real(thread, attributes, start, argument);
}

// A fork: a function around vfork would return to its caller twice, on one stack.
pid_t vfork(void) {
  static atomic_int count;
  if (is_to_fail("spawn", &count)) return errno = EAGAIN, -1;
  return fork();
}

int socketpair(int domain, int type, int protocol, int ends[2]) {
  static atomic_int count;
  static __typeof__(&socketpair) real;
  if (is_to_fail("socket", &count)) return errno = EAGAIN, -1;
  if (!real) *(void**)&real = dlsym(RTLD_NEXT, "socketpair");
  return real(domain, type, protocol, ends);
}

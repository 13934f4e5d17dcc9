/* Written in the common subset of C and C++: see thread_pool.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "runtime/measure/thread_pool.h"

#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define TW_SPIN_NANOSECONDS 30000
#define TW_YIELD_AFTER_NANOSECONDS 20000
#define TW_LINE 64
/* Of its equal share of what is left a thread takes one in so many parts at once, and of its share of all one in so
 * many at least. */
#define TW_TURNS 2
#define TW_MOST_TURNS 32
/* Bit of `inside`: no job is open, whoever comes now leaves again. */
#define TW_CLOSED 0x40000000u

typedef struct {
  struct tw_pool* pool;
  pthread_t thread;
  int worker;
  int cpu;
} tw_pool_worker;

/* Life of a job: the caller writes task, context and count, opens `inside`, and raises `epoch`. A
 * thread that sees a new epoch enters by adding 1 to `inside`; if the job is closed by then, it
 * leaves. Everyone takes indices from `next`. When the caller finds none left, it closes the job
 * and waits until nobody is inside. So the caller never waits for a thread that was late to come.
 */
struct tw_pool {
  int threads;
  int started;
  tw_pool_worker* workers;
  tw_task task;
  void* context;
  int64_t count;
  int stop;
  char pad0[TW_LINE];
  int64_t next;
  char pad1[TW_LINE];
  unsigned epoch; /* futex */
  unsigned sleepers;
  char pad2[TW_LINE];
  unsigned inside;
  char pad3[TW_LINE];
};

static void tw_pause(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static int64_t tw_now(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Some neighbouring indices at a time, fewer the fewer are left: threads that take them one by one wait for each other
 * where pieces are short, and write to the same cache lines. */
static void tw_take_pieces(tw_pool* pool, int64_t worker) {
  int64_t least = pool->count / ((int64_t)pool->threads * TW_MOST_TURNS);
  if (least < 1) least = 1;
  for (;;) {
    int64_t left = pool->count - __atomic_load_n(&pool->next, __ATOMIC_RELAXED);
    int64_t some = left / ((int64_t)pool->threads * TW_TURNS);
    if (some < least) some = least;
    int64_t index = __atomic_fetch_add(&pool->next, some, __ATOMIC_RELAXED);
    if (index >= pool->count) return;
    int64_t end = index + some < pool->count ? index + some : pool->count;
    for (; index < end; ++index) pool->task(pool->context, index, worker);
  }
}

/* Waits until the epoch differs from `seen`: first spinning, then asleep. */
static unsigned tw_wait_for_job(tw_pool* pool, unsigned seen) {
  int64_t begin = tw_now();
  for (;;) {
    for (int i = 0; i < 64; ++i) {
      unsigned epoch = __atomic_load_n(&pool->epoch, __ATOMIC_ACQUIRE);
      if (epoch != seen) return epoch;
      tw_pause();
    }
    if (tw_now() - begin < TW_SPIN_NANOSECONDS) continue;
    __atomic_fetch_add(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
    syscall(SYS_futex, &pool->epoch, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
    __atomic_fetch_sub(&pool->sleepers, 1, __ATOMIC_SEQ_CST);
    begin = tw_now();
  }
}

static void* tw_worker_main(void* argument) {
  tw_pool_worker* self = (tw_pool_worker*)argument;
  tw_pool* pool = self->pool;
  unsigned seen = 0;
  if (self->cpu >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(self->cpu, &set);
    sched_setaffinity(0, sizeof set, &set); /* a CPU that is not ours is only slower */
  }
  for (;;) {
    seen = tw_wait_for_job(pool, seen);
    unsigned before = __atomic_fetch_add(&pool->inside, 1, __ATOMIC_ACQ_REL);
    if (!(before & TW_CLOSED)) tw_take_pieces(pool, self->worker);
    __atomic_fetch_sub(&pool->inside, 1, __ATOMIC_ACQ_REL);
    if (__atomic_load_n(&pool->stop, __ATOMIC_ACQUIRE)) return NULL;
  }
}

static void tw_raise_epoch(tw_pool* pool) {
  __atomic_fetch_add(&pool->epoch, 1, __ATOMIC_SEQ_CST);
  if (__atomic_load_n(&pool->sleepers, __ATOMIC_SEQ_CST) != 0) {
    syscall(SYS_futex, &pool->epoch, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
  }
}

static void tw_wait_until_empty(tw_pool* pool) {
  int64_t begin = 0;
  for (;;) {
    for (int i = 0; i < 64; ++i) {
      if (__atomic_load_n(&pool->inside, __ATOMIC_ACQUIRE) == TW_CLOSED) return;
      tw_pause();
    }
    int64_t now = tw_now();
    if (begin == 0) begin = now;
    if (now - begin > TW_YIELD_AFTER_NANOSECONDS) sched_yield();
  }
}

tw_pool* tw_pool_create(int threads, const int* cpus) {
  if (threads < 1 || threads > 1024) return NULL;
  tw_pool* pool = (tw_pool*)calloc(1, sizeof(tw_pool));
  if (!pool) return NULL;
  pool->workers = (tw_pool_worker*)calloc((size_t)threads, sizeof(tw_pool_worker));
  if (!pool->workers) {
    free(pool);
    return NULL;
  }
  pool->threads = threads;
  pool->inside = TW_CLOSED;
  for (int i = 1; i < threads; ++i) {
    tw_pool_worker* worker = &pool->workers[i];
    worker->pool = pool;
    worker->worker = i;
    worker->cpu = cpus ? cpus[i] : -1;
    if (pthread_create(&worker->thread, NULL, tw_worker_main, worker) != 0) {
      tw_pool_destroy(pool);
      return NULL;
    }
    pool->started = i;
  }
  return pool;
}

void tw_pool_destroy(tw_pool* pool) {
  if (!pool) return;
  __atomic_store_n(&pool->stop, 1, __ATOMIC_RELEASE);
  tw_raise_epoch(pool);
  for (int i = 1; i <= pool->started; ++i) pthread_join(pool->workers[i].thread, NULL);
  free(pool->workers);
  free(pool);
}

int tw_pool_threads(const tw_pool* pool) { return pool ? pool->threads : 1; }

void tw_pool_run(void* opaque, int64_t count, tw_task task, void* context) {
  tw_pool* pool = (tw_pool*)opaque;
  if (!pool || pool->threads == 1 || count <= 1) {
    for (int64_t i = 0; i < count; ++i) task(context, i, 0);
    return;
  }
  pool->task = task;
  pool->context = context;
  pool->count = count;
  __atomic_store_n(&pool->next, 0, __ATOMIC_RELAXED);
  __atomic_fetch_and(&pool->inside, ~TW_CLOSED, __ATOMIC_ACQ_REL);
  tw_raise_epoch(pool);
  tw_take_pieces(pool, 0);
  __atomic_fetch_or(&pool->inside, TW_CLOSED, __ATOMIC_ACQ_REL);
  tw_wait_until_empty(pool);
}

/* The thread pool that kernels run on: its tw_pool_run is the `parallel_for` of the kernel ABI.
 * Used by the worker, by bench and by exported kernels, so header and source are C (they compile as
 * C++ too) and need nothing but pthreads and the futex of Linux. It deliberately does no work
 * stealing, no nesting and no priorities: pieces are equal. Threads take runs of neighbouring ones, shorter towards the
 * end. */
#ifndef TRACEWRIGHT_THREAD_POOL_H
#define TRACEWRIGHT_THREAD_POOL_H
#include "backends/kernel_abi.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tw_pool tw_pool;

/* A pool of `threads` workers (1 to 1024): the calling thread, which is worker 0, and threads - 1
 * started here. `cpus` names one CPU for each worker to pin it to (cpus[0], the caller's, is
 * ignored); NULL leaves the started threads where the system puts them. Returns NULL if memory or
 * threads cannot be had. */
tw_pool* tw_pool_create(int threads, const int* cpus);

/* Ends and joins the threads. The pool must be idle. NULL is allowed. */
void tw_pool_destroy(tw_pool* pool);

int tw_pool_threads(const tw_pool* pool);

/* A tw_parallel_for; `pool` is a tw_pool*. NULL runs everything in the caller. One call at a time:
 * a task must not call it again, and two threads must not share a pool. Started threads spin for
 * about 30 us after a call, then sleep; waking one costs 5 to 40 us. */
void tw_pool_run(void* pool, int64_t count, tw_task task, void* context);

#ifdef __cplusplus
}
#endif
#endif

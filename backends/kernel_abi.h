/* The one kernel ABI: how a compiled kernel is called, in C. Measuring, checking, bench and export use nothing else.
 *
 * A kernel has two entry points.
 *   prepack: rewrites constant operands once, outside the kernel's time. Present only if the schedule packs constants.
 *   run:     computes the outputs.
 * `buffers` holds one pointer per argument of that entry point, in the order of the manifest (see backends/kernel.h);
 * every pointer is aligned to TW_ALIGNMENT bytes and buffers do not overlap, except that an output may be the same
 * buffer as an input for which the kernel allows it (Overwrite in backends/kernel.h). `scratch` points to the
 * manifest's scratch bytes for the number of workers in use, aligned alike; its content need not be kept between calls.
 * Both return 0. Re-entrant: all state is in the arguments.
 */
#ifndef TRACEWRIGHT_KERNEL_ABI_H
#define TRACEWRIGHT_KERNEL_ABI_H
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TW_ALIGNMENT 64

/* One piece of a parallel loop: iteration `index`, run by worker `worker` (0 <= worker < number of workers). */
typedef void (*tw_task)(void* context, int64_t index, int64_t worker);

/* Runs task(context, i, w) for every i in [0, count), on any worker, in any order; returns when all are done.
 * A serial implementation calls them in turn with worker 0. NULL means serial. */
typedef void (*tw_parallel_for)(void* pool, int64_t count, tw_task task, void* context);

typedef int32_t (*tw_prepack_function)(void* const* buffers);
typedef int32_t (*tw_run_function)(void* const* buffers, void* scratch, tw_parallel_for parallel_for, void* pool);

#ifdef __cplusplus
}
#endif
#endif

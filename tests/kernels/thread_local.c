/* Thread-local data, which the loader refuses. */
#include "kernels/common.h"

static __thread int count;
RUN(thread_local) { return ++count; }

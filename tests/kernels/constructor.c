/* Code that wants to run when it is loaded, which the loader refuses. */
#include "kernels/common.h"

static int count;
__attribute__((constructor)) static void first(void) { ++count; }
RUN(constructor) { return count; }

/* Code that wants to run when it is loaded, which the loader refuses. */
#include "kernels/common.h"

static volatile int count;  /* else a compiler may run the constructor itself */
__attribute__((constructor)) static void first(void) { ++count; }
RUN(constructor) { return count; }

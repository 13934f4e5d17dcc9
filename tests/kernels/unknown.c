/* A kernel that calls what kernels may not call. */
#include "kernels/common.h"

int not_in_the_table(int);
RUN(unknown_function) { return not_in_the_table(0); }

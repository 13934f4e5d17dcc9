/* The language that a kernel's source is compiled as, by what a device says of itself. In C99, for the worker and for
 * the hosts of exported kernels (export puts it in front of runtime/export/opencl_launcher.h): what they run is what
 * was measured.
 */
#ifndef TRACEWRIGHT_OPENCL_BUILD_OPTIONS_H
#define TRACEWRIGHT_OPENCL_BUILD_OPTIONS_H
#include <string.h>

/* Of CL_DEVICE_OPENCL_C_VERSION ("OpenCL C 2.0 ...") and CL_DEVICE_EXTENSIONS. OpenCL C 1.2 is enough but for
 * sub-groups, which came with 2.0. */
static inline const char* tw_cl_build_options(const char* version, const char* extensions) {
  int has_sub_groups = strstr(extensions, "cl_khr_subgroups") != 0;
  if (has_sub_groups && strncmp(version, "OpenCL C 2.0", 12) == 0) return "-cl-std=CL2.0";
  if (has_sub_groups && strncmp(version, "OpenCL C 3.0", 12) == 0) return "-cl-std=CL3.0";
  return "-cl-std=CL1.2";
}
#endif

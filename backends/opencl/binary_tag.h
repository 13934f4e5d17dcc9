/* What stands in front of a program's binary in an export: a check that it is whole, of this source, and by this driver
 * for this device. Drivers may crash on binaries that are damaged or foreign, so hosts ask them only about those whose
 * tag is right. In C99, for the worker, which writes binaries, and for the hosts of exported kernels (export puts it in
 * front of runtime/export/opencl_launcher.h).
 */
#ifndef TRACEWRIGHT_OPENCL_BINARY_TAG_H
#define TRACEWRIGHT_OPENCL_BINARY_TAG_H
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { TW_CL_TAG_BYTES = 32, TW_CL_TAG_TEXTS = 4 };

/* FNV-1a. */
static inline uint64_t tw_cl_hash(uint64_t hash, const void* bytes, size_t size) {
  const unsigned char* at = (const unsigned char*)bytes;
  for (size_t i = 0; i < size; ++i) hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
  return hash;
}

/* `texts`: the source, then CL_DEVICE_NAME, CL_DEVICE_VERSION and CL_DRIVER_VERSION. `tag` gets a 0 behind the tag. */
static inline void tw_cl_binary_tag(const char* const texts[TW_CL_TAG_TEXTS], const void* bytes, size_t size,
                                    char tag[TW_CL_TAG_BYTES + 1]) {
  uint64_t hash = UINT64_C(0xcbf29ce484222325);
  for (int i = 0; i < TW_CL_TAG_TEXTS; ++i) hash = tw_cl_hash(hash, texts[i], strlen(texts[i]) + 1);
  snprintf(tag, TW_CL_TAG_BYTES + 1, "tw_cl_binary_01 %016llx", (unsigned long long)tw_cl_hash(hash, bytes, size));
}
#endif

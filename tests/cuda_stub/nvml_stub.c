/* NVIDIA's management library without a GPU. Each question for the clock finds it TW_STUB_RISE MHz higher (default 400), from 345 up to 1980,
 * and appends it to the file TW_STUB_CLOCK; TW_STUB_SLOWDOWN: the reasons that hold it down, as bits ("64": heat).
 */
#include <stdio.h>
#include <stdlib.h>

int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char* bus, void** device) { return *device = (void*)1, bus[0] ? 0 : 2; }
int nvmlDeviceGetMaxClockInfo(void* device, int kind, unsigned* mhz) { return (void)device, *mhz = 1980, kind == 1 ? 0 : 2; }
int nvmlDeviceGetClockInfo(void* device, int kind, unsigned* mhz) {
  static unsigned now = 345;
  const char* path = getenv("TW_STUB_CLOCK");
  FILE* file = path ? fopen(path, "a") : NULL;
  (void)device;
  *mhz = now;
  if (file) fprintf(file, "%u\n", now), fclose(file);
  now += getenv("TW_STUB_RISE") ? (unsigned)atoi(getenv("TW_STUB_RISE")) : 400;
  if (now > 1980) now = 1980;
  return kind == 1 ? 0 : 2;
}
int nvmlDeviceGetCurrentClocksThrottleReasons(void* device, unsigned long long* reasons) {
  (void)device;
  return *reasons = getenv("TW_STUB_SLOWDOWN") ? strtoull(getenv("TW_STUB_SLOWDOWN"), NULL, 10) : 0, 0;
}

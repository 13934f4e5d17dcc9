/* Prints how many OpenCL devices this machine has, or why none can be asked for; exit code 0 if there is one. Tests on devices are skipped
 * where it says that there is none, and only there: it shares no code with what they test. It is a process of its own because drivers bring an LLVM
 * that does not live beside ours. */
#include <dlfcn.h>
#include <stdio.h>

enum { kMost = 16 };

int main(void) {
  void* loader = dlopen("libOpenCL.so.1", RTLD_NOW);
  if (!loader) return printf("%s\n", dlerror()), 1;
  int (*platforms_of)(unsigned, void**, unsigned*) = (int (*)(unsigned, void**, unsigned*))dlsym(loader, "clGetPlatformIDs");
  int (*devices_of)(void*, unsigned long, unsigned, void**, unsigned*) =
      (int (*)(void*, unsigned long, unsigned, void**, unsigned*))dlsym(loader, "clGetDeviceIDs");
  if (!platforms_of || !devices_of) return puts("libOpenCL.so.1 is no OpenCL loader"), 1;
  void* platforms[kMost];
  unsigned count = 0, all = 0;
  if (platforms_of(kMost, platforms, &count) != 0) count = 0;
  for (unsigned i = 0; i < count && i < kMost; ++i) {
    unsigned here = 0;
    if (devices_of(platforms[i], 0xffffffff /* all types */, 0, NULL, &here) == 0) all += here;
  }
  return printf("%u OpenCL devices\n", all), all == 0;
}

/* Kernels for Y[i] = X[i] + 1 over ODD elements, each with one fault. */
#include "kernels/common.h"

static void honest(void* const* buffers) {
  const float* x = buffers[0];
  float* y = buffers[1];
  for (int64_t i = 0; i < ODD; ++i) y[i] = x[i] + 1;
}

RUN(division_by_zero) {
  volatile int zero = 0;
  honest(buffers);
  return 100 / zero;
}

RUN(null_pointer) {
  honest(buffers);
  return *(volatile int*)16;
}

RUN(illegal_instruction) {
  honest(buffers);
  __asm__ volatile("ud2");
  return 0;
}

RUN(endless) {
  honest(buffers);
  for (volatile int i = 0;; ++i) {
  }
}

RUN(returns_three) {
  honest(buffers);
  return 3;
}

RUN(writes_one_beyond) {
  honest(buffers);
  ((float*)buffers[1])[ODD] = 1;
  return 0;
}

RUN(writes_one_before) {
  honest(buffers);
  ((float*)buffers[1])[-1] = 1;
  return 0;
}

RUN(writes_page_beyond) {
  honest(buffers);
  ((volatile char*)buffers[1])[ODD * 4 + 4096] = 1;
  return 0;
}

RUN(reads_page_before) {
  honest(buffers);
  (void)((volatile char*)buffers[0])[-4096];
  return 0;
}

RUN(wrong_number) {
  honest(buffers);
  ((float*)buffers[1])[17] += 0.5f;
  return 0;
}

RUN(not_a_number) {
  honest(buffers);
  ((float*)buffers[1])[ODD - 1] = __builtin_nanf("");
  return 0;
}

static long system_call(long number, long a, long b, long c, long d, long e, long f) {
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  long result;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}

/* mmap until nothing is left. */
RUN(eats_memory) {
  for (;;) {
    char* memory = (char*)system_call(9, 0, 1 << 24, 3, 0x22, -1, 0);
    for (int i = 0; i < 1 << 24; i += 4096) memory[i] = 1;
  }
}

static int deep(volatile int* level) {
  volatile char room[4096];
  if (*level < 0) return 0;
  room[0] = (char)*level;
  *level += 1;
  return deep(level) + room[0];
}
RUN(eats_stack) {
  honest(buffers);
  volatile int level = 0;
  return deep(&level);
}

RUN(opens_file) {
  honest(buffers);
  system_call(2, (long)"/etc/passwd", 0, 0, 0, 0, 0);
  return 0;
}

RUN(kills_parent) {
  honest(buffers);
  system_call(62, system_call(110, 0, 0, 0, 0, 0, 0), 9, 0, 0, 0, 0);
  return 0;
}

RUN(exits) {
  honest(buffers);
  system_call(231, 0, 0, 0, 0, 0, 0);
  return 0;
}

// Fibers: many stacks in one thread, and switching between them without a system call. Used by the machine; who runs
// next is decided there.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <memory>
#include <vector>

#include "dsl/base/arena.h"

namespace tw::emulator {

class Fibers {
 public:
  // Each fiber calls body(context, its number) again and again; the body gives back control by leave(), and where it
  // returns, it is called anew the next time.
  Fibers(int count, void (*body)(void* context, int fiber), void* context);
  ~Fibers();
  Fibers(const Fibers&) = delete;
  Fibers& operator=(const Fibers&) = delete;

  bool is_mapped() const { return stacks_ != nullptr; }
  // Runs a fiber until it leaves.
  void enter(int fiber);
  // Back to enter(), from the fiber that runs.
  void leave();
  // The same, never to come back: what is on the fiber's stack is abandoned.
  [[noreturn]] void abandon();
  bool is_on_stack(u64 address, int fiber) const;

 private:
  struct Fiber {
    jmp_buf here;
    ucontext_t first;
    bool is_started = false;
  };
  static void run(unsigned low, unsigned high);
  char* stack(int fiber) const;

  void (*body_)(void*, int);
  void* context_;
  std::vector<std::unique_ptr<Fiber>> fibers_;
  char* stacks_ = nullptr;
  jmp_buf scheduler_;
  int running_ = -1;
};

}  // namespace tw::emulator

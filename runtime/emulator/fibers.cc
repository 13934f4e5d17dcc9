#include "runtime/emulator/fibers.h"

#include <sys/mman.h>

namespace tw::emulator {
namespace {

constexpr u64 kStackBytes = 256 << 10, kGuardBytes = 64 << 10;  // below each stack

}  // namespace

Fibers::Fibers(int count, void (*body)(void*, int), void* context) : body_(body), context_(context) {
  u64 bytes = static_cast<u64>(count) * (kStackBytes + kGuardBytes);
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  stacks_ = static_cast<char*>(memory);
  for (int i = 0; i < count; ++i) {
    fibers_.push_back(std::make_unique<Fiber>());
    mprotect(stack(i) - kGuardBytes, kGuardBytes, PROT_NONE);
  }
}

Fibers::~Fibers() {
  if (stacks_) munmap(stacks_, fibers_.size() * (kStackBytes + kGuardBytes));
}

char* Fibers::stack(int fiber) const {
  return stacks_ + static_cast<u64>(fiber) * (kStackBytes + kGuardBytes) + kGuardBytes;
}

bool Fibers::is_on_stack(u64 address, int fiber) const {
  u64 begin = reinterpret_cast<u64>(stack(fiber));
  return address >= begin && address < begin + kStackBytes;
}

// makecontext passes integers only.
void Fibers::run(unsigned low, unsigned high) {
  auto* self = reinterpret_cast<Fibers*>(static_cast<u64>(high) << 32 | low);
  while (true) {
    self->body_(self->context_, self->running_);
    self->leave();
  }
}

// A first entry goes through the context, which sets up the stack; all others jump, which takes no system call.
void Fibers::enter(int number) {
  Fiber& fiber = *fibers_[static_cast<std::size_t>(number)];
  running_ = number;
  if (_setjmp(scheduler_) != 0) return;
  if (fiber.is_started) _longjmp(fiber.here, 1);
  fiber.is_started = true;
  getcontext(&fiber.first);
  fiber.first.uc_stack = {.ss_sp = stack(number), .ss_flags = 0, .ss_size = kStackBytes};
  fiber.first.uc_link = nullptr;
  u64 self = reinterpret_cast<u64>(this);
  makecontext(&fiber.first, reinterpret_cast<void (*)()>(&Fibers::run), 2, static_cast<unsigned>(self),
              static_cast<unsigned>(self >> 32));
  setcontext(&fiber.first);
}

void Fibers::leave() {
  if (_setjmp(fibers_[static_cast<std::size_t>(running_)]->here) == 0) _longjmp(scheduler_, 1);
}

void Fibers::abandon() { _longjmp(scheduler_, 1); }

}  // namespace tw::emulator

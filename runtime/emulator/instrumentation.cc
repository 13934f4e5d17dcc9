// What compilers call in code that they instrument: before every access to memory that more than one function can see
// (-fsanitize=thread), and where the arithmetic of an index or the type of a pointer is wrong
// (-fsanitize=bounds,alignment,...). Names and records are those of GCC's and Clang's runtime libraries, which the
// kernels are not linked with.
#include <cstring>

#include "dsl/base/text.h"
#include "runtime/emulator/machine.h"

namespace {

using tw::cat;
using tw::EmulationStatus;
using tw::u32;
using tw::u64;
using tw::u8;
using tw::emulator::Access;
using tw::emulator::machine;
using tw::emulator::u16;

void touch(const void* address, u64 bytes, Access access, void* instruction) {
  machine->touch(reinterpret_cast<u64>(address), bytes, access, reinterpret_cast<u64>(instruction));
}

struct SourcePlace {
  const char* file;
  u32 line, column;
};
struct TypeName {
  u16 kind, info;
  char name[1];
};
struct BoundsRecord {
  SourcePlace place;
  const TypeName *array, *index;
};
struct ArithmeticRecord {
  SourcePlace place;
  const TypeName* type;
};
struct PointerRecord {
  SourcePlace place;
  const TypeName* type;
  u8 log_alignment, kind;
};

[[noreturn]] void fail_arithmetic(const ArithmeticRecord* record, const char* what) {
  machine->fail(EmulationStatus::Arithmetic,
                cat(what, " on line ", record->place.line, " in type ", record->type->name));
}

}  // namespace

#define TW_HERE __builtin_return_address(0)
#define TW_SIZED(bytes)                                                                      \
  void __tsan_read##bytes(void* at) { touch(at, bytes, Access::Read, TW_HERE); }             \
  void __tsan_write##bytes(void* at) { touch(at, bytes, Access::Write, TW_HERE); }           \
  void __tsan_unaligned_read##bytes(void* at) { touch(at, bytes, Access::Read, TW_HERE); }   \
  void __tsan_unaligned_write##bytes(void* at) { touch(at, bytes, Access::Write, TW_HERE); } \
  void __tsan_volatile_read##bytes(void* at) { touch(at, bytes, Access::Read, TW_HERE); }    \
  void __tsan_volatile_write##bytes(void* at) { touch(at, bytes, Access::Write, TW_HERE); }

extern "C" {

TW_SIZED(1)
TW_SIZED(2)
TW_SIZED(4)
TW_SIZED(8)
TW_SIZED(16)
void __tsan_read_range(void* at, u64 bytes) { touch(at, bytes, Access::Read, TW_HERE); }
void __tsan_write_range(void* at, u64 bytes) { touch(at, bytes, Access::Write, TW_HERE); }
void* __tsan_memcpy(void* to, const void* from, u64 bytes) {
  touch(from, bytes, Access::Read, TW_HERE);
  touch(to, bytes, Access::Write, static_cast<char*>(TW_HERE) + 1);
  return std::memcpy(to, from, bytes);
}
void* __tsan_memset(void* to, int byte, u64 bytes) {
  touch(to, bytes, Access::Write, TW_HERE);
  return std::memset(to, byte, bytes);
}
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}

void __ubsan_handle_out_of_bounds(const BoundsRecord* record, u64 index) {
  machine->fail(EmulationStatus::OutOfBounds,
                cat("index ", static_cast<tw::i64>(index), " on line ", record->place.line,
                    " is outside of an array of type ", record->array->name));
}
void __ubsan_handle_type_mismatch_v1(const PointerRecord* record, u64 address) {
  machine->fail(
      EmulationStatus::Misaligned,
      cat("an access on line ", record->place.line, " to type ", record->type->name, " is ",
          address % (u64{1} << record->log_alignment), " bytes behind a multiple of ", 1 << record->log_alignment));
}
void __ubsan_handle_add_overflow(const ArithmeticRecord* record, u64, u64) {
  fail_arithmetic(record, "an addition overflows");
}
void __ubsan_handle_sub_overflow(const ArithmeticRecord* record, u64, u64) {
  fail_arithmetic(record, "a subtraction overflows");
}
void __ubsan_handle_mul_overflow(const ArithmeticRecord* record, u64, u64) {
  fail_arithmetic(record, "a product overflows");
}
void __ubsan_handle_negate_overflow(const ArithmeticRecord* record, u64) {
  fail_arithmetic(record, "a negation overflows");
}
void __ubsan_handle_divrem_overflow(const ArithmeticRecord* record, u64, u64) {
  fail_arithmetic(record, "a division by zero");
}
void __ubsan_handle_shift_out_of_bounds(const ArithmeticRecord* record, u64, u64) {
  fail_arithmetic(record, "a shift by too much");
}

}  // extern "C"

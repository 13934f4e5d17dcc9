// System V ABI, AMD64 Architecture Processor Supplement, section 4.4.
#include <elf.h>

#include <cstring>

#include "runtime/measure/relocations.h"

namespace tw {
namespace {

constexpr const char* kOutside = "lies outside its section";

std::string write_word(const Relocation& to, u64 value) {
  if (to.room < 8) return kOutside;
  std::memcpy(to.at, &value, 8);
  return "";
}

std::string write_half(const Relocation& to, u64 value, bool is_unsigned = false) {
  if (to.room < 4) return kOutside;
  const auto signed_value = static_cast<i64>(value);
  const bool fits = is_unsigned ? value >> 32 == 0 : signed_value == static_cast<std::int32_t>(signed_value);
  if (!fits) return "does not fit into 32 bits";
  std::memcpy(to.at, &value, 4);
  return "";
}

}  // namespace

std::string apply_x86_64(const Relocation& to) {
  const u64 here = reinterpret_cast<u64>(to.at);
  switch (to.type) {
    case R_X86_64_64:
      return write_word(to, to.address + to.addend);
    case R_X86_64_PC64:
      return write_word(to, to.address - here + to.addend);
    case R_X86_64_PC32:
    case R_X86_64_PLT32: {
      const std::optional<u64> address = to.is_external ? to.jump() : to.address;
      return address ? write_half(to, *address - here + to.addend) : "finds the jump table full";
    }
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX: {
      const std::optional<u64> slot = to.slot();
      return slot ? write_half(to, *slot - here + to.addend) : "finds the address table full";
    }
    case R_X86_64_32:
      return write_half(to, to.address + to.addend, /*is_unsigned=*/true);
    case R_X86_64_32S:
      return write_half(to, to.address + to.addend);
    default:
      return "is not supported";
  }
}

void write_jump_x86_64(char* jump, u64 slot) {
  constexpr int kBytes = 6;  // jmp *[rip + distance]
  const auto distance = static_cast<std::int32_t>(static_cast<i64>(slot - reinterpret_cast<u64>(jump)) - kBytes);
  std::memcpy(jump, "\xff\x25", 2);
  std::memcpy(jump + 2, &distance, sizeof distance);
}

}  // namespace tw

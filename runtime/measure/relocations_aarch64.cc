// ELF for the Arm 64-bit Architecture (IHI 0056), section 5.7.
#include <elf.h>

#include <cstring>

#include "runtime/measure/relocations.h"

namespace tw {
namespace {

constexpr const char *kOutside = "lies outside its section", *kTooFar = "does not fit";

u64 page_of(u64 address) { return address & ~u64{0xfff}; }

bool fits(i64 value, int bits) { return value >= -(i64{1} << (bits - 1)) && value < i64{1} << (bits - 1); }

// Puts `value` into `bits` bits of the instruction from `shift` on.
void put(const Relocation& to, u64 value, int bits, int shift) {
  std::uint32_t word;
  std::memcpy(&word, to.at, sizeof word);
  const auto mask = static_cast<std::uint32_t>((u64{1} << bits) - 1);
  word = (word & ~(mask << shift)) | ((static_cast<std::uint32_t>(value) & mask) << shift);
  std::memcpy(to.at, &word, sizeof word);
}

std::string write_data(const Relocation& to, u64 value, std::size_t bytes) {
  if (to.room < bytes) return kOutside;
  const auto signed_value = static_cast<i64>(value);
  if (bytes == 4 && value >> 32 != 0 && !fits(signed_value, 32)) return kTooFar;
  std::memcpy(to.at, &value, bytes);
  return "";
}

// B and BL: 26 bits of words.
std::string write_call(const Relocation& to, u64 target) {
  const auto distance = static_cast<i64>(target - reinterpret_cast<u64>(to.at));
  if (distance % 4 != 0 || !fits(distance, 28)) return kTooFar;
  put(to, static_cast<u64>(distance) >> 2, 26, 0);
  return "";
}

// ADR and ADRP: 21 bits, the lowest two apart.
std::string write_adr(const Relocation& to, u64 distance) {
  if (!fits(static_cast<i64>(distance), 21)) return kTooFar;
  put(to, distance, 2, 29), put(to, distance >> 2, 19, 5);
  return "";
}

std::string write_adrp(const Relocation& to, u64 target) {
  const i64 pages = static_cast<i64>(page_of(target) - page_of(reinterpret_cast<u64>(to.at))) >> 12;
  return write_adr(to, static_cast<u64>(pages));
}

// The 12 lowest bits of an address, in units of 2^scale bytes.
std::string write_low(const Relocation& to, u64 target, int scale) {
  if (target & ((u64{1} << scale) - 1)) return "is not aligned";
  put(to, (target & 0xfff) >> scale, 12, 10);
  return "";
}

}  // namespace

std::string apply_aarch64(const Relocation& to) {
  const u64 target = to.address + to.addend, here = reinterpret_cast<u64>(to.at);
  if (to.room < 4) return kOutside;
  switch (to.type) {
    case R_AARCH64_ABS64:
      return write_data(to, target, 8);
    case R_AARCH64_PREL64:
      return write_data(to, target - here, 8);
    case R_AARCH64_ABS32:
      return write_data(to, target, 4);
    case R_AARCH64_PREL32:
      return write_data(to, target - here, 4);
    case R_AARCH64_CALL26:
    case R_AARCH64_JUMP26: {
      const std::optional<u64> address = to.is_external ? to.jump() : to.address;
      return address ? write_call(to, *address + to.addend) : "finds the jump table full";
    }
    case R_AARCH64_ADR_PREL_LO21:
      return write_adr(to, target - here);
    case R_AARCH64_ADR_PREL_PG_HI21:
      return write_adrp(to, target);
    case R_AARCH64_ADD_ABS_LO12_NC:
    case R_AARCH64_LDST8_ABS_LO12_NC:
      return write_low(to, target, 0);
    case R_AARCH64_LDST16_ABS_LO12_NC:
      return write_low(to, target, 1);
    case R_AARCH64_LDST32_ABS_LO12_NC:
      return write_low(to, target, 2);
    case R_AARCH64_LDST64_ABS_LO12_NC:
      return write_low(to, target, 3);
    case R_AARCH64_LDST128_ABS_LO12_NC:
      return write_low(to, target, 4);
    case R_AARCH64_ADR_GOT_PAGE:
    case R_AARCH64_LD64_GOT_LO12_NC: {
      const std::optional<u64> slot = to.slot();
      if (!slot) return "finds the address table full";
      return to.type == R_AARCH64_ADR_GOT_PAGE ? write_adrp(to, *slot) : write_low(to, *slot, 3);
    }
    default:
      return "is not supported";
  }
}

void write_jump_aarch64(char* jump, u64 slot) {
  // adrp x16, slot; ldr x16, [x16, slot's low bits]; br x16
  const std::uint32_t words[] = {0x90000010, 0xf9400210, 0xd61f0200};
  std::memcpy(jump, words, sizeof words);
  write_adrp({.at = jump, .room = 4}, slot);
  write_low({.at = jump + 4, .room = 4}, slot, 3);
}

}  // namespace tw

// Relocations of the objects that the LLVM backend writes: what a linker would write into code and data once they have
// their places. The inside of object_loader.cc; it applies those of the machine that it runs on.
#pragma once
#include <functional>
#include <optional>
#include <string>

#include "dsl/base/arena.h"

namespace tw {

struct Relocation {
  u32 type = 0;  // R_X86_64_... or R_AARCH64_... of <elf.h>
  char* at = nullptr;
  u64 room = 0;              // bytes of the section from there
  u64 address = 0;           // of the symbol
  u64 addend = 0;            // sums wrap around, as a linker's do
  bool is_external = false;  // the symbol is a function outside the object, maybe too far away for a call
  // The address of a word that holds the symbol's address; of a jump to it, which is near. nullopt: there is no room.
  std::function<std::optional<u64>()> slot = {}, jump = {};
};

// Writes the value that the relocation asks for. Returns nothing, or why it cannot: the end of a sentence that begins
// with the relocation's type and symbol.
std::string apply_x86_64(const Relocation& relocation);
std::string apply_aarch64(const Relocation& relocation);

inline constexpr std::size_t kJumpBytes = 16;  // of a jump to anywhere
// `slot`: the address of a word that holds the address of the function.
void write_jump_x86_64(char* jump, u64 slot);
void write_jump_aarch64(char* jump, u64 slot);

}  // namespace tw

#include "runtime/measure/object_loader.h"

#include <elf.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include "dsl/base/arena.h"
#include "dsl/base/text.h"
#include "runtime/measure/relocations.h"

namespace tw {

// The processor of this machine: code for another one is not loaded.
namespace host {
#if defined(__aarch64__)
constexpr int kMachine = EM_AARCH64;
constexpr u32 kNone = R_AARCH64_NONE;  // a relocation that asks for nothing
constexpr const char* kName = "aarch64";
constexpr std::size_t kPage = 65536;  // the largest that systems use
constexpr auto apply = apply_aarch64;
constexpr auto write_jump = write_jump_aarch64;
#else
constexpr int kMachine = EM_X86_64;
constexpr u32 kNone = R_X86_64_NONE;
constexpr const char* kName = "x86-64";
constexpr std::size_t kPage = 4096;
constexpr auto apply = apply_x86_64;
constexpr auto write_jump = write_jump_x86_64;
#endif
}  // namespace host

LoadedObject& LoadedObject::operator=(LoadedObject&& other) noexcept {
  std::swap(memory_, other.memory_);
  std::swap(bytes_, other.bytes_);
  std::swap(code_bytes_, other.code_bytes_);
  std::swap(symbols_, other.symbols_);
  return *this;
}

LoadedObject::~LoadedObject() {
  if (memory_) munmap(memory_, bytes_);
}

void* LoadedObject::find(const std::string& symbol) const {
  auto found = symbols_.find(symbol);
  return found == symbols_.end() ? nullptr : found->second;
}

tw_run_function LoadedObject::run(const std::string& prefix) const {
  return reinterpret_cast<tw_run_function>(find(prefix + "_run"));
}

tw_prepack_function LoadedObject::prepack(const std::string& prefix) const {
  return reinterpret_cast<tw_prepack_function>(find(prefix + "_prepack"));
}

// One load. Every step returns false after setting `error`. Offsets are from the start of the
// mapped memory.
struct ObjectLoading {
  std::string_view file;
  std::string& error;
  LoadedObject out;

  const Elf64_Shdr* sections = nullptr;
  std::size_t section_count = 0;
  std::string_view section_names, symbol_names;
  const Elf64_Sym* symbols = nullptr;
  std::size_t symbol_count = 0;
  std::vector<i64> place;                // of each section in memory; -1 = not loaded
  std::vector<std::optional<i64>> slot;  // of each symbol's address in the table, if it has one
  std::size_t jumps = 0, jump_limit = 0, slots = 0, slot_limit = 0;
  std::unordered_map<u32, u64> jump_of;  // address of the jump to each symbol that has one

  static constexpr std::size_t kPage = host::kPage;

  bool fail(std::string message) {
    error = std::move(message);
    return false;
  }

  // `count` records of type T at `offset`, or nullptr if they are not inside the file or not
  // aligned.
  template <class T>
  const T* records(u64 offset, u64 count) const {
    if (offset > file.size() || count > (file.size() - offset) / sizeof(T)) return nullptr;
    const char* at = file.data() + offset;
    return reinterpret_cast<std::uintptr_t>(at) % alignof(T) ? nullptr : reinterpret_cast<const T*>(at);
  }

  std::string_view contents(const Elf64_Shdr& section) const {
    const char* at = section.sh_type == SHT_NOBITS ? nullptr : records<char>(section.sh_offset, section.sh_size);
    return at ? std::string_view(at, section.sh_size) : std::string_view();
  }

  static std::string_view text_at(std::string_view table, u64 offset) {
    if (offset >= table.size()) return {};
    std::string_view rest = table.substr(offset);
    return rest.substr(0, rest.find('\0'));
  }
  std::string_view name(const Elf64_Shdr& section) const { return text_at(section_names, section.sh_name); }

  bool read_header() {
    const Elf64_Ehdr* header = records<Elf64_Ehdr>(0, 1);
    if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0) return fail("the code is not an ELF object");
    if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
        header->e_type != ET_REL || header->e_machine != host::kMachine) {
      return fail(cat("the code is not a relocatable ", host::kName, " object (type ", header->e_type, ", machine ",
                      header->e_machine, ")"));
    }
    section_count = header->e_shnum;
    sections = records<Elf64_Shdr>(header->e_shoff, section_count);
    if (!sections || header->e_shstrndx >= section_count) return fail("the section table of the object is damaged");
    section_names = contents(sections[header->e_shstrndx]);
    for (std::size_t i = 0; i < section_count; ++i) {
      const Elf64_Shdr& section = sections[i];
      if (section.sh_type != SHT_NOBITS && !records<char>(section.sh_offset, section.sh_size)) {
        return fail(cat("section ", i, " of the object lies outside the file"));
      }
      if (section.sh_type == SHT_SYMTAB && !read_symbols(section)) return false;
    }
    return true;
  }

  bool read_symbols(const Elf64_Shdr& section) {
    symbol_count = section.sh_size / sizeof(Elf64_Sym);
    symbols = records<Elf64_Sym>(section.sh_offset, symbol_count);
    if (!symbols || section.sh_link >= section_count) return fail("the symbol table of the object is damaged");
    symbol_names = contents(sections[section.sh_link]);
    slot.assign(symbol_count, std::nullopt);
    return true;
  }

  // Unwind tables and notes are of no use here.
  bool is_loaded(const Elf64_Shdr& section) const {
    return (section.sh_flags & SHF_ALLOC) && section.sh_type != SHT_NOTE && section.sh_type != SHT_X86_64_UNWIND &&
           name(section) != ".eh_frame";
  }

  bool check_sections() {
    for (std::size_t i = 0; i < section_count; ++i) {
      const Elf64_Shdr& section = sections[i];
      if (!is_loaded(section)) continue;
      if (section.sh_flags & SHF_TLS)
        return fail(cat("section `", name(section), "` is thread-local, which kernels may not have"));
      if (section.sh_type == SHT_INIT_ARRAY || section.sh_type == SHT_FINI_ARRAY ||
          section.sh_type == SHT_PREINIT_ARRAY) {
        return fail(cat("section `", name(section), "` holds constructors, which kernels may not have"));
      }
      if (section.sh_addralign > kPage || (section.sh_addralign & (section.sh_addralign - 1))) {
        return fail(cat("section `", name(section), "` wants an alignment of ", section.sh_addralign, " bytes"));
      }
      if (section.sh_size > (1u << 30))
        return fail(cat("section `", name(section), "` has ", section.sh_size, " bytes"));
    }
    return true;
  }

  // Places the sections with (or without) code one after the other from `at`; returns the end.
  u64 place_sections(u64 at, bool code) {
    for (std::size_t i = 0; i < section_count; ++i) {
      const Elf64_Shdr& section = sections[i];
      if (!is_loaded(section) || ((section.sh_flags & SHF_EXECINSTR) != 0) != code) continue;
      u64 alignment = std::max<u64>(section.sh_addralign, 1);
      at = (at + alignment - 1) & ~(alignment - 1);
      place[i] = static_cast<i64>(at);
      at += section.sh_size;
    }
    return at;
  }

  bool map() {
    std::size_t relocations = 0;
    for (std::size_t i = 0; i < section_count; ++i) {
      if (sections[i].sh_type == SHT_RELA) relocations += sections[i].sh_size / sizeof(Elf64_Rela);
    }
    place.assign(section_count, -1);
    auto round_up = [](u64 bytes, u64 unit) { return (bytes + unit - 1) & ~(unit - 1); };
    jumps = round_up(place_sections(0, true), kJumpBytes);
    jump_limit = jumps + std::min(relocations, symbol_count) * kJumpBytes;
    out.code_bytes_ = round_up(jump_limit, kPage);
    slots = round_up(place_sections(out.code_bytes_, false), 8);
    slot_limit = slots + std::min(relocations, symbol_count) * 8;
    out.bytes_ = std::max(round_up(slot_limit, kPage), out.code_bytes_ + kPage);
    if (out.bytes_ > (1u << 30)) return fail("the code has more than 1 GiB");
    void* memory = mmap(nullptr, out.bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return fail(cat("no memory for ", out.bytes_, " bytes of code"));
    out.memory_ = static_cast<char*>(memory);
    for (std::size_t i = 0; i < section_count; ++i) {
      std::string_view bytes = contents(sections[i]);
      if (place[i] >= 0 && !bytes.empty()) std::memcpy(out.memory_ + place[i], bytes.data(), bytes.size());
    }
    return true;
  }

  // The address of symbol `index`; the name of an unknown one goes into `error`.
  std::optional<u64> address_of(u32 index) {
    if (index >= symbol_count) {
      fail("a relocation names a symbol that does not exist");
      return std::nullopt;
    }
    const Elf64_Sym& symbol = symbols[index];
    std::string_view symbol_name = text_at(symbol_names, symbol.st_name);
    int type = ELF64_ST_TYPE(symbol.st_info);
    if (type == STT_TLS || type == STT_GNU_IFUNC) {
      fail(cat("symbol `", symbol_name, "` is thread-local or indirect, which kernels may not have"));
      return std::nullopt;
    }
    if (symbol.st_shndx == SHN_ABS) return symbol.st_value;
    if (symbol.st_shndx == SHN_UNDEF) {
      void* external = external_symbol(symbol_name);
      if (!external && ELF64_ST_BIND(symbol.st_info) != STB_WEAK) {
        fail(cat("symbol `", symbol_name, "` is not among the functions that a kernel may call"));
        return std::nullopt;
      }
      return reinterpret_cast<u64>(external);
    }
    bool inside = symbol.st_shndx < section_count && place[symbol.st_shndx] >= 0 &&
                  symbol.st_value <= sections[symbol.st_shndx].sh_size;
    if (!inside) {
      fail(cat("symbol `", symbol_name, "` lies in section ", symbol.st_shndx, ", which is not loaded"));
      return std::nullopt;
    }
    return reinterpret_cast<u64>(out.memory_) + static_cast<u64>(place[symbol.st_shndx]) + symbol.st_value;
  }

  // A word of the address table that holds the symbol's address; nullopt: the table is full.
  std::optional<u64> slot_of(u32 index, u64 address) {
    if (!slot[index]) {
      if (slots + 8 > slot_limit) return std::nullopt;
      std::memcpy(out.memory_ + slots, &address, sizeof address);
      slot[index] = static_cast<i64>(slots);
      slots += 8;
    }
    return reinterpret_cast<u64>(out.memory_) + static_cast<u64>(*slot[index]);
  }

  // A jump to a function that is too far away for a call; nullopt: there is no room for one.
  std::optional<u64> jump_to(u32 index, u64 address) {
    if (auto found = jump_of.find(index); found != jump_of.end()) return found->second;
    const std::optional<u64> target = slot_of(index, address);
    if (!target || jumps + kJumpBytes > jump_limit) return std::nullopt;
    char* jump = out.memory_ + jumps;
    jumps += kJumpBytes;
    host::write_jump(jump, *target);
    return jump_of[index] = reinterpret_cast<u64>(jump);
  }

  bool apply(const Elf64_Rela& entry, char* at, u64 room) {
    const u32 type = ELF64_R_TYPE(entry.r_info), index = ELF64_R_SYM(entry.r_info);
    if (type == host::kNone) return true;
    std::optional<u64> address = address_of(index);
    if (!address) return false;
    const std::string why = host::apply({.type = type,
                                         .at = at,
                                         .room = room,
                                         .address = *address,
                                         .addend = static_cast<u64>(entry.r_addend),
                                         .is_external = symbols[index].st_shndx == SHN_UNDEF,
                                         .slot = [&] { return slot_of(index, *address); },
                                         .jump = [&] { return jump_to(index, *address); }});
    if (why.empty()) return true;
    return fail(cat("relocation type ", type, " against `", text_at(symbol_names, symbols[index].st_name), "` ", why));
  }

  bool relocate() {
    for (std::size_t i = 0; i < section_count; ++i) {
      const Elf64_Shdr& section = sections[i];
      if (section.sh_type == SHT_REL) return fail("the object has relocations without addends");
      if (section.sh_type != SHT_RELA || section.sh_info >= section_count || place[section.sh_info] < 0) continue;
      u64 count = section.sh_size / sizeof(Elf64_Rela);
      const Elf64_Rela* entries = records<Elf64_Rela>(section.sh_offset, count);
      if (!entries || !symbols) return fail("a relocation table of the object is damaged");
      u64 size = sections[section.sh_info].sh_size;
      char* base = out.memory_ + place[section.sh_info];
      for (u64 k = 0; k < count; ++k) {
        if (entries[k].r_offset > size) return fail("a relocation lies outside its section");
        if (!apply(entries[k], base + entries[k].r_offset, size - entries[k].r_offset)) return false;
      }
    }
    return true;
  }

  bool publish() {
    // Where instructions have a cache of their own.
    __builtin___clear_cache(out.memory_, out.memory_ + out.code_bytes_);
    if (mprotect(out.memory_, out.code_bytes_, PROT_READ | PROT_EXEC) != 0 ||
        mprotect(out.memory_ + out.code_bytes_, out.bytes_ - out.code_bytes_, PROT_READ) != 0) {
      return fail("the system does not let this process make code executable");
    }
    for (u32 i = 0; i < symbol_count; ++i) {
      if (ELF64_ST_BIND(symbols[i].st_info) == STB_LOCAL || symbols[i].st_shndx == SHN_UNDEF) continue;
      std::optional<u64> address = address_of(i);
      if (!address) return false;
      out.symbols_[std::string(text_at(symbol_names, symbols[i].st_name))] = reinterpret_cast<void*>(*address);
    }
    return true;
  }
};

LoadedObject load_object(std::string_view object, std::string& error) {
  error.clear();
  // Strings are not aligned as ELF records are.
  std::string aligned;
  if (reinterpret_cast<std::uintptr_t>(object.data()) % alignof(Elf64_Shdr)) object = aligned = std::string(object);
  ObjectLoading loading{object, error};
  bool good =
      loading.read_header() && loading.check_sections() && loading.map() && loading.relocate() && loading.publish();
  return good ? std::move(loading.out) : LoadedObject();
}

}  // namespace tw

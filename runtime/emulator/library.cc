#include "runtime/emulator/library.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <cstring>

#include "dsl/base/files.h"
#include "dsl/base/text.h"

namespace tw::emulator {
namespace {

// The array's name in "_ZZ8mm_run_0E8A_shared": what stands last, with its length before it.
std::string plain_name(const std::string& mangled) {
  for (std::size_t at = mangled.find('E'); at != std::string::npos; at = mangled.find('E', at + 1)) {
    std::size_t length = 0, i = at + 1;
    for (; i < mangled.size() && std::isdigit(static_cast<unsigned char>(mangled[i])); ++i)
      length = length * 10 + static_cast<std::size_t>(mangled[i] - '0');
    if (length > 0 && i + length == mangled.size()) return mangled.substr(i);
  }
  return mangled;
}

// The symbols of a section in an ELF file of this machine's kind.
struct ElfFile {
  std::string bytes;

  template <class T>
  T read(u64 at) const {
    T out{};
    if (at + sizeof out <= bytes.size()) std::memcpy(&out, bytes.data() + at, sizeof out);
    return out;
  }
  ElfW(Shdr) section(u64 index) const {
    auto header = read<ElfW(Ehdr)>(0);
    return read<ElfW(Shdr)>(header.e_shoff + index * header.e_shentsize);
  }
  const char* text(u64 at) const { return at < bytes.size() ? bytes.c_str() + at : ""; }
};

void find_shared(const ElfFile& file, char* base, Library& library) {
  auto header = file.read<ElfW(Ehdr)>(0);
  u64 names = file.section(header.e_shstrndx).sh_offset, wanted = 0;
  for (u64 s = 1; s < header.e_shnum; ++s) {
    if (std::strcmp(file.text(names + file.section(s).sh_name), "tw_shared") == 0) wanted = s;
  }
  if (wanted == 0) return;
  library.shared_begin = base + file.section(wanted).sh_addr;
  library.shared_end = library.shared_begin + file.section(wanted).sh_size;
  for (u64 s = 1; s < header.e_shnum; ++s) {
    ElfW(Shdr) table = file.section(s);
    if (table.sh_type != SHT_SYMTAB) continue;
    u64 texts = file.section(table.sh_link).sh_offset;
    for (u64 at = 0; at < table.sh_size; at += table.sh_entsize) {
      auto symbol = file.read<ElfW(Sym)>(table.sh_offset + at);
      std::string name = file.text(texts + symbol.st_name);
      if (symbol.st_shndx != wanted || (symbol.st_info & 0xf) != STT_OBJECT ||
          name.find("tw_emu_zone_") != std::string::npos)
        continue;
      library.shared.push_back(
          {.name = plain_name(name), .data = base + symbol.st_value, .bytes = symbol.st_size, .is_shared = true});
    }
  }
  std::sort(library.shared.begin(), library.shared.end(),
            [](const Region& a, const Region& b) { return a.data < b.data; });
}

}  // namespace

void* Library::find(const std::string& symbol) const { return dlsym(handle, symbol.c_str()); }

bool open_library(const std::string& path, Library& library, std::string& error) {
  library.handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  link_map* map = nullptr;
  if (!library.handle || dlinfo(library.handle, RTLD_DI_LINKMAP, &map) != 0) {
    error = cat("the compiled kernels cannot be loaded: ", dlerror());
    return false;
  }
  ElfFile file{read_whole_file(path).value_or("")};
  char* base = reinterpret_cast<char*>(map->l_addr);
  auto header = file.read<ElfW(Ehdr)>(0);
  library.image_begin = map->l_addr;
  for (u64 s = 1; s < header.e_shnum; ++s) {
    ElfW(Shdr) section = file.section(s);
    if (section.sh_flags & SHF_ALLOC)
      library.image_end = std::max<u64>(library.image_end, map->l_addr + section.sh_addr + section.sh_size);
  }
  find_shared(file, base, library);
  return true;
}

}  // namespace tw::emulator

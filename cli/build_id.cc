#include "cli/build_id.h"

#include <link.h>

#include <cstring>

#include "dsl/base/text.h"

namespace tw::cli {
namespace {

struct Search {
  ElfW(Addr) address;  // of something inside of the library
  std::string id;
};

// The note of type NT_GNU_BUILD_ID among the notes of one segment, as hexadecimal digits; "" if it is not there.
std::string build_id_in(const char* notes, std::size_t bytes) {
  auto padded = [](std::size_t size) { return (size + 3) / 4 * 4; };
  while (bytes >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) head;
    std::memcpy(&head, notes, sizeof head);
    std::size_t size = sizeof head + padded(head.n_namesz) + padded(head.n_descsz);
    if (size > bytes) break;
    const char* name = notes + sizeof head;
    if (head.n_type == NT_GNU_BUILD_ID && head.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0) {
      constexpr const char* digits = "0123456789abcdef";
      std::string id;
      for (std::size_t i = 0; i < head.n_descsz; ++i) {
        unsigned char byte = static_cast<unsigned char>(name[padded(head.n_namesz) + i]);
        id += {digits[byte >> 4], digits[byte & 15]};
      }
      return id;
    }
    notes += size;
    bytes -= size;
  }
  return "";
}

int visit(dl_phdr_info* info, std::size_t, void* data) {
  Search& search = *static_cast<Search*>(data);
  std::string id;
  bool holds = false;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& segment = info->dlpi_phdr[i];
    ElfW(Addr) begin = info->dlpi_addr + segment.p_vaddr;
    holds |= segment.p_type == PT_LOAD && begin <= search.address && search.address < begin + segment.p_memsz;
    if (segment.p_type == PT_NOTE && id.empty())
      id = build_id_in(reinterpret_cast<const char*>(begin), segment.p_memsz);
  }
  if (holds) search.id = id;
  return holds;
}

}  // namespace

std::string build_id() {
  // quote() is part of the library, whatever file that is.
  Search search{reinterpret_cast<ElfW(Addr)>(&quote), ""};
  dl_iterate_phdr(visit, &search);
  return search.id.empty() ? "unknown" : search.id.substr(0, 16);
}

std::string build_name() {
  return cat("tracewright ", TW_VERSION, " (build ", build_id(), ", LLVM ", TW_LLVM_VERSION, ")");
}

}  // namespace tw::cli

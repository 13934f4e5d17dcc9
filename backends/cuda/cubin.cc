#include "backends/cuda/cubin.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <numeric>
#include <set>

#include "dsl/base/text.h"

namespace tw::cuda {
namespace {

// Instructions of sm_80 to sm_120, as far as kernels are judged by them, by NVIDIA's disassembler.
struct Opcode {
  int code;
  const char* name;
  int first_arch = 0, last_arch = 1000;  // that call it so
  bool is_of(int arch) const { return arch >= first_arch && arch <= last_arch; }
};
constexpr int kFfma = 0x223;
constexpr Opcode kOpcodes[] = {
    {kFfma, "FFMA"},   {0x221, "FADD"},    {0x220, "FMUL"},          {0x22b, "DFMA"},      {0x224, "IMAD"},
    {0x308, "MUFU"},   {0x231, "HFMA2"},   {0x235, "HFMA2", 0, 119}, {0x235, "IADD", 120}, {0x23c, "HMMA"},
    {0x237, "IMMA"},   {0x23f, "DMMA"},    {0x9f0, "HGMMA"},         {0x83b, "LDSM"},      {0x844, "STSM"},
    {0xfae, "LDGSTS"}, {0x5b4, "UTMALDG"}, {0x3b5, "UTMASTG"},       {0x981, "LDG"},       {0x986, "STG"},
    {0x984, "LDS"},    {0x388, "STS"},     {0x983, "LDL"},           {0x387, "STL"},       {0xb1d, "BAR"},
    {0x5a7, "SYNCS"},  {0x9a7, "SYNCS"},   {0xf89, "SHFL"},          {0x918, "NOP"},
};

constexpr u64 kReservedShared = 1024;  // what the driver keeps of a block's shared memory on sm_90 and later

// Kinds of records in .nv.info.
enum Info : int { FrameSize = 0x11, Registers = 0x2f, MaxThreads = 0x05, RequiredThreads = 0x10 };

// ELF64, little-endian. Bytes beyond the end read as 0.
class Elf {
 public:
  explicit Elf(std::string_view data) : data_(data) {
    u64 table = number(40, 8), size = number(58, 2), count = number(60, 2);
    for (u64 i = 0; i < count && table + (i + 1) * size <= data.size(); ++i) {
      u64 at = table + i * size;
      sections_.push_back({number(at, 4), number(at + 4, 4), number(at + 24, 8), number(at + 32, 8)});
    }
    u64 names = number(62, 2);
    names_ = names < sections_.size() ? sections_[names].offset : data.size();
  }

  struct Section {
    u64 name, type, offset, bytes;
  };
  const std::vector<Section>& sections() const { return sections_; }
  std::string_view name_of(const Section& section) const { return text(names_ + section.name); }
  const Section* find(std::string_view name) const {
    auto found = std::find_if(sections_.begin(), sections_.end(), [&](const Section& s) { return name_of(s) == name; });
    return found == sections_.end() ? nullptr : &*found;
  }
  std::string_view symbol(u64 index) const {
    const Section *symbols = find(".symtab"), *strings = find(".strtab");
    return symbols && strings ? text(strings->offset + number(symbols->offset + index * 24, 4)) : std::string_view();
  }
  u64 number(u64 at, int bytes) const {
    u64 value = 0;
    for (int i = bytes; i-- > 0;) {
      u64 place = at + static_cast<u64>(i);
      value = value << 8 | (place < data_.size() ? static_cast<u8>(data_[place]) : 0);
    }
    return value;
  }
  // Calls use(kind, place of the value) for each record of an info section.
  template <class Use>
  void for_each_info(const Section& section, Use use) const {
    constexpr u64 kSized = 4;  // the only format with a payload; the others carry their value in the head
    u64 end = std::min<u64>(section.offset + section.bytes, data_.size());
    for (u64 at = section.offset; at + 4 <= end;) {
      bool is_sized = number(at, 1) == kSized;
      use(static_cast<int>(number(at + 1, 1)), at + (is_sized ? 4 : 2));
      at += is_sized ? 4 + number(at + 2, 2) : 4;
    }
  }

 private:
  std::string_view text(u64 at) const {
    if (at >= data_.size()) return {};
    std::size_t end = std::min(data_.find('\0', at), data_.size());
    return data_.substr(at, end - at);
  }
  std::string_view data_;
  std::vector<Section> sections_;
  u64 names_ = 0;
};

// The registers that an FFMA reads; those that the reuse cache keeps for the next instruction have a bit of `kept`.
struct Operands {
  std::array<int, 3> registers{kZero, kZero, kZero};
  u64 kept = 0;
  static constexpr int kZero = 255;
};

Operands operands_of(u64 low, u64 high) {
  return {{static_cast<int>(low >> 24 & 0xff), static_cast<int>(low >> 32 & 0xff), static_cast<int>(high & 0xff)},
          high >> 58 & 7};
}

bool has_conflict(const Operands& now, const Operands& before) {
  std::set<int> read[2];
  for (std::size_t i = 0; i < 3; ++i) {
    bool is_kept = (before.kept >> i & 1) != 0 && before.registers[i] == now.registers[i];
    if (!is_kept && now.registers[i] != Operands::kZero) read[now.registers[i] % 2].insert(now.registers[i]);
  }
  return read[0].size() == 3 || read[1].size() == 3;
}

void read_code(const Elf& elf, const Elf::Section& text, std::size_t file_bytes, CubinKernel& kernel) {
  constexpr u64 kInstruction = 16;
  u64 end = std::min<u64>(text.offset + text.bytes, file_bytes);
  Operands before;
  for (u64 at = text.offset; at + kInstruction <= end; at += kInstruction) {
    u64 low = elf.number(at, 8), high = elf.number(at + 8, 8);
    int opcode = static_cast<int>(low & 0xfff);
    ++kernel.opcodes[opcode];
    Operands now = opcode == kFfma ? operands_of(low, high) : Operands{};
    kernel.register_conflicts += opcode == kFfma && has_conflict(now, before);
    before = now;
  }
}

void read_own_info(const Elf& elf, CubinKernel& kernel) {
  if (const Elf::Section* info = elf.find(cat(".nv.info.", kernel.name))) {
    elf.for_each_info(*info, [&](int kind, u64 at) {
      if (kind != MaxThreads && kind != RequiredThreads) return;
      kernel.max_threads = static_cast<i64>(elf.number(at, 4) * elf.number(at + 4, 4) * elf.number(at + 8, 4));
    });
  }
  if (const Elf::Section* shared = elf.find(cat(".nv.shared.", kernel.name))) {
    bool has_reserved = elf.find(".nv.shared.reserved.0") != nullptr;
    kernel.shared_bytes =
        static_cast<i64>(shared->bytes - (has_reserved ? std::min(shared->bytes, kReservedShared) : 0));
  }
}

void read_common_info(const Elf& elf, std::vector<CubinKernel>& kernels) {
  const Elf::Section* info = elf.find(".nv.info");
  if (!info) return;
  elf.for_each_info(*info, [&](int kind, u64 at) {
    if (kind != Registers && kind != FrameSize) return;
    std::string_view name = elf.symbol(elf.number(at, 4));
    for (CubinKernel& kernel : kernels) {
      if (kernel.name != name) continue;
      if (kind == Registers) kernel.registers = static_cast<int>(elf.number(at + 4, 4));
      if (kind == FrameSize) kernel.stack_bytes = static_cast<i64>(elf.number(at + 4, 4));
    }
  });
}

}  // namespace

int CubinKernel::instructions() const {
  return std::accumulate(opcodes.begin(), opcodes.end(), 0, [](int sum, const auto& row) { return sum + row.second; });
}

int CubinKernel::count(std::string_view opcode) const {
  int sum = 0;
  for (const Opcode& row : kOpcodes) {
    auto found = row.name == opcode && row.is_of(arch) ? opcodes.find(row.code) : opcodes.end();
    if (found != opcodes.end()) sum += found->second;
  }
  return sum;
}

std::optional<std::vector<CubinKernel>> read_cubin(std::string_view cubin, std::string& error) {
  constexpr u64 kMachine = 190;  // EM_CUDA
  if (cubin.substr(0, 5) !=
      "\x7f"
      "ELF\x02")
    return error = "this is no ELF64 file", std::nullopt;
  Elf elf(cubin);
  if (elf.number(18, 2) != kMachine) return error = "this ELF file is not for NVIDIA GPUs", std::nullopt;
  constexpr std::string_view kText = ".text.";
  // The architecture is in e_flags: in its lowest byte before CUDA 13, in the next one since.
  constexpr u64 kAbiOfCuda13 = 8;
  u64 flags = elf.number(48, 4);
  int arch = static_cast<int>((elf.number(8, 1) >= kAbiOfCuda13 ? flags >> 8 : flags) & 0xff);
  std::vector<CubinKernel> kernels;
  for (const Elf::Section& section : elf.sections()) {
    std::string_view name = elf.name_of(section);
    if (!name.starts_with(kText)) continue;
    kernels.push_back({.name = std::string(name.substr(kText.size())), .arch = arch});
    read_code(elf, section, cubin.size(), kernels.back());
    read_own_info(elf, kernels.back());
  }
  if (kernels.empty()) return error = "this cubin holds no kernel", std::nullopt;
  read_common_info(elf, kernels);
  return kernels;
}

std::string CubinKernel::opcode_name(int opcode) const {
  for (const Opcode& row : kOpcodes) {
    if (row.code == opcode && row.is_of(arch)) return row.name;
  }
  char text[16];
  std::snprintf(text, sizeof text, "0x%03x", static_cast<unsigned>(opcode));
  return text;
}

}  // namespace tw::cuda

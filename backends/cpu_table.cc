#include "backends/cpu_table.h"

#include <cstdio>

#include "dsl/base/check.h"
#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>
#endif

namespace tw {
namespace {

constexpr i64 K = 1 << 10, M = 1 << 20;

#if defined(__x86_64__)
struct Signature {
  int family, first_model, last_model;
  const char* name;
};

// AMD's families are 0x17 and up, Intel's is 6. Source: the tables of LLVM's Host.cpp.
constexpr Signature signatures[] = {
    {0x17, 0x00, 0x2f, "znver1"},      {0x17, 0x30, 0xff, "znver2"},      {0x19, 0x00, 0x0f, "znver3"},
    {0x19, 0x10, 0x1f, "znver4"},      {0x19, 0x20, 0x5f, "znver3"},      {0x19, 0x60, 0xaf, "znver4"},
    {0x1a, 0x00, 0x7f, "znver5"},      {6, 0x3c, 0x3c, "haswell"},        {6, 0x3f, 0x3f, "haswell"},
    {6, 0x45, 0x46, "haswell"},        {6, 0x3d, 0x3d, "broadwell"},      {6, 0x47, 0x47, "broadwell"},
    {6, 0x4f, 0x4f, "broadwell"},      {6, 0x56, 0x56, "broadwell"},      {6, 0x4e, 0x4e, "skylake"},
    {6, 0x5e, 0x5e, "skylake"},        {6, 0x8e, 0x8e, "skylake"},        {6, 0x9e, 0x9e, "skylake"},
    {6, 0xa5, 0xa6, "skylake"},        {6, 0x55, 0x55, "skylake-avx512"}, {6, 0x7d, 0x7e, "icelake-client"},
    {6, 0x6a, 0x6a, "icelake-server"}, {6, 0x6c, 0x6c, "icelake-server"}, {6, 0x8c, 0x8d, "tigerlake"},
    {6, 0xa7, 0xa7, "rocketlake"},     {6, 0x97, 0x97, "alderlake"},      {6, 0x9a, 0x9a, "alderlake"},
    {6, 0xb7, 0xb7, "alderlake"},      {6, 0xba, 0xba, "alderlake"},      {6, 0xbf, 0xbf, "alderlake"},
    {6, 0x8f, 0x8f, "sapphirerapids"}, {6, 0xcf, 0xcf, "sapphirerapids"}, {6, 0xad, 0xae, "graniterapids"},
};

const char* name_by_signature() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return "";
  int family = (eax >> 8) & 15;
  int model = ((eax >> 4) & 15) | ((eax >> 12) & 0xf0);
  if (family == 15) family += (eax >> 20) & 0xff;
  for (const Signature& signature : signatures) {
    if (family == signature.family && model >= signature.first_model && model <= signature.last_model) {
      return signature.name;
    }
  }
  return "";
}

// These builtins also ask the operating system whether it saves the registers.
int usable_vector_bits() {
  bool v4 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
            __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
            __builtin_cpu_supports("avx512vl");
  bool v3 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  return v3 && v4 ? 512 : v3 ? 256 : 128;
}
#elif defined(__aarch64__)
struct Part {
  u64 implementer, number;
  const char* name;
};

// Source: the tables of LLVM's Host.cpp.
constexpr Part parts[] = {
    {0x41, 0xd03, "cortex-a53"},  {0x41, 0xd08, "cortex-a72"},  {0x41, 0xd0b, "cortex-a76"},
    {0x41, 0xd0c, "neoverse-n1"}, {0x41, 0xd49, "neoverse-n2"}, {0x41, 0xd40, "neoverse-v1"},
    {0x61, 0x022, "apple-m1"},    {0x61, 0x023, "apple-m1"},
};

// The register MIDR_EL1 of the core that this thread runs on; 0 if the system does not let programs read it.
u64 identification() {
  u64 value = 0;
  if (getauxval(AT_HWCAP) & HWCAP_CPUID) asm("mrs %0, midr_el1" : "=r"(value));
  return value;
}
u64 implementer(u64 identification) { return identification >> 24 & 0xff; }
u64 part_number(u64 identification) { return identification >> 4 & 0xfff; }

const char* name_by_identification() {
  const u64 value = identification();
  for (const Part& part : parts) {
    if (part.implementer == implementer(value) && part.number == part_number(value)) return part.name;
  }
  return "";
}

// What the system lets programs use.
ArmLevel usable_level() {
  const u64 first = getauxval(AT_HWCAP), second = getauxval(AT_HWCAP2);
  auto has = [](u64 all, u64 wanted) { return (all & wanted) == wanted; };
  if (!has(first, HWCAP_ATOMICS | HWCAP_FPHP | HWCAP_ASIMDHP | HWCAP_ASIMDDP | HWCAP_ASIMDRDM | HWCAP_LRCPC))
    return ArmLevel::V8;
  if (!has(first, HWCAP_SVE) || !has(second, HWCAP2_BF16 | HWCAP2_I8MM)) return ArmLevel::HalfAndDot;
  return has(second, HWCAP2_SVE2) ? ArmLevel::Sve2 : ArmLevel::Sve;
}
#endif

}  // namespace

const std::vector<CpuModel>& cpu_models() {
  using enum CpuArch;
  static const std::vector<CpuModel> models = {
      {"x86-64", X86, 128, 16, 32 * K, 256 * K, 0},
      {"x86-64-v2", X86, 128, 16, 32 * K, 256 * K, 0},
      {"x86-64-v3", X86, 256, 16, 32 * K, 256 * K, 0},
      {"x86-64-v4", X86, 512, 32, 32 * K, 1 * M, 0},
      {"haswell", X86, 256, 16, 32 * K, 256 * K, 0},
      {"broadwell", X86, 256, 16, 32 * K, 256 * K, 0},
      {"skylake", X86, 256, 16, 32 * K, 256 * K, 0},
      {"skylake-avx512", X86, 512, 32, 32 * K, 1 * M, 0},
      {"cascadelake", X86, 512, 32, 32 * K, 1 * M, 0},
      {"icelake-client", X86, 512, 32, 48 * K, 512 * K, 0},
      {"icelake-server", X86, 512, 32, 48 * K, 1280 * K, 0},
      {"tigerlake", X86, 512, 32, 48 * K, 1280 * K, 0},
      {"rocketlake", X86, 512, 32, 48 * K, 512 * K, 0},
      {"alderlake", X86, 256, 16, 48 * K, 1280 * K, 0},
      {"sapphirerapids", X86, 512, 32, 48 * K, 2 * M, 0},
      {"graniterapids", X86, 512, 32, 48 * K, 2 * M, 0},
      {"znver1", X86, 256, 16, 32 * K, 512 * K, 8 * M},
      {"znver2", X86, 256, 16, 32 * K, 512 * K, 16 * M},
      {"znver3", X86, 256, 16, 32 * K, 512 * K, 32 * M},
      {"znver4", X86, 512, 32, 32 * K, 1 * M, 32 * M},
      {"znver5", X86, 512, 32, 48 * K, 1 * M, 32 * M},
      {"generic", Arm, 128, 32, 32 * K, 512 * K, 0},
      {"cortex-a53", Arm, 128, 32, 32 * K, 512 * K, 0},
      {"cortex-a72", Arm, 128, 32, 32 * K, 1 * M, 0},
      {"cortex-a76", Arm, 128, 32, 64 * K, 512 * K, 0},
      {"neoverse-n1", Arm, 128, 32, 64 * K, 1 * M, 0},
      {"neoverse-n2", Arm, 128, 32, 64 * K, 1 * M, 0},
      {"neoverse-v1", Arm, 128, 32, 64 * K, 1 * M, 0},
      {"apple-m1", Arm, 128, 32, 128 * K, 3 * M, 0},
      {"generic-rv64", RiscV, 64, 32, 32 * K, 256 * K, 0},
      {"sifive-u74", RiscV, 64, 32, 32 * K, 512 * K, 0},
      {"hexagonv68", Hexagon, 1024, 32, 32 * K, 1 * M, 0, 4 * M},
      {"hexagonv69", Hexagon, 1024, 32, 32 * K, 1 * M, 0, 8 * M},
      {"hexagonv73", Hexagon, 1024, 32, 32 * K, 1 * M, 0, 8 * M},
  };
  return models;
}

const CpuModel* find_cpu(std::string_view name, CpuArch arch) {
  for (const CpuModel& model : cpu_models()) {
    if (model.arch == arch && name == model.name) return &model;
  }
  return nullptr;
}

CpuArch host_arch() {
#if defined(__aarch64__)
  return CpuArch::Arm;
#elif defined(__riscv)
  return CpuArch::RiscV;
#else
  return CpuArch::X86;
#endif
}

std::string architecture(const std::string& triple) {
  constexpr const char* names[] = {"x86_64", "aarch64", "riscv64", "hexagon"};
  return triple.empty() ? names[static_cast<int>(host_arch())] : triple.substr(0, triple.find('-'));
}

const CpuModel& baseline_cpu(CpuArch arch) {
  constexpr const char* names[] = {"x86-64", "generic", "generic-rv64", "hexagonv68"};
  const CpuModel* model = find_cpu(names[static_cast<int>(arch)], arch);
  TW_CHECK(model, "the table has a baseline of every architecture");
  return *model;
}

std::optional<ArmLevel> arm_level(std::string_view name) {
  struct Row {
    std::string_view name;
    ArmLevel level;
  };
  constexpr Row rows[] = {{"generic", ArmLevel::V8},
                          {"cortex-a53", ArmLevel::V8},
                          {"cortex-a72", ArmLevel::V8},
                          {"cortex-a76", ArmLevel::HalfAndDot},
                          {"neoverse-n1", ArmLevel::HalfAndDot},
                          {"apple-m1", ArmLevel::HalfAndDot},
                          {"neoverse-v1", ArmLevel::Sve},
                          {"neoverse-n2", ArmLevel::Sve2}};
  for (const Row& row : rows) {
    if (row.name == name) return row.level;
  }
  return std::nullopt;
}

std::string host_model() {
#if defined(__aarch64__)
  if (std::string name = name_by_identification(); !name.empty()) return name;
  if (const u64 value = identification()) {
    char text[48];
    std::snprintf(text, sizeof text, "aarch64 processor 0x%02x-0x%03x", static_cast<unsigned>(implementer(value)),
                  static_cast<unsigned>(part_number(value)));
    return text;
  }
#endif
  return "";
}

const CpuModel& host_cpu() {
#if defined(__x86_64__)
  int bits = usable_vector_bits();
  const CpuModel* model = find_cpu(name_by_signature(), CpuArch::X86);
  if (model && model->vector_bits <= bits) return *model;
  return *find_cpu(bits == 512 ? "x86-64-v4" : bits == 256 ? "x86-64-v3" : "x86-64", CpuArch::X86);
#elif defined(__aarch64__)
  const ArmLevel level = usable_level();
  const CpuModel* model = find_cpu(name_by_identification(), CpuArch::Arm);
  if (model && *arm_level(model->name) <= level) return *model;
  return *find_cpu(level >= ArmLevel::HalfAndDot ? "neoverse-n1" : "generic", CpuArch::Arm);
#else
  return baseline_cpu(host_arch());
#endif
}

}  // namespace tw

// What a cpu's name implies: vector width, registers, caches; and the name of the cpu that we run
// on. Used by target.cc, and by machines of a fleet.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/base/arena.h"

namespace tw {

enum class CpuArch : u8 { X86, Arm, RiscV, Hexagon };

struct CpuModel {
  const char* name;  // as LLVM spells it
  CpuArch arch;
  int vector_bits, vector_registers;
  i64 l1_bytes, l2_bytes,
      l3_bytes;  // l3: of one core complex where that is the same in every product, else 0
  i64 vtcm_bytes = 0;
};

const std::vector<CpuModel>& cpu_models();
const CpuModel* find_cpu(std::string_view name, CpuArch arch);
CpuArch host_arch();
// "x86_64", "aarch64", ...: how a triple begins; "" stands for this machine's.
std::string architecture(const std::string& triple);

// What code for an aarch64 processor of the table may need, each with all before it: Armv8.0; arithmetic of halves,
// products of bytes, atomic instructions; vectors of any length; their second version.
enum class ArmLevel : u8 { V8, HalfAndDot, Sve, Sve2 };
std::optional<ArmLevel> arm_level(std::string_view name);

// The model for a cpu that the table lacks: what every cpu of that architecture has.
const CpuModel& baseline_cpu(CpuArch arch);

// The name of this machine's cpu. A level such as x86-64-v3 where family and model are unknown, or
// where a hypervisor hides instructions that the model has.
const CpuModel& host_cpu();

// What the processor itself says that it is, where hwloc cannot know; "" = hwloc does. On machines with several kinds
// of cores: the one that this thread runs on.
std::string host_model();

}  // namespace tw

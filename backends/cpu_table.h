// What a cpu's name implies: vector width, registers, caches; and the name of the cpu that we run
// on. Used by target.cc only.
#pragma once
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

// The model for a cpu that the table lacks: what every cpu of that architecture has.
const CpuModel& baseline_cpu(CpuArch arch);

// The name of this machine's cpu. A level such as x86-64-v3 where family and model are unknown, or
// where a hypervisor hides instructions that the model has.
const CpuModel& host_cpu();

}  // namespace tw

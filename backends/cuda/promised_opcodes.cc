#include "backends/cuda/promised_opcodes.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "dsl/ir/walk.h"
#include "dsl/passes/stage_copies.h"
#include "dsl/passes/warp_mma.h"

namespace tw::cuda {
namespace {

bool is_ahead(const For* loop) { return std::min(stages_of(loop), loop->extent) > 1; }

bool has_mark(const Stmt* s, std::string_view key) {
  bool found = false;
  for_each<For>(s, [&](const For* loop) { found |= find_annotation(loop->annotations, key) != nullptr; });
  return found;
}

bool copies_ahead(const Program& program) {
  bool found = false;
  for_each<For>(program.body, [&](const For* loop) { found |= is_ahead(loop) && has_mark(loop->body, kAsyncMark); });
  return found;
}

// Does ldmatrix, which moves words, bring what a marked nest multiplies? Doubles each lane loads for itself.
bool multiplies_words(const Program& program) {
  bool found = false;
  for_each<For>(program.body, [&](const For* loop) {
    if (!find_annotation(loop->annotations, kWarpMmaMark)) return;
    for_each<Load>(loop->body, [&](const Load* load) { found |= bytes_of(load->type.dtype) <= 4; });
  });
  return found;
}

}  // namespace

std::string missing_opcode(const Program& program, const std::string& arch, const Compiled& compiled) {
  auto is_there = [&](std::string_view opcode) {
    return std::any_of(compiled.code.begin(), compiled.code.end(),
                       [&](const CubinKernel& kernel) { return kernel.count(opcode) > 0; });
  };
  if (has_mark(program.body, kWarpMmaMark)) {
    constexpr std::string_view kMultiply[] = {"HMMA", "IMMA", "DMMA"};
    if (std::none_of(std::begin(kMultiply), std::end(kMultiply), is_there)) return "HMMA";
    if (multiplies_words(program) && !is_there("LDSM")) return "LDSM";
  }
  if (has_mark(program.body, kWarpgroupMmaMark) && !is_there("HGMMA")) return "HGMMA";
  bool has_async_copies = std::atoi(arch.c_str() + std::strlen("sm_")) >= 80;
  return has_async_copies && copies_ahead(program) && !is_there("LDGSTS") ? "LDGSTS" : "";
}

}  // namespace tw::cuda

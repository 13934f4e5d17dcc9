// The table of instruction kinds, from the generated list of PRIMITIVE lines.
#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "dsl/schedule/instruction.h"

namespace tw {

#define TW_PRIMITIVE(name, result, parameters, names) const InstructionKind& kind_of_##name();
#include "primitives.inc"
#undef TW_PRIMITIVE

const std::vector<const InstructionKind*>& instruction_kinds() {
  static const std::vector<const InstructionKind*> kinds = [] {
    std::vector<const InstructionKind*> list = {
#define TW_PRIMITIVE(name, result, parameters, names) &kind_of_##name(),
#include "primitives.inc"
#undef TW_PRIMITIVE
    };
    std::sort(list.begin(), list.end(),
              [](const InstructionKind* a, const InstructionKind* b) { return std::string_view(a->name) < b->name; });
    return list;
  }();
  return kinds;
}

const InstructionKind* find_kind(std::string_view name) {
  static const auto by_name = [] {
    std::unordered_map<std::string_view, const InstructionKind*> out;
    for (const InstructionKind* kind : instruction_kinds()) out.emplace(kind->name, kind);
    return out;
  }();
  auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

}  // namespace tw

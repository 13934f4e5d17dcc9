#include "dsl/passes/register_use.h"

#include <algorithm>

#include "dsl/ir/walk.h"

namespace tw {
namespace {

// All values of an index; nothing if it is not linear, or if there are more than a row of registers has elements.
std::optional<std::vector<i64>> values_of(const Expr* index, const VarRanges& ranges) {
  constexpr std::size_t kMost = 1 << 14;
  std::optional<LinearForm> form = linear_form(index);
  if (!form) return std::nullopt;
  std::vector<i64> values = {form->constant};
  for (const auto& [var, coefficient] : form->terms) {
    const Interval* range = ranges.find(var);
    if (!range) return std::nullopt;
    auto extent = static_cast<std::size_t>(range->max - range->min + 1);
    if (extent > kMost || values.size() * extent > kMost) return std::nullopt;
    std::vector<i64> next;
    for (i64 value : values) {
      for (i64 at = range->min; at <= range->max; ++at) next.push_back(value + at * coefficient);
    }
    values = std::move(next);
  }
  return values;
}

}  // namespace

RegisterUse::RegisterUse(const Stmt* body) {
  VarRanges ranges;
  visit(body, ranges);
}

bool RegisterUse::is_unused(const Buffer* buffer, const Expr* first, i64 begin, i64 end,
                            const VarRanges& ranges) const {
  auto known = used_.find(buffer);
  std::optional<std::vector<i64>> values = values_of(first, ranges);
  if (known == used_.end() || !values) return false;
  const std::vector<bool>& used = known->second;
  return std::ranges::all_of(*values, [&](i64 value) {
    if (value + begin < 0 || value + end > static_cast<i64>(used.size())) return false;
    return std::find(used.begin() + value + begin, used.begin() + value + end, true) == used.begin() + value + end;
  });
}

void RegisterUse::visit(const Node* node, VarRanges& ranges) {
  std::size_t known = ranges.size();
  if (const For* loop = as<For>(node)) ranges.set_extent(loop->var, loop->extent);
  if (const Load* load = as<Load>(node)) note(load->buffer, load->indices[0], ranges);
  if (const Store* store = as<Store>(node)) {
    for (const StoreTarget& target : store->targets) note(target.buffer, target.indices[0], ranges);
  }
  for_each_child(node, [&](const Node* child) { visit(child, ranges); });
  ranges.shrink(known);
}

void RegisterUse::note(const Buffer* buffer, const Expr* index, const VarRanges& ranges) {
  if (buffer->scope != Scope::Register) return;
  std::vector<bool>& used = used_[buffer];
  used.resize(static_cast<std::size_t>(buffer->shape[0]));
  std::optional<std::vector<i64>> values = values_of(index, ranges);
  if (!values) {
    used.assign(used.size(), true);
    return;
  }
  for (i64 value : *values) {
    if (value >= 0 && value < static_cast<i64>(used.size())) used[static_cast<std::size_t>(value)] = true;
  }
}

}  // namespace tw

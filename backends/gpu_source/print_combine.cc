#include "backends/gpu_source/print_combine.h"

#include <algorithm>

#include "dsl/analysis/reducer.h"
#include "dsl/base/text.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/combining.h"
#include "dsl/passes/thread_axes.h"

namespace tw::gpu {
namespace {

// The language's extension is there from OpenCL C 2.0 on.
constexpr const char* kSubGroups = R"(#if defined(cl_khr_subgroups) && __OPENCL_C_VERSION__ >= 200
#pragma OPENCL EXTENSION cl_khr_subgroups : enable
#define TW_SUB_GROUPS
#elif defined(cl_intel_subgroups)
#pragma OPENCL EXTENSION cl_intel_subgroups : enable
#define TW_SUB_GROUPS
#endif
)";

// The function of sub-groups that combines as the update does; null = there is none.
const char* sub_group_function(const Store* update) {
  const Binary* value = update->values.size() == 1 ? as<Binary>(update->values[0]) : nullptr;
  bool is_known = value && (value->type.dtype == DType::F32 || value->type.dtype == DType::I32) && as<Load>(value->a) &&
                  as<Load>(value->b);
  if (!is_known) return nullptr;
  return value->op == BinaryOp::Add   ? "sub_group_reduce_add"
         : value->op == BinaryOp::Min ? "sub_group_reduce_min"
         : value->op == BinaryOp::Max ? "sub_group_reduce_max"
                                      : nullptr;
}

}  // namespace

CombinePrinter::CombinePrinter(const Language& language, const LaunchExtents& extents, KernelText& text,
                               const For* loop)
    : language_(language),
      extents_(extents),
      text_(text),
      loop_(loop),
      update_(static_cast<const Store*>(loop->body)),
      terms_(*combined_loads(update_)) {}

void CombinePrinter::print() {
  std::vector<std::string> results;
  for (std::size_t t = 0; t < terms_.size(); ++t) {
    mine_.push_back(text_.temporary());
    text_.line(cat(text_.type(terms_[t]->type.dtype, 1), " ", mine_[t], " = ", bare(text_.scalar(terms_[t], 0)), ";"));
    results.push_back(text_.element(update_->targets[t].buffer, update_->targets[t].indices[0], 0));
  }
  Combining way = combining_along(loop_, extents_, language_.shuffle);
  make_arrays(way.elements);
  if (way.by_shuffles)
    combine_by_shuffles();
  else
    combine_in_shared();
  text_.open(cat("if (", place(), " == 0) "));
  combine(results, mine_);
  text_.close();
}

// The work-item's number along the loop.
const std::string& CombinePrinter::place() { return text_.name(loop_->var); }

std::string CombinePrinter::type_of(std::size_t target) const {
  return text_.type(update_->targets[target].buffer->dtype, 1);
}

// The work-item's number in its group, x fastest.
std::string CombinePrinter::item_of_group() const {
  const std::array<i64, 3>& threads = extents_.threads;
  std::string out = language_.thread[0];
  i64 below = threads[0];
  for (std::size_t d = 1; d < 3; ++d) {
    if (threads[d] > 1) out = cat(out, " + ", below, " * ", language_.thread[d]);
    below *= threads[d];
  }
  return cat("(int)(", out, ")");
}

void CombinePrinter::make_arrays(i64 elements) {
  if (elements == 0) return;
  for (const StoreTarget& target : update_->targets)
    arrays_.push_back(
        text_.shared_array(cat(std::string(target.buffer->name), "_parts"), target.buffer->dtype, elements));
}

std::vector<std::string> CombinePrinter::elements_of_arrays(const std::string& index) const {
  std::vector<std::string> out;
  for (const std::string& array : arrays_) out.push_back(cat(array, "[", index, "]"));
  return out;
}

// Stores the values of this work-item.
void CombinePrinter::write_to_arrays(const std::string& index) {
  for (std::size_t t = 0; t < mine_.size(); ++t) text_.line(cat(arrays_[t], "[", index, "] = ", mine_[t], ";"));
}

// into = update(into, others), for all targets at once.
void CombinePrinter::combine(const std::vector<std::string>& into, const std::vector<std::string>& others) {
  std::map<const Load*, std::string> given;
  for (std::size_t t = 0; t < terms_.size(); ++t) given[terms_[t]] = others[t];
  for (const Expr* value : update_->values) {
    for_each<Load>(value, [&](const Load* load) {
      for (std::size_t t = 0; t < update_->targets.size(); ++t) {
        if (load->buffer == update_->targets[t].buffer) given[load] = into[t];
        if (load->buffer == terms_[t]->buffer) given[load] = others[t];
      }
    });
  }
  std::vector<std::string> values;
  for (std::size_t t = 0; t < into.size(); ++t) {
    values.push_back(bare(text_.scalar_with(update_->values[t], given)));
    if (into.size() == 1) continue;
    std::string value = text_.temporary();
    text_.line(cat("const ", type_of(t), " ", value, " = ", values[t], ";"));
    values[t] = value;
  }
  for (std::size_t t = 0; t < into.size(); ++t) text_.line(cat(into[t], " = ", values[t], ";"));
}

void CombinePrinter::combine_by_shuffles() {
  i64 items = extents_.threads_of_group();
  std::string lanes = cat(items < kWarp ? (i64{1} << items) - 1 : i64{0xffffffff}, "u");
  for (i64 offset = std::min(kWarp, loop_->extent) / 2; offset > 0; offset /= 2) {
    text_.open("");
    std::vector<std::string> others;
    for (std::size_t t = 0; t < mine_.size(); ++t) {
      others.push_back(text_.temporary());
      text_.line(cat("const ", type_of(t), " ", others[t], " = ", language_.shuffle, "(", lanes, ", ", mine_[t], ", ",
                     offset, ");"));
    }
    combine(mine_, others);
    text_.close();
  }
  if (arrays_.empty()) return;
  std::string warp = cat(item_of_group(), " / ", kWarp);
  text_.line(language_.barrier);
  text_.open(cat("if (", place(), " % ", kWarp, " == 0) "));
  write_to_arrays(warp);
  text_.close();
  text_.line(language_.barrier);
  text_.open(cat("if (", place(), " == 0) "));
  for (i64 other = 1; other < loop_->extent / kWarp; ++other)
    combine(mine_, elements_of_arrays(cat(warp, " + ", other)));
  text_.close();
}

// Each sub-group, then one work-item what the sub-groups have.
void CombinePrinter::combine_by_sub_groups() {
  const std::string &mine = mine_[0], &array = arrays_[0];
  text_.line(cat(mine, " = ", sub_group_function(update_), "(", mine, ");"));
  text_.line(language_.barrier);
  text_.line(cat("if (get_sub_group_local_id() == 0) ", array, "[get_sub_group_id()] = ", mine, ";"));
  text_.line(language_.barrier);
  text_.open(cat("if (", place(), " == 0) "));
  std::string part = text_.temporary();
  text_.line(cat(mine, " = ", array, "[0];"));
  text_.open(cat("for (uint ", part, " = 1; ", part, " < get_num_sub_groups(); ++", part, ") "));
  combine(mine_, elements_of_arrays(part));
  text_.close();
  text_.close();
}

void CombinePrinter::combine_in_shared() {
  bool has_sub_groups =
      language_.has_vectors && loop_->extent == extents_.threads_of_group() && sub_group_function(update_);
  if (has_sub_groups) {
    text_.define("tw_sub_groups", kSubGroups);
    text_.directive("#ifdef TW_SUB_GROUPS");
    combine_by_sub_groups();
    text_.directive("#else");
  }
  combine_by_tree();
  if (has_sub_groups) text_.directive("#endif");
}

void CombinePrinter::combine_by_tree() {
  i64 stride = 1;  // between neighbours along the loop
  for (int d = 0; d < axis_of(loop_)->dimension; ++d) stride *= extents_.threads[static_cast<std::size_t>(d)];
  std::string item = item_of_group();
  text_.line(language_.barrier);
  write_to_arrays(item);
  text_.line(language_.barrier);
  for (i64 count = loop_->extent; count > 1; count = (count + 1) / 2) {
    i64 half = (count + 1) / 2;
    text_.open(cat("if (", place(), " < ", count - half, ") "));
    combine(mine_, elements_of_arrays(cat(item, " + ", half * stride)));
    write_to_arrays(item);
    text_.close();
    if (half > 1) text_.line(language_.barrier);
  }
}

}  // namespace tw::gpu

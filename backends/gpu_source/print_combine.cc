// Reductions over the work-items of a group: shuffles inside of warps where the language has them, and one exchange
// through shared memory; else sub-groups where the device has them and all of the group takes part, whatever their size
// and whichever work-items they hold; else a tree in shared memory.
#include <algorithm>

#include "backends/gpu_source/printer.h"
#include "dsl/analysis/reducer.h"
#include "dsl/base/text.h"
#include "dsl/ir/walk.h"
#include "dsl/passes/combining.h"

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

// The work-item's number in its group, x fastest.
std::string KernelPrinter::item_of_group() const {
  const std::array<i64, 3>& threads = kernel_.extents.threads;
  std::string out = language_.thread[0];
  i64 below = threads[0];
  for (std::size_t d = 1; d < 3; ++d) {
    if (threads[d] > 1) out = cat(out, " + ", below, " * ", language_.thread[d]);
    below *= threads[d];
  }
  return cat("(int)(", out, ")");
}

std::vector<std::string> KernelPrinter::exchange_arrays(const Store* update, i64 elements) {
  std::vector<std::string> out;
  if (elements == 0) return out;
  for (const StoreTarget& target : update->targets) {
    out.push_back(fresh(cat(std::string(target.buffer->name), "_parts")));
    DType dtype = target.buffer->dtype;
    shared_.push_back({type(dtype, 1), out.back(), elements, elements * bytes_of(dtype), false});
  }
  return out;
}

// mine = update(mine, others), for all targets at once.
void KernelPrinter::combine_with(const Store* update, const std::vector<std::string>& mine,
                                 const std::vector<std::string>& others) {
  List<const Load*> terms = *combined_loads(update);
  for (std::size_t t = 0; t < terms.size(); ++t) given_[terms[t]] = others[t];
  for (const Expr* value : update->values) {
    for_each<Load>(value, [&](const Load* load) {
      for (std::size_t t = 0; t < update->targets.size(); ++t) {
        if (load->buffer == update->targets[t].buffer) given_[load] = mine[t];
        if (load->buffer == terms[t]->buffer) given_[load] = others[t];
      }
    });
  }
  std::vector<std::string> values;
  for (std::size_t t = 0; t < mine.size(); ++t) {
    values.push_back(bare(scalar(update->values[t])));
    if (mine.size() == 1) continue;
    std::string value = cat("t", temporaries_++);
    line(cat("const ", type(update->targets[t].buffer->dtype, 1), " ", value, " = ", values[t], ";"));
    values[t] = value;
  }
  for (std::size_t t = 0; t < mine.size(); ++t) line(cat(mine[t], " = ", values[t], ";"));
  given_.clear();
}

void KernelPrinter::combine(const For* loop) {
  const Store* update = static_cast<const Store*>(loop->body);
  List<const Load*> terms = *combined_loads(update);
  std::vector<std::string> mine, results;
  for (std::size_t t = 0; t < terms.size(); ++t) {
    mine.push_back(cat("t", temporaries_++));
    line(cat(type(terms[t]->type.dtype, 1), " ", mine[t], " = ", bare(scalar(terms[t])), ";"));
    results.push_back(element(update->targets[t].buffer, update->targets[t].indices[0], 0));
  }
  i64 items = kernel_.extents.threads_of_group();
  Combining way = combining_along(loop, kernel_.extents, language_.shuffle);
  bool has_sub_groups = language_.has_vectors && loop->extent == items && sub_group_function(update);
  std::vector<std::string> arrays = exchange_arrays(update, way.elements);
  if (way.by_shuffles)
    combine_by_shuffles(loop, update, mine, arrays);
  else
    combine_in_shared(loop, update, mine, arrays, has_sub_groups);
  open(cat("if (", name(loop->var), " == 0) "));
  combine_with(update, results, mine);
  close();
}

// Afterwards the first work-item along the loop has the result.
void KernelPrinter::combine_by_shuffles(const For* loop, const Store* update, const std::vector<std::string>& mine,
                                        const std::vector<std::string>& arrays) {
  i64 items = kernel_.extents.threads_of_group();
  std::string lanes = cat(items < kWarp ? (i64{1} << items) - 1 : i64{0xffffffff}, "u");
  for (i64 offset = std::min(kWarp, loop->extent) / 2; offset > 0; offset /= 2) {
    open("");
    std::vector<std::string> others;
    for (std::size_t t = 0; t < mine.size(); ++t) {
      others.push_back(cat("t", temporaries_++));
      line(cat("const ", type(update->targets[t].buffer->dtype, 1), " ", others[t], " = ", language_.shuffle, "(",
               lanes, ", ", mine[t], ", ", offset, ");"));
    }
    combine_with(update, mine, others);
    close();
  }
  if (arrays.empty()) return;
  std::string warp = cat(item_of_group(), " / ", kWarp);
  line(language_.barrier);
  open(cat("if (", name(loop->var), " % ", kWarp, " == 0) "));
  for (std::size_t t = 0; t < mine.size(); ++t) line(cat(arrays[t], "[", warp, "] = ", mine[t], ";"));
  close();
  line(language_.barrier);
  open(cat("if (", name(loop->var), " == 0) "));
  for (i64 other = 1; other < loop->extent / kWarp; ++other) {
    std::vector<std::string> others;
    for (const std::string& array : arrays) others.push_back(cat(array, "[", warp, " + ", other, "]"));
    combine_with(update, mine, others);
  }
  close();
}

// Each sub-group, then one work-item what the sub-groups have.
void KernelPrinter::combine_by_sub_groups(const For* loop, const Store* update, const std::vector<std::string>& mine,
                                          const std::string& array) {
  line(cat(mine[0], " = ", sub_group_function(update), "(", mine[0], ");"));
  line(language_.barrier);
  line(cat("if (get_sub_group_local_id() == 0) ", array, "[get_sub_group_id()] = ", mine[0], ";"));
  line(language_.barrier);
  open(cat("if (", name(loop->var), " == 0) "));
  std::string part = cat("t", temporaries_++);
  line(cat(mine[0], " = ", array, "[0];"));
  open(cat("for (uint ", part, " = 1; ", part, " < get_num_sub_groups(); ++", part, ") "));
  combine_with(update, mine, {cat(array, "[", part, "]")});
  close();
  close();
}

void KernelPrinter::combine_in_shared(const For* loop, const Store* update, const std::vector<std::string>& mine,
                                      const std::vector<std::string>& arrays, bool has_sub_groups) {
  i64 stride = 1;  // between neighbours along the loop
  for (int d = 0; d < axis_of(loop)->dimension; ++d) stride *= kernel_.extents.threads[static_cast<std::size_t>(d)];
  std::string item = item_of_group();
  if (has_sub_groups) {
    define("tw_sub_groups", kSubGroups);
    text_ += "#ifdef TW_SUB_GROUPS\n";
    combine_by_sub_groups(loop, update, mine, arrays[0]);
    text_ += "#else\n";
  }
  line(language_.barrier);
  for (std::size_t t = 0; t < mine.size(); ++t) line(cat(arrays[t], "[", item, "] = ", mine[t], ";"));
  line(language_.barrier);
  for (i64 count = loop->extent; count > 1; count = (count + 1) / 2) {
    i64 half = (count + 1) / 2;
    open(cat("if (", name(loop->var), " < ", count - half, ") "));
    std::vector<std::string> others;
    for (const std::string& array : arrays) others.push_back(cat(array, "[", item, " + ", half * stride, "]"));
    combine_with(update, mine, others);
    for (std::size_t t = 0; t < mine.size(); ++t) line(cat(arrays[t], "[", item, "] = ", mine[t], ";"));
    close();
    if (half > 1) line(language_.barrier);
  }
  if (has_sub_groups) text_ += "#endif\n";
}

}  // namespace tw::gpu

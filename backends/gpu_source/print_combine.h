// CombinePrinter: one reduction over the work-items of a group. Private to this folder.
//
// Where the language has shuffles, the work-items of a warp combine what they have by these, and the warps by one
// exchange through shared memory. Else it is a tree in shared memory. Beside the tree stands a way by sub-groups, which
// a device takes if it has them and all of the group takes part. It does not depend on how large sub-groups are, or
// which work-items they hold.
#pragma once
#include <string>
#include <vector>

#include "backends/gpu_source/kernel_text.h"
#include "backends/gpu_source/language.h"
#include "dsl/passes/lower_gpu.h"

namespace tw::gpu {

class CombinePrinter {
 public:
  // `loop` is bound to threadIdx and combines (combines_work_items); `text` receives what is printed here.
  CombinePrinter(const Language& language, const LaunchExtents& extents, KernelText& text, const For* loop);
  // Prints the loop's body, once. The loop's variable has a name already.
  void print();

 private:
  const std::string& place();
  std::string type_of(std::size_t target) const;
  std::string item_of_group() const;
  void make_arrays(i64 elements);
  std::vector<std::string> elements_of_arrays(const std::string& index) const;
  void write_to_arrays(const std::string& index);
  void combine(const std::vector<std::string>& into, const std::vector<std::string>& others);
  // Afterwards the first work-item along the loop has the result in its variables.
  void combine_by_shuffles();
  void combine_in_shared();
  void combine_by_sub_groups();
  void combine_by_tree();

  const Language& language_;
  const LaunchExtents& extents_;
  KernelText& text_;
  const For* loop_;
  const Store* update_;              // its body
  List<const Load*> terms_;          // what each work-item adds, by target
  std::vector<std::string> mine_;    // variables of what a work-item has, by target
  std::vector<std::string> arrays_;  // in shared memory, to exchange it; none where shuffles do
};

}  // namespace tw::gpu

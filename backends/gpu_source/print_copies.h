// CopyPrinter: the copies of one kernel that a loop makes iterations ahead (pipeline), and other copies that are
// printed by words. Private to this folder.
//
// Copies that a schedule wants to be asynchronous (make_async) are so where the language has such copies and the store
// is a plain one, or one that fills with zeros beyond the end of a matrix. Else they are like any other store. The
// copies of an iteration are one group, and so are those in front of their loop for its first iterations. An iteration
// waits for its own group, not for those behind it. Where lowering has cut some copies away, the copies of each
// statement are a group, and all groups are waited for.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "backends/gpu_source/kernel_text.h"
#include "backends/gpu_source/language.h"
#include "dsl/analysis/copied_load.h"
#include "dsl/passes/lower_gpu.h"

namespace tw::gpu {

// What a copy reads, if its conditions are the same for all lanes; else without a load.
CopiedLoad same_for_all_lanes(const Expr* value);

class CopyPrinter {
 public:
  // `text` receives what is printed here.
  CopyPrinter(const Language& language, const GpuKernel& kernel, KernelText& text);

  // Before and behind each step.
  void begin_step(const Stmt* step);
  void end_step(const Stmt* step);
  // Before a condition between steps: is it around all copies of an iteration? Then end_condition() follows behind it.
  bool begin_condition(const Stmt* condition);
  void end_condition(const Stmt* condition);

  // What a serial loop's `for` has beside its own variable: declarations, and steps. Before it, and behind it.
  struct Counting {
    std::string declared, counted;
  };
  Counting begin_loop(const For* loop);
  void end_loop(const For* loop);
  // At the begin of each iteration: waits for the copies that it needs, if it needs any.
  void await(const For* loop);
  // The variable that counts (loop + ahead) % versions; null = there is none for this expression.
  const std::string* counted_version(const Binary* e) const;

  // Prints a store that is asynchronous or goes by words; false: it does neither, and nothing is printed.
  bool print(const Store* s);

 private:
  // (loop + ahead) % versions as a variable that is counted along with the loop.
  struct VersionCounter {
    const Var* loop;
    i64 ahead, versions;
    std::string name;
  };
  struct WordCopy {
    i64 bytes;
    std::string to, from;
    std::string inside;  // not empty: where this does not hold, zeros are written and nothing is read
  };
  bool has_whole_groups() const;
  void use_async_copies();
  void end_copies(const Stmt* s);
  std::vector<VersionCounter> version_counters(const For* loop);
  std::optional<WordCopy> word_copy(const Store* s);
  std::string in_one_sum(const Buffer* buffer, const Expr* index, int lane);
  void print_async(const WordCopy& copy);
  bool copy_async(const Store* s);
  bool copy_words(const Store* s);

  const Language& language_;
  const GpuKernel& kernel_;
  KernelText& text_;
  bool groups_are_whole_;                 // has_whole_groups()
  bool in_copies_ = false;                // in a step that makes copies for a loop around
  bool in_copies_of_iteration_ = false;   // under the condition around all of them
  i64 ungrouped_copies_ = 0;              // asynchronous ones since a group of them ended
  std::vector<VersionCounter> counters_;  // of the loops around
};

}  // namespace tw::gpu

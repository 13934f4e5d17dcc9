// Features: a scheduled program as rows of numbers, one row per store statement, for learned cost models. The search
// extracts thousands of candidates a second; the models (cost_model.h) see nothing but these rows. Nothing is lowered
// or compiled for them.
//
// The first 164 columns are the per-store features of MetaSchedule (arXiv 2205.13603; after Ansor, arXiv 2006.06762),
// same order and scale: what is counted, vectorize / unroll / parallel marks, five buffers, arithmetic intensity,
// allocation, loops around. The rest says how the store will run on the target's cores, or on the grid of a device:
// store_profile.h in numbers.
#pragma once
#include <string>
#include <vector>

#include "costmodel/draft_model.h"

namespace tw {

inline constexpr int kReferenceColumns = 164;
int feature_columns();
// One name per column, e.g. "float_add_sub", "B0.unique_bytes", "registers_over". All different.
const std::vector<std::string>& feature_names();

// Reuses its memory between calls: one per thread. Rows depend on the program's structure and the target only, not on
// names.
class FeatureExtractor {
 public:
  explicit FeatureExtractor(const FeatureTarget& target) : target_(target), profiler_(target), draft_(target.rates) {}
  // Replaces `rows` by the program's, feature_columns() floats each, all finite. Stores of literals have no row, nor
  // have `prepack` blocks: they run before the kernel is called. A program may have no rows.
  void extract(const Program& program, std::vector<float>& rows);
  // What the draft model says of the program that was extracted last.
  double draft_seconds() const { return draft_.seconds(); }

 private:
  // What all stores up to here touch below each loop.
  struct Touched {
    double count = 0, least = 0;
  };
  void remember(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses);
  void add_counts(const FlatProgram& program, const FlatStore& store);
  void add_grid(const FlatProgram& program, const FlatStore& store);
  void add_marks(const FlatProgram& program, const FlatStore& store, LoopKind kind);
  struct BufferRow {
    double lines, bytes;
    u32 order;
    std::array<float, 18> columns;
  };
  BufferRow describe(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses,
                     const Use& use) const;
  void add_buffers(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses);
  void add_intensity(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses);
  void add_surroundings(const FlatProgram& program, const FlatStore& store, const std::vector<Use>& uses);
  void add_profile(const FlatStore& store, const StoreProfile& profile);
  void add(float value) { *out_++ = value; }
  void pad(float value, int count);

  FeatureTarget target_;
  FlatReader reader_;
  Footprints footprints_;
  StoreProfiler profiler_;
  DraftSum draft_;
  std::vector<Touched> touched_;            // loop x buffer
  std::vector<double> touched_bytes_;       // loop
  std::vector<double> operations_, bytes_;  // of inner loop nests, innermost first
  std::vector<BufferRow> buffer_rows_;
  float* out_ = nullptr;  // next free column
};

void extract_features(const Program& program, const FeatureTarget& target, std::vector<float>& rows);

}  // namespace tw

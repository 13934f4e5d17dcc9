// ElementValues: single elements of what a program computes, where all of them are too many: each one asks for what it
// depends on. Slow (some 100 ns for a term of a sum), and, like the interpreter, one of the judges: no compiler and no
// schedule has a part in it.
//
//   ElementValues values(program, arguments);
//   std::optional<double> value = values.at(output, position);
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "backends/interpreter.h"

namespace tw {

class ElementValues {
 public:
  // `program` as a workload is, before any schedule: loops around one block for each buffer, which runs once over its
  // domain and writes at indices that are its iters. `arguments`: one per parameter, in order; those of outputs are not
  // looked at. Both must outlive this. After `max_steps` expressions (1e9 take some 10 s) there are no more values, nor
  // once `stop` says true, which is asked every few milliseconds.
  ElementValues(const Program& program, std::vector<const HostArray*> arguments, i64 max_steps = 1'000'000'000,
                std::function<bool()> stop = {});
  ~ElementValues();

  // The element of the output at the flat, row-major position. Nothing if the program is not of that form, if what it
  // computes there is an error (an index out of bounds, a division by zero, a sum without a beginning), or if more than
  // 200 elements wait for one another. Elements are kept for the next question.
  std::optional<double> at(const Buffer* output, i64 position);

 private:
  class Evaluation;
  std::unique_ptr<Evaluation> evaluation_;
};

}  // namespace tw

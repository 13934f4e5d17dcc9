// ElementValues: single elements of what a program computes, where all of them are too many: each one asks for what it depends on. Slow
// (some 100 ns for a term of a sum), and, like the interpreter, one of the judges: no compiler and no schedule has a part in it.
//
//   ElementValues values(program, arguments);
//   std::optional<double> value = values.at(output, position);
#pragma once
#include <memory>
#include <optional>

#include "backends/interpreter.h"

namespace tw {

class ElementValues {
 public:
  // `program` as a workload is, before any schedule: each buffer has one block that writes it, at indices which are iters of the
  // block. `arguments`: one per parameter, in order; those of outputs are not looked at. Both must outlive this.
  ElementValues(const Program& program, std::vector<const HostArray*> arguments);
  ~ElementValues();

  // The element of the output at the flat, row-major position. Nothing if the program is not of that form, or what it computes there
  // is an error (an index out of bounds, a division by zero). Elements of intermediate buffers are kept for the next question.
  std::optional<double> at(const Buffer* output, i64 position);

 private:
  class Evaluation;
  std::unique_ptr<Evaluation> evaluation_;
};

}  // namespace tw

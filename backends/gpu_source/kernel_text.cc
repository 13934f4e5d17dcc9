#include "backends/gpu_source/kernel_text.h"

#include <vector>

#include "dsl/analysis/affine.h"
#include "dsl/base/text.h"

namespace tw::gpu {

std::string KernelText::all_of(const List<const Expr*>& conditions, int lane) {
  std::vector<std::string> texts;
  for (const Expr* condition : conditions) texts.push_back(scalar(condition, lane));
  return texts.size() > 1 ? cat("(", join(texts, " && "), ")") : join(texts, "");
}

std::string bare(std::string text) {
  if (text.size() < 2 || text.front() != '(' || text.back() != ')') return text;
  int depth = 0;
  for (std::size_t i = 0; i + 1 < text.size(); ++i) {
    depth += text[i] == '(' ? 1 : text[i] == ')' ? -1 : 0;
    if (depth == 0) return text;
  }
  return text.substr(1, text.size() - 2);
}

const Expr* first_index(const Expr* index) {
  if (index->type.lanes == 1) return index;
  const Ramp* ramp = as<Ramp>(index);
  return ramp && is_constant(ramp->stride, 1) ? ramp->base : nullptr;
}

const char* words_type(i64 bytes) { return bytes == 4 ? "int" : bytes == 8 ? "int2" : "int4"; }

}  // namespace tw::gpu

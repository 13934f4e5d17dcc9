#include "cli/choose_entry.h"

#include <algorithm>

#include "dsl/base/text.h"
#include "runtime/console/output.h"
#include "runtime/export/model_entries.h"

namespace tw::cli {
namespace {

bool fits(const ModelLibrary& entry, const std::vector<ModelShape>& shapes) {
  return std::ranges::all_of(shapes, [&](const ModelShape& shape) {
    auto input = std::ranges::find(entry.inputs, shape.name, &KernelArgument::name);
    return input == entry.inputs.end() || input->shape == shape.extents;
  });
}

std::string text_of(const std::string& name, const std::vector<i64>& extents) {
  return cat(name, "=", join(extents, ","));
}

// "x=1,3,32,32; x=8,3,32,32": all inputs of a library of one entry, else those whose shapes differ.
std::string listed(const std::vector<ModelLibrary>& entries) {
  if (entries.size() > 1) return join(entry_labels(entries), "; ");
  std::vector<std::string> words;
  for (const KernelArgument& input : entries[0].inputs) words.push_back(text_of(input.name, input.shape));
  return join(words, " ");
}

}  // namespace

std::optional<ModelLibrary> choose_entry(const std::vector<ModelLibrary>& entries,
                                         const std::vector<ModelShape>& shapes) {
  auto found = std::ranges::find_if(entries, [&](const ModelLibrary& entry) { return fits(entry, shapes); });
  if (found != entries.end()) return *found;
  std::vector<std::string> words;
  for (const ModelShape& shape : shapes) words.push_back(text_of(shape.name, shape.extents));
  return say(cat("the library has no entry for ", join(words, " "), "; it has ", listed(entries))), std::nullopt;
}

}  // namespace tw::cli

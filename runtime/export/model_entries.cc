#include "runtime/export/model_entries.h"

#include <algorithm>

#include "dsl/base/text.h"
#include "runtime/export/c_text.h"

namespace tw {
namespace {

constexpr const char* kDeclarations = R"c(
/* The library has an entry for each of these combinations of input shapes; $NAME_create makes a context of entry 0.
$LABELS */
enum { $NAME_ENTRIES = $COUNT, $NAME_NO_ENTRY = 5 /* no entry has this number */ };

/* A context of one entry, 0 to $NAME_ENTRIES - 1. Contexts of different entries may run at the same time, too. */
int32_t $NAME_create_entry(const char* weights_file, int entry, int workers, $NAME_context** context);
/* The entry for these shapes, or -1 if there is none. shapes[i]: the extents of inputs[i]. */
int $NAME_find_entry(const int64_t* const* shapes);
)c";

constexpr const char* kDefinitions = R"c(
int32_t $NAME_create_entry(const char* weights_file, int entry, int workers, $NAME_context** context) {
  *context = NULL;
  return entry < 0 || entry >= $NAME_ENTRIES ? $NAME_NO_ENTRY : make_context(weights_file, entry, workers, context);
}

int $NAME_find_entry(const int64_t* const* shapes) {
  static const int dimensions[] = {$DIMENSIONS};
  static const int64_t known[$COUNT][$EXTENTS] = {
$SHAPES  };
  int entry, i, d;
  for (entry = 0; entry < $COUNT; ++entry) {
    const int64_t* extent = known[entry];
    int is_same = 1;
    for (i = 0; i < (int)(sizeof dimensions / sizeof *dimensions); ++i) {
      for (d = 0; d < dimensions[i]; ++d) is_same &= shapes[i][d] == *extent++;
    }
    if (is_same) return entry;
  }
  return -1;
}
)c";

std::vector<std::vector<KernelArgument>> inputs_of(const ModelPlan& model) {
  std::vector<std::vector<KernelArgument>> out;
  for (const ModelEntry* entry : entries_of(model)) out.push_back(entry->inputs);
  return out;
}

// All extents of an entry's inputs, one after the other.
std::vector<i64> extents_of(const std::vector<KernelArgument>& inputs) {
  std::vector<i64> out;
  for (const KernelArgument& input : inputs) out.insert(out.end(), input.shape.begin(), input.shape.end());
  return out;
}

}  // namespace

std::vector<std::string> entry_labels(const std::vector<std::vector<KernelArgument>>& inputs) {
  std::vector<std::string> labels;
  for (const std::vector<KernelArgument>& own : inputs) {
    std::vector<std::string> words;
    for (std::size_t i = 0; i < own.size(); ++i) {
      bool is_same = std::ranges::all_of(
          inputs, [&](const std::vector<KernelArgument>& other) { return other[i].shape == own[i].shape; });
      if (!is_same) words.push_back(cat(own[i].name, "=", join(own[i].shape, ",")));
    }
    labels.push_back(join(words, " "));
  }
  return labels;
}

std::vector<std::string> entry_labels(const ModelPlan& model) { return entry_labels(inputs_of(model)); }

std::vector<std::string> entry_labels(const std::vector<ModelLibrary>& entries) {
  std::vector<std::vector<KernelArgument>> inputs;
  for (const ModelLibrary& entry : entries) inputs.push_back(entry.inputs);
  return entry_labels(inputs);
}

std::string entry_declarations(const ModelPlan& model) {
  if (model.further.empty()) return "";
  std::vector<std::string> lines;
  std::vector<std::string> labels = entry_labels(model);
  for (std::size_t i = 0; i < labels.size(); ++i) lines.push_back(cat(" *   ", i, ": ", comment_text(labels[i])));
  return with_words(kDeclarations, {{"$LABELS", join(lines, "\n")}, {"$COUNT", cat(labels.size())}});
}

std::string entry_definitions(const ModelPlan& model) {
  if (model.further.empty()) return "";
  std::vector<std::size_t> dimensions;
  for (const KernelArgument& input : model.inputs) dimensions.push_back(input.shape.size());
  std::string shapes;
  for (const std::vector<KernelArgument>& inputs : inputs_of(model))
    shapes += cat("      {", join(extents_of(inputs), ", "), "},\n");
  return with_words(kDefinitions, {{"$DIMENSIONS", join(dimensions, ", ")},
                                   {"$COUNT", cat(model.further.size() + 1)},
                                   {"$EXTENTS", cat(extents_of(model.inputs).size())},
                                   {"$SHAPES", shapes}});
}

}  // namespace tw

#include "runtime/export/model_plan.h"

#include <algorithm>
#include <boost/json.hpp>
#include <map>

#include "backends/kernel_abi.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "runtime/export/c_text.h"
#include "runtime/export/export.h"
#include "runtime/export/export_files.h"
#include "runtime/export/model_entries.h"

namespace tw {
namespace {

std::string weights_digest(std::string_view weights) {
  return cat("tracewright weights ", to_hex(hash_bytes(weights)));
}

std::string place(const ModelPlace& place) {
  switch (place.where) {
    case ModelPlace::Where::Input:
      return place.offset == 0 ? cat("(void*)inputs[", place.at, "]")
                               : cat("(char*)inputs[", place.at, "] + ", place.offset);
    case ModelPlace::Where::Output:
      return place.offset == 0 ? cat("outputs[", place.at, "]")
                               : cat("(char*)outputs[", place.at, "] + ", place.offset);
    case ModelPlace::Where::Weights:
      return cat("w + ", place.at);
    default:
      break;
  }
  return cat("m + ", place.at);
}

}  // namespace

std::string tensor_lines(const std::vector<KernelArgument>& tensors, const char* what) {
  std::string out;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::string shape;
    for (i64 extent : tensors[i].shape) shape += cat("[", extent, "]");
    out += cat(" *   ", what, "[", i, "] ", comment_text(tensors[i].name), ": ", name_of(tensors[i].dtype), shape, ", ",
               tensors[i].bytes, " bytes\n");
  }
  return out;
}

namespace {

// What users read of an entry's tensors; behind its number where there are several.
std::string all_tensor_lines(const ModelPlan& model) {
  std::string out;
  std::vector<const ModelEntry*> entries = entries_of(model);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries.size() > 1) out += cat(" * Entry ", i, ":\n");
    out += tensor_lines(entries[i]->inputs, "inputs") + tensor_lines(entries[i]->outputs, "outputs");
  }
  return out;
}

std::string filled(const std::string& text, const ExportPlan& plan) {
  const ModelPlan& model = *plan.model;
  return with_words(text, {{"$NAME", plan.library},
                           {"$DIGEST", weights_digest(model.weights)},
                           {"$FILE_BYTES", cat(static_cast<i64>(model.weights.size()) + kWeightsHeaderBytes)}});
}

constexpr const char* kDeclarations = R"c(
/* The whole model. Contexts may run at the same time, each on its own thread; they share the memory of the weights. */
typedef struct $NAME_context $NAME_context;

/* What the functions return beside 0. */
enum {
  $NAME_UNSUPPORTED_CPU = 1, /* this CPU lacks instructions that the code uses */
  $NAME_NO_WEIGHTS = 2,      /* the file cannot be read, or belongs to another model */
  $NAME_NO_MEMORY = 3,
  $NAME_MISALIGNED = 4       /* an input or output is not aligned to TW_ALIGNMENT bytes */
};

/* Maps the file of weights and takes all memory that runs need. `workers`: threads of the pool, 1 without one. */
int32_t $NAME_create(const char* weights_file, int workers, $NAME_context** context);
void $NAME_destroy($NAME_context* context);
$ENTRIES
/* One inference; takes no memory. Tensors are dense and row-major, and outputs overlap nothing. Indices among the inputs
 * are not checked. parallel_for and pool: tw_pool_run and a pool of
 * tw_thread_pool.h with at most `workers` threads, or NULL.
)c";

constexpr const char* kDefinitions = R"c(
#include <stdlib.h>

struct $NAME_context {
  char *weights, *memory, *scratch;
  int entry;
};

/* Bytes that the runs of each entry need. */
static const struct {
  size_t memory, scratch, scratch_of_worker;
} needs[] = {
$NEEDS};

static char* take(size_t bytes) {
  void* memory = NULL;
  return posix_memalign(&memory, TW_ALIGNMENT, bytes + TW_ALIGNMENT) == 0 ? (char*)memory : NULL;
}

static int32_t make_context(const char* weights_file, int entry, int workers, $NAME_context** context) {
  $NAME_context* made = NULL;
  *context = NULL;
  if (!supported) return $NAME_UNSUPPORTED_CPU;
  made = ($NAME_context*)calloc(1, sizeof *made);
  if (!made) return $NAME_NO_MEMORY;
  made->weights = tw_map_weights(weights_file, "$DIGEST", $FILE_BYTES);
  if (!made->weights) return $NAME_destroy(made), $NAME_NO_WEIGHTS;
  made->entry = entry;
  made->memory = take(needs[entry].memory);
  made->scratch = take(needs[entry].scratch + (workers < 1 ? 1 : (size_t)workers) * needs[entry].scratch_of_worker);
  if (!made->memory || !made->scratch) return $NAME_destroy(made), $NAME_NO_MEMORY;
  *context = made;
  return 0;
}

int32_t $NAME_create(const char* weights_file, int workers, $NAME_context** context) {
  return make_context(weights_file, 0, workers, context);
}
$ENTRIES
void $NAME_destroy($NAME_context* context) {
  if (!context) return;
  if (context->weights) munmap(context->weights, $FILE_BYTES);
  free(context->memory);
  free(context->scratch);
  free(context);
}

static int is_misaligned(const void* pointer) { return ((uintptr_t)pointer & (TW_ALIGNMENT - 1)) != 0; }
)c";

// A function that runs an entry, without its name.
std::string parameters(const std::string& library, const std::string& function) {
  return cat("(", library, "_context* context, const void* const* inputs, void* const* outputs,\n",
             std::string(function.size() + 1, ' '), "tw_parallel_for parallel_for, void* pool)");
}
std::string signature(const std::string& library) {
  std::string function = cat("int32_t ", library, "_run");
  return function + parameters(library, function);
}

// Rows of the table `needs`: an entry's scratch memory is what its largest kernel takes.
std::string needs_of(const ExportPlan& plan) {
  std::string out;
  for (const ModelEntry* entry : entries_of(*plan.model)) {
    i64 shared = 0, of_a_worker = 0;
    for (const ModelStep& step : entry->steps) {
      const KernelManifest& manifest = plan.tasks[step.task].kernel.manifest;
      shared = std::max(shared, manifest.scratch_shared_bytes);
      of_a_worker = std::max(of_a_worker, manifest.scratch_worker_bytes);
    }
    out += cat("    {", entry->memory_bytes, ", ", shared, ", ", of_a_worker, "},\n");
  }
  return out;
}

std::string run_name(std::size_t entry) { return cat("run_", entry); }

// A function that runs the steps of an entry.
std::string steps_definition(const ExportPlan& plan, const ModelEntry& entry, std::size_t number) {
  std::string function = cat("static int32_t ", run_name(number));
  std::string out =
      cat("\n", function, parameters(plan.library, function), " {\n",
          "  char *m = context->memory, *w = context->weights, *s = context->scratch;\n", "  int32_t code = 0;\n");
  for (const ModelStep& step : entry.steps) {
    std::vector<std::string> places;
    for (const ModelPlace& at : step.buffers) places.push_back(place(at));
    out += cat("  { /* ", comment_text(step.name), " */\n    void* buffers[] = {", join(places, ", "),
               "};\n    code = ", kernel_symbol(plan.library, plan.tasks[step.task].name),
               "_run(buffers, s, parallel_for, pool);\n    if (code != 0) return code;\n  }\n");
  }
  for (const ModelCopy& copy : entry.copies)
    out +=
        cat("  memcpy(outputs[", copy.output, "], ", place(copy.from), ", ", entry.outputs[copy.output].bytes, ");\n");
  return out + "  (void)m, (void)w, (void)s;\n  return code;\n}\n";
}

// With the values that random integers are drawn from.
boost::json::array export_inputs(const ModelEntry& entry) {
  boost::json::array out = export_arguments(entry.inputs);
  for (std::size_t i = 0; i < out.size(); ++i) {
    const IndexRange& values = entry.inputs[i].indices;
    if (values != IndexRange()) out[i].as_object()["values"] = {values.lowest, values.below};
  }
  return out;
}

boost::json::object entry_manifest(const ExportPlan& plan, const ModelEntry& entry) {
  boost::json::array steps;
  std::map<i64, i64> pieces;  // of the weights: from, bytes
  for (const ModelStep& step : entry.steps) {
    boost::json::array buffers;
    const std::vector<KernelArgument>& arguments = plan.tasks[step.task].kernel.manifest.run;
    for (std::size_t i = 0; i < step.buffers.size(); ++i) {
      const ModelPlace& at = step.buffers[i];
      boost::json::array place{name_of(at.where), at.at};
      if (at.offset != 0) place.push_back(at.offset);
      buffers.push_back(std::move(place));
      if (at.where == ModelPlace::Where::Weights) pieces[at.at] = std::max(pieces[at.at], arguments[i].bytes);
    }
    steps.push_back({{"name", step.name}, {"kernel", plan.tasks[step.task].name}, {"buffers", buffers}});
  }
  for (const ModelCopy& copy : entry.copies) {
    if (copy.from.where == ModelPlace::Where::Weights) pieces[copy.from.at] = entry.outputs[copy.output].bytes;
  }
  i64 read = 0;
  for (const auto& [at, bytes] : pieces) read += bytes;
  return {{"memory_bytes", entry.memory_bytes},
          {"least_memory_bytes", entry.least_memory_bytes},
          {"read_weight_bytes", read},
          {"inputs", export_inputs(entry)},
          {"outputs", export_arguments(entry.outputs)},
          {"steps", steps}};
}

}  // namespace

const char* name_of(ModelPlace::Where where) {
  constexpr const char* names[] = {"input", "output", "memory", "weights", "packed", "sources"};
  return names[static_cast<int>(where)];
}

std::string weights_header(std::string_view weights) {
  std::string header = weights_digest(weights);
  header.resize(kWeightsHeaderBytes, '\0');
  return header;
}

std::vector<const ModelEntry*> entries_of(const ModelPlan& plan) {
  std::vector<const ModelEntry*> entries{&plan};
  for (const ModelEntry& entry : plan.further) entries.push_back(&entry);
  return entries;
}

std::string model_declarations(const ExportPlan& plan) {
  std::string text = with_words(kDeclarations, {{"$ENTRIES", entry_declarations(*plan.model)}});
  return cat(filled(text, plan), all_tensor_lines(*plan.model), " */\n", signature(plan.library),
             ";\n\n/* The kernels that it runs. */\n\n");
}

std::string model_definitions(const ExportPlan& plan) {
  const ModelPlan& model = *plan.model;
  std::vector<const ModelEntry*> entries = entries_of(model);
  std::string out = embedded_file("runtime/export/map_weights.h");
  out += filled(with_words(kDefinitions, {{"$ENTRIES", entry_definitions(model)}, {"$NEEDS", needs_of(plan)}}), plan);
  std::vector<std::string> names;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    out += steps_definition(plan, *entries[i], i);
    names.push_back(run_name(i));
  }
  out += cat("\n", signature(plan.library), " {\n", "  static int32_t (*const runs[])",
             parameters(plan.library, "  static int32_t (*const runs[])"), " = {", join(names, ", "), "};\n  int i;\n",
             "  for (i = 0; i < ", model.inputs.size(), "; ++i) {\n    if (is_misaligned(inputs[i])) return ",
             plan.library, "_MISALIGNED;\n  }\n  for (i = 0; i < ", model.outputs.size(),
             "; ++i) {\n    if (is_misaligned(outputs[i])) return ", plan.library, "_MISALIGNED;\n  }\n");
  return out + "  return runs[context->entry](context, inputs, outputs, parallel_for, pool);\n}\n";
}

boost::json::object model_manifest(const ExportPlan& plan) {
  const ModelPlan& model = *plan.model;
  boost::json::object out{{"weights", plan.library + ".weights"}, {"weight_bytes", model.weights.size()}};
  for (const auto& [key, value] : entry_manifest(plan, model)) out[key] = value;
  boost::json::array further;
  for (const ModelEntry& entry : model.further) further.push_back(entry_manifest(plan, entry));
  if (!further.empty()) out["further_entries"] = std::move(further);
  return out;
}

}  // namespace tw

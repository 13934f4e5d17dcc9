#include "runtime/export/model_plan.h"

#include <algorithm>
#include <boost/json.hpp>

#include "backends/kernel_abi.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "runtime/export/export.h"
#include "runtime/export/export_files.h"

namespace tw {
namespace {

std::string weights_digest(std::string_view weights) {
  return cat("tracewright weights ", to_hex(hash_bytes(weights)));
}

std::string place(const ModelPlace& place) {
  switch (place.where) {
    case ModelPlace::Where::Input:
      return cat("(void*)inputs[", place.at, "]");
    case ModelPlace::Where::Output:
      return cat("outputs[", place.at, "]");
    case ModelPlace::Where::Weights:
      return cat("w + ", place.at);
    default:
      break;
  }
  return cat("m + ", place.at);
}

}  // namespace

std::string comment_text(std::string name) {
  for (char& c : name) {
    if (c == '*' || c == '/' || c == '\\' || c == '"' || static_cast<unsigned char>(c) < ' ') c = '_';
  }
  return name;
}

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

std::string filled(std::string text, const ExportPlan& plan) {
  const ModelPlan& model = *plan.model;
  const std::pair<std::string, std::string> words[] = {
      {"$NAME", plan.library},
      {"$DIGEST", weights_digest(model.weights)},
      {"$MEMORY_BYTES", cat(model.memory_bytes)},
      {"$FILE_BYTES", cat(static_cast<i64>(model.weights.size()) + kWeightsHeaderBytes)}};
  for (const auto& [word, value] : words) {
    for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + value.size()))
      text.replace(at, word.size(), value);
  }
  return text;
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

/* One inference; takes no memory. Tensors are dense and row-major, and outputs overlap nothing. Indices among the inputs
 * are not checked. parallel_for and pool: tw_pool_run and a pool of
 * tw_thread_pool.h with at most `workers` threads, or NULL.
)c";

constexpr const char* kDefinitions = R"c(
#include <stdlib.h>

struct $NAME_context {
  char *weights, *memory, *scratch;
};

static char* take(size_t bytes) {
  void* memory = NULL;
  return posix_memalign(&memory, TW_ALIGNMENT, bytes + TW_ALIGNMENT) == 0 ? (char*)memory : NULL;
}

int32_t $NAME_create(const char* weights_file, int workers, $NAME_context** context) {
  $NAME_context* made = NULL;
  size_t scratch = scratch_bytes(workers < 1 ? 1 : (size_t)workers);
  *context = NULL;
  if (!supported) return $NAME_UNSUPPORTED_CPU;
  made = ($NAME_context*)calloc(1, sizeof *made);
  if (!made) return $NAME_NO_MEMORY;
  made->weights = tw_map_weights(weights_file, "$DIGEST", $FILE_BYTES);
  if (!made->weights) return $NAME_destroy(made), $NAME_NO_WEIGHTS;
  made->memory = take($MEMORY_BYTES);
  made->scratch = take(scratch);
  if (!made->memory || !made->scratch) return $NAME_destroy(made), $NAME_NO_MEMORY;
  *context = made;
  return 0;
}

void $NAME_destroy($NAME_context* context) {
  if (!context) return;
  if (context->weights) munmap(context->weights, $FILE_BYTES);
  free(context->memory);
  free(context->scratch);
  free(context);
}

static int is_misaligned(const void* pointer) { return ((uintptr_t)pointer & (TW_ALIGNMENT - 1)) != 0; }
)c";

std::string signature(const std::string& library) {
  return cat("int32_t ", library, "_run(", library,
             "_context* context, const void* const* inputs, void* const* outputs,\n",
             std::string(library.size() + 13, ' '), "tw_parallel_for parallel_for, void* pool)");
}

// A C function: the bytes of scratch memory with which every kernel of the model can run.
std::string scratch_definition(const ExportPlan& plan) {
  i64 shared = 0, of_a_worker = 0;
  for (const ExportedTask& task : plan.tasks) {
    shared = std::max(shared, task.kernel.manifest.scratch_shared_bytes);
    of_a_worker = std::max(of_a_worker, task.kernel.manifest.scratch_worker_bytes);
  }
  return cat("\nstatic size_t scratch_bytes(size_t workers) { return ", shared, " + workers * ", of_a_worker, "; }\n");
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

std::string model_declarations(const ExportPlan& plan) {
  const ModelPlan& model = *plan.model;
  return cat(filled(kDeclarations, plan), tensor_lines(model.inputs, "inputs"), tensor_lines(model.outputs, "outputs"),
             " */\n", signature(plan.library), ";\n\n/* The kernels that it runs. */\n\n");
}

std::string model_definitions(const ExportPlan& plan) {
  const ModelPlan& model = *plan.model;
  std::string out = cat(embedded_file("runtime/export/map_weights.h"), scratch_definition(plan),
                        filled(kDefinitions, plan), "\n", signature(plan.library), " {\n",
                        "  char *m = context->memory, *w = context->weights, *s = context->scratch;\n",
                        "  int32_t code = 0;\n  int i;\n", "  for (i = 0; i < ", model.inputs.size(),
                        "; ++i) {\n    if (is_misaligned(inputs[i])) return ", plan.library,
                        "_MISALIGNED;\n  }\n  for (i = 0; i < ", model.outputs.size(),
                        "; ++i) {\n    if (is_misaligned(outputs[i])) return ", plan.library, "_MISALIGNED;\n  }\n");
  for (const ModelStep& step : model.steps) {
    std::vector<std::string> places;
    for (const ModelPlace& at : step.buffers) places.push_back(place(at));
    out += cat("  { /* ", comment_text(step.name), " */\n    void* buffers[] = {", join(places, ", "),
               "};\n    code = ", kernel_symbol(plan.library, plan.tasks[step.task].name),
               "_run(buffers, s, parallel_for, pool);\n    if (code != 0) return code;\n  }\n");
  }
  for (const ModelCopy& copy : model.copies)
    out +=
        cat("  memcpy(outputs[", copy.output, "], ", place(copy.from), ", ", model.outputs[copy.output].bytes, ");\n");
  return out + "  (void)m, (void)w, (void)s;\n  return code;\n}\n";
}

boost::json::object model_manifest(const ExportPlan& plan) {
  const ModelPlan& model = *plan.model;
  boost::json::array steps;
  for (const ModelStep& step : model.steps) {
    boost::json::array buffers;
    for (const ModelPlace& at : step.buffers) buffers.push_back(boost::json::array{name_of(at.where), at.at});
    steps.push_back({{"name", step.name}, {"kernel", plan.tasks[step.task].name}, {"buffers", buffers}});
  }
  return {{"weights", plan.library + ".weights"},
          {"weight_bytes", model.weights.size()},
          {"memory_bytes", model.memory_bytes},
          {"least_memory_bytes", model.least_memory_bytes},
          {"inputs", export_arguments(model.inputs)},
          {"outputs", export_arguments(model.outputs)},
          {"steps", steps}};
}

}  // namespace tw

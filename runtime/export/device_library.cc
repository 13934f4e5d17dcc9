#include "runtime/export/device_library.h"

#include "dsl/base/text.h"
#include "runtime/export/c_text.h"

namespace tw {
namespace {

constexpr const char* kHeader =
    R"c(/* A model made by tracewright $VERSION for $TARGET. Link with -ldl and -lpthread. */
#ifndef $NAME_model_H
#define $NAME_model_H
#include <stdint.h>

$INCLUDE

#ifdef __cplusplus
extern "C" {
#endif

/* Contexts may run at the same time, each on its own thread; each has its own memory on the device. */
typedef struct $NAME_context $NAME_context;

/* What the functions return beside 0. */
enum {
  $NAME_NO_WEIGHTS = 2, /* the file cannot be read, or belongs to another model */
  $NAME_NO_MEMORY = 3,
  $NAME_MISALIGNED = 4,   /* of $NAME_run_on_device: a tensor $MISALIGNED */
  $NAME_NO_DEVICE = 6,    /* there is no driver, or no such device */
  $NAME_DEVICE_FAILED = 7 /* the driver refused or failed */
};

/* Opens device $DEVICE of the driver, loads the kernels, copies and packs the weights.
 * `workers` is not used. */
int32_t $NAME_create(const char* weights_file, int workers, $NAME_context** context);
/* The same on another device, counted over all platforms. */
int32_t $NAME_create_on(const char* weights_file, int device, $NAME_context** context);
$CREATE_INvoid $NAME_destroy($NAME_context* context);
/* What went wrong in this thread's latest call, in words; "" = nothing is known. */
const char* $NAME_problem(void);

/* One inference: copies the inputs to the device and the outputs from it. Tensors are in the host's memory,
 * dense and row-major. Indices among the inputs are not checked. parallel_for and pool are not used.
$TENSORS */
int32_t $NAME_run($NAME_context* context, const void* const* inputs, void* const* outputs,
$SPACES         tw_parallel_for parallel_for, void* pool);

/* One inference on tensors in the device's memory: enqueues the kernels in `stream` and returns. Nothing is copied to
 * or from the host, and nothing waits. A tensor is $POINTER.
 * All memory between the kernels is the context's: what the call before has enqueued must be done before, or in front
 * in the same stream; and before $NAME_run, $NAME_time_* and $NAME_destroy. */
int32_t $NAME_run_on_device($NAME_context* context, const void* const* inputs, void* const* outputs, void* stream);

$GRAPH_COMMENT
int32_t $NAME_has_graph(const $NAME_context* context);
/* 0: kernels are launched one by one; else as a graph if the driver can. Contexts are made with 1. */
void $NAME_use_graph($NAME_context* context, int32_t use);

/* How many steps a run has; their names are in manifest.json. */
enum { $NAME_STEPS = $STEP_COUNT };
/* What they take on the device, by its clock: a run on the inputs of the latest $NAME_run, and the seconds of each
 * step, with what passes until the next one begins. `seconds` has $NAME_STEPS places. */
int32_t $NAME_time_steps($NAME_context* context, double* seconds);
/* What a run takes on the device, by its clock: so many runs on those inputs, each behind the one before it, without
 * copies, and the seconds of one. */
int32_t $NAME_time_run($NAME_context* context, int32_t calls, double* seconds);

#ifdef __cplusplus
}
#endif
#endif
)c";

constexpr const char* kGraphComment =
    R"c(/* Is a run given to the driver as one CUDA graph? If not, kernels are launched one by one: where the driver cannot make
 * the graph, and in a stream that is being captured. Other pointers than those of the call before cost some
 * microseconds for each kernel that reads or writes them. */)c";

constexpr const char* kNoGraphComment = "/* 0: OpenCL has no graphs, kernels are enqueued one by one. */";

constexpr const char* kCreateIn =
    R"c(/* The same in a caller's cl_context, on a cl_device_id of it: for $NAME_run_on_device. */
int32_t $NAME_create_in(const char* weights_file, void* opencl_context, void* opencl_device, $NAME_context** context);
)c";

constexpr const char* kDefinitions = R"c(struct $NAME_context {
  tw_model_context whole;
};

int32_t $NAME_create_on(const char* weights_file, int device, $NAME_context** context) {
  return tw_model_create(&model, weights_file, device, NULL, (tw_model_context**)context);
}

int32_t $NAME_create(const char* weights_file, int workers, $NAME_context** context) {
  (void)workers;
  return tw_model_create(&model, weights_file, $DEVICE, NULL, (tw_model_context**)context);
}

void $NAME_destroy($NAME_context* context) { tw_model_destroy((tw_model_context*)context); }

const char* $NAME_problem(void) { return tw_model_problem; }

int32_t $NAME_run($NAME_context* context, const void* const* inputs, void* const* outputs,
$SPACES         tw_parallel_for parallel_for, void* pool) {
  (void)parallel_for, (void)pool;
  return tw_model_run(&context->whole, inputs, outputs);
}

int32_t $NAME_run_on_device($NAME_context* context, const void* const* inputs, void* const* outputs, void* stream) {
  return tw_model_run_on_device(&context->whole, inputs, outputs, (tw_queue)stream);
}

int32_t $NAME_has_graph(const $NAME_context* context) { return context->whole.has_graph; }

void $NAME_use_graph($NAME_context* context, int32_t use) {
  if (tw_device_enter(&context->whole.device) == 0) tw_model_use_graph(&context->whole, use != 0);
  tw_device_leave(&context->whole.device);
}

int32_t $NAME_time_steps($NAME_context* context, double* seconds) {
  return tw_model_time_steps(&context->whole, seconds);
}

int32_t $NAME_time_run($NAME_context* context, int32_t calls, double* seconds) {
  return tw_model_time_run(&context->whole, calls, seconds);
}
)c";

constexpr const char* kDefineCreateIn = R"c(
int32_t $NAME_create_in(const char* weights_file, void* opencl_context, void* opencl_device, $NAME_context** context) {
  tw_device device = {0};
  device.context = (cl_context)opencl_context;
  device.device = (cl_device_id)opencl_device;
  return tw_model_create(&model, weights_file, 0, &device, (tw_model_context**)context);
}
)c";

std::string filled(const std::string& text, const ExportPlan& plan, const Target& target) {
  int device = target.kind == TargetKind::OpenCl ? target.device : 0;
  return with_words(text, {{"$INCLUDE", "#include \"tw_kernel_abi.h\""},
                           {"$NAME", plan.library},
                           {"$VERSION", TW_VERSION},
                           {"$TARGET", to_string(target)},
                           {"$DEVICE", cat(device)},
                           {"$STEP_COUNT", cat(plan.model->steps.size())},
                           {"$SPACES", std::string(plan.library.size() + 4, ' ')}});
}

}  // namespace

std::string device_header(const ExportPlan& plan, const Target& target) {
  bool is_opencl = target.kind == TargetKind::OpenCl;
  std::string tensors = tensor_lines(plan.model->inputs, "inputs") + tensor_lines(plan.model->outputs, "outputs");
  std::string text = with_words(
      kHeader,
      {{"$CREATE_IN", is_opencl ? kCreateIn : ""},
       {"$MISALIGNED", is_opencl ? "is NULL" : "is NULL or not aligned to TW_ALIGNMENT bytes"},
       {"$POINTER", is_opencl
                        ? "a cl_mem of its bytes, of the context that was given to $NAME_create_in;\n * `stream` is a "
                          "cl_command_queue of it, in order"
                        : "a CUdeviceptr as a pointer, as\n * cudaMalloc gives it, aligned to TW_ALIGNMENT "
                          "bytes; `stream` is a CUstream or cudaStream_t"},
       {"$GRAPH_COMMENT", is_opencl ? kNoGraphComment : kGraphComment}});
  return with_words(filled(text, plan, target), {{"$TENSORS", tensors}});
}

std::string device_definitions(const ExportPlan& plan, const Target& target) {
  return filled(cat(kDefinitions, target.kind == TargetKind::OpenCl ? kDefineCreateIn : ""), plan, target);
}

}  // namespace tw

/* Runs a compiled model on a device: takes memory there, copies and packs the weights once. Then each call runs all
 * kernels in order, on tensors in the device's memory, or on those of the host, which it copies; by the graph of all
 * launches where the driver has one. In C99, for a copy beside each library, whose own file holds the tables; in that
 * copy a driver (opencl_driver.h or cuda_driver.h), its launcher and map_weights.h stand in front, and device_times.h
 * behind. One thread at a time per context.
 */
#ifndef TRACEWRIGHT_DEVICE_MODEL_H
#define TRACEWRIGHT_DEVICE_MODEL_H

/* Pieces of the device's memory. Behind them one for each input, then one for each output. */
enum { TW_MEMORY, TW_WEIGHTS, TW_PACKED, TW_SOURCES, TW_SCRATCH, TW_INPUTS };

typedef struct {
  int piece;
  size_t at, bytes;
} tw_place;

typedef struct {
  const char* name; /* of what is computed */
  int kernel;
  size_t count;
  const tw_place* places; /* of the arguments of the kernel's entry point */
} tw_step;

typedef struct {
  const char* digest;  /* that the file of weights begins with */
  size_t header_bytes; /* of the file, in front of the piece TW_WEIGHTS, behind which TW_SOURCES is */
  size_t piece_bytes[TW_INPUTS];
  size_t input_count, output_count;
  const size_t* input_bytes;
  const tw_place* results; /* where each output is */
  size_t kernel_count;
  const TW_MODEL_TABLE* const* kernels;
  size_t step_count[2]; /* of packing (entry point 0), of a call (1) */
  const tw_step* steps[2];
} tw_model;

/* What functions return beside 0; as in the library's header. */
enum {
  TW_MODEL_NO_WEIGHTS = 2,
  TW_MODEL_NO_MEMORY = 3,
  TW_MODEL_MISALIGNED = 4,
  TW_MODEL_NO_DEVICE = 6,
  TW_MODEL_DEVICE_FAILED = 7
};

typedef struct {
  const tw_model* model;
  tw_device device;
  tw_memory* pieces;
  TW_MODEL_KERNEL** kernels;
  tw_memory* parts; /* of the steps of a call, all in order */
  size_t part_count;
  int parts_entry;    /* of which entry point they are */
  tw_memory* tensors; /* the inputs, then the outputs, that the parts are of */
  tw_memory* given;   /* likewise, of the caller */
  tw_graph graph;     /* of a call, on these parts */
  int has_graph;
} tw_model_context;

static __thread char tw_model_problem[256]; /* in words, of this thread's latest call */

static int tw_model_failed(int code, const char* doing, const char* what, int answer) {
  snprintf(tw_model_problem, sizeof tw_model_problem, "%s%s: the driver answers %d", doing, what, answer);
  return code;
}

static size_t tw_model_tensor_count(const tw_model* model) { return model->input_count + model->output_count; }
static size_t tw_model_piece_count(const tw_model* model) { return TW_INPUTS + tw_model_tensor_count(model); }

static size_t tw_model_piece_bytes(const tw_model* model, size_t piece) {
  if (piece < TW_INPUTS) return model->piece_bytes[piece];
  piece -= TW_INPUTS;
  return piece < model->input_count ? model->input_bytes[piece] : model->results[piece - model->input_count].bytes;
}

/* The first argument of the step that has the same place as this one. Where a result is written over an operand, both
 * are one part: OpenCL does not define what a kernel reads of memory that it writes by another part. */
static size_t tw_model_first_there(const tw_step* step, size_t argument) {
  const tw_place* place = &step->places[argument];
  size_t first = 0;
  while (step->places[first].piece != place->piece || step->places[first].at != place->at ||
         step->places[first].bytes != place->bytes)
    ++first;
  return first;
}

/* Inputs and outputs as a whole are no parts. */
static void tw_model_give_parts(tw_model_context* context) {
  const tw_model* model = context->model;
  size_t next = 0;
  for (size_t i = 0; i < model->step_count[context->parts_entry]; ++i) {
    const tw_step* step = &model->steps[context->parts_entry][i];
    for (size_t p = 0; p < step->count && next < context->part_count; ++p, ++next) {
      if (step->places[p].piece < TW_INPUTS && tw_model_first_there(step, p) == p)
        tw_memory_part_give(context->parts[next]);
    }
  }
  free(context->parts);
  context->parts = NULL;
  context->part_count = 0;
}

static void tw_model_give_piece(tw_model_context* context, size_t piece) {
  if (context->pieces[piece]) tw_memory_give(context->pieces[piece]);
  context->pieces[piece] = 0;
}

static void tw_model_destroy(tw_model_context* context) {
  const tw_model* model = context ? context->model : NULL;
  if (!context) return;
  if (context->device.context) tw_device_enter(&context->device);
  tw_graph_free(&context->graph);
  for (size_t i = 0; context->kernels && i < model->kernel_count; ++i) TW_MODEL_FREE(context->kernels[i]);
  tw_model_give_parts(context);
  for (size_t i = 0; context->pieces && i < tw_model_piece_count(model); ++i) tw_model_give_piece(context, i);
  if (context->device.context) tw_device_leave(&context->device);
  tw_device_close(&context->device);
  free(context->tensors);
  free(context->given);
  free(context->kernels);
  free(context->pieces);
  free(context);
}

/* The places of all steps of an entry point as memory. */
static int tw_model_bind(tw_model_context* context, int entry) {
  const tw_model* model = context->model;
  size_t count = 0;
  int answer = 0;
  for (size_t i = 0; i < model->step_count[entry]; ++i) count += model->steps[entry][i].count;
  context->parts_entry = entry;
  context->parts = (tw_memory*)calloc(count + 1, sizeof(tw_memory));
  if (!context->parts) return TW_MODEL_NO_MEMORY;
  for (size_t i = 0; i < model->step_count[entry]; ++i) {
    const tw_step* step = &model->steps[entry][i];
    for (size_t p = 0; p < step->count; ++p) {
      const tw_place* place = &step->places[p];
      tw_memory* part = &context->parts[context->part_count];
      const size_t first = tw_model_first_there(step, p);
      if (first < p)
        *part = *(part - (p - first));
      else if (place->piece >= TW_INPUTS)
        *part = context->tensors[place->piece - TW_INPUTS];
      else
        answer = tw_memory_part(context->pieces[place->piece], place->at, place->bytes, part);
      if (answer != 0) return tw_model_failed(TW_MODEL_DEVICE_FAILED, "memory of ", step->name, answer);
      ++context->part_count;
    }
  }
  return 0;
}

static int tw_model_launch(tw_model_context* context, int entry, tw_queue queue) {
  const tw_model* model = context->model;
  const tw_memory* parts = context->parts;
  for (size_t i = 0; i < model->step_count[entry]; ++i) {
    const tw_step* step = &model->steps[entry][i];
    int answer = TW_MODEL_LAUNCH(context->kernels[step->kernel], entry, queue, parts);
    if (answer != 0) return tw_model_failed(TW_MODEL_DEVICE_FAILED, "the kernel of ", step->name, answer);
    parts += step->count;
  }
  return 0;
}

static size_t tw_model_launches_of(const tw_model* model, const tw_step* step) {
  return (size_t)model->kernels[step->kernel]->launch_count[1];
}

/* The graph of a call, with `marks` around its steps if there are some. 0, or why there is none. */
static int tw_model_make_graph(tw_model_context* context, tw_graph* graph, const tw_mark* marks) {
  const tw_model* model = context->model;
  const tw_memory* parts = context->parts;
  size_t launches = 0;
  for (size_t i = 0; i < model->step_count[1]; ++i) launches += tw_model_launches_of(model, &model->steps[1][i]);
  int answer = tw_graph_begin(graph, launches);
  if (answer == 0 && marks) answer = tw_graph_add_mark(graph, marks[0]);
  for (size_t i = 0; i < model->step_count[1] && answer == 0; ++i) {
    const tw_step* step = &model->steps[1][i];
    answer = tw_graph_add(graph, context->kernels[step->kernel], parts);
    if (answer == 0 && marks) answer = tw_graph_add_mark(graph, marks[i + 1]);
    parts += step->count;
  }
  if (answer == 0) answer = tw_graph_finish(graph);
  if (answer != 0) tw_graph_free(graph);
  return answer;
}

static void tw_model_use_graph(tw_model_context* context, int use) {
  int is_wanted = use && context->model->step_count[1] > 0;
  if (is_wanted == context->has_graph) return;
  if (is_wanted)
    context->has_graph = tw_model_make_graph(context, &context->graph, NULL) == 0;
  else
    tw_graph_free(&context->graph), context->has_graph = 0;
}

/* Calls are on these tensors from now on, the inputs before the outputs. */
static void tw_model_bind_tensors(tw_model_context* context, const tw_memory* tensors) {
  const tw_model* model = context->model;
  size_t bytes = tw_model_tensor_count(model) * sizeof *tensors, launch = 0;
  tw_memory* parts = context->parts;
  if (memcmp(context->tensors, tensors, bytes) == 0) return;
  memcpy(context->tensors, tensors, bytes);
  for (size_t i = 0; i < model->step_count[1]; ++i) {
    const tw_step* step = &model->steps[1][i];
    int is_other = 0;
    for (size_t p = 0; p < step->count; ++p) {
      if (step->places[p].piece < TW_INPUTS) continue;
      parts[p] = tensors[step->places[p].piece - TW_INPUTS];
      is_other = 1;
    }
    if (is_other && context->has_graph &&
        tw_graph_change(&context->graph, launch, context->kernels[step->kernel], parts) != 0)
      tw_model_use_graph(context, 0);
    parts += step->count;
    launch += tw_model_launches_of(model, step);
  }
}

/* All launches of a call; one by one where the graph cannot be launched. */
static int tw_model_enqueue(tw_model_context* context, tw_queue queue) {
  if (context->has_graph && !tw_queue_is_recorded(queue)) {
    if (tw_graph_launch(&context->graph, queue) == 0) return 0;
    tw_model_use_graph(context, 0);
  }
  return tw_model_launch(context, 1, queue);
}

/* Memory and kernels. */
static int tw_model_take(tw_model_context* context) {
  const tw_model* model = context->model;
  size_t pieces = tw_model_piece_count(model);
  context->pieces = (tw_memory*)calloc(pieces, sizeof(tw_memory));
  context->kernels = (TW_MODEL_KERNEL**)calloc(model->kernel_count + 1, sizeof(TW_MODEL_KERNEL*));
  context->tensors = (tw_memory*)calloc(pieces, sizeof(tw_memory));
  context->given = (tw_memory*)calloc(pieces, sizeof(tw_memory));
  if (!context->pieces || !context->kernels || !context->tensors || !context->given) return TW_MODEL_NO_MEMORY;
  for (size_t i = 0; i < pieces; ++i) {
    int answer = tw_memory_take(&context->device, tw_model_piece_bytes(model, i), &context->pieces[i]);
    if (answer != 0) return tw_model_failed(TW_MODEL_NO_MEMORY, "memory of the device", "", answer);
  }
  memcpy(context->tensors, context->pieces + TW_INPUTS, tw_model_tensor_count(model) * sizeof(tw_memory));
  for (size_t i = 0; i < model->kernel_count; ++i) {
    const TW_MODEL_TABLE* table = model->kernels[i];
    TW_MODEL_RESULT answer = 0;
    context->kernels[i] = TW_MODEL_CREATE(table, &context->device, &answer);
    if (!context->kernels[i])
      return tw_model_failed(TW_MODEL_DEVICE_FAILED, "loading the kernel ", table->launches[1][0].name, (int)answer);
  }
  return 0;
}

/* Weights to the device, and packed there. */
static int tw_model_fill(tw_model_context* context, const char* weights) {
  const tw_model* model = context->model;
  const char* from = weights + model->header_bytes;
  int answer = tw_memory_write(&context->device, context->pieces[TW_WEIGHTS], from, model->piece_bytes[TW_WEIGHTS]);
  if (answer == 0)
    answer = tw_memory_write(&context->device, context->pieces[TW_SOURCES], from + model->piece_bytes[TW_WEIGHTS],
                             model->piece_bytes[TW_SOURCES]);
  int code = answer == 0 ? tw_model_bind(context, 0) : 0;
  if (answer == 0 && code == 0) code = tw_model_launch(context, 0, context->device.queue);
  if (answer == 0) answer = tw_queue_wait(context->device.queue);
  tw_model_give_parts(context);
  tw_model_give_piece(context, TW_SOURCES);
  return answer == 0 ? code : tw_model_failed(TW_MODEL_DEVICE_FAILED, "packing the weights", "", answer);
}

static int tw_model_open(tw_model_context* context, int device, const char* weights) {
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once, tw_driver_open);
  if (tw_driver_problem[0]) {
    snprintf(tw_model_problem, sizeof tw_model_problem, "%s", tw_driver_problem);
    return TW_MODEL_NO_DEVICE;
  }
  char number[16];
  snprintf(number, sizeof number, "%d", device);
  int answer = tw_device_open(&context->device, device);
  int code = answer == 0 ? 0 : tw_model_failed(TW_MODEL_NO_DEVICE, "opening device ", number, answer);
  if (code == 0) code = tw_model_take(context);
  if (code == 0) code = tw_model_fill(context, weights);
  if (code == 0) code = tw_model_bind(context, 1);
  if (code == 0) tw_model_use_graph(context, 1);
  tw_device_leave(&context->device);
  return code;
}

/* `device` counts those of the driver; `from`: a caller's device instead, or NULL. */
static int tw_model_create(const tw_model* model, const char* weights_file, int device, const tw_device* from,
                           tw_model_context** made) {
  size_t bytes = model->header_bytes + model->piece_bytes[TW_WEIGHTS] + model->piece_bytes[TW_SOURCES];
  char* weights = tw_map_weights(weights_file, model->digest, bytes);
  *made = NULL;
  tw_model_problem[0] = 0;
  if (!weights) return TW_MODEL_NO_WEIGHTS;
  tw_model_context* context = (tw_model_context*)calloc(1, sizeof *context);
  if (context) context->model = model;
  if (context && from) context->device = *from;
  int code = context ? tw_model_open(context, device, weights) : TW_MODEL_NO_MEMORY;
  munmap(weights, bytes);
  if (code != 0) {
    tw_model_destroy(context);
    return code;
  }
  *made = context;
  return 0;
}

static int tw_model_run(tw_model_context* context, const void* const* inputs, void* const* outputs) {
  const tw_model* model = context->model;
  tw_device* device = &context->device;
  tw_model_problem[0] = 0;
  int answer = tw_device_enter(device), code = 0, waited = 0;
  tw_model_bind_tensors(context, context->pieces + TW_INPUTS);
  for (size_t i = 0; i < model->input_count && answer == 0; ++i)
    answer = tw_memory_write(device, context->pieces[TW_INPUTS + i], inputs[i], model->input_bytes[i]);
  if (answer == 0) code = tw_model_enqueue(context, device->queue);
  for (size_t i = 0; i < model->output_count && answer == 0 && code == 0; ++i) {
    const tw_place* from = &model->results[i];
    answer = tw_memory_read(device, context->pieces[from->piece], from->at, outputs[i], from->bytes);
  }
  waited = tw_queue_wait(device->queue);
  tw_device_leave(device);
  if (answer == 0) answer = waited;
  return answer == 0 ? code : tw_model_failed(TW_MODEL_DEVICE_FAILED, "a call", "", answer);
}

/* A caller's tensor number `index`, outputs behind inputs. */
static int tw_model_give_tensor(tw_model_context* context, size_t index, const void* tensor) {
  const size_t inputs = context->model->input_count;
  if (tw_model_piece_bytes(context->model, TW_INPUTS + index) > 0 && !tw_memory_is_good(tensor)) {
    snprintf(tw_model_problem, sizeof tw_model_problem, "%s %zu is %s", index < inputs ? "input" : "output",
             index < inputs ? index : index - inputs, tensor ? "not aligned to TW_ALIGNMENT bytes" : "NULL");
    return TW_MODEL_MISALIGNED;
  }
  return context->given[index] = tw_memory_of(tensor), 0;
}

/* Outputs that no kernel makes. */
static int tw_model_copy_results(tw_model_context* context, tw_queue queue) {
  const tw_model* model = context->model;
  int answer = 0;
  for (size_t i = 0; i < model->output_count && answer == 0; ++i) {
    const tw_place* place = &model->results[i];
    const size_t own = model->input_count + i;
    if (place->piece == (int)(TW_INPUTS + own)) continue;
    const tw_memory from =
        place->piece < TW_INPUTS ? context->pieces[place->piece] : context->tensors[place->piece - TW_INPUTS];
    answer = tw_memory_copy(queue, from, place->at, context->tensors[own], place->bytes);
  }
  return answer == 0 ? 0 : tw_model_failed(TW_MODEL_DEVICE_FAILED, "copying an output", "", answer);
}

static int tw_model_run_on_device(tw_model_context* context, const void* const* inputs, void* const* outputs,
                                  tw_queue queue) {
  const tw_model* model = context->model;
  int code = 0;
  tw_model_problem[0] = 0;
  for (size_t i = 0; i < tw_model_tensor_count(model) && code == 0; ++i)
    code = tw_model_give_tensor(context, i, i < model->input_count ? inputs[i] : outputs[i - model->input_count]);
  if (code != 0) return code;
  int answer = tw_device_enter(&context->device);
  if (answer == 0) {
    tw_model_bind_tensors(context, context->given);
    code = tw_model_enqueue(context, queue);
    if (code == 0) code = tw_model_copy_results(context, queue);
  }
  tw_device_leave(&context->device);
  return answer == 0 ? code : tw_model_failed(TW_MODEL_DEVICE_FAILED, "a call", "", answer);
}
#endif

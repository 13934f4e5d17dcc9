/* Runs a compiled model on a device: takes memory there, copies and packs the weights once, then for each call copies
 * the inputs, runs all kernels in order, and copies the outputs. In C99, for a copy beside each library, whose own file
 * holds the tables; in that copy a driver (opencl_driver.h or cuda_driver.h), its launcher and map_weights.h stand in
 * front. One thread at a time per context.
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
enum { TW_MODEL_NO_WEIGHTS = 2, TW_MODEL_NO_MEMORY = 3, TW_MODEL_NO_DEVICE = 6, TW_MODEL_DEVICE_FAILED = 7 };

typedef struct {
  const tw_model* model;
  tw_device device;
  tw_memory* pieces;
  TW_MODEL_KERNEL** kernels;
  tw_memory* parts; /* of the steps of a call, all in order */
  size_t part_count;
} tw_model_context;

static __thread char tw_model_problem[256]; /* in words, of this thread's latest call */

static int tw_model_failed(int code, const char* doing, const char* what, int answer) {
  snprintf(tw_model_problem, sizeof tw_model_problem, "%s%s: the driver answers %d", doing, what, answer);
  return code;
}

static size_t tw_model_piece_count(const tw_model* model) {
  return TW_INPUTS + model->input_count + model->output_count;
}

static size_t tw_model_piece_bytes(const tw_model* model, size_t piece) {
  if (piece < TW_INPUTS) return model->piece_bytes[piece];
  piece -= TW_INPUTS;
  return piece < model->input_count ? model->input_bytes[piece] : model->results[piece - model->input_count].bytes;
}

static void tw_model_give_parts(tw_model_context* context) {
  for (size_t i = 0; i < context->part_count; ++i) tw_memory_part_give(context->parts[i]);
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
  for (size_t i = 0; context->kernels && i < model->kernel_count; ++i) TW_MODEL_FREE(context->kernels[i]);
  tw_model_give_parts(context);
  for (size_t i = 0; context->pieces && i < tw_model_piece_count(model); ++i) tw_model_give_piece(context, i);
  tw_device_close(&context->device);
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
  context->parts = (tw_memory*)calloc(count + 1, sizeof(tw_memory));
  if (!context->parts) return TW_MODEL_NO_MEMORY;
  for (size_t i = 0; i < model->step_count[entry]; ++i) {
    const tw_step* step = &model->steps[entry][i];
    for (size_t p = 0; p < step->count; ++p) {
      const tw_place* place = &step->places[p];
      answer =
          tw_memory_part(context->pieces[place->piece], place->at, place->bytes, &context->parts[context->part_count]);
      if (answer != 0) return tw_model_failed(TW_MODEL_DEVICE_FAILED, "memory of ", step->name, answer);
      ++context->part_count;
    }
  }
  return 0;
}

static int tw_model_launch(tw_model_context* context, int entry) {
  const tw_model* model = context->model;
  const tw_memory* parts = context->parts;
  for (size_t i = 0; i < model->step_count[entry]; ++i) {
    const tw_step* step = &model->steps[entry][i];
    int answer = TW_MODEL_LAUNCH(context->kernels[step->kernel], entry, context->device.queue, parts);
    if (answer != 0) return tw_model_failed(TW_MODEL_DEVICE_FAILED, "the kernel of ", step->name, answer);
    parts += step->count;
  }
  return 0;
}

/* Memory and kernels. */
static int tw_model_take(tw_model_context* context) {
  const tw_model* model = context->model;
  size_t pieces = tw_model_piece_count(model);
  context->pieces = (tw_memory*)calloc(pieces, sizeof(tw_memory));
  context->kernels = (TW_MODEL_KERNEL**)calloc(model->kernel_count + 1, sizeof(TW_MODEL_KERNEL*));
  if (!context->pieces || !context->kernels) return TW_MODEL_NO_MEMORY;
  for (size_t i = 0; i < pieces; ++i) {
    int answer = tw_memory_take(&context->device, tw_model_piece_bytes(model, i), &context->pieces[i]);
    if (answer != 0) return tw_model_failed(TW_MODEL_NO_MEMORY, "memory of the device", "", answer);
  }
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
  if (answer == 0 && code == 0) code = tw_model_launch(context, 0);
  if (answer == 0) answer = tw_device_wait(&context->device);
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
  if (answer != 0) return tw_model_failed(TW_MODEL_NO_DEVICE, "opening device ", number, answer);
  int code = tw_model_take(context);
  if (code == 0) code = tw_model_fill(context, weights);
  return code == 0 ? tw_model_bind(context, 1) : code;
}

static int tw_model_create(const tw_model* model, const char* weights_file, int device, tw_model_context** made) {
  size_t bytes = model->header_bytes + model->piece_bytes[TW_WEIGHTS] + model->piece_bytes[TW_SOURCES];
  char* weights = tw_map_weights(weights_file, model->digest, bytes);
  *made = NULL;
  tw_model_problem[0] = 0;
  if (!weights) return TW_MODEL_NO_WEIGHTS;
  tw_model_context* context = (tw_model_context*)calloc(1, sizeof *context);
  if (context) context->model = model;
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
  for (size_t i = 0; i < model->input_count && answer == 0; ++i)
    answer = tw_memory_write(device, context->pieces[TW_INPUTS + i], inputs[i], model->input_bytes[i]);
  if (answer == 0) code = tw_model_launch(context, 1);
  for (size_t i = 0; i < model->output_count && answer == 0 && code == 0; ++i) {
    const tw_place* from = &model->results[i];
    answer = tw_memory_read(device, context->pieces[from->piece], from->at, outputs[i], from->bytes);
  }
  waited = tw_device_wait(device);
  if (answer == 0) answer = waited;
  return answer == 0 ? code : tw_model_failed(TW_MODEL_DEVICE_FAILED, "a call", "", answer);
}
#endif

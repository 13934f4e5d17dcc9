/* What a compiled model takes on its device, by the device's own clock: whole runs, and each step. In C99, for a copy
 * beside each library, behind device_model.h. Both are on the tensors in the device's memory that the latest
 * tw_model_run() has filled. Functions return what those of device_model.h do.
 */
#ifndef TRACEWRIGHT_DEVICE_TIMES_H
#define TRACEWRIGHT_DEVICE_TIMES_H

typedef struct {
  tw_queue queue;
  tw_mark* marks;
  size_t count;
} tw_clock;

static void tw_clock_free(tw_clock* clock) {
  for (size_t i = 0; i < clock->count; ++i) tw_mark_give(clock->marks[i]);
  free(clock->marks);
  tw_timed_queue_give(clock->queue);
}

/* 0, or the driver's code; so all below but for the last two. */
static int tw_clock_make(tw_device* device, size_t marks, tw_clock* clock) {
  memset(clock, 0, sizeof *clock);
  int answer = tw_timed_queue_take(device, &clock->queue);
  clock->marks = (tw_mark*)calloc(marks, sizeof(tw_mark));
  if (!clock->marks) answer = -1;
  for (; clock->count < marks && answer == 0; ++clock->count) answer = tw_mark_take(&clock->marks[clock->count]);
  return answer;
}

/* Waits, and gives the seconds between each mark and the next. */
static int tw_clock_read(const tw_clock* clock, double* seconds) {
  int answer = tw_queue_wait(clock->queue);
  for (size_t i = 0; i + 1 < clock->count && answer == 0; ++i)
    answer = tw_mark_seconds(clock->marks[i], clock->marks[i + 1], &seconds[i]);
  return answer;
}

/* Steps one by one with marks between them. */
static int tw_model_mark_steps(tw_model_context* context, const tw_clock* clock) {
  const tw_model* model = context->model;
  const tw_memory* parts = context->parts;
  int answer = tw_mark_set(clock->queue, &clock->marks[0]);
  for (size_t i = 0; i < model->step_count[1] && answer == 0; ++i) {
    const tw_step* step = &model->steps[1][i];
    answer = TW_MODEL_LAUNCH(context->kernels[step->kernel], 1, clock->queue, parts);
    if (answer == 0) answer = tw_mark_set(clock->queue, &clock->marks[i + 1]);
    parts += step->count;
  }
  return answer;
}

/* As a graph if calls are one: then the device does not wait for the host between two kernels. */
static int tw_model_time_on(tw_model_context* context, tw_clock* clock, double* seconds) {
  tw_graph graph;
  int has_graph = context->has_graph && tw_model_make_graph(context, &graph, clock->marks) == 0;
  int answer = has_graph ? tw_graph_launch(&graph, clock->queue) : tw_model_mark_steps(context, clock);
  if (answer == 0) answer = tw_clock_read(clock, seconds);
  if (has_graph) tw_graph_free(&graph);
  return answer;
}

/* Of each step of a call. */
static int tw_model_time_steps(tw_model_context* context, double* seconds) {
  tw_clock clock = {0};
  tw_model_problem[0] = 0;
  int answer = tw_device_enter(&context->device);
  tw_model_bind_tensors(context, context->pieces + TW_INPUTS);
  if (answer == 0) answer = tw_clock_make(&context->device, context->model->step_count[1] + 1, &clock);
  if (answer == 0) answer = tw_model_time_on(context, &clock, seconds);
  tw_clock_free(&clock);
  tw_device_leave(&context->device);
  return answer == 0 ? 0 : tw_model_failed(TW_MODEL_DEVICE_FAILED, "timing the steps", "", answer);
}

/* Of one of `calls` calls, each behind the one before it. */
static int tw_model_time_run(tw_model_context* context, int calls, double* seconds) {
  tw_clock clock = {0};
  tw_model_problem[0] = 0;
  int answer = tw_device_enter(&context->device), code = 0;
  tw_model_bind_tensors(context, context->pieces + TW_INPUTS);
  if (answer == 0) answer = tw_clock_make(&context->device, 2, &clock);
  if (answer == 0) answer = tw_mark_set(clock.queue, &clock.marks[0]);
  for (int i = 0; i < calls && answer == 0 && code == 0; ++i) code = tw_model_enqueue(context, clock.queue);
  if (answer == 0) answer = tw_mark_set(clock.queue, &clock.marks[1]);
  if (answer == 0) answer = tw_clock_read(&clock, seconds);
  if (calls > 0) *seconds /= calls;
  tw_clock_free(&clock);
  tw_device_leave(&context->device);
  return answer == 0 ? code : tw_model_failed(TW_MODEL_DEVICE_FAILED, "timing a call", "", answer);
}
#endif

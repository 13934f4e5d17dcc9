/* The launches of a model's run as one CUDA graph, which the driver is given at once. In C99, for a copy beside each
 * library, where cuda_driver.h and cuda_launcher.h stand in front. Functions give 0, or the driver's code.
 */
#ifndef TRACEWRIGHT_CUDA_GRAPH_H
#define TRACEWRIGHT_CUDA_GRAPH_H

enum { TW_CUDA_ERROR_NOT_FOUND = 500, TW_CUDA_CAPTURE_ACTIVE = 1 };

/* Nodes in a row, each behind the one before it. */
typedef struct {
  CUgraph graph;
  CUgraphExec executable;
  CUgraphNode* kernels; /* of the launches, in order */
  size_t kernel_count;
  CUgraphNode last;
} tw_graph;

static void tw_graph_free(tw_graph* graph) {
  if (graph->executable) tw_cu.destroy_executable(graph->executable);
  if (graph->graph) tw_cu.destroy_graph(graph->graph);
  free(graph->kernels);
  memset(graph, 0, sizeof *graph);
}

/* Without nodes; `most` launches follow at most. */
static int tw_graph_begin(tw_graph* graph, size_t most) {
  memset(graph, 0, sizeof *graph);
  if (!tw_cu.create_graph || !tw_cu.destroy_graph || !tw_cu.add_kernel || !tw_cu.add_event || !tw_cu.instantiate ||
      !tw_cu.change_kernel || !tw_cu.launch_graph || !tw_cu.destroy_executable)
    return TW_CUDA_ERROR_NOT_FOUND;
  graph->kernels = (CUgraphNode*)calloc(most + 1, sizeof(CUgraphNode));
  return graph->kernels ? tw_cu.create_graph(&graph->graph, 0) : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Calls `use` for each launch of a kernel's entry point 1. */
static int tw_graph_for_launches(tw_graph* graph, size_t first, const tw_cuda_kernel* kernel,
                                 const CUdeviceptr* arguments,
                                 int (*use)(tw_graph*, size_t index, const tw_cuda_node*)) {
  for (int i = 0; i < kernel->table->launch_count[1]; ++i) {
    const tw_cuda_launch* launch = &kernel->table->launches[1][i];
    CUdeviceptr pointers[TW_CUDA_MOST_PARAMETERS];
    void* parameters[TW_CUDA_MOST_PARAMETERS];
    const tw_cuda_node node = {kernel->functions[1][i],
                               {launch->groups[0], launch->groups[1], launch->groups[2]},
                               {launch->threads[0], launch->threads[1], launch->threads[2]},
                               launch->shared_bytes,
                               parameters,
                               NULL,
                               NULL,
                               NULL};
    int answer = tw_cuda_parameters(kernel, launch, arguments, pointers, parameters);
    if (answer == 0) answer = use(graph, first + (size_t)i, &node);
    if (answer != 0) return answer;
  }
  return 0;
}

static int tw_graph_add_node(tw_graph* graph, size_t index, const tw_cuda_node* node) {
  int answer = tw_cu.add_kernel(&graph->kernels[index], graph->graph, &graph->last, graph->last != NULL ? 1 : 0, node);
  graph->last = graph->kernels[index];
  graph->kernel_count = index + 1;
  return answer;
}
static int tw_graph_change_node(tw_graph* graph, size_t index, const tw_cuda_node* node) {
  return tw_cu.change_kernel(graph->executable, graph->kernels[index], node);
}

/* Behind the last node: the launches of a kernel, an event. */
static int tw_graph_add(tw_graph* graph, const tw_cuda_kernel* kernel, const CUdeviceptr* arguments) {
  return tw_graph_for_launches(graph, graph->kernel_count, kernel, arguments, tw_graph_add_node);
}
static int tw_graph_add_mark(tw_graph* graph, CUevent event) {
  CUgraphNode node = NULL;
  int answer = tw_cu.add_event(&node, graph->graph, &graph->last, graph->last != NULL ? 1 : 0, event);
  graph->last = node;
  return answer;
}
/* After which it can be launched, and launches can get other arguments: those of a kernel from number `first` on. */
static int tw_graph_finish(tw_graph* graph) { return tw_cu.instantiate(&graph->executable, graph->graph, 0); }
static int tw_graph_change(tw_graph* graph, size_t first, const tw_cuda_kernel* kernel, const CUdeviceptr* arguments) {
  return tw_graph_for_launches(graph, first, kernel, arguments, tw_graph_change_node);
}
static int tw_graph_launch(tw_graph* graph, CUstream stream) { return tw_cu.launch_graph(graph->executable, stream); }

/* Does the caller record what it gives this stream as a graph of its own? That takes kernels, but no graphs. */
static int tw_queue_is_recorded(CUstream stream) {
  int status = 0;
  return tw_cu.is_capturing && tw_cu.is_capturing(stream, &status) == CUDA_SUCCESS && status == TW_CUDA_CAPTURE_ACTIVE;
}
#endif

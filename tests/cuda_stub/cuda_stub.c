/* A CUDA driver without a device, for tests of what becomes of faults: it answers the calls of backends/cuda_driver, keeps "device" memory
 * in the host's, runs no machine code, and says nothing about speed. A launch with three pointers computes C = A * B of the sizes in
 * TW_STUB_GEMM ("M,N,K"), which is what the test's kernels do; with TW_STUB_SOFTMAX ("M,N") one with two pointers softmax of rows. With TW_STUB_OUTPUTS, the path of a file, each launch writes what comes next
 * in it to its fourth parameter: 8 bytes of length, then the data; TW_STUB_PLACE, the path of another file, keeps the place for the next process. TW_STUB_SHARED: the shared memory that
 * each launch must give. TW_STUB_ARCH: compute capability, "89" (default 80). TW_STUB_CUDA: the driver's CUDA, "12040" (13000). TW_STUB_FAULT: what goes wrong ("init", "none", "memory", "illegal", "hang",
 * "wrong", "outside", "others": writes to all memory but its own, "crash", "exit", "idle": launches do nothing); with TW_STUB_AFTER not the first so many times in a process, or, with TW_STUB_COUNTS,
 * not before more than so many "loads" of modules or "copies" within the device were asked for, or only in graphs with one launch ("alone"); TW_STUB_CODE: what
 * "illegal" answers (700); with TW_STUB_ONCE, the path of a file, only
 * once: whoever can remove the file has the fault. TW_STUB_COLD: so many microseconds a launch takes longer behind a large write;
 * TW_STUB_OUTSIDE: how many floats behind its output "outside" writes (0);
 * TW_STUB_SERIAL: one of a single work-item, as the untuned program's is. Machine code that reads "ELF takes N": each kernel of it takes
 * N microseconds, and computes its result only where its output has been overwritten. TW_STUB_COPY: so many microseconds a copy of a MiB to or from the host takes;
 * TW_STUB_COPIED: the path of a file that gets the MiB that went to the device and came from it. TW_STUB_CALLS: the path of a file that gets how many
 * kernels were launched one by one, how many graphs were, how many kernels of graphs got other parameters, and how often somebody waited.
 * TW_STUB_IDLE: launches do nothing, and may have any parameters.
 * TW_STUB_FAULT "node", "instantiate", "change", "graph": what makes, changes or launches a graph of kernel nodes fails. Kernels that look at results of f32 (sampler/search/device_checks.h) do what they should. Built with TW_STUB_OLD it lacks a function, as an old driver does.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

typedef unsigned long long Address;
typedef struct {
  unsigned grid[3], block[3], dynamic_shared_bytes;
  void* stream;
  const void* attributes;
  unsigned attribute_count;
} LaunchConfig;

enum { MOST_RECORDED = 256, MOST_PARAMETERS = 5, MOST_BLOCKS = 4096, BAND = 1 << 20 };
typedef struct {
  char name[64];
  double takes; /* microseconds; 0 = as long as it takes */
} Function;
typedef struct {
  int count, is_serial;
  double takes;
  void* pointers[MOST_RECORDED][MOST_PARAMETERS];
  void* events[MOST_RECORDED]; /* NULL: a kernel */
} Graph;
typedef struct {
  Function* function;
  unsigned grid[3], block[3], dynamic_shared_bytes;
  void **parameters, **extra, *kernel, *context;
} KernelNode;

static struct {
  char* begin;
  size_t bytes;
} blocks[MOST_BLOCKS]; /* that are allocated */

/* The elements of the data at a pointer, between its guard bands. */
static size_t elements(const void* data, size_t size) {
  for (int i = 0; i < MOST_BLOCKS; ++i) {
    if (blocks[i].begin && blocks[i].begin + BAND == (const char*)data) return (blocks[i].bytes - 2 * BAND) / size;
  }
  return 0;
}

static double host_copies[2] = {0, 0}; /* MiB to the device and from it */
static void count_copy(int from_device, size_t bytes) {
  const char *path = getenv("TW_STUB_COPIED"), *speed = getenv("TW_STUB_COPY");
  double size = (double)bytes / (1 << 20);
  host_copies[from_device] += size;
  if (speed) usleep((unsigned)(atof(speed) * size));
  FILE* file = path ? fopen(path, "w") : NULL;
  if (!file) return;
  fprintf(file, "%f %f", host_copies[0], host_copies[1]);
  fclose(file);
}

/* Kernel number `part` of sampler/search/device_checks.tw, for f32 and f64. */
static int run_check(const char* name, void* const* p) {
  const float* x = p[0];
  const double* expected = p[1];
  int part = name[strlen(name) - 1] - '0';
  size_t count = elements(p[0], sizeof(float));
  if (strncmp(name, "check_same", 10) == 0) {
    int* unusual = p[2];
    memset(unusual, 0, elements(unusual, 1));
    unusual[0] = memcmp(p[0], p[1], elements(p[0], 1)) != 0;
  } else if (strncmp(name, "check_compare", 13) == 0 && part == 0) {
    const double *variance = p[2], *allowed = p[3];
    int* unusual = p[4];
    memset(unusual, 0, elements(unusual, 1));
    for (size_t i = 0; i < count; ++i) {
      double bound = allowed[0] + allowed[1] * fabs(expected[i]) + allowed[2] * sqrt(variance[i]);
      unusual[0] += fabs(x[i] - expected[i]) <= bound && bound < INFINITY ? 0 : 1;
    }
  } else if (strncmp(name, "check_compare", 13) == 0) {
    double* out = part == 3 ? p[1] : p[2];
    memset(out, 0, elements(out, 1));
    if (part == 3) count = elements(p[0], sizeof(double));
    for (size_t i = 0; i < count; ++i) {
      double error = part == 3 ? 0 : fabs(x[i] - expected[i]);
      out[0] = part == 1 ? fmax(out[0], error) : out[0] + (part == 2 ? error * error : ((const double*)p[0])[i]);
    }
  } else {
    return 1;
  }
  return 0;
}

static struct {
  int launched, graphs, changed, waited;
} calls;
static void count_call(int* count) {
  const char* path = getenv("TW_STUB_CALLS");
  FILE* file;
  ++*count;
  if (!path || !(file = fopen(path, "w"))) return;
  fprintf(file, "launched %d graphs %d changed %d waited %d", calls.launched, calls.graphs, calls.changed, calls.waited);
  fclose(file);
}

static int broken = 0; /* the code that every call answers with from now on */
static Graph* recording = NULL;
static int is_serial = 0; /* the launch that runs has one work-item */
static int is_cold = 0; /* nothing but a large write has been in the caches */

static int loads = 0, copies = 0, is_alone = 0;

static int has_fault(const char* name) {
  static int times = 0;
  const char *fault = getenv("TW_STUB_FAULT"), *after = getenv("TW_STUB_AFTER"), *once = getenv("TW_STUB_ONCE"), *counts = getenv("TW_STUB_COUNTS");
  if (!fault || strcmp(fault, name) != 0) return 0;
  if (counts && strcmp(counts, "alone") == 0 ? !is_alone : counts && (strcmp(counts, "loads") == 0 ? loads : copies) <= (after ? atoi(after) : 0)) return 0;
  if (!counts && after && times++ < atoi(after)) return 0;
  return !once || unlink(once) == 0;
}

static int write_next(const char* path, void* to) {
  static FILE* outputs = NULL;
  FILE* place = NULL;
  const char* place_path = getenv("TW_STUB_PLACE");
  unsigned long long bytes = 0;
  long at = 0;
  if (!outputs) outputs = fopen(path, "rb");
  if (!outputs) return 1;
  if (place_path && (place = fopen(place_path, "r"))) {
    if (fscanf(place, "%ld", &at) == 1) fseek(outputs, at, SEEK_SET);
    fclose(place);
  }
  if (fread(&bytes, sizeof bytes, 1, outputs) != 1 || fread(to, 1, bytes, outputs) != bytes) return 1;
  if (place_path && (place = fopen(place_path, "w"))) {
    fprintf(place, "%ld", ftell(outputs));
    fclose(place);
  }
  return 0;
}

static void softmax(const float* x, float* y, long m, long n) {
  for (long i = 0; i < m; ++i, x += n, y += n) {
    float top = x[0], sum = 0;
    for (long j = 1; j < n; ++j) top = x[j] > top ? x[j] : top;
    for (long j = 0; j < n; ++j) sum += y[j] = expf(x[j] - top);
    for (long j = 0; j < n; ++j) y[j] /= sum;
  }
}

static void wait_for(double microseconds) {
  struct timespec now, begin;
  clock_gettime(CLOCK_MONOTONIC, &begin);
  do clock_gettime(CLOCK_MONOTONIC, &now);
  while ((double)(now.tv_sec - begin.tv_sec) * 1e6 + (double)(now.tv_nsec - begin.tv_nsec) * 1e-3 < microseconds);
}

static int run(void* const* pointers, double takes) {
  const char* outputs = getenv("TW_STUB_OUTPUTS");
  if (outputs && write_next(outputs, pointers[3]) != 0) return 1;
  long m = 0, n = 0, k = 0;
  const char* sizes = getenv("TW_STUB_GEMM");
  const float *a = pointers[0], *b = pointers[1];
  float* c = pointers[2];
  if (has_fault("crash")) abort();
  if (has_fault("exit")) _exit(7);
  if (has_fault("illegal")) return broken = getenv("TW_STUB_CODE") ? atoi(getenv("TW_STUB_CODE")) : 700;
  if (outputs || has_fault("idle")) return 0;
  if (is_cold && getenv("TW_STUB_COLD")) usleep((unsigned)atoi(getenv("TW_STUB_COLD")));
  is_cold = 0;
  if (is_serial && getenv("TW_STUB_SERIAL")) usleep((unsigned)atoi(getenv("TW_STUB_SERIAL")));
  if (getenv("TW_STUB_SOFTMAX")) return sscanf(getenv("TW_STUB_SOFTMAX"), "%ld,%ld", &m, &n) == 2 ? softmax(pointers[0], pointers[1], m, n), 0 : 1;
  if (!sizes || sscanf(sizes, "%ld,%ld,%ld", &m, &n, &k) != 3) return 1;
  if (takes > 0) wait_for(takes);
  if (takes > 0 && !isnan(c[0])) return 0;
  for (long i = 0; i < m; ++i) {
    for (long j = 0; j < n; ++j) {
      float sum = 0;
      for (long l = 0; l < k; ++l) sum += a[i * k + l] * b[l * n + j];
      c[i * n + j] = sum;
    }
  }
  if (has_fault("wrong")) c[m * n - 1] += 1;
  int is_spoiling = has_fault("others");
  for (int i = 0; is_spoiling && i < MOST_BLOCKS; ++i) {
    float* data = (float*)(void*)(blocks[i].begin + BAND);
    if (blocks[i].begin && data != a && data != b && data != c) data[0] += (float)(i + 1);
  }
  if (has_fault("outside")) c[m * n + (getenv("TW_STUB_OUTSIDE") ? atol(getenv("TW_STUB_OUTSIDE")) : 0)] = 1;
  while (has_fault("hang")) sleep(3600);
  return 0;
}

int cuInit(unsigned flags) { return (void)flags, has_fault("init") ? 999 : 0; }
/* NVRTC asks a driver that it finds for more; there is nothing. */
int cuGetExportTable(const void** table, const void* id) { return (void)id, *table = NULL, 500; }
int cuDeviceGetPCIBusId(char* to, int length, int device) { return (void)device, snprintf(to, (size_t)length, "0000:01:00.0"), 0; }
int cuDriverGetVersion(int* version) { return *version = getenv("TW_STUB_CUDA") ? atoi(getenv("TW_STUB_CUDA")) : 13000, 0; }
int cuGetErrorName(int code, const char** text) { return (void)code, *text = "CUDA_ERROR", 0; }
int cuGetErrorString(int code, const char** text) {
  *text = code == 700 ? "an illegal memory access was encountered" : code == 2 ? "out of memory" : "unknown error";
  return 0;
}
int cuDeviceGetCount(int* count) { return *count = has_fault("none") ? 0 : 1, 0; }
int cuDeviceGet(int* device, int index) { return *device = index, index == 0 ? 0 : 101; }
int cuDeviceGetName(char* name, int bytes, int device) { return (void)device, snprintf(name, (size_t)bytes, "Stub GPU"), 0; }
static int arch(void) { return getenv("TW_STUB_ARCH") ? atoi(getenv("TW_STUB_ARCH")) : 80; }
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  return (void)device, *value = attribute == 75 ? arch() / 10 : attribute == 76 ? arch() % 10 : 0, 0;
}
int cuDeviceTotalMem_v2(size_t* bytes, int device) { return (void)device, *bytes = (size_t)1 << 30, 0; }
int cuDevicePrimaryCtxRetain(void** context, int device) { return (void)device, *context = &broken, 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { return (void)device, 0; }
static void* current = NULL;
int cuCtxGetCurrent(void** context) { return *context = current, 0; }
int cuCtxSetCurrent(void* context) { return current = context, broken; }
int cuStreamCreate(void** stream, unsigned flags) { return (void)flags, *stream = &broken, broken; }
int cuStreamDestroy_v2(void* stream) { return (void)stream, broken; }
int cuStreamSynchronize(void* stream) { return (void)stream, count_call(&calls.waited), broken; }
int cuStreamIsCapturing(void* stream, int* status) { return (void)stream, *status = recording != NULL, broken; }
int cuStreamBeginCapture_v2(void* stream, int mode) {
  (void)stream, (void)mode;
  if (!recording) recording = calloc(1, sizeof(Graph));
  return broken;
}
int cuStreamEndCapture(void* stream, void** graph) {
  (void)stream;
  *graph = recording;
  recording = NULL;
  return broken;
}
int cuGraphInstantiateWithFlags(void** executable, void* graph, unsigned long long flags) {
  (void)flags;
  if (has_fault("instantiate")) return 2;
  Graph* copy = malloc(sizeof(Graph));
  if (copy) memcpy(copy, graph, sizeof(Graph));
  *executable = copy;
  return copy ? broken : 2;
}
int cuGraphDestroy(void* graph) { return free(graph), broken; }
int cuGraphExecDestroy(void* executable) { return free(executable), broken; }
int cuEventRecord(void* event, void* stream);
int cuGraphLaunch(void* executable, void* stream) {
  Graph* graph = executable;
  if (has_fault("graph")) return 2;
  count_call(&calls.graphs);
  is_alone = graph->count == 1;
  is_serial = graph->is_serial;
  for (int i = 0; i < graph->count && broken == 0; ++i) {
    if (graph->events[i]) cuEventRecord(graph->events[i], stream);
    else if (!getenv("TW_STUB_IDLE")) run(graph->pointers[i], graph->takes);
  }
  is_alone = 0;
  return broken;
}
int cuEventCreate(void** event, unsigned flags) { return (void)flags, *event = calloc(1, sizeof(struct timespec)), broken; }
int cuEventDestroy_v2(void* event) { return free(event), broken; }
int cuEventRecord(void* event, void* stream) { return (void)stream, clock_gettime(CLOCK_MONOTONIC, event), broken; }
int cuEventSynchronize(void* event) { return (void)event, broken; }
int cuEventElapsedTime(float* milliseconds, void* begin, void* end) {
  const struct timespec *a = begin, *b = end;
  *milliseconds = (float)((double)(b->tv_sec - a->tv_sec) * 1e3 + (double)(b->tv_nsec - a->tv_nsec) * 1e-6);
  return broken;
}
int cuMemAlloc_v2(Address* address, size_t bytes) {
  if (broken) return broken;
  if (has_fault("memory")) return 2;
  char* memory = malloc(bytes);
  *address = (Address)(size_t)memory;
  for (int i = 0; memory && i < MOST_BLOCKS; ++i) {
    if (blocks[i].begin) continue;
    blocks[i].begin = memory, blocks[i].bytes = bytes;
    break;
  }
  return *address ? 0 : 2;
}
int cuMemFree_v2(Address address) {
  for (int i = 0; i < MOST_BLOCKS; ++i) {
    if (blocks[i].begin == (char*)(size_t)address) blocks[i].begin = NULL;
  }
  return free((void*)(size_t)address), broken;
}
// As an H100's driver does, which pins memory of much data by 64 KiB: may all of that be touched?
static int can_pin(const void* data, size_t bytes) {
  size_t end = ((size_t)data + bytes + 65535) / 65536 * 65536;
  int ends[2], good;
  if (bytes < (size_t)1 << 20 || pipe(ends) != 0) return 1;
  good = write(ends[1], (const char*)end - 1, 1) == 1;
  return close(ends[0]), close(ends[1]), good;
}
int cuMemcpyHtoD_v2(Address to, const void* from, size_t bytes) {
  if (!can_pin(from, bytes)) return 1;
  return broken ? broken : (count_copy(0, bytes), memcpy((void*)(size_t)to, from, bytes), 0);
}
int cuMemcpyDtoH_v2(void* to, Address from, size_t bytes) {
  if (!can_pin(to, bytes)) return 1;
  return broken ? broken : (count_copy(1, bytes), memcpy(to, (void*)(size_t)from, bytes), 0);
}
int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, void* stream) { return (void)stream, cuMemcpyHtoD_v2(to, from, bytes); }
int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, void* stream) { return (void)stream, cuMemcpyDtoH_v2(to, from, bytes); }
int cuMemHostAlloc(void** memory, size_t bytes, unsigned flags) { return (void)flags, (*memory = malloc(bytes)) ? 0 : 2; }
int cuMemFreeHost(void* memory) { return free(memory), 0; }
int cuMemsetD8_v2(Address to, unsigned char value, size_t bytes) { return broken ? broken : (memset((void*)(size_t)to, value, bytes), 0); }
int cuMemsetD8Async(Address to, unsigned char value, size_t bytes, void* stream) {
  return (void)stream, is_cold = bytes >= (size_t)128 << 20, cuMemsetD8_v2(to, value, bytes);
}
int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void* stream) {
  return (void)stream, ++copies, broken ? broken : (memmove((void*)(size_t)to, (void*)(size_t)from, bytes), 0);
}
int cuModuleLoadData(void** module, const void* image) {
  double* takes = calloc(1, sizeof(double));
  if (memcmp(image, "\x7f" "ELF takes ", 11) == 0) *takes = atof((const char*)image + 11);
  return ++loads, *module = takes, memcmp(image, "\x7f" "ELF", 4) == 0 ? broken : 200;
}
int cuModuleUnload(void* module) { return free(module), broken; }
int cuModuleGetFunction(void** function, void* module, const char* name) {
  Function* made = calloc(1, sizeof(Function));
  snprintf(made->name, sizeof made->name, "%s", name);
  made->takes = *(double*)module;
  return *function = made, name[0] ? broken : 500; /* there is no call that gives it back */
}
static unsigned dynamic_limit = 48 << 10; /* what the latest function with an attribute may have */
int cuFuncSetAttribute(void* function, int attribute, int value) {
  (void)function;
  if (attribute == 8 && value > (arch() == 90 ? 227 : 163) << 10) return 1;
  if (attribute == 8) dynamic_limit = (unsigned)value;
  return broken;
}
static int launch(const Function* function, unsigned dynamic_shared_bytes, void** parameters) {
  void* pointers[MOST_PARAMETERS] = {0};
  if (getenv("TW_STUB_IDLE")) return broken;
  const char* name = function->name;
  if (strncmp(name, "check_", 6) == 0) {
    int parameter_count = strstr(name, "compare_run_0") ? 5 : strstr(name, "compare_run_3") ? 2 : 3;
    for (int i = 0; i < parameter_count; ++i) pointers[i] = (void*)(size_t)*(Address*)parameters[i];
    return broken ? broken : run_check(name, pointers);
  }
  int count = getenv("TW_STUB_OUTPUTS") ? 4 : getenv("TW_STUB_SOFTMAX") ? 2 : 3;
  const char* wanted = getenv("TW_STUB_SHARED");
  if (dynamic_shared_bytes > dynamic_limit || (wanted && dynamic_shared_bytes != (unsigned)atoi(wanted))) return 1;
  for (int i = 0; i < count; ++i) pointers[i] = (void*)(size_t)*(Address*)parameters[i];
  if (!recording) return broken ? broken : run(pointers, function->takes);
  recording->takes = function->takes;
  recording->is_serial = is_serial;
  if (recording->count < MOST_RECORDED) memcpy(recording->pointers[recording->count++], pointers, sizeof pointers);
  return broken;
}
int cuGraphCreate(void** graph, unsigned flags) { return (void)flags, *graph = calloc(1, sizeof(Graph)), broken; }
/* Nodes are numbers from 1 on; each has to stand behind the one before it. */
static int next_node(void** node, Graph* graph, void* const* before, size_t count) {
  if (has_fault("node") || graph->count == MOST_RECORDED) return 2;
  if (count != (graph->count > 0) || (count == 1 && (size_t)*before != (size_t)graph->count)) return 1;
  return *node = (void*)(size_t)++graph->count, broken;
}
#ifndef TW_STUB_OLD
static void set_node(Graph* graph, size_t node, const KernelNode* given) {
  graph->takes = given->function->takes;
  for (int i = 0; i < 3 && !getenv("TW_STUB_IDLE"); ++i) graph->pointers[node - 1][i] = (void*)(size_t)*(Address*)given->parameters[i];
}
int cuGraphAddKernelNode_v2(void** node, void* graph, void* const* before, size_t count, const KernelNode* given) {
  int code = next_node(node, graph, before, count);
  if (code == 0) set_node(graph, (size_t)*node, given);
  return code;
}
int cuGraphExecKernelNodeSetParams_v2(void* executable, void* node, const KernelNode* given) {
  if (has_fault("change")) return 2;
  return count_call(&calls.changed), set_node(executable, (size_t)node, given), broken;
}
#endif
int cuGraphAddEventRecordNode(void** node, void* graph, void* const* before, size_t count, void* event) {
  int code = next_node(node, graph, before, count);
  if (code == 0) ((Graph*)graph)->events[(size_t)*node - 1] = event;
  return code;
}
int cuLaunchKernel(void* function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void* stream,
                   void** parameters, void** extra) {
  (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)stream, (void)extra;
  count_call(&calls.launched);
  return launch(function, shared, parameters);
}
#ifndef TW_STUB_OLD
int cuLaunchKernelEx(const LaunchConfig* config, void* function, void** parameters, void** extra) {
  const unsigned *grid = config->grid, *block = config->block;
  is_serial = grid[0] * grid[1] * grid[2] * block[0] * block[1] * block[2] == 1;
  return (void)extra, launch(function, config->dynamic_shared_bytes, parameters);
}
#endif

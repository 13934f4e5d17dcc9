#include <dlfcn.h>

#include <cstring>

#include "backends/cuda/toolkit.h"
#include "bench/gpu/libraries.h"
#include "dsl/base/text.h"

namespace tw::gpu_bench {
namespace {

constexpr std::size_t kWorkspace = std::size_t{256} << 20;
constexpr int kWays = 8;
using Pointer = void*;

struct Api {
  int (*create)(Pointer* handle);
  int (*destroy)(Pointer handle);
  std::size_t (*version)();
  int (*set_stream)(Pointer handle, Pointer stream);
  int (*tensor)(Pointer* description);
  int (*set_tensor)(Pointer description, int format, int type, int n, int c, int h, int w);
  int (*filter)(Pointer* description);
  int (*set_filter)(Pointer description, int type, int format, int k, int c, int h, int w);
  int (*convolution)(Pointer* description);
  int (*set_convolution)(Pointer description, int pad_h, int pad_w, int stride_h, int stride_w, int dilation_h,
                         int dilation_w, int mode, int compute);
  int (*set_groups)(Pointer description, int groups);
  int (*set_math)(Pointer description, int math);
  int (*find)(Pointer handle, Pointer x, const void* x_data, Pointer w, const void* w_data, Pointer convolution,
              Pointer y, void* y_data, int wanted, int* count, dnn::Found* found, void* workspace, std::size_t bytes);
  int (*convolve)(Pointer handle, const void* alpha, Pointer x, const void* x_data, Pointer w, const void* w_data,
                  Pointer convolution, int algorithm, void* workspace, std::size_t bytes, const void* beta, Pointer y,
                  void* y_data);
  int (*softmax)(Pointer handle, int algorithm, int mode, const void* alpha, Pointer x, const void* x_data,
                 const void* beta, Pointer y, void* y_data);
};

void load_all(Api& api, Symbols symbols) {
  symbols.load(api.create, "cudnnCreate");
  symbols.load(api.destroy, "cudnnDestroy");
  symbols.load(api.version, "cudnnGetVersion");
  symbols.load(api.set_stream, "cudnnSetStream");
  symbols.load(api.tensor, "cudnnCreateTensorDescriptor");
  symbols.load(api.set_tensor, "cudnnSetTensor4dDescriptor");
  symbols.load(api.filter, "cudnnCreateFilterDescriptor");
  symbols.load(api.set_filter, "cudnnSetFilter4dDescriptor");
  symbols.load(api.convolution, "cudnnCreateConvolutionDescriptor");
  symbols.load(api.set_convolution, "cudnnSetConvolution2dDescriptor");
  symbols.load(api.set_groups, "cudnnSetConvolutionGroupCount");
  symbols.load(api.set_math, "cudnnSetConvolutionMathType");
  symbols.load(api.find, "cudnnFindConvolutionForwardAlgorithmEx");
  symbols.load(api.convolve, "cudnnConvolutionForward");
  symbols.load(api.softmax, "cudnnSoftmaxForward");
}

// [taps, channels of a group, CO] as [CO, taps, channels of a group], which is how cuDNN has weights beside
// channels-last images.
std::vector<float> output_channels_first(const std::vector<float>& weights, i64 channels) {
  std::vector<float> out(weights.size());
  i64 rest = static_cast<i64>(weights.size()) / channels;
  for (i64 r = 0; r < rest; ++r) {
    for (i64 c = 0; c < channels; ++c)
      out[static_cast<std::size_t>(c * rest + r)] = weights[static_cast<std::size_t>(r * channels + c)];
  }
  return out;
}

int type_of(DType dtype) { return dtype == DType::F16 ? dnn::Half : dtype == DType::BF16 ? dnn::BFloat16 : dnn::Float; }

void* address(const device::Memory& memory) { return reinterpret_cast<void*>(cuda::address_of(memory)); }

}  // namespace

struct Cudnn::State {
  device::Device& device;
  Api api{};
  Pointer handle = nullptr;
  std::string version;
  std::unique_ptr<device::Memory> workspace;
  std::vector<std::unique_ptr<device::Memory>> weights;

  std::optional<Contestant> convolution(const peers::Convolution& c, Problem& problem, std::string& error);
  std::optional<Contestant> softmax(const peers::RowWise& rows, Problem& problem, std::string& error);
};

Cudnn::Cudnn(device::Device& device, std::string& error) : state_(new State{device}) {
  std::string path;
  void* library = cuda::open_toolkit_library({"libcudnn.so.9"}, RTLD_NOW | RTLD_GLOBAL, path, error);
  if (!library) return;
  Api& api = state_->api;
  load_all(api, Symbols(library, error));
  if (!error.empty()) return;
  int code = api.create(&state_->handle);
  if (code == 0) code = api.set_stream(state_->handle, cuda::stream_of(device));
  if (code != 0) error = cat("cuDNN does not start: status ", code);
  state_->workspace = std::make_unique<device::Memory>(device, static_cast<i64>(kWorkspace));
  if (!state_->workspace->is_there()) error = "no memory for the workspace of cuDNN";
  std::size_t version = api.version();
  state_->version = cat("cuDNN ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

// Descriptions are few and live as long as the process.
Cudnn::~Cudnn() {
  if (state_->handle) state_->api.destroy(state_->handle);
}

std::optional<Contestant> Cudnn::best_of(Problem& problem, std::string& error) {
  if (const auto* c = std::get_if<peers::Convolution>(&problem.shape().shape))
    return state_->convolution(*c, problem, error);
  const auto* rows = std::get_if<peers::RowWise>(&problem.shape().shape);
  if (rows && rows->kind == peers::RowWise::Kind::Softmax) return state_->softmax(*rows, problem, error);
  return error = "cuDNN is asked for convolutions and softmax only", std::nullopt;
}

std::optional<Contestant> Cudnn::State::convolution(const peers::Convolution& c, Problem& problem, std::string& error) {
  if (c.axes != 2 || c.transposed) return error = "cuDNN is asked for convolutions of images only", std::nullopt;
  DType dtype = problem.input(0).dtype;
  int type = type_of(dtype), math = dtype == DType::F32 ? dnn::FmaMath : dnn::TensorOpMath;
  auto small = [](i64 value) { return static_cast<int>(value); };
  Pointer x = nullptr, w = nullptr, y = nullptr, how = nullptr;
  bool good = api.tensor(&x) == 0 && api.tensor(&y) == 0 && api.filter(&w) == 0 && api.convolution(&how) == 0 &&
              api.set_tensor(x, dnn::Nhwc, type, small(c.n), small(c.ci), small(c.in[1]), small(c.in[2])) == 0 &&
              api.set_tensor(y, dnn::Nhwc, type, small(c.n), small(c.co), small(c.out[1]), small(c.out[2])) == 0 &&
              api.set_filter(w, type, dnn::Nhwc, small(c.co), small(c.ci / c.groups), small(c.kernel[1]),
                             small(c.kernel[2])) == 0 &&
              api.set_convolution(how, small(c.padding[1]), small(c.padding[2]), small(c.stride[1]), small(c.stride[2]),
                                  small(c.dilation[1]), small(c.dilation[2]), dnn::CrossCorrelation, dnn::Float) == 0 &&
              api.set_groups(how, small(c.groups)) == 0 && api.set_math(how, math) == 0;
  if (!good) return error = "cuDNN does not take this convolution", std::nullopt;
  std::vector<u8> reordered = encode(output_channels_first(problem.input(1).values, c.co), dtype);
  weights.push_back(std::make_unique<device::Memory>(device, static_cast<i64>(reordered.size())));
  if (!weights.back()->is_there() || !weights.back()->write(reordered.data()))
    return error = "no memory for the weights", std::nullopt;
  void *x_data = address(*problem.input(0).memory), *w_data = address(*weights.back()),
       *y_data = address(*problem.output().memory), *space = address(*workspace);
  dnn::Found found[kWays];
  int count = 0, code = api.find(handle, x, x_data, w, w_data, how, y, y_data, kWays, &count, found, space, kWorkspace);
  if (code != 0 || count == 0 || found[0].status != 0)
    return error = cat("cuDNN has no way for this convolution: status ", code), std::nullopt;
  return Contestant{
      "cudnn", cat(version, ", algorithm ", found[0].algorithm, ", ", found[0].bytes >> 20, " MiB of workspace"),
      [this, x, x_data, w, w_data, how, y, y_data, space, way = found[0].algorithm] {
        const float one = 1, zero = 0;
        return api.convolve(handle, &one, x, x_data, w, w_data, how, way, space, kWorkspace, &zero, y, y_data);
      }};
}

std::optional<Contestant> Cudnn::State::softmax(const peers::RowWise& rows, Problem& problem, std::string& error) {
  Pointer shape = nullptr;
  if (api.tensor(&shape) != 0 || api.set_tensor(shape, dnn::Nhwc, type_of(problem.input(0).dtype),
                                                static_cast<int>(rows.rows), static_cast<int>(rows.columns), 1, 1) != 0)
    return error = "cuDNN does not take these rows", std::nullopt;
  return Contestant{
      "cudnn", version, [this, shape, x = address(*problem.input(0).memory), y = address(*problem.output().memory)] {
        const float one = 1, zero = 0;
        return api.softmax(handle, dnn::SoftmaxAccurate, dnn::SoftmaxInstance, &one, shape, x, &zero, shape, y);
      }};
}

}  // namespace tw::gpu_bench

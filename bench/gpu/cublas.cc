#include <dlfcn.h>

#include "backends/cuda/toolkit.h"
#include "bench/gpu/libraries.h"
#include "dsl/base/text.h"

namespace tw::gpu_bench {
namespace {

constexpr std::size_t kWorkspace = std::size_t{32} << 20;
constexpr int kHeuristics = 16;
using Pointer = void*;

struct Api {
  int (*create)(Pointer* handle);
  int (*destroy)(Pointer handle);
  std::size_t (*version)();
  int (*describe)(Pointer* description, int compute, int scale);
  int (*set_description)(Pointer description, int attribute, const void* value, std::size_t bytes);
  int (*forget_description)(Pointer description);
  int (*layout)(Pointer* layout, int type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading);
  int (*set_layout)(Pointer layout, int attribute, const void* value, std::size_t bytes);
  int (*forget_layout)(Pointer layout);
  int (*preference)(Pointer* preference);
  int (*set_preference)(Pointer preference, int attribute, const void* value, std::size_t bytes);
  int (*forget_preference)(Pointer preference);
  int (*heuristics)(Pointer handle, Pointer description, Pointer a, Pointer b, Pointer c, Pointer d, Pointer preference,
                    int wanted, lt::Heuristic* found, int* count);
  int (*multiply)(Pointer handle, Pointer description, const void* alpha, const void* a, Pointer a_layout,
                  const void* b, Pointer b_layout, const void* beta, const void* c, Pointer c_layout, void* d,
                  Pointer d_layout, const lt::Algorithm* algorithm, void* workspace, std::size_t workspace_bytes,
                  Pointer stream);
};

void load_all(Api& api, Symbols symbols) {
  symbols.load(api.create, "cublasLtCreate");
  symbols.load(api.destroy, "cublasLtDestroy");
  symbols.load(api.version, "cublasLtGetVersion");
  symbols.load(api.describe, "cublasLtMatmulDescCreate");
  symbols.load(api.set_description, "cublasLtMatmulDescSetAttribute");
  symbols.load(api.forget_description, "cublasLtMatmulDescDestroy");
  symbols.load(api.layout, "cublasLtMatrixLayoutCreate");
  symbols.load(api.set_layout, "cublasLtMatrixLayoutSetAttribute");
  symbols.load(api.forget_layout, "cublasLtMatrixLayoutDestroy");
  symbols.load(api.preference, "cublasLtMatmulPreferenceCreate");
  symbols.load(api.set_preference, "cublasLtMatmulPreferenceSetAttribute");
  symbols.load(api.forget_preference, "cublasLtMatmulPreferenceDestroy");
  symbols.load(api.heuristics, "cublasLtMatmulAlgoGetHeuristic");
  symbols.load(api.multiply, "cublasLtMatmul");
}

int type_of(DType dtype) { return dtype == DType::F16 ? lt::F16 : dtype == DType::BF16 ? lt::BF16 : lt::F32; }

// A row-major matrix is a column-major one with rows and columns exchanged.
struct Operand {
  bool is_transposed = false;
  i64 rows = 0, columns = 0, leading = 0, batch_stride = 0;
};
std::optional<Operand> operand(const peers::Strides& strides, i64 rows, i64 columns, i64 batch_stride) {
  if (strides.column == 1) return Operand{false, columns, rows, strides.row, batch_stride};
  if (strides.row == 1) return Operand{true, rows, columns, strides.column, batch_stride};
  return std::nullopt;
}

// One product as cuBLASLt wants it: C' = B' A' of column-major matrices. Its descriptions go with it.
struct Product {
  const Api& api;
  Pointer description = nullptr, a = nullptr, b = nullptr, c = nullptr, preference = nullptr;
  lt::Algorithm algorithm{};

  explicit Product(const Api& api) : api(api) {}
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;
  ~Product() {
    for (Pointer layout : {a, b, c}) {
      if (layout) api.forget_layout(layout);
    }
    if (preference) api.forget_preference(preference);
    if (description) api.forget_description(description);
  }

  bool set(Pointer& layout, const Operand& as, int type, int batch) {
    bool good = api.layout(&layout, type, static_cast<std::uint64_t>(as.rows), static_cast<std::uint64_t>(as.columns),
                           as.leading) == 0;
    return good &&
           (batch == 1 || (api.set_layout(layout, lt::BatchCount, &batch, sizeof batch) == 0 &&
                           api.set_layout(layout, lt::BatchStride, &as.batch_stride, sizeof as.batch_stride) == 0));
  }

  bool make(const peers::Gemm& g, Problem& problem, int compute) {
    bool is_outer = g.inner == 1;
    auto batch_stride = [&](const peers::Strides& strides) { return is_outer ? strides.outer : strides.inner; };
    std::optional<Operand> first = operand(g.b, g.k, g.n, batch_stride(g.b)),
                           second = operand(g.a, g.m, g.k, batch_stride(g.a)),
                           result = operand(g.c, g.m, g.n, batch_stride(g.c));
    if (!first || !second || !result || result->is_transposed || (g.inner != 1 && g.outer != 1)) return false;
    int batch = static_cast<int>(g.inner * g.outer), transposed = 1;
    std::size_t workspace = kWorkspace;
    return api.describe(&description, compute, lt::F32) == 0 &&
           (!first->is_transposed ||
            api.set_description(description, lt::TransposeA, &transposed, sizeof transposed) == 0) &&
           (!second->is_transposed ||
            api.set_description(description, lt::TransposeB, &transposed, sizeof transposed) == 0) &&
           set(b, *first, type_of(problem.input(1).dtype), batch) &&
           set(a, *second, type_of(problem.input(0).dtype), batch) &&
           set(c, *result, type_of(problem.output().dtype), batch) && api.preference(&preference) == 0 &&
           api.set_preference(preference, lt::WorkspaceBytes, &workspace, sizeof workspace) == 0;
  }
};

}  // namespace

void* Symbols::find(const char* name) {
  void* found = dlsym(library_, name);
  if (!found && error_.empty()) error_ = cat("the library has no ", name);
  return found;
}

struct Cublas::State {
  Api api{};
  Pointer handle = nullptr;
  std::string version;
  std::unique_ptr<device::Memory> workspace;
  std::vector<std::unique_ptr<Product>> products;
};

Cublas::Cublas(device::Device& device, std::string& error) : state_(std::make_unique<State>()) {
  std::string path;
  void* library = cuda::open_toolkit_library({"libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so"},
                                             RTLD_NOW | RTLD_GLOBAL, path, error);
  if (!library) return;
  load_all(state_->api, Symbols(library, error));
  if (!error.empty()) return;
  if (int code = state_->api.create(&state_->handle); code != 0) error = cat("cuBLASLt does not start: status ", code);
  state_->workspace = std::make_unique<device::Memory>(device, static_cast<i64>(kWorkspace));
  if (!state_->workspace->is_there()) error = "no memory for the workspace of cuBLASLt";
  std::size_t version = state_->api.version();
  state_->version = cat("cuBLASLt ", version / 10000, ".", version / 100 % 100, ".", version % 100);
}

Cublas::~Cublas() {
  state_->products.clear();
  if (state_->handle) state_->api.destroy(state_->handle);
}

std::optional<Contestant> Cublas::best_of(Problem& problem, Precision precision, Clock& clock, std::string& error) {
  const peers::Gemm* gemm = std::get_if<peers::Gemm>(&problem.shape().shape);
  if (!gemm) return error = "cuBLASLt has products only", std::nullopt;
  const Api& api = state_->api;
  bool is_full = precision == Precision::Full && problem.input(0).dtype == DType::F32;
  auto product = std::make_unique<Product>(api);
  int compute = precision == Precision::Tf32 ? lt::ComputeTf32 : is_full ? lt::Compute32FPedantic : lt::Compute32F;
  if (!product->make(*gemm, problem, compute)) return error = "cuBLASLt does not take these shapes", std::nullopt;
  lt::Heuristic found[kHeuristics];
  int count = 0;
  int code = api.heuristics(state_->handle, product->description, product->b, product->a, product->c, product->c,
                            product->preference, kHeuristics, found, &count);
  if (code != 0 || count == 0) return error = cat("cuBLASLt has no way for this product: status ", code), std::nullopt;
  Product* kept = product.get();
  state_->products.push_back(std::move(product));
  auto address = [](const Array& array) { return reinterpret_cast<void*>(cuda::address_of(*array.memory)); };
  void *a = address(problem.input(0)), *b = address(problem.input(1)), *c = address(problem.output());
  void* workspace = reinterpret_cast<void*>(cuda::address_of(*state_->workspace));
  Contestant out{.name = "cublas",
                 .detail = "",
                 .enqueue = [&api, handle = state_->handle, kept, a, b, c, workspace, stream = clock.stream()] {
                   const float one = 1, zero = 0;
                   return api.multiply(handle, kept->description, &one, b, kept->b, a, kept->a, &zero, c, kept->c, c,
                                       kept->c, &kept->algorithm, workspace, kWorkspace, stream);
                 }};
  double best = 0;
  int best_index = -1;
  for (int i = 0; i < count; ++i) {
    kept->algorithm = found[i].algorithm;
    double seconds = clock.median_of(out, code);
    if (code == 0 && (best_index < 0 || seconds < best)) best = seconds, best_index = i;
  }
  if (best_index < 0) return error = cat("none of the ways of cuBLASLt runs: status ", code), std::nullopt;
  kept->algorithm = found[best_index].algorithm;
  out.detail = cat(state_->version, ", heuristic ", best_index + 1, " of ", count);
  return out;
}

}  // namespace tw::gpu_bench

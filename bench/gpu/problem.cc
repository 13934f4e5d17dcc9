#include "bench/gpu/problem.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "backends/interpreter.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "runtime/measure/elements.h"
#include "sampler/space/parallel_for.h"

namespace tw::gpu_bench {
namespace {

constexpr int kSamples = 512;

// Random data as of `tune`, of a prime length that is repeated: 8192 x 8192 numbers take seconds to draw.
const std::vector<float>& normal_table() {
  static const std::vector<float> table = [] {
    std::vector<float> out(1048573);
    fill_input(7, "normal", 0, DType::F32, static_cast<i64>(out.size()), reinterpret_cast<char*>(out.data()));
    return out;
  }();
  return table;
}

std::vector<float> random_values(i64 count, u64 seed) {
  const std::vector<float>& table = normal_table();
  std::size_t at = static_cast<std::size_t>(Rng(seed).below(static_cast<i64>(table.size())));
  std::vector<float> out(static_cast<std::size_t>(count));
  for (float& value : out) {
    value = table[at];
    at = at + 1 == table.size() ? 0 : at + 1;
  }
  return out;
}

struct Expected {
  const std::vector<Array>& arrays;
  i64 position;

  double at(std::size_t array, i64 place) const {
    return static_cast<double>(arrays[array].values[static_cast<std::size_t>(place)]);
  }

  double operator()(const peers::Gemm& g) const {
    i64 n = position % g.n, m = position / g.n % g.m, batch = position / g.n / g.m;
    i64 inner = batch % g.inner, outer = batch / g.inner;
    i64 a = outer * g.a.outer + inner * g.a.inner + m * g.a.row,
        b = outer * g.b.outer + inner * g.b.inner + n * g.b.column;
    double sum = 0;
    for (i64 k = 0; k < g.k; ++k) sum += at(0, a + k * g.a.column) * at(1, b + k * g.b.row);
    return sum;
  }

  double operator()(const peers::Convolution& c) const {
    i64 channel = position % c.co, rest = position / c.co, of_group = c.ci / c.groups,
        group = channel / (c.co / c.groups);
    std::array<i64, 3> out{};
    for (std::size_t d = 3; d-- > 0; rest /= c.out[d]) out[d] = rest % c.out[d];
    double sum = 0;
    for (i64 tap = 0; tap < c.kernel[0] * c.kernel[1] * c.kernel[2]; ++tap) {
      i64 taps[] = {tap / c.kernel[2] / c.kernel[1], tap / c.kernel[2] % c.kernel[1], tap % c.kernel[2]}, place = rest;
      bool is_inside = true;
      for (std::size_t d = 0; d < 3; ++d) {
        i64 in = out[d] * c.stride[d] + taps[d] * c.dilation[d] - c.padding[d];
        is_inside = is_inside && in >= 0 && in < c.in[d];
        place = place * c.in[d] + in;
      }
      for (i64 k = 0; k < of_group && is_inside; ++k)
        sum += at(0, place * c.ci + group * of_group + k) * at(1, (tap * of_group + k) * c.co + channel);
    }
    return sum;
  }

  double operator()(const peers::RowWise& r) const {
    using Kind = peers::RowWise::Kind;
    i64 row = r.kind == Kind::Norm ? position : position / r.columns, column = position % r.columns,
        begin = row * r.columns;
    double n = static_cast<double>(r.columns), top = -INFINITY, sum = 0, squares = 0, exponentials = 0, variance = 0;
    for (i64 j = 0; j < r.columns; ++j) {
      double x = at(0, begin + j);
      top = std::max(top, x), sum += x, squares += x * x;
    }
    for (i64 j = 0; j < r.columns; ++j) {
      double x = at(0, begin + j);
      exponentials += std::exp(x - top), variance += (x - sum / n) * (x - sum / n);
    }
    switch (r.kind) {
      case Kind::Softmax:
        return std::exp(at(0, position) - top) / exponentials;
      case Kind::LayerNorm:
        return (at(0, position) - sum / n) / std::sqrt(variance / n + 1e-5) * at(1, column) + at(2, column);
      case Kind::RmsNorm:
        return at(0, position) / std::sqrt(squares / n + 1e-6) * at(1, column);
      case Kind::Norm:
        break;
    }
    return std::sqrt(squares);
  }

  double operator()(const peers::FmaProbe&) const { return 0; }
};

// Calls each(i) for i in [0, count), on all threads.
template <class Each>
void in_pieces(std::size_t count, Each each) {
  constexpr std::size_t kPiece = 1 << 16;
  parallel_for(static_cast<int>((count + kPiece - 1) / kPiece), usable_threads(), [&](int piece, int) {
    std::size_t begin = static_cast<std::size_t>(piece) * kPiece;
    for (std::size_t i = begin; i < std::min(count, begin + kPiece); ++i) each(i);
  });
}

// Relative to the size of the results: sums of many products of random signs lose in proportion to it.
double tolerance_of(DType dtype) { return dtype == DType::F32 ? 1e-4 : dtype == DType::F16 ? 4e-3 : 3e-2; }

double size_of(const std::vector<double>& values) {
  double squares = 0;
  for (double value : values) squares += value * value;
  return std::sqrt(squares / std::max<double>(1, static_cast<double>(values.size())));
}

}  // namespace

std::vector<float> decode(const std::vector<u8>& bytes, DType dtype) {
  HostArray array{dtype, {}, bytes};
  std::vector<float> out(static_cast<std::size_t>(array.elements()));
  if (dtype == DType::F32) {
    std::memcpy(out.data(), bytes.data(), bytes.size());
    return out;
  }
  in_pieces(out.size(), [&](std::size_t i) { out[i] = static_cast<float>(array.get(static_cast<i64>(i))); });
  return out;
}

bool write_noise(device::Memory& memory) { return memory.write(random_values((memory.bytes() + 3) / 4, 1).data()); }

std::vector<u8> encode(const std::vector<float>& values, DType dtype) {
  HostArray array = HostArray::zeros(dtype, {static_cast<i64>(values.size())});
  if (dtype == DType::F32) {
    std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
    return array.bytes;
  }
  in_pieces(values.size(), [&](std::size_t i) { array.set(static_cast<i64>(i), static_cast<double>(values[i])); });
  return array.bytes;
}

std::unique_ptr<Problem> Problem::make(device::Device& device, const std::string& op,
                                       const std::map<std::string, peers::i64>& args,
                                       const std::vector<std::string>& epilogue, const Program& program,
                                       std::string& error) {
  auto understood = peers::understand({op, args, epilogue, {}});
  if (auto* why = std::get_if<std::string>(&understood)) return error = *why, nullptr;
  if (!epilogue.empty()) return error = "epilogues are not compared", nullptr;
  auto out = std::make_unique<Problem>();
  out->shape_ = std::get<peers::Operator>(understood);
  for (const Param& param : program.params) {
    Array array{
        .name = std::string(param.buffer->name), .dtype = param.buffer->dtype, .is_output = param.role == Role::Output};
    if (!is_float(array.dtype) || array.dtype == DType::F64)
      return error = cat("no comparison for elements of type ", name_of(array.dtype)), nullptr;
    array.memory = std::make_unique<device::Memory>(device, bytes_of(param.buffer));
    if (!array.memory->is_there()) return error = cat("the device has no memory for `", array.name, "`"), nullptr;
    if (!array.is_output) {
      std::vector<u8> bytes = encode(random_values(elements_of(param.buffer), out->arrays_.size() + 1), array.dtype);
      array.values = decode(bytes, array.dtype);
      if (!array.memory->write(bytes.data())) return error = "the device takes no data", nullptr;
    }
    out->arrays_.push_back(std::move(array));
  }
  if (out->arrays_.empty() || !out->arrays_.back().is_output)
    return error = "the output is not the last parameter", nullptr;
  return out;
}

std::unique_ptr<Problem> Problem::make(device::Device& device, const TaskEntry& entry, const Program& program,
                                       std::string& error) {
  std::map<std::string, peers::i64> args;
  for (const TaskArgument& argument : entry.args) {
    if (const i64* number = std::get_if<i64>(&argument.value)) args[argument.name] = *number;
  }
  std::vector<std::string> epilogue;
  for (const Located<std::string>& step : entry.epilogue) epilogue.push_back(step.value);
  return make(device, entry.op.value, args, epilogue, program, error);
}

double Problem::bytes() const {
  double out = 0;
  for (const Array& array : arrays_) out += static_cast<double>(array.memory->bytes());
  return out;
}

double Problem::expected(i64 position) const { return std::visit(Expected{arrays_, position}, shape_.shape); }

std::vector<float> Problem::read_output() {
  std::vector<u8> bytes(static_cast<std::size_t>(output().memory->bytes()));
  return output().memory->read(bytes.data()) ? decode(bytes, output().dtype) : std::vector<float>();
}

std::string Problem::check(const std::vector<float>& other, double& error) {
  std::vector<float> actual = read_output();
  if (actual.empty()) return "the device does not give its results";
  if (!output().memory->bands_intact()) return "wrote beside its output";
  Rng rng(11);
  std::vector<double> wanted, differences;
  i64 count = static_cast<i64>(actual.size()), samples = std::min<i64>(kSamples, count);
  double worst = 0;
  for (i64 i = 0; i < samples; ++i) {
    // Corners, then places anywhere.
    i64 position = i == 0 ? 0 : i == 1 ? count - 1 : rng.below(count);
    wanted.push_back(expected(position));
    differences.push_back(static_cast<double>(actual[static_cast<std::size_t>(position)]) - wanted.back());
  }
  double scale = std::max(size_of(wanted), 1e-30), limit = tolerance_of(output().dtype);
  error = size_of(differences) / scale;
  for (double difference : differences)
    worst = std::max(worst, std::isnan(difference) ? INFINITY : std::abs(difference) / scale);
  if (!(error <= limit) || worst > 20 * limit)
    return cat("differs from the result in f64 by ", error, " of its size, at most by ", worst);
  for (std::size_t i = 0; i < other.size() && other.size() == actual.size(); ++i) {
    double difference = std::abs(static_cast<double>(actual[i]) - static_cast<double>(other[i])) / scale;
    if (!(difference <= 20 * limit)) return cat("element ", i, " is ", actual[i], ", the library has ", other[i]);
  }
  return "";
}

}  // namespace tw::gpu_bench

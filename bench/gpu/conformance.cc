#include "bench/gpu/conformance.h"

#include <algorithm>
#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cmath>
#include <cstring>

#include "backends/cuda/nvrtc.h"
#include "backends/cuda_driver/native.h"
#include "dsl/base/text.h"
#include "runtime/emulation/emulation.h"

namespace tw::gpu_bench {
namespace {

template <class T>
T element(const std::vector<u8>& bytes, std::size_t at) {
  T out{};
  std::memcpy(&out, bytes.data() + at * sizeof out, sizeof out);
  return out;
}

// Floats as integers in their order, so that neighbours differ by one.
template <class Float, class Bits>
double steps_between(Float a, Float b) {
  if (std::isnan(a) || std::isnan(b))
    return std::isnan(a) && std::isnan(b) ? 0 : std::numeric_limits<double>::infinity();
  auto place = [](Float value) {
    Bits bits;
    std::memcpy(&bits, &value, sizeof bits);
    return bits < 0 ? std::numeric_limits<Bits>::min() - bits : bits;
  };
  // As unsigned numbers: from end to end it is more than the signed ones hold.
  auto low = static_cast<u64>(std::min(place(a), place(b))), high = static_cast<u64>(std::max(place(a), place(b)));
  return static_cast<double>(high - low);
}

// Bits of two 16-bit floats whose exponent has the bits of `infinity`.
double steps_between(std::uint16_t a, std::uint16_t b, unsigned infinity) {
  auto is_nan = [infinity](unsigned bits) { return (bits & 0x7fff) > infinity; };
  return a == b || (is_nan(a) && is_nan(b)) ? 0 : 1;
}

struct Format {
  std::size_t bytes;
  double (*distance)(const std::vector<u8>& a, const std::vector<u8>& b, std::size_t at);
};
using Bytes = const std::vector<u8>&;
// In the order of Element.
constexpr Format kFormats[] = {
    {4,
     [](Bytes a, Bytes b, std::size_t at) {
       return steps_between<float, std::int32_t>(element<float>(a, at), element<float>(b, at));
     }},
    {8,
     [](Bytes a, Bytes b, std::size_t at) {
       return steps_between<double, std::int64_t>(element<double>(a, at), element<double>(b, at));
     }},
    {4, [](Bytes a, Bytes b, std::size_t at) { return element<int>(a, at) == element<int>(b, at) ? 0.0 : 1.0; }},
    {2,
     [](Bytes a, Bytes b, std::size_t at) {
       return steps_between(element<std::uint16_t>(a, at), element<std::uint16_t>(b, at), 0x7c00);
     }},
    {2,
     [](Bytes a, Bytes b, std::size_t at) {
       return steps_between(element<std::uint16_t>(a, at), element<std::uint16_t>(b, at), 0x7f80);
     }},
};

double difference(Bytes a, Bytes b, std::size_t at) {
  double out = std::abs(double{element<float>(a, at)} - double{element<float>(b, at)});
  return std::isnan(out) ? std::numeric_limits<double>::infinity() : out;
}

std::string hex_of(const std::vector<u8>& bytes, std::size_t from, std::size_t count) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string out;
  for (std::size_t i = from; i < from + count && i < bytes.size(); ++i)
    out += {kDigits[bytes[i] >> 4], kDigits[bytes[i] & 15]};
  return out;
}

std::vector<u8> bytes_from(std::string_view hex) {
  auto digit = [](char c) { return static_cast<u8>(c <= '9' ? c - '0' : c - 'a' + 10); };
  std::vector<u8> out;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    out.push_back(static_cast<u8>(digit(hex[i]) << 4 | digit(hex[i + 1])));
  return out;
}

}  // namespace

Outputs emulate_cases(std::string& error) {
  // Kernels of one library are told apart by their names.
  std::vector<Kernel> kernels;
  for (std::size_t i = 0; i < cases().size(); ++i) {
    Kernel kernel = cases()[i].kernel;
    KernelLaunch& launch = kernel.manifest.run_launches[0];
    std::string name = cat("conform_", i);
    kernel.code.replace(kernel.code.rfind(" conform("), 9, cat(" ", name, "("));
    launch.name = kernel.manifest.symbol = name;
    kernels.push_back(std::move(kernel));
  }
  std::vector<const Kernel*> pointers;
  for (const Kernel& kernel : kernels) pointers.push_back(&kernel);
  EmulationReport report;
  std::unique_ptr<EmulatedKernels> compiled = EmulatedKernels::compile(pointers, report);
  Outputs out;
  if (!compiled) return error = report.message, out;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    NamedArrays arrays;
    for (std::size_t input = 0; input < cases()[i].inputs.size(); ++input) {
      const std::vector<u8>& bytes = cases()[i].inputs[input];
      arrays[kernels[i].manifest.run[input].name] = {DType::U8, {static_cast<i64>(bytes.size())}, bytes};
    }
    report = compiled->run(i, arrays);
    if (report.status != EmulationStatus::Ok) return error = cat(cases()[i].name, ": ", report.message), Outputs();
    out[cases()[i].name] = arrays["out"].bytes;
  }
  return out;
}

std::string print_outputs(const Outputs& outputs) {
  boost::json::object out;
  for (const auto& [name, bytes] : outputs) out[name] = hex_of(bytes, 0, bytes.size());
  return boost::json::serialize(out) + "\n";
}

Outputs parse_outputs(const std::string& text, std::string& error) {
  Outputs out;
  boost::json::error_code code;
  boost::json::value json = boost::json::parse(text, code);
  if (code || !json.is_object()) return error = "the file of expected results is no JSON object", out;
  for (const auto& [name, hex] : json.get_object()) {
    if (hex.is_string()) out[std::string(name)] = bytes_from(hex.get_string());
  }
  return out;
}

Conformance compare(const Case& one, const std::vector<u8>& actual, const std::vector<u8>& expected) {
  Conformance out{.name = one.name};
  const Format& format = kFormats[static_cast<int>(one.element)];
  if (actual.size() != expected.size() || actual.empty())
    return out.problem = cat("expected ", expected.size(), " bytes, not ", actual.size()), out;
  for (std::size_t i = 0; i < actual.size() / format.bytes; ++i) {
    double distance = one.tolerance > 0 ? difference(actual, expected, i) : format.distance(actual, expected, i);
    out.worst = std::max(out.worst, distance);
    if (distance > (one.tolerance > 0 ? one.tolerance : one.ulps) && out.problem.empty())
      out.problem = cat("element ", i, " has the bytes ", hex_of(actual, i * format.bytes, format.bytes),
                        " and should have ", hex_of(expected, i * format.bytes, format.bytes));
  }
  out.is_right = out.problem.empty();
  return out;
}

Conformance check_on(device::Device& device, const Case& one, const Outputs& expected) {
  Conformance out{.name = one.name};
  auto known = expected.find(one.name);
  if (known == expected.end()) return out.problem = "there is no expected result", out;
  std::optional<cuda::Compiled> compiled =
      cuda::compile(one.kernel.code, one.arch.empty() ? cuda::arch_of(device) : one.arch, out.problem);
  if (!compiled) return out;
  std::vector<std::unique_ptr<device::Memory>> memory;
  std::vector<device::Memory*> arguments;
  for (std::size_t i = 0; i < one.kernel.manifest.run.size(); ++i) {
    memory.push_back(std::make_unique<device::Memory>(device, one.kernel.manifest.run[i].bytes));
    if (!memory.back()->is_there()) return out.problem = "no memory", out;
    arguments.push_back(memory.back().get());
    if (i < one.inputs.size() ? !memory[i]->write(one.inputs[i].data()) : !memory[i]->fill(0xff))
      return out.problem = "no data", out;
  }
  Kernel kernel = one.kernel;
  kernel.code = compiled->cubin;
  device::LoadedKernel loaded(device, kernel, {}, arguments, nullptr, out.problem);
  if (!out.problem.empty()) return out;
  if (int code = loaded.run(); code != 0) return out.problem = device::error_text(code), out;
  std::vector<u8> actual(static_cast<std::size_t>(memory.back()->bytes()));
  if (!memory.back()->read(actual.data())) return out.problem = "no result", out;
  if (!memory.back()->bands_intact()) return out.problem = "wrote beside its output", out;
  return compare(one, actual, known->second);
}

}  // namespace tw::gpu_bench

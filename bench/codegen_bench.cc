// How fast generated code runs, and how long it takes to make it. Prints for each register tile (rows x vectors of a
// matrix product, columns x vectors of a convolution) the share of the FMA peak, which is measured in turn with it, and
// the milliseconds of code generation. Both are first quartiles.
//   codegen_bench [--bits 512] [--size 512] [--tiles 6x4,8x3] [--unroll 4] [--pad 0] [--rows-outside] [--conv]
//                 [--cpu znver3] [--rounds 15] [--asm]
#include <cstdio>
#include <iostream>
#include <random>
#include <sstream>

#include "backends/backend.h"
#include "dsl/base/clock.h"
#include "runtime/measure/object_loader.h"
#include "tests/support/aligned.h"
#include "tests/support/lowered_conv.h"
#include "tests/support/lowered_gemm.h"

namespace tw {
namespace {

// Twelve independent chains of FMAs on whole registers, in GFLOP/s: what the machine can do at best.
double fma_rate(int bits) {
  constexpr i64 kRounds = 40000;
  i64 rounds = kRounds;
  double start = seconds_now();
#define FMA(reg, c) "vfmadd231ps %%" reg "12, %%" reg "13, %%" reg #c "\n"
#define FMAS(reg) \
  FMA(reg, 0)     \
  FMA(reg, 1)     \
  FMA(reg, 2)     \
  FMA(reg, 3) FMA(reg, 4) FMA(reg, 5) FMA(reg, 6) FMA(reg, 7) FMA(reg, 8) FMA(reg, 9) FMA(reg, 10) FMA(reg, 11)
#define FMA_LOOP(reg)                                                                                           \
  asm volatile("vzeroall\n1:\n" FMAS(reg) "dec %0\njnz 1b\nvzeroupper"                                          \
               : "+r"(rounds)                                                                                   \
               :                                                                                                \
               : "cc", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", \
                 "xmm11", "xmm12", "xmm13")
  if (bits == 512)
    FMA_LOOP("zmm");
  else
    FMA_LOOP("ymm");
  return 2.0 * 12 * kRounds * (bits / 32) / (seconds_now() - start) * 1e-9;
}

struct Options {
  int bits = 512;
  i64 size = 512;
  std::string tiles = "4x4,6x4,12x2,14x2,8x3,9x3";
  int unroll = 4;
  bool panels_outside = true, print_assembly = false, is_conv = false;
  std::string cpu;  // empty: this machine's
  i64 pad = 0;
  int rounds = 15;
};

template <class List>
double quartile(List list) {
  std::sort(list.begin(), list.end());
  return list[list.size() / 4];
}

// One kernel: compiled `rounds` times, then run in turn with the FMA loop.
void measure(const Options& options, const std::string& name, const LoweredProgram& program, double flops) {
  auto compiler = LlvmCompiler::create({"", options.cpu, "", options.bits});
  if (!compiler) return void(std::cerr << to_string(compiler.rejected()) << "\n");
  std::vector<double> total, build, passes, codegen;
  Result<Kernel> kernel = compiler->compile(program, "kernel");
  if (!kernel) return void(std::cerr << to_string(kernel.rejected()) << "\n");
  for (int i = 0; i < options.rounds; ++i) {
    kernel = compiler->compile(program, "kernel");
    const CompileTimes& times = compiler->last_times();
    total.push_back(times.total_ms()), build.push_back(times.build_ms);
    passes.push_back(times.passes_ms), codegen.push_back(times.codegen_ms);
  }
  std::string assembly = *compiler->emit(program, "kernel", Emit::Assembly);
  if (options.print_assembly) std::cout << assembly << "\n";
  int stack_accesses = 0;
  for (std::size_t at = 0; (at = assembly.find("(%rsp", at)) != std::string::npos; ++at) ++stack_accesses;

  std::string error;
  LoadedObject loaded = load_object(kernel->code, error);
  if (!error.empty()) return void(std::cerr << error << "\n");
  tw_run_function run = loaded.run("kernel");
  std::vector<Aligned<float>> arrays;
  std::vector<void*> buffers;
  for (const KernelArgument& argument : kernel->manifest.run) {
    arrays.emplace_back(static_cast<std::size_t>(argument.bytes / 4));
    for (i64 i = 0; i < arrays.back().size(); ++i) arrays.back()[i] = static_cast<float>(i % 7);
  }
  for (Aligned<float>& array : arrays) buffers.push_back(array.data());
  double best = 0, peak = 0;
  int calls = std::max(1, static_cast<int>(4e8 / flops));
  for (int round = 0; round < options.rounds; ++round) {
    peak = std::max(peak, fma_rate(options.bits));
    double start = seconds_now();
    for (int i = 0; i < calls; ++i) run(buffers.data(), nullptr, nullptr, nullptr);
    best = std::max(best, flops * calls / (seconds_now() - start) * 1e-9);
  }
  std::printf(
      "%-12s %7.1f GFLOP/s  %5.1f%% of %6.1f   jit %5.2f ms (build %.2f passes %.2f codegen %.2f)  stack accesses %d  "
      "%zu B\n",
      name.c_str(), best, 100 * best / peak, peak, quartile(total), quartile(build), quartile(passes),
      quartile(codegen), stack_accesses, kernel->code.size());
}

void measure_gemm(const Options& options, int rows, int vectors) {
  i64 size = options.size;
  GemmPlan plan{size, size, size, rows, vectors, options.bits / 32, options.unroll, options.panels_outside};
  plan.a_stride = plan.k + options.pad;
  Arena arena;
  std::string name = std::to_string(rows) + "x" + std::to_string(vectors) + " u" + std::to_string(options.unroll);
  measure(options, name, LoweredGemm(arena, plan).program(), 2.0 * static_cast<double>(size * size * size));
}

void measure_conv(const Options& options, int columns, int vectors) {
  for (bool hides : {false, true}) {
    ConvPlan plan{64, 56, vectors, columns, options.bits / 32, hides};
    if (plan.channels % plan.panel() != 0) {  // the rest would be counted but not computed
      return void(std::cerr << vectors << " vectors do not divide " << plan.channels << " channels\n");
    }
    Arena arena;
    std::string name = std::to_string(columns) + "x" + std::to_string(vectors) + (hides ? " hidden" : " plain");
    measure(options, name, LoweredConv(arena, plan).program(), 2.0 * 64 * 64 * 9 * 56 * 56);
  }
}

int main_of(int count, char** words) {
  Options options;
  for (int i = 1; i < count; ++i) {
    std::string word = words[i];
    auto next = [&] { return std::string(i + 1 < count ? words[++i] : "0"); };
    if (word == "--bits")
      options.bits = std::stoi(next());
    else if (word == "--size")
      options.size = std::stoll(next());
    else if (word == "--tiles")
      options.tiles = next();
    else if (word == "--unroll")
      options.unroll = std::stoi(next());
    else if (word == "--rounds")
      options.rounds = std::stoi(next());
    else if (word == "--pad")
      options.pad = std::stoll(next());
    else if (word == "--rows-outside")
      options.panels_outside = false;
    else if (word == "--conv")
      options.is_conv = true;
    else if (word == "--cpu")
      options.cpu = next();
    else if (word == "--asm")
      options.print_assembly = true;
    else
      return std::cerr << "unknown option " << word << "\n", 2;
  }
  std::printf("%s, %d bits, %s %lld\n", options.cpu.empty() ? host_cpu_name().c_str() : options.cpu.c_str(),
              options.bits, options.is_conv ? "conv 3x3, 64 channels, 56x56" : "gemm",
              static_cast<long long>(options.size));
  std::istringstream list(options.tiles);
  for (std::string tile; std::getline(list, tile, ',');) {
    int first = std::stoi(tile), second = std::stoi(tile.substr(tile.find('x') + 1));
    options.is_conv ? measure_conv(options, first, second) : measure_gemm(options, first, second);
  }
  return 0;
}

}  // namespace
}  // namespace tw

int main(int count, char** words) { return tw::main_of(count, words); }

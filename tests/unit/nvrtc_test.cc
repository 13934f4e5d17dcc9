// CUDA C by NVRTC: every kernel of a tiled product compiles to machine code with the instructions that it promises. No
// device, no driver. Skipped where NVRTC is not installed.
#include "backends/cuda/nvrtc.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "backends/cuda/toolkit.h"
#include "backends/gpu_source/source.h"
#include "sampler/search/trial.h"
#include "sampler/space/candidate.h"
#include "support/device_schedules.h"
#include "support/drawn_kernels.h"
#include "support/nvrtc.h"
#include "support/scheduled.h"
#include "support/support.h"

namespace tw {
namespace {

std::string cuda_source(const std::string& more = "") {
  test::Scheduled scheduled("matmul(M = 256, N = 256, K = 64)", {},
                            test::gpu_gemm_schedule({.ty = 16, .tx = 16, .rows = 4, .columns = 4, .depth = 8}) + more);
  Arena arena;
  Result<LoweredGpuProgram> kernels =
      lower_gpu(arena, scheduled.program(), {.vector_bits = 128, .vector_registers = 64}, {});
  EXPECT_TRUE(kernels);
  Result<Kernel> printed = print_device_source(*kernels, SourceLanguage::CudaC, "mm");
  EXPECT_TRUE(printed);
  return printed->code;
}

TEST(CudaToolkit, NewestFirst) {
  test::TemporaryDirectory folder;
  for (const char* name : {"cuda-9.2", "cuda-13.0", "cuda-12.9", "cuda-12.10", "cuda-samples", "cuda"})
    std::filesystem::create_directory(folder.path() + "/" + name);
  std::vector<std::string> expected;
  for (const char* name : {"cuda", "cuda-13.0", "cuda-12.10", "cuda-12.9", "cuda-9.2"})
    expected.push_back(folder.path() + "/" + name);
  EXPECT_EQ(cuda::toolkit_homes(folder.path()), expected);
}

// As in a virtual environment with PyTorch.
TEST(CudaToolkit, LibrariesOfPythonPackages) {
  test::TemporaryDirectory folder;
  namespace fs = std::filesystem;
  std::string packages = folder.path() + "/lib/python3.12/site-packages/nvidia";
  for (const char* package : {"cu13/lib", "cudnn/lib", "empty"}) fs::create_directories(packages + "/" + package);
  std::string path = folder.path() + "/bin";
  auto found = [&] {
    std::vector<std::string> out = cuda::python_library_folders("/nowhere:" + path);
    std::erase_if(out, [&](const std::string& of) { return !of.starts_with(folder.path()); });
    return out;
  };
  fs::create_directory(path);
  EXPECT_TRUE(found().empty()) << "there is no python3";
  std::ofstream(path + "/python3") << "";
  EXPECT_EQ(found(), (std::vector<std::string>{packages + "/cu13/lib", packages + "/cudnn/lib"}));
}

// What the loader says of a file that is there is more than that it was not found.
TEST(CudaToolkit, ALibraryThatCannotBeOpenedSaysWhy) {
  test::TemporaryDirectory folder;
  std::filesystem::create_directories(folder.path() + "/lib64");
  std::ofstream(folder.path() + "/lib64/libtoolkit_of_a_test.so.1") << "no library";
  const char* before = std::getenv("CUDA_PATH");
  std::string kept = before ? before : "", path, error;
  setenv("CUDA_PATH", folder.path().c_str(), 1);
  EXPECT_EQ(cuda::open_toolkit_library({"libtoolkit_of_a_test.so.1"}, 2, path, error), nullptr);
  EXPECT_NE(error.find("libtoolkit_of_a_test.so.1 cannot be used: "), std::string::npos) << error;
  EXPECT_NE(error.find("/lib64/libtoolkit_of_a_test.so.1"), std::string::npos) << error;
  before ? setenv("CUDA_PATH", kept.c_str(), 1) : unsetenv("CUDA_PATH");
}

class Nvrtc : public ::testing::TestWithParam<const char*> {};

TEST_P(Nvrtc, CompilesATiledProductWithoutSpills) {
  std::string error;
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  std::optional<cuda::Compiled> compiled = cuda::compile(cuda_source(), GetParam(), error);
  ASSERT_TRUE(compiled) << error;
  EXPECT_NE(compiled->ptx.find(".entry mm_run_0"), std::string::npos);
  ASSERT_EQ(compiled->kernels.size(), 1u) << compiled->log;
  const cuda::KernelUse& use = compiled->kernels[0];
  EXPECT_EQ(use.name, "mm_run_0");
  EXPECT_GT(use.registers, 16);
  EXPECT_EQ(use.spill_store_bytes + use.spill_load_bytes, 0);
  EXPECT_EQ(use.shared_bytes, (64 + 64) * 8 * 4) << compiled->log;
  ASSERT_EQ(compiled->code.size(), 1u);
  const cuda::CubinKernel& code = compiled->code[0];
  EXPECT_EQ(code.name, "mm_run_0");
  EXPECT_EQ(code.registers, use.registers);
  EXPECT_EQ(code.shared_bytes, use.shared_bytes);
  EXPECT_EQ(code.stack_bytes, 0);
  EXPECT_EQ(code.max_threads, 16 * 16);
  EXPECT_GE(code.count("FFMA"), 4 * 4 * 8);
  EXPECT_GT(code.count("LDS"), 0);
  EXPECT_GT(code.count("STS"), 0);
  EXPECT_GE(code.count("BAR"), 2);
  EXPECT_EQ(code.count("STL"), 0);
  EXPECT_EQ(cuda::why_unfit(*compiled), "");
}

TEST_P(Nvrtc, StagedCopiesAreAsynchronous) {
  std::string error;
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  std::string code = cuda_source("pipeline(k0, 3)\nmake_async(c0)\nmake_async(c1)\n");
  std::optional<cuda::Compiled> compiled = cuda::compile(code, GetParam(), error);
  ASSERT_TRUE(compiled) << error << "\n" << code;
  EXPECT_EQ(compiled->code[0].stack_bytes, 0);
  EXPECT_GT(compiled->code[0].count("LDGSTS"), 0) << code;
  EXPECT_EQ(cuda::why_unfit(*compiled), "");
}

INSTANTIATE_TEST_SUITE_P(Archs, Nvrtc, ::testing::Values("sm_80", "sm_90a"));

// Tiled draws of the rule set `cuda`: each compiles, and keeps its accumulators in registers.
TEST(NvrtcSpace, DrawsOfTheSetCompile) {
  std::string error;
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  // Some have too much code or memory: lowering refuses them before anything is compiled.
  test::DrawnKernels drawn = test::drawn_kernels("matmul(M = 500, N = 512, K = 256)", "cuda", test::cuda_target(), 18);
  EXPECT_EQ(drawn.rejected, "");
  int tiled = 0;
  for (const Kernel& kernel : drawn.kernels) {
    std::optional<cuda::Compiled> compiled = cuda::compile(kernel.code, "sm_80", error);
    ASSERT_TRUE(compiled) << error << "\n" << kernel.code;
    for (const cuda::CubinKernel& code : compiled->code) {
      if (code.shared_bytes == 0) continue;
      ++tiled;
      EXPECT_EQ(code.stack_bytes, 0) << "accumulators are not in registers:\n" << kernel.code;
      EXPECT_GT(code.count("FFMA"), 0);
    }
  }
  EXPECT_GE(tiled, 3);
}

struct CompiledDraws {
  int compiled = 0, spilled = 0, ahead = 0, filled = 0;
  int staged = 0, staged_halves = 0;  // sums leave through shared memory; of these, kernels that store single halves
};

// Draws of the rule `warp_mma`: matrix instructions whose operands come by ldmatrix, copies that are asynchronous where
// there are several stages, and neither stacks nor spills (but one at most of a group of one warp).
CompiledDraws compile_products(const std::string& use, const char* multiply, const char* arch) {
  std::string error, errors;
  Target target = test::cuda_target();
  test::Scheduled plain(use, {}, "");
  rules::Library library = rules::Library::built_in();
  Program wanted = plain.program();
  if (use.find("f32") != std::string::npos) wanted.tolerance = {5e-2, 5e-2};  // may be rounded
  CandidateSpace space = make_candidate_space(wanted, *library.find_set("cuda"), library, target, errors);
  EXPECT_EQ(errors, "");
  CandidateBuilder builder(space);
  CompiledDraws out;
  for (std::size_t s = 0; s < space.space.sketches.size(); ++s) {
    const std::vector<std::string>& names = space.space.sketches[s].rules;
    if (std::find(names.begin(), names.end(), "warp_mma") == names.end()) continue;
    for (u64 seed = 0; seed < 6; ++seed) {
      Rng rng(seed, s);
      Candidate candidate;
      EXPECT_TRUE(builder.draw(static_cast<int>(s), candidate, rng));
      Result<Program> program = builder.build(candidate, &rng);
      EXPECT_TRUE(program) << to_string(program.rejected());
      if (!program) continue;
      Arena arena;
      Result<LoweredGpuProgram> lowered = lower_gpu(arena, *program, lowering_options(target), gpu_limits(target));
      if (!lowered) continue;
      Result<Kernel> kernel = device_source(*lowered, target, "mm");
      EXPECT_TRUE(kernel);
      std::optional<cuda::Compiled> code = cuda::compile(kernel->code, arch, error);
      EXPECT_TRUE(code) << error << "\n" << kernel->code;
      if (!code) continue;
      // Padding may have a kernel of its own.
      auto by_products = [&](const cuda::CubinKernel& a, const cuda::CubinKernel& b) {
        return a.count(multiply) < b.count(multiply);
      };
      const cuda::CubinKernel& instructions = *std::max_element(code->code.begin(), code->code.end(), by_products);
      EXPECT_GT(instructions.count(multiply), 0) << kernel->code;
      EXPECT_GT(instructions.count("LDSM"), 0) << kernel->code;
      // ptxas may want so many groups at once that it spills a register, which the search drops.
      if (std::string unfit = cuda::why_unfit(*code); !unfit.empty()) {
        EXPECT_NE(unfit.find("bytes of spill stores"), std::string::npos) << unfit;
        EXPECT_EQ(++out.spilled, 1) << unfit;
        // Where a multiprocessor need not hold more than one of them, there are registers enough.
        std::string alone = std::regex_replace(kernel->code, std::regex(R"(__launch_bounds__\((\d+)[^)]*\))"),
                                               "__launch_bounds__($1, 1)");
        code = cuda::compile(alone, arch, error);
        EXPECT_TRUE(code) << error;
        EXPECT_EQ(code ? cuda::why_unfit(*code) : "", "");
        continue;
      }
      EXPECT_EQ(instructions.count("STL"), 0);
      if (kernel->code.find("tw_placed") != std::string::npos) {
        ++out.staged;
        out.staged_halves += code->ptx.find("st.global.u16") != std::string::npos ||
                             code->ptx.find("st.global.b16") != std::string::npos;
      }
      std::size_t head = kernel->code.find("__global__");
      bool is_ahead = false, is_filled = false;
      for (int bytes : {4, 8, 16}) {
        is_filled |= kernel->code.find(cat("tw_copy_async_or_zeros_", bytes, "("), head) != std::string::npos;
        is_ahead |= is_filled || kernel->code.find(cat("tw_copy_async_", bytes, "("), head) != std::string::npos;
      }
      EXPECT_EQ(instructions.count("LDGSTS") > 0, is_ahead) << kernel->code;
      out.ahead += is_ahead;
      out.filled += is_filled;
      ++out.compiled;
    }
  }
  return out;
}

TEST_P(Nvrtc, ProductsOfNarrowTypesUseMatrixInstructions) {
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  for (const char* type : {"f16", "bf16", "i8", "u8", "f32"}) {
    CompiledDraws draws = compile_products(cat("matmul(M = 512, N = 512, K = 256, T = ", type, ")"),
                                           type[1] == '8' ? "IMMA" : "HMMA", GetParam());
    EXPECT_GE(draws.compiled, 5) << type;
    EXPECT_GE(draws.ahead, 1) << type;
    EXPECT_EQ(draws.filled, 0) << type << ": no tile sticks out";
    EXPECT_GE(draws.staged, 3) << type << ": sums over operands in shared memory";
    EXPECT_EQ(draws.staged_halves, 0) << type;
  }
}

// Tiles that stick out: zeros come by the same asynchronous copies where the rows of an operand are aligned.
TEST_P(Nvrtc, ProductsThatNoTileFitsUseMatrixInstructions) {
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  const char* aligned[] = {"matmul(M = 1000, N = 1000, K = 1000, T = f16)",
                           "matmul(M = 100, N = 100, K = 100, T = f32)",
                           "conv2d(N = 1, H = 15, W = 13, CI = 24, CO = 40, K = 3, padding = 1, T = bf16)"};
  for (const char* use : aligned) {
    CompiledDraws draws = compile_products(use, "HMMA", GetParam());
    EXPECT_GE(draws.compiled, 5) << use;
    EXPECT_GE(draws.filled, 1) << use;
  }
  EXPECT_GE(compile_products("batch_matmul(B = 3, M = 100, N = 65, K = 197, T = f16)", "HMMA", GetParam()).compiled, 5);
  EXPECT_GE(compile_products("matmul(M = 65, N = 197, K = 33, T = i8)", "IMMA", GetParam()).compiled, 5);
}

// Bytes that one thread takes from global memory in the whole kernel, which has no loops, and those of its widest load.
struct LoadedBytes {
  i64 all = 0, widest = 0;
};
LoadedBytes loaded_bytes(const std::string& ptx) {
  LoadedBytes out;
  for (std::size_t at = ptx.find("ld.global"); at != std::string::npos; at = ptx.find("ld.global", at + 1)) {
    std::string name = ptx.substr(at, ptx.find_first_of(" \t", at) - at);
    std::size_t vector = name.find(".v");
    i64 lanes = vector == std::string::npos ? 1 : name[vector + 2] - '0';
    i64 bytes = lanes * std::stoi(name.substr(name.find_last_not_of("0123456789") + 1)) / 8;
    out.all += bytes;
    out.widest = std::max(out.widest, bytes);
  }
  return out;
}

// Softmax in groups that take whole rows: each element is loaded once, and where vectors of 16 bytes are drawn, by such
// loads and stores.
TEST_P(Nvrtc, RowsAreReadOnceInWideLoads) {
  std::string error;
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  for (auto [type, bytes] : {std::pair("f32", 4), std::pair("f16", 2)}) {
    test::DrawnKernels drawn =
        test::drawn_kernels(cat("softmax(M = 256, N = 1024, T = ", type, ")"), "cuda", test::cuda_target(), 48);
    EXPECT_EQ(drawn.rejected + drawn.not_lowered, "");
    int whole = 0, wide = 0;
    for (const Kernel& kernel : drawn.kernels) {
      if (kernel.manifest.run_launches.size() > 1) continue;  // the sketches that leave some stage a kernel of its own
      const KernelLaunch& launch = kernel.manifest.run_launches[0];
      std::optional<cuda::Compiled> compiled = cuda::compile(kernel.code, GetParam(), error);
      ASSERT_TRUE(compiled) << error << "\n" << kernel.code;
      EXPECT_EQ(cuda::why_unfit(*compiled), "") << kernel.code;
      LoadedBytes loaded = loaded_bytes(compiled->ptx);
      EXPECT_EQ(loaded.all * launch.threads[0] * launch.threads[1] * launch.groups[0], 256 * 1024 * bytes)
          << kernel.code;
      ++whole;
      if (loaded.widest < 16) continue;
      ++wide;
      EXPECT_NE(compiled->ptx.find("st.global.v4"), std::string::npos) << kernel.code;
    }
    EXPECT_GE(whole, 8) << type;
    EXPECT_GE(wide, 2) << type;
  }
}

// A few long rows: enough groups to occupy a device, in some draws.
TEST(NvrtcSpace, LongRowsAreSplitOverGroups) {
  for (const char* use : {"norm(B = 2, M = 1024, N = 1024)", "softmax(M = 4, N = 131072)"}) {
    test::DrawnKernels drawn = test::drawn_kernels(use, "cuda", test::cuda_target(), 12);
    EXPECT_EQ(drawn.rejected + drawn.not_lowered, "");
    i64 most = 0;
    for (const Kernel& kernel : drawn.kernels) most = std::max(most, kernel.manifest.run_launches[0].groups[0]);
    EXPECT_GE(most, 128) << use;
  }
}

TEST(NvrtcLog, SaysRegistersAndSpills) {
  std::vector<cuda::KernelUse> uses = cuda::parse_log(
      "ptxas info    : 0 bytes gmem\nptxas info    : Compiling entry function 'k' for 'sm_80'\nptxas info    : "
      "Function properties for k\n"
      "    40 bytes stack frame, 36 bytes spill stores, 52 bytes spill loads\n"
      "ptxas info    : Used 255 registers, used 1 barriers, 4096 bytes smem, 376 bytes cmem[0]\n");
  ASSERT_EQ(uses.size(), 1u);
  EXPECT_EQ(uses[0].name, "k");
  EXPECT_EQ(uses[0].registers, 255);
  EXPECT_EQ(uses[0].stack_bytes, 40);
  EXPECT_EQ(uses[0].spill_store_bytes, 36);
  EXPECT_EQ(uses[0].spill_load_bytes, 52);
  EXPECT_EQ(uses[0].shared_bytes, 4096);
}

// The log and the cubin are two witnesses of the same compilation.
TEST(NvrtcUse, LogAndCubinAgree) {
  std::string error;
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  const std::string source = R"(
extern "C" __global__ void __launch_bounds__(64) reversed(float* a, const float* b) {
  __shared__ float s[64];
  s[threadIdx.x] = b[threadIdx.x]; __syncthreads(); a[threadIdx.x] = s[63 - threadIdx.x];
}
extern "C" __global__ void __launch_bounds__(32) stacked(float* a, const int* at) {
  float t[40];
  for (int i = 0; i < 40; ++i) t[i] = a[i + threadIdx.x];
  for (int i = 0; i < 40; ++i) t[at[i]] += t[at[i + 1]];
  a[threadIdx.x] = t[at[threadIdx.x]];
})";
  for (const char* arch : {"sm_80", "sm_90a"}) {
    std::optional<cuda::Compiled> compiled = cuda::compile(source, arch, error);
    ASSERT_TRUE(compiled) << error;
    ASSERT_EQ(compiled->code.size(), 2u);
    for (const cuda::CubinKernel& code : compiled->code) {
      auto use = std::find_if(compiled->kernels.begin(), compiled->kernels.end(),
                              [&](const cuda::KernelUse& u) { return u.name == code.name; });
      ASSERT_NE(use, compiled->kernels.end()) << code.name;
      EXPECT_EQ(code.registers, use->registers);
      EXPECT_EQ(code.stack_bytes, use->stack_bytes);
      EXPECT_EQ(code.shared_bytes, use->shared_bytes);
      EXPECT_EQ(code.max_threads, code.name == "reversed" ? 64 : 32);
      EXPECT_EQ(code.count("STL") > 0, code.name == "stacked");
    }
    EXPECT_EQ(cuda::why_unfit(*compiled),
              "kernel `stacked` keeps 160 bytes of each thread's data in memory, not in registers");
  }
}

TEST(NvrtcUse, SpillsAndWarningsAreReasons) {
  std::string error;
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  // 256 sums, each of which is needed to the end, in the 64 registers that 1024 threads leave to each.
  const std::string source = R"(
extern "C" __global__ void __launch_bounds__(1024) many(float* a, const float* b, int n) {
  float sums[256];
  #pragma unroll
  for (int i = 0; i < 256; ++i) sums[i] = b[i * 1024 + threadIdx.x];
  for (int k = 0; k < n; ++k) {
    #pragma unroll
    for (int i = 0; i < 256; ++i) sums[i] += sums[(i + 7) % 256] * b[k];
  }
  #pragma unroll
  for (int i = 0; i < 256; ++i) a[i * 1024 + threadIdx.x] = sums[i];
})";
  std::optional<cuda::Compiled> compiled = cuda::compile(source, "sm_80", error);
  ASSERT_TRUE(compiled) << error;
  std::string why = cuda::why_unfit(*compiled);
  EXPECT_EQ(why.rfind("kernel `many` needs more registers than a thread has: ", 0), 0u) << why;
  cuda::Compiled warned;
  warned.log =
      "ptxas info    : (C7511) Potential Performance Loss: wgmma.mma_async instructions are serialized due to "
      "insufficient "
      "register resources in function 'k'\n";
  EXPECT_EQ(cuda::why_unfit(warned).rfind("ptxas warns: (C7511) Potential", 0), 0u);
  // A warning that ptxas does give: registers cannot be handed over where the size of the block is not known.
  std::optional<cuda::Compiled> ignored = cuda::compile(R"(
extern "C" __global__ void hands_over(float* a) {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
  *a = 1;
})",
                                                        "sm_90a", error);
  ASSERT_TRUE(ignored) << error;
  EXPECT_EQ(cuda::why_unfit(*ignored).rfind("ptxas warns: (C7508)", 0), 0u) << ignored->log;
}

// A cubin that was cut or changed gives an answer or a reason, never more than is there.
TEST(Cubin, DamageIsSurvived) {
  std::string error;
  EXPECT_FALSE(cuda::read_cubin("", error));
  EXPECT_EQ(error, "this is no ELF64 file");
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  std::optional<cuda::Compiled> compiled =
      cuda::compile("extern \"C\" __global__ void k(float* a) { *a = 1; }", "sm_80", error);
  ASSERT_TRUE(compiled) << error;
  for (std::size_t bytes = 0; bytes < compiled->cubin.size(); bytes += 97) {
    std::string cut = compiled->cubin.substr(0, bytes), changed = compiled->cubin;
    changed[bytes] = static_cast<char>(~changed[bytes]);
    for (const std::string& damaged : {cut, changed}) {
      std::optional<std::vector<cuda::CubinKernel>> read = cuda::read_cubin(damaged, error);
      int instructions = 0;
      for (const cuda::CubinKernel& kernel : read.value_or(std::vector<cuda::CubinKernel>{}))
        instructions += kernel.instructions();
      EXPECT_LE(instructions, static_cast<int>(damaged.size() / 16)) << "cut or changed at " << bytes;
    }
  }
}

// One number is an instruction of halves up to sm_100 and one of integers on sm_120.
TEST(Cubin, NamesOfInstructionsAreThoseOfTheArch) {
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  const char* source = R"(
extern "C" __global__ void k(long long* a, const long long* b, int n) {
  long long sum = 0;
  for (int i = threadIdx.x; i < n; i += 7) sum += a[i] * b[i];
  a[0] = sum - b[3];
})";
  for (auto [arch, number] :
       {std::pair{"sm_80", 80}, std::pair{"sm_90a", 90}, std::pair{"sm_100a", 100}, std::pair{"sm_120", 120}}) {
    std::string error;
    std::optional<cuda::Compiled> compiled = cuda::compile(source, arch, error);
    ASSERT_TRUE(compiled) << error;
    const cuda::CubinKernel& kernel = compiled->code.at(0);
    EXPECT_EQ(kernel.arch, number);
    EXPECT_EQ(kernel.opcode_name(0x235), number < 120 ? "HFMA2" : "IADD");
    EXPECT_EQ(kernel.opcode_name(0x223), "FFMA");
    if (number < 120) continue;
    EXPECT_GT(kernel.count("IADD"), 0);
    EXPECT_EQ(kernel.count("HFMA2"), 0) << "no halves in this kernel";
  }
}

// The code with other registers in its multiply-adds: a place of 8 bits for each, and of 3 bits for what the next one
// finds kept.
TEST(Cubin, MultiplyAddsThatReadOneBankAreCounted) {
  std::string error;
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  std::optional<cuda::Compiled> compiled = cuda::compile(R"(
extern "C" __global__ void k(float* a, const float* b) {
  float x = a[0], y = a[1];
  for (int i = 0; i < 8; ++i) x = x * b[i] + y, y = y * b[i] + x;
  a[0] = x + y;
})",
                                                         "sm_80", error);
  ASSERT_TRUE(compiled) << error;
  int products = compiled->code.at(0).count("FFMA"), runs = 0;
  ASSERT_GT(products, 8);
  auto conflicts = [&](int a, int b, int c, int kept) {
    std::string changed = compiled->cubin;
    bool follows = false;
    runs = 0;
    // Sections of code lie at multiples of 128 bytes.
    for (std::size_t at = 0; at + 16 <= changed.size(); at += 16) {
      auto byte = [&](std::size_t i) -> char& { return changed[at + i]; };
      bool is_product = static_cast<u8>(byte(0)) == 0x23 && (byte(1) & 0xf) == 2;
      runs += is_product && !follows;
      follows = is_product;
      if (!is_product) continue;
      byte(3) = static_cast<char>(a), byte(4) = static_cast<char>(b), byte(8) = static_cast<char>(c);
      byte(15) = static_cast<char>((byte(15) & ~0x1c) | kept << 2);
    }
    return cuda::read_cubin(changed, error)->at(0).register_conflicts;
  };
  EXPECT_EQ(conflicts(2, 4, 6, 0), products) << "all even";
  EXPECT_EQ(conflicts(3, 5, 9, 0), products) << "all odd";
  EXPECT_EQ(conflicts(2, 4, 7, 0), 0);
  EXPECT_EQ(conflicts(2, 2, 6, 0), 0) << "one register twice";
  EXPECT_EQ(conflicts(2, 255, 6, 0), 0) << "zero is no register";
  EXPECT_EQ(conflicts(2, 4, 6, 1), runs) << "the first of those that follow each other";
}

TEST(NvrtcErrors, AreTheCompilersOwn) {
  std::string error;
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  EXPECT_FALSE(cuda::compile("extern \"C\" __global__ void k() { nothing(); }", "sm_80", error));
  EXPECT_NE(error.find("nothing"), std::string::npos) << error;
}

}  // namespace
}  // namespace tw

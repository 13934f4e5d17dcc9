// The GPU benchmark without a GPU: its conformance kernels in the emulator and through NVRTC, its comparison of
// results, the numbers of NVIDIA's interfaces that it repeats, and the whole program against a driver that runs nothing
// (tests/cuda_stub). What a GPU says, and times, are not tested here.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <boost/json/array.hpp>
#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <cstring>
#include <filesystem>
#include <regex>
#include <set>

#include "backends/cuda/nvrtc.h"
#include "backends/gpu_source/vocabulary.h"
#include "bench/gpu/conformance.h"
#include "bench/gpu/libraries.h"
#include "dsl/base/embedded_text.h"
#include "dsl/base/text.h"
#include "support/nvrtc.h"
#include "support/run_program.h"
#include "support/support.h"
#if TW_HAS_CUBLASLT
#include <cublasLt.h>
#endif
#if TW_HAS_CUDNN
#include <cudnn.h>
#endif

namespace tw {
namespace {

namespace gb = gpu_bench;
using test::Finished;

// Each test is a process, and the emulator takes more than a minute: so the first one keeps what it gave, and the
// others read it while it is newer than all that made it.
const gb::Outputs& expected() {
  static const gb::Outputs outputs = [] {
    namespace fs = std::filesystem;
    const fs::path build = TW_BINARY_DIR, kept = build / "tests/gpu_bench_expected.json";
    std::string error;
    int lock = open(cat(kept.string(), ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    EXPECT_EQ(flock(lock, LOCK_EX), 0);
    std::error_code none;
    const fs::file_time_type written = fs::last_write_time(kept, none);
    bool is_new = !none;
    for (const char* maker : {"tests/gpu_bench_test", "tracewright-emulator", "libtracewright.so"})
      is_new = is_new && fs::last_write_time(build / maker) < written;
    gb::Outputs made = is_new ? gb::parse_outputs(test::read_file(kept), error) : gb::emulate_cases(error);
    EXPECT_EQ(error, "");
    if (!is_new && error.empty()) test::write_file(kept, gb::print_outputs(made));
    close(lock);
    return made;
  }();
  return outputs;
}

// What the printer or the emulator calls a device function, but not what belongs to the emulator itself.
std::set<std::string> device_functions() {
  std::string text = cuda_vocabulary();
  for (const EmbeddedText& embedded : embedded_texts()) {
    if (embedded.path == "runtime/emulator/device_functions.h") text += embedded.text;
  }
  std::set<std::string> out;
  std::regex name(
      R"((?:^|[^\w])((?:tw_(?!emu)|__(?:shfl|ballot|any|all|sync|int_as|uint_as|float_as|ldg|exp|log|fma|fdiv))\w+)\s*[<(])");
  for (auto it = std::sregex_iterator(text.begin(), text.end(), name); it != std::sregex_iterator(); ++it)
    out.insert((*it)[1]);
  std::regex math(
      R"(\b((?:exp|log|sqrt|rsqrt|tanh|erf|fabs|floor|ceil|rint|pow|fma|fmin|fmax|exp2|log2)f?)\((?:float|double))");
  for (auto it = std::sregex_iterator(text.begin(), text.end(), math); it != std::sregex_iterator(); ++it)
    out.insert((*it)[1]);
  return out;
}

TEST(GpuBench, EveryDeviceFunctionHasACase) {
  std::string called;
  for (const gb::Case& one : gb::cases()) called += one.kernel.code.substr(one.kernel.code.rfind(" conform("));
  std::set<std::string> functions = device_functions();
  EXPECT_GE(functions.size(), 40u);
  for (const std::string& function : functions)
    EXPECT_TRUE(std::regex_search(called, std::regex("\\b" + function + "[<(]")))
        << function << " is in no conformance case";
}

// The emulator takes more than a minute, so what is tested of its results is one test. Wrong ones are off by more than
// a case allows, or by what it allows, at an element that is an ordinary number in every case.
TEST(GpuBench, TheEmulatorRunsEveryCaseAndWrongResultsAreFound) {
  EXPECT_EQ(expected().size(), gb::cases().size());
  for (const gb::Case& one : gb::cases()) EXPECT_TRUE(expected().count(one.name)) << one.name;
  std::string error;
  gb::Outputs again = gb::parse_outputs(gb::print_outputs(expected()), error);
  EXPECT_EQ(error, "");
  EXPECT_EQ(again, expected());
  constexpr std::size_t kElement = 777;
  for (const gb::Case& one : gb::cases()) {
    const std::vector<u8>& right = expected().at(one.name);
    EXPECT_TRUE(gb::compare(one, right, right).is_right) << one.name;
    std::vector<u8> wrong = right;
    std::size_t bytes = one.element == gb::Element::F64 ? 8 : one.element >= gb::Element::F16 ? 2 : 4;
    wrong[kElement * bytes + (one.tolerance > 0 ? 2 : 1)] ^=
        0x20;  // beyond 20 units in the last place, and beyond any tolerance
    gb::Conformance found = gb::compare(one, wrong, right);
    EXPECT_FALSE(found.is_right) << one.name;
    EXPECT_NE(found.problem.find(cat("element ", kElement)), std::string::npos) << found.problem;
    wrong = right;
    wrong[kElement * bytes] ^= 1;
    EXPECT_EQ(gb::compare(one, wrong, right).is_right, one.ulps > 0 || one.tolerance > 0) << one.name;
  }
}

TEST(GpuBench, NanIsNoNumber) {
  gb::Case one{.name = "x", .kernel = {}, .inputs = {}, .element = gb::Element::F32, .ulps = 1000};
  auto bytes = [](u32 bits) {
    std::vector<u8> out(4);
    std::memcpy(out.data(), &bits, 4);
    return out;
  };
  EXPECT_TRUE(gb::compare(one, bytes(0x7fc00001), bytes(0xffc00000)).is_right);
  EXPECT_FALSE(gb::compare(one, bytes(0x7fc00000), bytes(0x7f7fffff)).is_right);
  EXPECT_TRUE(gb::compare(one, bytes(0x80000001), bytes(0x00000001)).is_right);  // two steps, on both sides of zero
  EXPECT_FALSE(gb::compare(one, bytes(0xbf800000), bytes(0x3f800000)).is_right);
}

// What the stub's GPU has, the first ones.
std::size_t cases_of_sm_80() {
  return static_cast<std::size_t>(
      std::ranges::count_if(gb::cases(), [](const gb::Case& one) { return one.arch.empty(); }));
}

class GpuBenchNvrtc : public ::testing::TestWithParam<const char*> {};
TEST_P(GpuBenchNvrtc, CompilesEveryCase) {
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  for (const gb::Case& one : gb::cases()) {
    std::string error;
    if (!one.arch.empty() && one.arch != GetParam()) continue;
    EXPECT_TRUE(cuda::compile(one.kernel.code, GetParam(), error)) << one.name << ": " << error;
  }
}
INSTANTIATE_TEST_SUITE_P(Arch, GpuBenchNvrtc, ::testing::Values("sm_80", "sm_90a"));

TEST(GpuBench, CublasLtIsDeclaredAsNvidiaHasIt) {
#if TW_HAS_CUBLASLT
  EXPECT_EQ(CUDA_R_32F, gb::lt::F32);
  EXPECT_EQ(CUDA_R_16F, gb::lt::F16);
  EXPECT_EQ(CUDA_R_16BF, gb::lt::BF16);
  EXPECT_EQ(CUBLAS_COMPUTE_32F, gb::lt::Compute32F);
  EXPECT_EQ(CUBLAS_COMPUTE_32F_PEDANTIC, gb::lt::Compute32FPedantic);
  EXPECT_EQ(CUBLAS_COMPUTE_32F_FAST_TF32, gb::lt::ComputeTf32);
  EXPECT_EQ(CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, gb::lt::BatchCount);
  EXPECT_EQ(CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, gb::lt::BatchStride);
  EXPECT_EQ(CUBLASLT_MATMUL_DESC_TRANSA, gb::lt::TransposeA);
  EXPECT_EQ(CUBLASLT_MATMUL_DESC_TRANSB, gb::lt::TransposeB);
  EXPECT_EQ(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, gb::lt::WorkspaceBytes);
  EXPECT_EQ(sizeof(cublasLtMatmulHeuristicResult_t), sizeof(gb::lt::Heuristic));
  EXPECT_EQ(offsetof(cublasLtMatmulHeuristicResult_t, state), offsetof(gb::lt::Heuristic, state));
  EXPECT_EQ(sizeof(cublasLtMatmulAlgo_t), sizeof(gb::lt::Algorithm));
#else
  GTEST_SKIP() << "no cublasLt.h (the CUDA toolkit)";
#endif
}

TEST(GpuBench, CudnnIsDeclaredAsNvidiaHasIt) {
#if TW_HAS_CUDNN
  EXPECT_EQ(CUDNN_DATA_FLOAT, int{gb::dnn::Float});
  EXPECT_EQ(CUDNN_TENSOR_NHWC, int{gb::dnn::Nhwc});
  EXPECT_EQ(CUDNN_CROSS_CORRELATION, int{gb::dnn::CrossCorrelation});
  EXPECT_EQ(CUDNN_FMA_MATH, int{gb::dnn::FmaMath});
  EXPECT_EQ(CUDNN_TENSOR_OP_MATH, int{gb::dnn::TensorOpMath});
  EXPECT_EQ(CUDNN_DATA_HALF, int{gb::dnn::Half});
  EXPECT_EQ(CUDNN_DATA_BFLOAT16, int{gb::dnn::BFloat16});
  EXPECT_EQ(CUDNN_SOFTMAX_ACCURATE, int{gb::dnn::SoftmaxAccurate});
  EXPECT_EQ(CUDNN_SOFTMAX_MODE_INSTANCE, int{gb::dnn::SoftmaxInstance});
  EXPECT_EQ(sizeof(cudnnConvolutionFwdAlgoPerf_t), sizeof(gb::dnn::Found));
  EXPECT_EQ(offsetof(cudnnConvolutionFwdAlgoPerf_t, memory), offsetof(gb::dnn::Found, bytes));
#else
  GTEST_SKIP() << "no cudnn.h (cuDNN)";
#endif
}

// ---- the program, with the stub as the driver

constexpr const char* kList =
    "version: 1\ntarget: {kind: cuda, arch: sm_80}\ntasks:\n"
    "  - {name: mm, op: matmul, args: {M: 64, N: 64, K: 32}}\n";

class GpuBenchProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  }
  Finished run(std::vector<std::string> words, std::vector<std::string> environment) {
    words.insert(words.begin(), TW_BINARY_DIR "/tracewright-gpu-bench");
    words.insert(words.end(), {"--json", "out.json"});
    environment.push_back("LD_LIBRARY_PATH=" TW_BINARY_DIR "/tests/cuda_stub");
    return test::run_program(words, {.folder = folder_.path(), .environment = environment});
  }
  boost::json::value result() const {
    boost::json::error_code code;
    return boost::json::parse(test::read_file(folder_.path() + "/out.json"), code);
  }
  boost::json::array rows() const { return result().at("parts").at(0).at("rows").as_array(); }
  // What the stub's launches write, one after the other.
  void write_outputs(const gb::Outputs& outputs) {
    std::string all;
    for (const gb::Case& one : gb::cases()) {
      const std::vector<u8>& bytes = outputs.at(one.name);
      u64 count = bytes.size();
      all.append(reinterpret_cast<const char*>(&count), sizeof count);
      all.append(bytes.begin(), bytes.end());
    }
    test::write_file(folder_.path() + "/outputs", all);
  }
  Finished run_task(std::vector<std::string> environment, const char* finalists = "3",
                    std::vector<std::string> more = {}) {
    test::write_file(folder_.path() + "/list.yaml", kList);
    environment.push_back("TW_STUB_GEMM=64,64,32");
    more.insert(more.end(), {"--only", "mm", "--list", "list.yaml", "--finalists", finalists});
    return run(more, environment);
  }

  test::TemporaryDirectory folder_;
};

TEST_F(GpuBenchProgram, ConformanceTellsRightFromWrong) {
  gb::Outputs outputs = expected();
  write_outputs(outputs);
  std::vector<std::string> environment = {cat("TW_STUB_OUTPUTS=", folder_.path(), "/outputs")};
  Finished finished = run({"--only", "conformance"}, environment);
  EXPECT_EQ(finished.code, 0) << finished.out << finished.err;
  EXPECT_EQ(rows().size(), cases_of_sm_80());
  EXPECT_NE(finished.out.find(cat(cases_of_sm_80(), " of ", cases_of_sm_80(), " device functions")), std::string::npos)
      << finished.out;
  outputs.at("__shfl_sync")[100] ^= 1;
  write_outputs(outputs);
  finished = run({"--only", "conformance"}, environment);
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(finished.out.find("WRONG  __shfl_sync: element 25 has"), std::string::npos) << finished.out;
  EXPECT_NE(finished.out.find(cat(cases_of_sm_80() - 1, " of ")), std::string::npos) << finished.out;
}

// Every 12th launch of a process does not come back; the cases behind it run in another process, and only those that
// failed are wrong.
TEST_F(GpuBenchProgram, AFaultCostsOneCase) {
  write_outputs(expected());
  std::string place = folder_.path() + "/place";
  const std::pair<const char*, const char*> kFaults[] = {{"illegal", "illegal memory access"},
                                                         {"crash", "ended the process: signal 6"}};
  for (const auto& [fault, problem] : kFaults) {
    std::filesystem::remove(place);
    Finished finished = run({"--only", "conformance"},
                            {cat("TW_STUB_OUTPUTS=", folder_.path(), "/outputs"), cat("TW_STUB_PLACE=", place),
                             cat("TW_STUB_FAULT=", fault), "TW_STUB_AFTER=11"});
    EXPECT_EQ(finished.code, 1) << finished.err;
    const boost::json::array found = rows();
    ASSERT_EQ(found.size(), cases_of_sm_80()) << finished.out;
    for (std::size_t i = 0; i < found.size(); ++i) {
      EXPECT_EQ(std::string(found[i].at("case").as_string()), gb::cases()[i].name);
      EXPECT_EQ(found[i].at("right").as_bool(), i % 12 != 11) << found[i];
      EXPECT_EQ(std::string(found[i].at("problem").as_string()).find(problem) != std::string::npos, i % 12 == 11)
          << found[i];
    }
  }
}

// Not even the first part has the time that it must have: skipped is not wrong.
TEST_F(GpuBenchProgram, WithoutTimePartsAreSkipped) {
  write_outputs(expected());
  test::write_file(folder_.path() + "/list.yaml", kList);
  Finished finished =
      run({"--seconds", "5", "--list", "list.yaml"}, {cat("TW_STUB_OUTPUTS=", folder_.path(), "/outputs")});
  EXPECT_EQ(finished.code, 0) << finished.out << finished.err;
  boost::json::value found = result();
  EXPECT_FALSE(found.at("wrong").as_bool());
  EXPECT_TRUE(found.at("complete").as_bool());
  const boost::json::array& parts = found.at("parts").as_array();
  ASSERT_EQ(parts.size(), 3u);
  EXPECT_EQ(parts.back().at("state"), "skipped");
  EXPECT_EQ(parts.back().at("rows").at(0).at("problem"), "no time was left");
  EXPECT_NE(finished.out.find("skipped"), std::string::npos);
}

TEST_F(GpuBenchProgram, PyTorchStandsBesideOurs) {
  test::write_file(folder_.path() + "/pytorch.jsonl", R"({"task": "mm", "library": "pytorch 2", "us": 1e9})"
                                                      "\n");
  Finished finished = run_task({}, "1", {"--pytorch", "pytorch.jsonl"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_GT(result().at("pytorch").at(0).at("ratio").to_number<double>(), 1);
  EXPECT_NE(finished.out.find("pytorch 2"), std::string::npos) << finished.out;
  test::write_file(folder_.path() + "/pytorch.jsonl", "no torch\n");
  EXPECT_EQ(run_task({}, "1", {"--pytorch", "pytorch.jsonl"}).code, 2);
}

TEST_F(GpuBenchProgram, ATaskIsCheckedAndTimed) {
  Finished finished = run_task({});
  ASSERT_EQ(finished.code, 0) << finished.out << finished.err;
  const boost::json::array found = rows();
  const boost::json::object& task = found.back().as_object();
  EXPECT_EQ(task.at("task"), "mm");
  EXPECT_GT(task.at("us").to_number<double>(), 0);
  EXPECT_LT(task.at("error").to_number<double>(), 1e-6);
  EXPECT_EQ(task.at("against").as_array().back().at("library"), "copy");
}

// Kernels that were compiled elsewhere: no search, and those of other workloads or other GPUs are not taken.
TEST_F(GpuBenchProgram, KernelsOfAFolderAreTried) {
  test::write_file(folder_.path() + "/list.yaml", kList);
  Finished made = test::run_program(
      {TW_BINARY_DIR "/tracewright", "tune", "list.yaml", "--compile-only", "--finalists", "2", "--output", "found"},
      {.folder = folder_.path()});
  ASSERT_EQ(made.code, 0) << made.out << made.err;
  Finished finished = run_task({}, "3", {"--found", "found"});
  EXPECT_EQ(finished.code, 0) << finished.out << finished.err;
  EXPECT_EQ(rows().size(), 3u + (rows()[0].as_object().contains("skipped") ? 1 : 0)) << rows();
  EXPECT_EQ(rows().back().at("task"), "mm");
  finished = run_task({"TW_STUB_ARCH=89"}, "3", {"--found", "found"});
  EXPECT_NE(finished.out.find("found has no kernel of this task for sm_89"), std::string::npos) << finished.out;
  finished = run_task({}, "3", {"--found", "found", "--once"});
  EXPECT_EQ(finished.code, 0) << finished.out << finished.err;
  ASSERT_EQ(rows().size(), 2u) << rows();
  EXPECT_EQ(rows()[1].at("problem"), "");
  EXPECT_EQ(rows()[1].at("us"), 0.0);
}

// A part that was right is kept, also by a run in which it would fail.
TEST_F(GpuBenchProgram, ASecondRunGoesOn) {
  Finished finished = run_task({"TW_STUB_FAULT=wrong"}, "1", {"--continue"});
  EXPECT_EQ(finished.code, 1) << finished.err;
  finished = run_task({}, "1", {"--continue"});
  EXPECT_EQ(finished.code, 0) << finished.err;
  finished = run_task({"TW_STUB_FAULT=wrong"}, "1", {"--continue"});
  EXPECT_EQ(finished.code, 0) << finished.out << finished.err;
  EXPECT_EQ(result().at("parts").as_array().size(), 1u);
  EXPECT_EQ(rows().back().at("task"), "mm");
  EXPECT_NE(finished.out.find("mm "), std::string::npos) << finished.out;
}

TEST_F(GpuBenchProgram, RowsAreCheckedAndTimed) {
  test::write_file(
      folder_.path() + "/list.yaml",
      "version: 1\ntarget: {kind: cuda, device: auto}\ntasks:\n  - {name: rows, op: softmax, args: {M: 64, N: 256}}\n");
  // A list that leaves the device open finds that of the stub.
  Finished finished =
      run({"--only", "rows", "--list", "list.yaml", "--finalists", "2"}, {"TW_STUB_SOFTMAX=64,256", "TW_STUB_ARCH=90"});
  ASSERT_EQ(finished.code, 0) << finished.out << finished.err;
  const boost::json::array found = rows();
  const boost::json::object& task = found.back().as_object();
  EXPECT_EQ(task.at("target"), "cuda -arch=sm_90a");
  EXPECT_GT(task.at("gb_per_second").to_number<double>(), 0);
  EXPECT_LT(task.at("error").to_number<double>(), 1e-6);
  EXPECT_FALSE(task.at("prepacks").as_bool());
  EXPECT_TRUE(task.at("graph").as_bool());
  EXPECT_EQ(task.at("against").as_array().back().at("library"), "copy");
}

TEST_F(GpuBenchProgram, WrongKernelsHaveNoTime) {
  Finished finished = run_task({"TW_STUB_FAULT=wrong"});
  EXPECT_EQ(finished.code, 1);
  EXPECT_NE(finished.out.find("no finalist runs and is right"), std::string::npos) << finished.out;
  EXPECT_NE(boost::json::serialize(result()).find("differs from the result in f64"), std::string::npos);
}

// The finalist that ends the process is named, and the others are tried.
TEST_F(GpuBenchProgram, ACrashCostsOneFinalist) {
  test::write_file(folder_.path() + "/once", "x");
  Finished finished = run_task({"TW_STUB_FAULT=crash", cat("TW_STUB_ONCE=", folder_.path(), "/once")});
  std::string all = boost::json::serialize(result());
  EXPECT_NE(all.find("ended the process: signal 6"), std::string::npos) << all;
  EXPECT_EQ(rows().back().as_object().at("task"), "mm") << all;
}

// What was measured before the end is measured again, and told once.
TEST_F(GpuBenchProgram, AnExitCostsOneFinalist) {
  test::write_file(folder_.path() + "/once", "x");
  run_task(
      {"TW_STUB_FAULT=exit", "TW_STUB_COUNTS=loads", "TW_STUB_AFTER=1", cat("TW_STUB_ONCE=", folder_.path(), "/once")});
  std::string all = boost::json::serialize(result());
  EXPECT_NE(all.find(R"({"skipped":"1","problem":"ended the process: exit code 7"})"), std::string::npos) << all;
  std::vector<i64> tried;
  for (const boost::json::value& row : rows()) {
    if (row.as_object().contains("finalist") && !row.as_object().contains("task"))
      tried.push_back(row.at("finalist").to_number<i64>());
  }
  EXPECT_EQ(tried, (std::vector<i64>{0, 2})) << all;
}

// The finalist is right, and fails while it is timed in turn with others.
TEST_F(GpuBenchProgram, WithoutATimeThereIsNoRate) {
  Finished finished = run_task({"TW_STUB_FAULT=illegal", "TW_STUB_COUNTS=copies"}, "1");
  EXPECT_EQ(finished.code, 1) << finished.out << finished.err;
  const boost::json::array found = rows();
  const boost::json::object& task = found.back().as_object();
  EXPECT_EQ(task.at("task"), "mm");
  for (const char* name : {"us", "us_quartiles", "cold_us", "gflops", "gb_per_second"})
    EXPECT_FALSE(task.contains(name)) << name;
  EXPECT_NE(finished.out.find("it cannot be run: "), std::string::npos) << finished.out;
}

// The list is for sm_80, whose groups have more shared memory.
TEST_F(GpuBenchProgram, KernelsAreForThisGpu) {
  Finished finished = run_task({"TW_STUB_ARCH=89"}, "1");
  EXPECT_EQ(finished.code, 0) << finished.out << finished.err;
  const boost::json::array found = rows();
  EXPECT_EQ(found.back().at("target"), "cuda -arch=sm_89");
}

TEST_F(GpuBenchProgram, AFileThatCannotBeWritten) {
  Finished finished = test::run_program({TW_BINARY_DIR "/tracewright-gpu-bench", "--emulate", "/nowhere/out.json"},
                                        {.folder = folder_.path()});
  EXPECT_EQ(finished.code, 1) << finished.err;
  EXPECT_NE(finished.err.find("/nowhere/out.json cannot be written"), std::string::npos) << finished.err;
}

TEST_F(GpuBenchProgram, NoDriver) {
  Finished finished = test::run_program(
      {TW_BINARY_DIR "/tracewright-gpu-bench"},
      {.folder = folder_.path(), .environment = {"LD_LIBRARY_PATH=" TW_BINARY_DIR "/tests/cuda_stub_old"}});
  EXPECT_EQ(finished.code, 3);
  EXPECT_NE(finished.err.find("libcuda.so.1 has no cuLaunchKernelEx"), std::string::npos) << finished.err;
}

}  // namespace
}  // namespace tw

// The portable bundle, unpacked into a root that has nothing but the C and C++ runtime and a shell, and used there:
// what a bare machine can do with it. The runtime is that of this machine, not of Ubuntu 24.04, which has newer ones.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>

#include "dsl/base/sanitizer.h"
#include "dsl/base/text.h"
#include "support/nvrtc.h"
#include "support/run_program.h"
#include "support/support.h"

namespace tw {
namespace {

namespace fs = std::filesystem;
using test::Finished;

constexpr const char* kToolkit = "/usr/local/cuda/lib64";
constexpr const char* kRuntime[] = {"libc.so.6",  "libm.so.6",     "libdl.so.2",    "libpthread.so.0",
                                    "librt.so.1", "libgcc_s.so.1", "libstdc++.so.6"};

class Bundle : public ::testing::Test {
 protected:
  void SetUp() override {
    if (TW_SANITIZED) GTEST_SKIP() << "a sanitized build is no bundle: it has no benchmark and needs the sanitizer";
    if (test::run_program({"unshare", "-rm", "chroot", "/", "true"}).code != 0)
      GTEST_SKIP() << "this machine lets nobody make a root of their own (unshare)";
    static const Made made;
    ASSERT_EQ(made.problem, "");
    root_ = made.folder.path();
  }

  struct Made {
    Made() {
      for (const char* name : {"lib", "lib64", "usr/local/cuda/lib64", "proc", "dev", "tmp", "bin", "home"})
        fs::create_directories(folder.path() + "/" + name);
      Finished installed = test::run_program(
          {"cmake", "--install", TW_BINARY_DIR, "--component", "bundle", "--prefix", folder.path() + "/home/bundle"});
      if (installed.code != 0) problem = installed.err;
      copy("/lib64/ld-linux-x86-64.so.2", "lib64/ld-linux-x86-64.so.2");
      copy("/bin/sh", "bin/sh");
      for (const char* name : kRuntime) copy(cat("/lib/x86_64-linux-gnu/", name), cat("lib/", name));
    }
    void copy(const std::string& from, const std::string& to) {
      std::error_code error;
      fs::copy_file(fs::canonical(from, error), folder.path() + "/" + to, error);
      if (error) problem += cat("no ", from, ": ", error.message(), "\n");
    }
    test::TemporaryDirectory folder;
    std::string problem;
  };

  // A program of the bundle, in the root, with nothing of our environment.
  Finished run(const std::string& words, const std::string& environment = "",
               const std::string& program = "tracewright") const {
    return test::run_program(
        {"unshare", "-rm", "sh", "-c",
         cat("mount --rbind /proc ", root_, "/proc && mount --rbind /dev ", root_, "/dev && ",
             fs::exists(kToolkit) ? cat("mount --rbind ", kToolkit, " ", root_, kToolkit, " && ") : "",
             "exec env -i PATH=/bin LD_LIBRARY_PATH=/usr/lib ", environment, " $(command -v chroot) ", root_,
             " /bin/sh -c 'cd /home && exec bundle/bin/", program, " ", words, "'")});
  }
  void write(const std::string& name, const std::string& text) const {
    test::write_file(root_ + "/home/" + name, text);
  }

  std::string root_;
};

TEST_F(Bundle, FindsAllItsParts) {
  Finished finished = run("doctor --json");
  ASSERT_EQ(finished.code, 0) << finished.out << finished.err;
  boost::json::value json = boost::json::parse(finished.out);
  ASSERT_FALSE(json.at("checks").as_array().empty());
  for (const auto& check : json.at("checks").as_array()) {
    std::string name(check.at("name").as_string());
    bool is_inside = check.at("required").as_bool() || name == "bench against fma";
    EXPECT_TRUE(!is_inside || check.at("ok").as_bool()) << boost::json::serialize(check);
    EXPECT_EQ(check.at("fix").as_string().find("build again"), std::string::npos)
        << "nothing can be built there: " << boost::json::serialize(check);
  }
}

TEST_F(Bundle, TunesForTheProcessor) {
  write("list.yaml", test::kGemmAndRows);
  Finished finished = run("tune list.yaml --json");
  ASSERT_EQ(finished.code, 0) << finished.err;
  boost::json::value json = boost::json::parse(finished.out);
  EXPECT_EQ(json.at("tasks").as_array().size(), 2u);
  for (const auto& task : json.at("tasks").as_array()) EXPECT_GT(task.at("best_us").to_number<double>(), 0);
}

// NVRTC lies where the toolkit has it; the driver is the stub of run_manifest_test.
TEST_F(Bundle, CompilesForGpusAndRunsManifests) {
  if (!fs::exists(kToolkit)) GTEST_SKIP() << "no CUDA toolkit in " << kToolkit;
  if (std::string missing = test::missing_for_nvrtc(); !missing.empty()) GTEST_SKIP() << missing;
  fs::create_directories(root_ + "/usr/lib");
  fs::copy_file(TW_BINARY_DIR "/tests/cuda_stub/libcuda.so.1", root_ + "/usr/lib/libcuda.so.1",
                fs::copy_options::overwrite_existing);
  write("gpu.yaml",
        "version: 1\ntarget: {kind: cuda, arch: sm_80}\ntasks:\n"
        "  - {name: mm, op: matmul, args: {M: 64, N: 64, K: 32}}\n");
  Finished compiled = run("tune gpu.yaml --compile-only --finalists 2 --output out");
  ASSERT_EQ(compiled.code, 0) << compiled.out << compiled.err;
  Finished measured = run("run-manifest out --json", "TW_STUB_GEMM=64,64,32");
  ASSERT_EQ(measured.code, 0) << measured.err;
  EXPECT_EQ(boost::json::parse(measured.out).at("rows").as_array().size(), 2u) << measured.out;
  Finished bench = run("--only mm --list gpu.yaml --finalists 2 --json bench.json", "TW_STUB_GEMM=64,64,32",
                       "tracewright-gpu-bench");
  EXPECT_EQ(bench.code, 0) << bench.out << bench.err;
  EXPECT_NE(bench.out.find("skipped  cublas"), std::string::npos) << bench.out;
}

}  // namespace
}  // namespace tw

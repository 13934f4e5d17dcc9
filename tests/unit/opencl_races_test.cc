// Oclgrind runs kernels that the rule sets draw, one work-item at a time, and watches every access for races and for
// what lies outside of buffers. Small shapes: it is slow. Each launch runs on its own, on numbers of no meaning;
// results are compared elsewhere. Skipped where oclgrind-kernel is not installed. It says that it has sub-groups, and
// does not.
#include <gtest/gtest.h>

#include <cstdlib>

#include "dsl/base/text.h"
#include "support/drawn_kernels.h"
#include "support/run_program.h"
#include "support/support.h"

namespace tw {
namespace {

// Oclgrind's own description of a launch: file, kernel, sizes, and memory for each pointer.
std::string launch_file(const KernelLaunch& launch, const std::vector<KernelArgument>& arguments) {
  std::string out = cat("kernel.cl\n", launch.name, "\n");
  auto row = [&](std::array<i64, 3> sizes) { out += cat(sizes[0], " ", sizes[1], " ", sizes[2], "\n"); };
  std::array<i64, 3> all = launch.groups;
  for (std::size_t d = 0; d < 3; ++d) all[d] *= launch.threads[d];
  row(all), row(launch.threads);
  for (const KernelLaunch::Pointer& pointer : launch.pointers)
    out += cat("<size=", pointer.is_scratch ? pointer.bytes : arguments[static_cast<std::size_t>(pointer.at)].bytes,
               " char fill=1>\n");
  return out;
}

struct Watched {
  int launches = 0, with_groups = 0;  // with several work-items to a group
  std::string findings;
};

Watched watch(const std::string& use, const std::string& set, int draws, const std::string& without = "") {
  Target target;
  target.kind = TargetKind::OpenCl;
  Watched out;
  for (Kernel& kernel : test::drawn_kernels(use, set, target, draws).kernels) {
    for (std::size_t at; !without.empty() && (at = kernel.code.find(without)) != std::string::npos;)
      kernel.code.erase(at, without.size());
    test::TemporaryDirectory folder;
    test::write_file(folder.path() + "/kernel.cl",
                     "#undef cl_khr_subgroups\n#undef cl_intel_subgroups\n" + kernel.code);
    for (const KernelLaunch& launch : kernel.manifest.run_launches) {
      test::write_file(folder.path() + "/launch.sim", launch_file(launch, kernel.manifest.run));
      test::Finished ran =
          test::run_program({"oclgrind-kernel", "--data-races", "launch.sim"}, {.folder = folder.path()});
      ++out.launches;
      out.with_groups += launch.threads_of_group() > 1;
      if (ran.code != 0 || !ran.err.empty())
        out.findings += cat(use, ", ", set, ": ", ran.err.substr(0, 2000), "\n", kernel.code);
    }
  }
  return out;
}

class OpenClRaces : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("command -v oclgrind-kernel > /dev/null 2>&1") != 0) GTEST_SKIP() << "oclgrind is not installed";
  }
};

TEST_F(OpenClRaces, DrawsHaveNone) {
  int launches = 0, with_groups = 0;
  for (const char* set : {"opencl", "reference-cuda"}) {
    for (const char* use :
         {"matmul(M = 9, N = 16, K = 11)", "batch_matmul(B = 2, M = 8, N = 8, K = 8)", "softmax(M = 3, N = 37)",
          "layernorm(M = 4, N = 24)", "conv2d(N = 1, H = 5, W = 5, CI = 3, CO = 8, K = 3, padding = 1)",
          "depthwise_conv2d(N = 1, H = 6, W = 6, C = 8, K = 3)",
          "max_pool2d(N = 1, H = 6, W = 6, C = 8, K = 2, stride = 2)"}) {
      Watched watched = watch(use, set, 3);
      EXPECT_EQ(watched.findings, "");
      launches += watched.launches, with_groups += watched.with_groups;
    }
  }
  EXPECT_GE(launches, 20);
  EXPECT_GE(with_groups, 10);
}

TEST_F(OpenClRaces, AMissingBarrierIsFound) {
  EXPECT_NE(watch("matmul(M = 9, N = 16, K = 11)", "reference-cuda", 3,
                  "barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);")
                .findings.find("race"),
            std::string::npos);
}

}  // namespace
}  // namespace tw

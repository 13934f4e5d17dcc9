// Peers of Python wheels, without the wheels: a stub library and modules of a few lines stand in for them, found by a
// real Python as the real ones are. peer_test runs the real wheels where they are installed.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "dsl/base/text.h"
#include "runtime/peers/peer.h"
#include "support/environment.h"
#include "support/run_program.h"
#include "support/support.h"

namespace tw {
namespace {

using Floats = std::vector<float>;
using test::Variable;

class WheelPeer : public testing::Test {
 protected:
  void SetUp() override {
    if (test::run_program({"/usr/bin/env", "python3", "-c", "import sys; sys.exit(sys.version_info < (3, 8))"}).code !=
        0)
      GTEST_SKIP() << "there is no python3, or one that is older than 3.8";
  }
  // A wheel of one file as pip leaves it: `library` is the stub, under the name that the wheel gives it.
  void install(const std::string& wheel, const std::string& version, const std::string& library) {
    namespace fs = std::filesystem;
    std::string name = wheel;
    std::ranges::replace(name, '-', '_');
    const fs::path information = fs::path(folder_.path()) / (name + "-" + version + ".dist-info");
    fs::create_directory(information);
    fs::create_symlink(TW_BINARY_DIR "/tests/wheel_stub/wheel_stub.so", fs::path(folder_.path()) / library);
    test::write_file(information / "METADATA",
                     cat("Metadata-Version: 2.1\nName: ", wheel, "\nVersion: ", version, "\n"));
    test::write_file(information / "RECORD", cat(library, ",,\n"));
  }
  void module(const std::string& name, const std::string& text) {
    test::write_file(cat(folder_.path(), "/", name, ".py"), text);
  }

  test::TemporaryDirectory folder_;
  Variable path_{"PYTHONPATH", folder_.path()};
  Variable python_{"TRACEWRIGHT_PYTHON", ""};
};

void expect_product(Peer& peer, const std::string& op) {
  const Floats a{1, 2, 3, 4, 5, 6}, b{1, 0, 2, -1, 0, 1, 1, 3, 2, 0, 0, 1};  // 2 x 3, 3 x 4
  const auto kernel = peer.prepare({op, {{"M", 2}, {"N", 4}, {"K", 3}}, {}, {a, b}});
  ASSERT_TRUE(kernel) << kernel.message;
  EXPECT_EQ(kernel.value.flops, 48);
  const auto time = peer.sample(10);
  ASSERT_TRUE(time) << time.message;
  EXPECT_GT(time.value, 0);
  EXPECT_EQ(peer.output().value, (Floats{7, 2, 4, 8, 16, 5, 13, 17}));
}

TEST_F(WheelPeer, MklIsCalledAndWhatItPrintsIsNoAnswer) {
  install("mkl", "2099.1.0", "libmkl_rt.so.2");
  auto peer = Peer::start("mkl-wheel", {});
  ASSERT_TRUE(peer) << peer.message;
  EXPECT_EQ(peer.value->version(), "MKL 2099.1, wheel mkl 2099.1.0");
  expect_product(*peer.value, "matmul");
  expect_product(*peer.value, "dense");
}

TEST_F(WheelPeer, OpenBlasGetsItsThreadsAndWideIntegers) {
  install("scipy-openblas64", "9.9.9.0", "libscipy_openblas64_.so");
  auto peer = Peer::start("openblas-wheel", {.threads = 3});
  ASSERT_TRUE(peer) << peer.message;
  EXPECT_EQ(peer.value->version(), "OpenBLAS 9.9.9, kernels for 3 threads, wheel scipy-openblas64 9.9.9.0");
  expect_product(*peer.value, "matmul");
}

TEST_F(WheelPeer, TransposedOperandsAndBatches) {
  install("mkl", "2099.1.0", "libmkl_rt.so.2");
  auto peer = Peer::start("mkl-wheel", {});
  ASSERT_TRUE(peer) << peer.message;
  // Q, K of one batch, two places, two heads, one dimension: score[h][i][j] = Q[i][h] * K[j][h].
  const Floats q{1, 2, 3, 4}, k{5, 6, 7, 8};
  const auto kernel =
      peer.value->prepare({"transpose_batch_matmul", {{"B", 1}, {"S", 2}, {"H", 2}, {"D", 1}}, {}, {q, k}});
  ASSERT_TRUE(kernel) << kernel.message;
  EXPECT_EQ(peer.value->output().value, (Floats{5, 7, 15, 21, 12, 16, 24, 32}));
}

TEST_F(WheelPeer, RefusalsAreTheSameAsOfBuiltPeers) {
  install("mkl", "2099.1.0", "libmkl_rt.so.2");
  auto peer = Peer::start("mkl-wheel", {});
  ASSERT_TRUE(peer) << peer.message;
  const Floats data(64, 1);
  EXPECT_EQ(peer.value->sample(1).message, "nothing is prepared");
  const std::pair<PeerProblem, const char*> cases[] = {
      {{"conv2d", {{"H", 2}, {"W", 2}, {"CI", 4}, {"CO", 4}, {"K", 1}}, {}, {data, data}}, "a BLAS has no conv2d"},
      {{"dense", {{"M", 2}, {"N", 2}, {"K", 2}}, {"gelu"}, {data, data}}, "a BLAS has no gelu"},
      {{"capsule", {}, {}, {data}}, "operator capsule is not compared with libraries"},
      {{"matmul", {{"M", 2}, {"N", 2}}, {}, {data, data}}, "matmul needs the argument K"}};
  for (const auto& [problem, why] : cases) {
    const auto answer = peer.value->prepare(problem);
    EXPECT_EQ(answer.status, PeerStatus::Unsupported);
    EXPECT_EQ(answer.message, why);
  }
  const auto less = peer.value->prepare({"matmul", {{"M", 2}, {"N", 2}, {"K", 2}}, {}, {data}});
  EXPECT_EQ(less.status, PeerStatus::Failed);
  EXPECT_EQ(less.message, "matmul needs 2 inputs");
}

TEST_F(WheelPeer, WhatIsMissingIsSaidInOneSentence) {
  install("mkl", "2099.1.0", "libmkl_other.so.2");
  const auto file = Peer::start("mkl-wheel", {});
  EXPECT_EQ(file.status, PeerStatus::Missing);
  EXPECT_EQ(file.message, "the wheel mkl 2099.1.0 has no file libmkl_rt.so*");

  const Variable python("TRACEWRIGHT_PYTHON", "/no/python");
  const auto interpreter = Peer::start("mkl-wheel", {});
  EXPECT_EQ(interpreter.status, PeerStatus::Missing);
  EXPECT_EQ(
      interpreter.message,
      "cannot start /no/python: No such file or directory; TRACEWRIGHT_PYTHON names the Python that has the wheel");

  const auto folder = Peer::start("mkl-wheel", {.folder = "/"});
  EXPECT_EQ(folder.status, PeerStatus::Missing);
  EXPECT_EQ(folder.message, "no peer for mkl-wheel is here: the folder tracewright-peer-wheel is missing");
}

TEST_F(WheelPeer, AnInterpreterThatIsNoPythonIsLocated) {
  const Variable python("TRACEWRIGHT_PYTHON", "false");
  const auto peer = Peer::start("mkl-wheel", {});
  EXPECT_EQ(peer.status, PeerStatus::Died);
  EXPECT_EQ(peer.message,
            "the mkl-wheel peer closed the line (exit code 1); TRACEWRIGHT_PYTHON names the Python that has the wheel");
}

// -S and no PYTHONPATH: only Python's own modules, whatever is installed here.
TEST_F(WheelPeer, AMissingWheelSaysHowToGetIt) {
  test::write_file(folder_.path() + "/bare", "#!/bin/sh\nPYTHONPATH= exec python3 -S \"$@\"\n");
  std::filesystem::permissions(folder_.path() + "/bare", std::filesystem::perms::owner_all);
  const Variable python("TRACEWRIGHT_PYTHON", folder_.path() + "/bare");
  const std::pair<const char*, const char*> cases[] = {
      {"mkl-wheel", " has no wheel mkl; install it (pip install mkl), or "},
      {"openblas-wheel", " (pip install scipy-openblas64), or "},
      {"onednn-wheel", " (pip install onednn-cpu-gomp), or "},
      {"torch-wheel", " has no module torch; install it (pip install torch), or "}};
  for (const auto& [library, advice] : cases) {
    const auto peer = Peer::start(library, {});
    EXPECT_EQ(peer.status, PeerStatus::Missing) << library;
    EXPECT_NE(peer.message.find(advice), std::string::npos) << peer.message;
    EXPECT_EQ(peer.message.find("Traceback"), std::string::npos) << peer.message;
  }
}

TEST_F(WheelPeer, AnOldOrBrokenPyTorchIsMissing) {
  module("torch", "__version__ = '1.13.1'\n");
  const auto old = Peer::start("torch-wheel", {});
  EXPECT_EQ(old.status, PeerStatus::Missing);
  EXPECT_TRUE(old.message.starts_with("PyTorch 1.13.1 of ")) << old.message;
  module("torch", "raise OSError('libtorch_cpu.so: cannot open')\n");
  const auto broken = Peer::start("torch-wheel", {});
  EXPECT_EQ(broken.status, PeerStatus::Missing);
  EXPECT_EQ(broken.message, "cannot import torch: libtorch_cpu.so: cannot open");
}

}  // namespace
}  // namespace tw

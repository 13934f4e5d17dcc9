// The command bench on ONNX models. Stubs stand in for the libraries; the script that serves wheels is tried with
// modules of a few lines, and with the real wheels where there are some.
#include <gtest/gtest.h>
#include <signal.h>

#include <boost/json.hpp>
#include <chrono>
#include <filesystem>
#include <thread>

#include "dsl/base/text.h"
#include "graph/import_onnx.h"
#include "runtime/peers/model_peer.h"
#include "support/environment.h"
#include "support/model_stub.h"
#include "support/python.h"
#include "support/run_program.h"
#include "support/support.h"
#include "tests/unit/onnx_files.h"

namespace tw {
namespace {

namespace fs = std::filesystem;
using test::Finished;
using test::ModelStub;

class BenchModels : public testing::Test {
 protected:
  void SetUp() override {
    if (graph::onnx_operators().empty()) GTEST_SKIP() << "the plugin for ONNX files was not built";
    fs::create_directory(at("tmp"));
    write_model("same.onnx", "Max", {2, 3});
  }
  std::string at(const std::string& name) const { return folder_.path() + "/" + name; }
  // y = op(x, x); Max gives x itself.
  void write_model(const std::string& name, const std::string& op, const std::vector<i64>& shape) {
    using namespace graph::test;
    test::write_file(
        at(name), model(part(1, node(op, {"x", "x"}, {"y"})) + part(2, "g") +
                        part(11, value_info("x", DType::F32, shape)) + part(12, value_info("y", DType::F32, shape))));
  }
  Finished run(std::vector<std::string> words, const std::string& python, test::RunOptions options = {}) {
    words.insert(words.begin(), "bench");
    options.folder = folder_.path();
    options.environment = {"TRACEWRIGHT_PYTHON=" + python, "TMPDIR=" + at("tmp")};
    Finished found = test::tracewright(std::move(words), options);
    for (const fs::directory_entry& left : fs::directory_iterator(at("tmp")))
      EXPECT_FALSE(left.path().filename().string().starts_with("tracewright")) << left.path();
    return found;
  }
  // Of same.onnx against these libraries, or other words.
  Finished bench(const std::string& against, std::vector<std::string> more = {}) {
    std::vector<std::string> words{"same.onnx", "--against", against, "--threads", "1", "--seconds", "0.01"};
    words.insert(words.end(), more.begin(), more.end());
    return run(words, stubs_.python());
  }
  void expect_refused(const std::vector<std::string>& words, const std::string& message) {
    Finished found = run(words, stubs_.python());
    EXPECT_EQ(found.code, 2) << join(words, " ") << "\n" << found.err;
    EXPECT_NE(found.err.find(message), std::string::npos) << found.err;
    EXPECT_EQ(found.out, "");
  }

  test::TemporaryDirectory folder_;
  test::ModelStubs stubs_{folder_.path() + "/stubs"};
};

// The entry of a list that is about this library.
boost::json::object entry_of(const boost::json::value& report, const char* list, const std::string& library) {
  for (const boost::json::value& entry : report.at(list).as_array()) {
    if (entry.at("library").as_string() == library) return entry.as_object();
  }
  ADD_FAILURE() << "no " << library << " among " << boost::json::serialize(report.at(list));
  return {};
}

TEST_F(BenchModels, LibrariesThatAgreeAreTimedAndOthersAreWrong) {
  stubs_.add("onnxruntime", {});
  stubs_.add("openvino", {.output = R"(head -c 24 /dev/zero > "${rest#* }"; echo 'ok {"dtype":"f32","shape":[2,3]}')"});
  Finished found = bench("onnxruntime,openvino", {"--json"});
  EXPECT_EQ(found.code, 4) << found.err;
  boost::json::value report = boost::json::parse(found.out);
  EXPECT_EQ(report.at("rows").as_array().size(), 2u);
  boost::json::object ours = entry_of(report, "rows", "tracewright"), right = entry_of(report, "rows", "onnxruntime");
  EXPECT_EQ(ours.at("verdict"), "own");
  EXPECT_GT(ours.at("us").to_number<double>(), 0);
  EXPECT_EQ(right.at("model"), "same.onnx");
  EXPECT_EQ(right.at("threads"), 1);
  EXPECT_EQ(right.at("version"), "Stub 1.0");
  EXPECT_EQ(right.at("detail"), "a stub");
  EXPECT_NEAR(right.at("us").to_number<double>(), 2000, 1e-6);
  EXPECT_EQ(right.at("relative_difference").to_number<double>(), 0);
  EXPECT_GE(right.at("rounds").to_number<int>(), 5);
  // Of a constant time, the ratio's quartiles are those of ours, the other way round.
  double low = 2000 / ours.at("us_quartiles").at(1).to_number<double>();
  double high = 2000 / ours.at("us_quartiles").at(0).to_number<double>();
  double ratio = right.at("ratio").to_number<double>();
  EXPECT_GE(ratio, low * (1 - 1e-9));
  EXPECT_LE(ratio, high * (1 + 1e-9));
  boost::json::object wrong = entry_of(report, "skipped", "openvino");
  EXPECT_EQ(wrong.at("verdict"), "wrong");
  EXPECT_TRUE(std::string(wrong.at("reason").as_string()).starts_with("output `y` differs from ours by ")) << wrong;
  EXPECT_EQ(stubs_.log().find("openvino turn"), std::string::npos) << "what is wrong is not timed";
}

TEST_F(BenchModels, WhatALibraryDoesWrongIsSaidAndTheOthersGoOn) {
  stubs_.add("onnxruntime", {.load = "echo 'unsupported no Max'"});
  stubs_.add("openvino", {.turn = "exit 3"});
  stubs_.add("torch-eager", {.load = "echo nonsense"});
  stubs_.add("torch-compile", {});
  Finished found = bench("onnxruntime,openvino,torch", {"--json"});
  EXPECT_EQ(found.code, 0) << found.err;
  boost::json::value report = boost::json::parse(found.out);
  EXPECT_EQ(entry_of(report, "rows", "torch-compile").at("version"), "Stub 1.0");
  const std::tuple<const char*, const char*, const char*> cases[] = {
      {"onnxruntime", "unsupported", "no Max"},
      {"openvino", "failed", "the openvino peer closed the line (exit code 3)"},
      {"torch-eager", "failed", "the torch-eager peer answered `nonsense`"}};
  for (const auto& [library, verdict, reason] : cases) {
    boost::json::object entry = entry_of(report, "skipped", library);
    EXPECT_EQ(entry.at("verdict"), verdict);
    EXPECT_EQ(entry.at("reason"), reason);
    EXPECT_NE(found.err.find(cat("same.onnx: ", library, ": ", reason)), std::string::npos) << found.err;
  }
  Finished table = bench("torch-compile");
  EXPECT_EQ(table.code, 0) << table.err;
  for (const char* word : {"its time / ours", "outputs differ by", "torch-compile", "tracewright"})
    EXPECT_NE(table.out.find(word), std::string::npos) << table.out;
}

TEST_F(BenchModels, WhatHangsEndsAtTheLimit) {
  stubs_.add("openvino", {.load = "exec sleep 1000"});
  Finished found = bench("openvino", {"--limit", "0.5"});
  EXPECT_EQ(found.code, 0) << found.err;
  EXPECT_NE(found.err.find("openvino: the openvino peer gave no answer within 500 ms"), std::string::npos) << found.err;
}

TEST_F(BenchModels, CtrlCEndsIt) {
  stubs_.add("openvino", {.load = "exec sleep 1000"});
  auto interrupt = [&](int pid) {
    for (int wait = 0; wait < 600 && stubs_.log().empty(); ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    kill(pid, SIGINT);
  };
  Finished found =
      run({"same.onnx", "--against", "openvino", "--threads", "1"}, stubs_.python(), {.meanwhile = interrupt});
  EXPECT_EQ(found.code, 130) << found.err;
  EXPECT_NE(found.err.find("was interrupted"), std::string::npos) << found.err;
}

TEST_F(BenchModels, SeveralModelsAndAMissingPython) {
  write_model("twice.onnx", "Add", {2, 3});
  Finished found = run({"same.onnx", "twice.onnx", "--against", "onnxruntime", "--shape", "x=2,3", "--seconds", "0.01",
                        "--threads", "2", "--json"},
                       "/no/python");
  EXPECT_EQ(found.code, 3) << found.err;
  EXPECT_EQ(found.out, "") << "nothing was compiled and timed";
  EXPECT_NE(found.err.find("cannot start /no/python: No such file or directory; TRACEWRIGHT_PYTHON names"),
            std::string::npos)
      << found.err;
  EXPECT_NE(found.err.find("none of the libraries of --against is there"), std::string::npos) << found.err;
}

// What is missing is said once, before anything is compiled.
TEST_F(BenchModels, AMissingLibraryIsSaidFirstAndTheOthersGoOn) {
  write_model("twice.onnx", "Add", {4, 5});
  stubs_.add("openvino", {.load = "echo 'unsupported no Max'"});
  test::write_file(stubs_.python(), cat("#!/bin/sh\ncase $3 in\nonnxruntime) echo 'missing there is no wheel';;\n"
                                        "*) exec /bin/sh ",
                                        at("stubs"), "/$3.sh;;\nesac\n"));
  Finished found = run(
      {"same.onnx", "twice.onnx", "--against", "onnxruntime,openvino", "--seconds", "0.01", "--threads", "1", "--json"},
      stubs_.python());
  EXPECT_EQ(found.code, 0) << found.err;
  EXPECT_TRUE(found.err.starts_with("tracewright: onnxruntime: there is no wheel\n")) << found.err;
  EXPECT_EQ(found.err.find("there is no wheel"), found.err.rfind("there is no wheel")) << found.err;
  boost::json::value report = boost::json::parse(found.out);
  ASSERT_EQ(report.at("rows").as_array().size(), 2u);
  EXPECT_EQ(report.at("rows").at(0).at("model"), "same.onnx");
  EXPECT_EQ(report.at("rows").at(1).at("model"), "twice.onnx");
  std::vector<std::string> skipped;
  for (const boost::json::value& entry : report.at("skipped").as_array())
    skipped.push_back(cat(entry.at("model").as_string().c_str(), " ", entry.at("library").as_string().c_str(), " ",
                          entry.at("verdict").as_string().c_str(), ": ", entry.at("reason").as_string().c_str()));
  EXPECT_EQ(join(skipped, "\n"),
            "same.onnx onnxruntime unsupported: there is no wheel\ntwice.onnx onnxruntime unsupported: there is no "
            "wheel\nsame.onnx openvino unsupported: no Max\ntwice.onnx openvino unsupported: no Max");
}

TEST_F(BenchModels, HelpNamesThePythonThatHasTheLibraries) {
  EXPECT_NE(run({"--help"}, "").out.find("$TRACEWRIGHT_PYTHON"), std::string::npos);
}

TEST_F(BenchModels, BadInputIsRefused) {
  test::write_file(at("list.yaml"), test::kGemmAndRows);
  expect_refused({"same.onnx", "--against", "onnxruntim"}, "unknown library `onnxruntim`; did you mean `onnxruntime`?");
  expect_refused({"same.onnx", "--against", "mkl-wheel"}, "unknown library `mkl-wheel`");
  expect_refused({"none.onnx"}, "`none.onnx` cannot be read");
  expect_refused({"same.onnx", "--shape", "z=1"}, "the model has no input `z`");
  expect_refused({"same.onnx", "--shape", "x=1,2,3"}, "input `x` has 2 dimensions");
  expect_refused({"same.onnx", "--task", "t"}, "--task is for a task list");
  expect_refused({"list.yaml", "--threads", "2"}, "--shape, --rewrites, --precision and --threads are for ONNX models");
  expect_refused({"list.yaml", "same.onnx"}, "bench takes one task list, or ONNX models");
  expect_refused({"list.yaml", "--against", "onnxruntime"}, "unknown library `onnxruntime`");
}

// ---- the script that serves wheels

constexpr const char* kNumPy = R"(
class dtype:
    def __init__(self, name):
        self.name, self.itemsize = name, {"float32": 4, "int64": 8}[name]

class Array:
    def __init__(self, data, dtype, shape):
        self.data, self.dtype, self.shape = data, dtype, tuple(shape)
    def reshape(self, shape):
        return Array(self.data, self.dtype, shape)
    def tobytes(self):
        return bytes(self.data)

def frombuffer(data, dtype):
    return Array(data, dtype, [])

def ascontiguousarray(array):
    return array
)";
// A model that gives its input. It fails unless it gets two threads and, in the end, the size of an open dimension.
constexpr const char* kOnnxRuntime = R"(
from types import SimpleNamespace
__version__ = "9.9.9"
GraphOptimizationLevel = SimpleNamespace(ORT_ENABLE_ALL=99)

class SessionOptions:
    def __init__(self):
        self.extents = {}
    def add_free_dimension_override_by_name(self, name, extent):
        self.extents[name] = extent

class OrtValue:
    def __init__(self, array):
        self.array = array
    def numpy(self):
        return self.array
    @staticmethod
    def ortvalue_from_numpy(array):
        return OrtValue(array)

class Binding:
    def bind_ortvalue_input(self, name, value):
        self.input = (name, value)
    def bind_ortvalue_output(self, name, value):
        self.output = (name, value)

class InferenceSession:
    def __init__(self, path, settings, providers):
        open(path).close()
        assert providers == ["CPUExecutionProvider"] and settings.graph_optimization_level == 99
        assert settings.intra_op_num_threads == 2 and settings.inter_op_num_threads == 1
        self.extents = settings.extents
    def get_inputs(self):
        return [SimpleNamespace(name="x", shape=["batch", 3])]
    def get_outputs(self):
        return [SimpleNamespace(name="y", shape=["batch", 3])]
    def run(self, names, inputs):
        print("a library may print")
        return [inputs["x"]]
    def io_binding(self):
        return Binding()
    def run_with_iobinding(self, binding):
        assert self.extents == {"batch": 2} and binding.input[0] == "x" and binding.output[0] == "y"
        binding.output[1].array = binding.input[1].array
)";

class WheelModel : public testing::Test {
 protected:
  void SetUp() override {
    if (test::python_with("sys").empty()) GTEST_SKIP() << "there is no python3";
    test::write_file(folder_.path() + "/m.onnx", "");
  }
  void module(const std::string& name, const std::string& text) {
    test::write_file(cat(folder_.path(), "/", name, ".py"), text);
  }

  test::TemporaryDirectory folder_;
  test::Variable path_{"PYTHONPATH", folder_.path()};
  test::Variable python_{"TRACEWRIGHT_PYTHON", ""};
};

TEST_F(WheelModel, OnnxRuntimeGetsThreadsArraysAndSizes) {
  module("numpy", kNumPy);
  module("onnxruntime", kOnnxRuntime);
  auto peer = ModelPeer::start("onnxruntime", {.threads = 2});
  ASSERT_TRUE(peer) << peer.message;
  EXPECT_EQ(peer.value->version(), "ONNX Runtime 9.9.9");
  EXPECT_EQ(peer.value->turn(0.01).message, "no model is loaded");
  HostArray x = HostArray::zeros(DType::F32, {2, 3});
  x.set(5, 2.5);
  KernelArgument input{.name = "x", .dtype = DType::F32, .shape = {2, 3}};
  auto missing = peer.value->load(folder_.path() + "/none.onnx", {input}, {x}, 1);
  EXPECT_EQ(missing.status, PeerStatus::Failed);
  EXPECT_NE(missing.message.find("FileNotFoundError"), std::string::npos) << missing.message;
  auto loaded = peer.value->load(folder_.path() + "/m.onnx", {input}, {x}, 1);
  ASSERT_TRUE(loaded) << loaded.message;
  auto turn = peer.value->turn(0.01);
  ASSERT_TRUE(turn) << turn.message;
  EXPECT_GT(turn.value.seconds, 0);
  EXPECT_GE(turn.value.calls, 1);
  auto y = peer.value->output(0, DType::F32, {2, 3});
  ASSERT_TRUE(y) << y.message;
  EXPECT_EQ(y.value.bytes, x.bytes);
  x = HostArray::zeros(DType::BF16, {2, 3});
  EXPECT_EQ(peer.value->load(folder_.path() + "/m.onnx", {input}, {x}, 1).status, PeerStatus::Unsupported);
}

// -S and no PYTHONPATH: only Python's own modules, whatever is installed here.
TEST_F(WheelModel, AMissingWheelSaysHowToGetIt) {
  test::write_file(folder_.path() + "/bare", "#!/bin/sh\nPYTHONPATH= exec python3 -S \"$@\"\n");
  fs::permissions(folder_.path() + "/bare", fs::perms::owner_all);
  const test::Variable python("TRACEWRIGHT_PYTHON", folder_.path() + "/bare");
  for (const auto& [library, wheel] : {std::pair("onnxruntime", "onnxruntime"),
                                       {"openvino", "openvino"},
                                       {"torch-eager", "torch"},
                                       {"torch-compile", "torch"}}) {
    auto peer = ModelPeer::start(library, {});
    EXPECT_EQ(peer.status, PeerStatus::Missing) << library;
    EXPECT_NE(peer.message.find(cat(" has no module ", wheel, "; install it (pip install ", wheel, "), or ")),
              std::string::npos)
        << peer.message;
  }
}

TEST_F(BenchModels, TheRealWheels) {
  int tried = 0;
  for (const auto& [library, modules] : {std::pair("onnxruntime", "onnxruntime, numpy"),
                                         {"openvino", "openvino, numpy"},
                                         {"torch-eager", "torch, onnx, onnx2torch"}}) {
    std::string python = test::python_with(modules);
    if (python.empty()) continue;
    ++tried;
    Finished found = run({"same.onnx", "--against", library, "--threads", "1", "--seconds", "0.1", "--json"}, python);
    EXPECT_EQ(found.code, 0) << found.err;
    EXPECT_LT(entry_of(boost::json::parse(found.out), "rows", library).at("relative_difference").to_number<double>(),
              1e-6);
  }
  if (tried == 0) GTEST_SKIP() << "no Python has one of the wheels onnxruntime, openvino, torch with onnx2torch";
}

}  // namespace
}  // namespace tw

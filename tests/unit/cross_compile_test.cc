// A tuner on this machine drives one of another architecture: `tune` for aarch64, a builder that compiles and signs,
// and in place of the machine this test, which checks signatures as the machine would, and runs the code in qemu: the
// reference linked by the architecture's own C compiler, the trials loaded by the object loader of workers.
#include <gtest/gtest.h>

#include <boost/json/object.hpp>
#include <boost/json/parse.hpp>
#include <filesystem>
#include <map>

#include "backends/kernel_abi.h"
#include "dsl/base/text.h"
#include "runtime/measure/elements.h"
#include "sampler/fleet/built_source.h"
#include "tests/unit/builder_kit.h"
#include "tests/unit/fleet_programs.h"

namespace tw {
namespace {

namespace fs = std::filesystem;

constexpr const char *kCompiler = "aarch64-linux-gnu-gcc", *kCxxCompiler = "aarch64-linux-gnu-g++",
                     *kEmulator = "qemu-aarch64";
constexpr i64 kM = 24, kN = 40, kK = 32;

std::string missing_programs() {
  for (const char* program : {kCompiler, kCxxCompiler, kEmulator}) {
    if (test::run_program({"sh", "-c", cat("command -v ", program)}).code != 0)
      return cat("no ", program, " (Debian's g++-aarch64-linux-gnu, qemu-user)");
  }
  return "";
}

// Builds a program with the object loader for aarch64. `sources`: of tests/cross.
void build_with_loader(const std::vector<std::string>& sources, const std::string& program) {
  std::vector<std::string> words = {kCxxCompiler, "-static", "-O1", "-std=c++20", "-DHAS_PREPACK", "-I", TW_SOURCE_DIR};
  for (const std::string& source : sources) {
    if (source.ends_with(".c")) words.insert(words.end(), {"-x", "c"});
    words.push_back(cat(TW_SOURCE_DIR "/tests/cross/", source));
    words.insert(words.end(), {"-x", "none"});
  }
  for (const char* source :
       {"runtime/measure/object_loader.cc", "runtime/measure/relocations_aarch64.cc",
        "runtime/measure/relocations_x86_64.cc", "runtime/measure/external_symbols.cc", "dsl/base/text.cc"})
    words.push_back(cat(TW_SOURCE_DIR "/", source));
  words.insert(words.end(), {"-o", program});
  test::Finished built = test::run_program(words);
  ASSERT_EQ(built.code, 0) << built.err;
}

// Buffers by name.
using Data = std::map<std::string, std::string>;

// Runs kernels of aarch64, and compares their outputs with those of the reference, which runs there, too.
class Qemu : public Measurer {
 public:
  Qemu() { build_with_loader({"run_kernel.c", "loaded_kernel.cc"}, loader()); }
  TaskStart begin_task(const Kernel& reference, Tolerance tolerance, u64 seed) override {
    tolerance_ = tolerance;
    for (const KernelArgument& argument : reference.manifest.run) {
      std::string& bytes = inputs_[argument.name];
      bytes.assign(static_cast<std::size_t>(argument.bytes), '\0');
      if (argument.role == ArgumentRole::Output) continue;
      EXPECT_TRUE(fill_input(seed, argument.name, 0, argument.dtype, argument.bytes / bytes_of(argument.dtype),
                             bytes.data(), argument.indices));
    }
    expected_ = run(reference, /*by_loader=*/false);
    outputs_ = reference.manifest.run;
    if (expected_.empty()) return {.error = "the reference does not run"};
    return {.task = 0, .status = MeasureStatus::Ok};
  }
  void end_task(int) override {}
  MeasureResult measure(int, const Kernel& kernel, const MeasureOptions&) override {
    MeasureResult result;
    Data data = run(kernel, /*by_loader=*/true);
    result.status = data.empty() ? MeasureStatus::Crash : MeasureStatus::Ok;
    for (const KernelArgument& argument : kernel.manifest.run) {
      if (argument.role != ArgumentRole::Output || data.empty()) continue;
      const std::string variance = cat(argument.name, kVarianceSuffix);
      Elements actual = elements(data.at(argument.name), argument.dtype);
      Elements expected = elements(expected_.at(argument.name), type_of_expected(argument.name));
      Comparison compared = compare(
          actual, expected, tolerance_,
          expected_.contains(variance) ? reinterpret_cast<const double*>(expected_.at(variance).data()) : nullptr);
      if (!compared.is_right()) result.status = MeasureStatus::WrongResult;
      worst_ = std::max(worst_, compared.max_error);
    }
    ++runs_;
    result.seconds = result.min_seconds = result.median_seconds =
        1e-3 + 1e-6 * runs_;  // an emulator's time says nothing
    last_ = std::move(data);
    return result;
  }
  const Data& last() const { return last_; }
  int runs() const { return runs_; }
  double worst() const { return worst_; }

 private:
  static Elements elements(const std::string& bytes, DType type) {
    return {bytes.data(), type, static_cast<i64>(bytes.size()) / bytes_of(type)};
  }
  DType type_of_expected(const std::string& name) const {
    for (const KernelArgument& argument : outputs_) {
      if (argument.name == name) return argument.dtype;
    }
    return DType::F64;
  }

  // All buffers after one call; none if it failed.
  Data run(const Kernel& kernel, bool by_loader) const {
    test::TemporaryDirectory folder;
    const std::string object = folder.path() + "/kernel.o";
    const std::string program = by_loader ? loader() : folder.path() + "/program";
    test::write_file(object, kernel.code);
    std::vector<std::string> link = {
        kCompiler, "-static", "-O1",  cat("-I", TW_SOURCE_DIR), TW_SOURCE_DIR "/tests/cross/run_kernel.c", object,
        "-lm",     "-o",      program};
    if (!kernel.manifest.prepack.empty()) link.push_back("-DHAS_PREPACK");
    if (!by_loader) {
      test::Finished linked = test::run_program(link);
      EXPECT_EQ(linked.code, 0) << linked.err;
    }
    std::vector<std::string> names,
        words = {kEmulator, program, folder.path(), std::to_string(kernel.manifest.scratch_bytes(1) + TW_ALIGNMENT)};
    std::map<std::string, i64> bytes;
    for (const auto* list : {&kernel.manifest.prepack, &kernel.manifest.run}) {
      for (const KernelArgument& argument : *list) {
        if (bytes.emplace(argument.name, argument.bytes).second) names.push_back(argument.name);
      }
    }
    words.push_back(std::to_string(names.size()));
    for (std::size_t i = 0; i < names.size(); ++i) {
      words.push_back(std::to_string(bytes[names[i]]));
      std::string content(static_cast<std::size_t>(bytes[names[i]]), '\x5a');
      auto given = inputs_.find(names[i]);
      if (given != inputs_.end() && given->second.size() == content.size()) content = given->second;
      test::write_file(cat(folder.path(), "/", i), content);
    }
    for (const auto* list : {&kernel.manifest.prepack, &kernel.manifest.run}) {
      words.push_back(std::to_string(list->size()));
      for (const KernelArgument& argument : *list)
        words.push_back(std::to_string(std::ranges::find(names, argument.name) - names.begin()));
    }
    test::Finished ran = test::run_program(words, {.environment = {cat("OBJECT=", object)}});
    EXPECT_EQ(ran.code, 0) << ran.err;
    Data data;
    for (std::size_t i = 0; i < names.size() && ran.code == 0; ++i)
      data[names[i]] = test::read_file(cat(folder.path(), "/", i));
    return data;
  }

  std::string loader() const { return folder_.path() + "/loader"; }

  test::TemporaryDirectory folder_;
  Tolerance tolerance_;
  Data inputs_, expected_, last_;
  std::vector<KernelArgument> outputs_;
  int runs_ = 0;
  double worst_ = 0;
};

class CrossCompile : public FleetPrograms {
 protected:
  void SetUp() override {
    if (std::string missing = missing_programs(); !missing.empty()) GTEST_SKIP() << missing;
    FleetPrograms::SetUp();
  }
};

// Position-independent code as compilers write it with and without optimisation; a function that code names by a short
// distance may be too far away.
TEST(CrossLoader, LoadsWhatACompilerWrites) {
  if (std::string missing = missing_programs(); !missing.empty()) GTEST_SKIP() << missing;
  test::TemporaryDirectory folder;
  const std::string program = folder.path() + "/load", object = folder.path() + "/honest.o";
  build_with_loader({"load_kernel.cc"}, program);
  auto load = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> words = {kCompiler, "-c", "-I", TW_SOURCE_DIR, "-I", TW_SOURCE_DIR "/tests"};
    words.insert(words.end(), flags.begin(), flags.end());
    words.insert(words.end(), {TW_SOURCE_DIR "/tests/kernels/honest.c", "-o", object});
    test::Finished compiled = test::run_program(words);
    EXPECT_EQ(compiled.code, 0) << compiled.err;
    return test::run_program({kEmulator, program, object}).out;
  };
  for (const char* level : {"-O0", "-O1", "-O3"}) EXPECT_EQ(load({level, "-fPIC"}), "right\n") << level;
  EXPECT_EQ(load({"-O2", "-fno-pic"}), "relocation type 275 against `tanhf` does not fit\n");
  test::write_file(object, test::read_file(TW_BINARY_DIR "/tests/kernels/honest.o"));
  EXPECT_EQ(test::run_program({kEmulator, program, object}).out,
            "the code is not a relocatable aarch64 object (type 1, machine 62)\n");
}

TEST_F(CrossCompile, ATunerOnThisMachineDrivesAarch64) {
  const std::string target = "cpu -triple=aarch64-linux-gnu -mcpu=cortex-a72 -threads=1";
  test::write_file(folder_.path() + "/list.yaml",
                   cat("version: 1\ntarget: ", target,
                       "\nbudget: {trials: 8, min_gain: 0}\ntasks: [{name: mm, op: dense, args: {M: ", kM, ", N: ", kN,
                       ", K: ", kK, "}}]\n"));
  std::unique_ptr<Machine> builder =
      start_machine({"--build-for", "cpu -triple=aarch64-linux-gnu -mcpu=cortex-a72", "--key",
                     write_key(folder_.path() + "/builder.key", kKey.secret, 0600)});
  auto tuned = std::async(std::launch::async, [this] {
    return run({"tune", "list.yaml", "--database", address_, "--measure-on", "fleet", "--json"});
  });

  TrialQueue queue = this->queue();
  auto machine = queue.add_machine({.name = "board", .host = "an emulated Cortex-A72", .version = TW_VERSION});
  ASSERT_TRUE(machine) << machine.error();
  BuiltSource source(checking_key());
  LastingQueue lasting(this->queue());
  auto database = Database::open(address_, DatabaseMode::Write);
  ASSERT_TRUE(database) << database.error();
  std::atomic<bool> never = false;
  Waiting waiting{.must_stop = [&] { return never.load(); }, .say = [](const std::string&) {}};
  const MeasuredTarget measured{target, "an emulated Cortex-A72", machine_of("an emulated Cortex-A72")};
  Qemu qemu;
  std::unique_ptr<FleetTask> task;
  while (tuned.wait_for(std::chrono::milliseconds(20)) != std::future_status::ready) {
    ASSERT_TRUE(queue.beat_machine(*machine));
    auto leased = source.lease(queue, *machine, {measured}, 4);
    ASSERT_TRUE(leased) << leased.error();
    for (const LeasedTrial& trial : *leased) {
      TrialFault fault;
      if (!task) {
        task = source.read_task(trial.trial, measured, {*database, lasting, waiting}, fault);
        ASSERT_TRUE(task) << fault.kind << ": " << fault.message;
        task->measurer = &qemu;
        TaskStart start = source.begin_task(*task, waiting.must_stop);
        ASSERT_EQ(start.task, 0) << start.error;
      }
      BuiltFleetTrial made = source.build(*task, trial);
      ASSERT_EQ(made.fault.kind, "") << made.fault.message;
      ASSERT_TRUE(made.built.kernel) << made.built.problem;
      EXPECT_EQ(made.built.kernel->code.substr(18, 2), std::string("\xb7\0", 2)) << "no ELF file of aarch64 (183)";
      MeasureResult result = qemu.measure(0, *made.built.kernel, {});
      EXPECT_EQ(result.status, MeasureStatus::Ok);
      Record record{.workload = trial.trial.workload, .target = target, .seed = trial.trial.seed};
      record.task = trial.trial.task, record.program = trial.trial.program, record.object = to_hex(made.object);
      record.version = TW_VERSION, record.host = task->host, record.trace = trial.trial.trace;
      set_result(record, result);
      ASSERT_TRUE(queue.finish(*machine, trial, record));
    }
  }
  test::Finished finished = tuned.get();
  EXPECT_EQ(finished.code, 0) << finished.err;
  EXPECT_EQ(boost::json::parse(finished.out).at("faults").as_int64(), 0);
  EXPECT_GE(qemu.runs(), 6);
  RecordProperty("largest error", std::to_string(qemu.worst()));

  // Once more without any code of ours: plain loops over the same data.
  const Data& data = qemu.last();
  auto at = [&](const char* name, i64 i) { return reinterpret_cast<const float*>(data.at(name).data())[i]; };
  for (i64 i = 0; i < kM; ++i) {
    for (i64 j = 0; j < kN; ++j) {
      double sum = 0;
      for (i64 k = 0; k < kK; ++k) sum += double{at("X", i * kK + k)} * at("W", k * kN + j);
      ASSERT_NEAR(at("Y", i * kN + j), sum, 1e-4) << i << ", " << j;
    }
  }
  EXPECT_EQ(builder->stop().code, 130);
}

}  // namespace
}  // namespace tw

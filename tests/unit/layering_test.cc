// The include table of docs/design.md: which folder may include which. A new dependency between
// layers is a change to the table below, made on purpose.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "dsl/base/text.h"

namespace tw {
namespace {

// A place is a folder (with what is below it) or one file. A file obeys the row with the longest
// place that holds it.
struct Row {
  std::string place;
  std::vector<std::string> may_see;  // places; a row always sees its own
};

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

const std::vector<std::string> kProgram = {"dsl/base", "dsl/ir"};
const std::vector<std::string> kMiddle = {"dsl/te", "dsl/text", "dsl/analysis", "dsl/intrinsics", "dsl/passes"};
const std::vector<std::string> kSchedule = kProgram + kMiddle + std::vector<std::string>{"dsl/schedule"};
const std::vector<std::string> kSpace = kSchedule + std::vector<std::string>{"dsl/primitives", "sampler/draw", "rules"};
// What every room of runtime may see; and all that a search may.
const std::vector<std::string> kMachine = kSchedule + std::vector<std::string>{"costmodel", "backends"};
const std::vector<std::string> kMeasure = kMachine + std::vector<std::string>{"runtime/measure"};
const std::vector<std::string> kCandidates =
    kSpace + std::vector<std::string>{"costmodel", "backends", "runtime/lists", "sampler/space"};
const std::vector<std::string> kRuntime = kSpace + std::vector<std::string>{"costmodel", "backends", "runtime"};
const std::vector<std::string> kSearch = kRuntime + std::vector<std::string>{"sampler/space", "sampler/strategies"};
const std::vector<std::string> kAll = {"dsl",   "sampler", "rules",  "costmodel", "backends", "runtime",
                                       "graph", "cli",     "python", "bench",     "tests"};

const std::vector<Row> kTable = {
    {"dsl/base", {}},
    {"dsl/ir", {"dsl/base"}},
    {"dsl/analysis", kProgram},
    {"dsl/te", kProgram + std::vector<std::string>{"dsl/analysis"}},
    {"dsl/text", kProgram + std::vector<std::string>{"dsl/analysis", "dsl/te"}},
    {"dsl/intrinsics", kProgram + std::vector<std::string>{"dsl/analysis", "dsl/text"}},
    {"dsl/passes", kProgram + std::vector<std::string>{"dsl/analysis", "dsl/intrinsics"}},
    {"dsl/schedule", kProgram + kMiddle},
    // Primitives and samples share nothing with each other; what both need belongs to dsl/analysis
    // or dsl/schedule.
    {"dsl/primitives", kSchedule},
    {"sampler/draw", kSchedule},
    {"rules", kSpace},
    // Cost models read schedules for draft features; they never draw, and know no rules.
    {"costmodel", kSchedule},
    // Backends see programs, never schedules or traces.
    {"backends", kProgram + std::vector<std::string>{"dsl/analysis", "dsl/intrinsics", "dsl/passes"}},
    {"backends/kernel_abi.h", {}},
    {"backends/kernel.h", {}},
    // Graphs are workloads and their values; the interpreter of backends computes them.
    {"graph", kProgram + kMiddle + std::vector<std::string>{"backends"}},
    {"graph/onnx", {"dsl/base", "dsl/ir", "dsl/te", "dsl/text", "backends", "graph"}},
    {"runtime/console", {"dsl/base"}},
    {"runtime/lists", kMachine},
    {"runtime/store", kMachine},
    {"runtime/fleet", {"dsl/base", "runtime/store"}},
    {"runtime/measure", kMachine + std::vector<std::string>{"runtime/lists", "runtime/store"}},
    {"runtime/emulation", kMeasure},
    {"runtime/export", kMeasure},
    {"runtime/peers", kMeasure},
    // The worker does not link libtracewright: of its neighbours it sees only the files that both
    // are built from.
    {"runtime/worker",
     {"backends/kernel_abi.h", "backends/kernel.h", "dsl/base", "runtime/measure/elements.h",
      "runtime/measure/fma_probe.h", "runtime/measure/slower_test.h", "runtime/measure/measurer.h",
      "runtime/measure/object_loader.h", "runtime/measure/thread_pool.h", "runtime/measure/worker_protocol.h"}},
    // Nor do the workers of devices: one interface, and a folder for each kind behind it.
    {"backends/device.h", {"backends/kernel.h", "dsl/base"}},
    {"backends/opencl", {"backends/device.h", "backends/guard_bands.h", "backends/kernel.h", "dsl/base"}},
    {"backends/cuda_driver", {"backends/device.h", "backends/guard_bands.h", "backends/kernel.h", "dsl/base"}},
    {"runtime/worker_device",
     {"backends/kernel_abi.h", "backends/kernel.h", "backends/device.h", "dsl/base", "runtime/measure/elements.h",
      "runtime/measure/measurer.h", "runtime/measure/object_loader.h", "runtime/worker",
      "runtime/measure/thread_pool.h", "runtime/measure/worker_protocol.h"}},
    {"runtime/emulator",
     {"dsl/base", "runtime/measure/emulation_report.h", "runtime/measure/worker_protocol.h", "runtime/worker/confine.h",
      "backends/kernel.h"}},
    {"sampler/space", kCandidates},
    // Strategies propose candidates; they never see records, and so no database.
    {"sampler/strategies", kCandidates},
    {"sampler/search", kSearch},
    {"sampler/fleet", kSearch + std::vector<std::string>{"sampler/search"}},
    {"sampler/tasks", kSearch + std::vector<std::string>{"graph", "sampler/search"}},
    // From graphs to libraries.
    {"sampler/models", kSearch + std::vector<std::string>{"graph", "sampler/search", "sampler/tasks"}},
    // What a person is shown of databases and models.
    {"sampler/report", kSearch + std::vector<std::string>{"sampler/search", "sampler/tasks"}},
    {"cli", kAll},
    // The module runs libraries that were compiled, without libtracewright.
    {"python", {"backends/kernel_abi.h", "runtime/export/model_functions.h", "runtime/measure/thread_pool.h"}},
    {"bench", kSearch + std::vector<std::string>{"sampler/search", "sampler/tasks", "tests/support"}},
    {"bench/peers", {"runtime/measure/fma_probe.h"}},
    {"tests", kAll},
};

const std::vector<std::string> kSeenByAll = {"dsl/ir/types.h"};

// Headers of other people's libraries that only a few files may see: they are slow to compile, or
// their types must not spread.
const std::vector<Row> kSdkTable = {
    {"llvm", {"backends/llvm"}},
    {"llvm-c", {"backends/llvm"}},
    {"torch", {"costmodel/torch", "bench/peers"}},
    {"ATen", {"costmodel/torch", "bench/peers"}},
    {"c10", {"costmodel/torch", "bench/peers"}},
    {"SQLiteCpp", {"runtime/store/sqlite_rows.h", "tests"}},
    {"sqlite3.h", {"runtime/store/sqlite_rows.h", "tests"}},
    {"libpq-fe.h", {"runtime/store/libpq.h"}},
    {"openssl", {"runtime/fleet/libcrypto.h"}},
    {"yaml-cpp", {"runtime/lists/yaml_tree.cc", "tests"}},
    {"seccomp.h", {"runtime/worker", "tests"}},
    {"hwloc.h", {"backends/topology.cc"}},
    {"hwloc", {"backends/topology.cc"}},
    {"boost/dll", {"rules/lang/load_plugin.cc"}},
    {"CL",
     {"backends/opencl", "runtime/export/opencl_launcher.h", "bench/clblast_bench.cc",
      "tests"}},                                     // the launcher is shipped, not compiled here
    {"cuda.h", {"runtime/export/cuda_launcher.h"}},  // likewise
    {"cblas.h", {"bench/peers"}},
    {"clblast_c.h", {"bench/clblast_bench.cc"}},
    {"dnnl.hpp", {"bench/peers"}},
    {"oneapi", {"bench/peers"}},
    {"onnx", {"graph/onnx"}},
    {"nanobind", {"python/module.cc"}},
    {"isl", {"tests"}},
    {"z3++.h", {"tests"}},
};

struct SourceFile {
  std::string path;  // from the top of the tree
  std::string text;
};

bool is_within(const std::string& path, const std::string& place) {
  return path == place || (path.starts_with(place) && path[place.size()] == '/');
}

bool is_within_any(const std::string& path, const std::vector<std::string>& places) {
  return std::any_of(places.begin(), places.end(), [&](const std::string& place) { return is_within(path, place); });
}

const Row* row_of(const std::string& path) {
  const Row* best = nullptr;
  for (const Row& row : kTable) {
    if (is_within(path, row.place) && (!best || row.place.size() > best->place.size())) best = &row;
  }
  return best;
}

struct Include {
  std::string header;
  bool quoted;
};

std::vector<Include> includes_of(const std::string& text) {
  static const std::regex pattern(R"(^\s*#\s*include\s*(["<])([^">]+)[">])");
  std::vector<Include> found;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::smatch match;
    if (std::regex_search(line, match, pattern)) found.push_back({match[2], match[1] == "\""});
  }
  return found;
}

// What is wrong with one include of one file, or "".
std::string violation(const std::string& path, const Row& row, const Include& include) {
  const std::string what = cat(path, " includes ", include.header);
  for (const Row& sdk : kSdkTable) {
    if (is_within(include.header, sdk.place) && !is_within_any(path, sdk.may_see)) {
      return cat(what, ": only ", join(sdk.may_see, ", "), " may");
    }
  }
  const bool ours = is_within_any(include.header, kAll);
  const bool generated = include.header == "primitives.inc";
  const bool test_support = is_within(path, "tests") && is_within_any(include.header, {"support", "fuzz", "preload"});
  if (include.quoted && !ours && !generated && !test_support)
    return cat(what, ": write the path from the top of the tree");
  if (!ours || is_within_any(include.header, kSeenByAll)) return "";
  const Row* target = row_of(include.header);
  if (!target) return cat(what, ": its folder is not in the table");
  // A row that lies within another (a worker, a single header) differs in what it sees, not in who
  // sees it.
  if (is_within(include.header, row.place) || is_within_any(include.header, row.may_see)) return "";
  return cat(what, ": ", row.place, " may see only itself", row.may_see.empty() ? "" : ", ", join(row.may_see, ", "));
}

std::vector<std::string> violations(const std::vector<SourceFile>& files) {
  std::vector<std::string> found;
  for (const SourceFile& file : files) {
    const Row* row = row_of(file.path);
    if (!row) {
      found.push_back(cat(file.path, ": its folder is not in the table"));
      continue;
    }
    for (const Include& include : includes_of(file.text)) {
      std::string wrong = violation(file.path, *row, include);
      if (!wrong.empty()) found.push_back(std::move(wrong));
    }
  }
  return found;
}

std::vector<SourceFile> source_tree() {
  namespace fs = std::filesystem;
  const fs::path top = TW_SOURCE_DIR;
  std::vector<SourceFile> files;
  for (const std::string& folder : kAll) {
    if (!fs::exists(top / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(top / folder)) {
      const std::string extension = entry.path().extension();
      if (extension != ".h" && extension != ".cc") continue;
      std::ostringstream text;
      text << std::ifstream(entry.path()).rdbuf();
      files.push_back({fs::relative(entry.path(), top), text.str()});
    }
  }
  return files;
}

TEST(Layering, TreeObeysTheTable) {
  const auto files = source_tree();
  std::set<std::string> paths;
  for (const SourceFile& file : files) paths.insert(file.path);
  ASSERT_TRUE(paths.contains("dsl/base/text.h") && paths.contains("tests/unit/layering_test.cc"));
  EXPECT_EQ(join(violations(files), "\n"), "");
}

TEST(Layering, AllowedIncludesPass) {
  const std::vector<SourceFile> files = {
      {"dsl/schedule/state.cc", "#include <vector>\n#include \"dsl/passes/passes.h\"\n"},
      {"dsl/schedule/schedule.h", "#include \"primitives.inc\"\n"},
      {"runtime/worker/main.cc",
       "#include <seccomp.h>\n#include \"backends/kernel_abi.h\"\n#include \"dsl/ir/types.h\"\n"},
      {"backends/llvm/jit.cc", "#include <llvm/IR/Module.h>\n#include \"backends/kernel.h\"\n"},
      {"costmodel/draft.cc", "#include \"dsl/schedule/trace.h\"\n"},
      {"cli/main.cc", "#include \"sampler/search/tune.h\"\n"},
  };
  EXPECT_EQ(join(violations(files), "\n"), "");
}

// Each planted file breaks one rule of the table.
TEST(Layering, PlantedViolationsAreFound) {
  const std::vector<std::pair<SourceFile, std::string>> planted = {
      {{"dsl/base/a.h", "#include \"dsl/ir/nodes.h\""},
       "dsl/base/a.h includes dsl/ir/nodes.h: dsl/base may see only itself"},
      {{"dsl/passes/a.cc", "  #  include \"dsl/schedule/trace.h\""},
       "dsl/passes/a.cc includes dsl/schedule/trace.h: dsl/passes may see only itself, dsl/base, "
       "dsl/ir, dsl/analysis"},
      {{"dsl/primitives/split.cc", "#include \"sampler/draw/sample_tile.h\""},
       "dsl/primitives/split.cc includes sampler/draw/sample_tile.h: dsl/primitives may see only "
       "itself, "},
      {{"sampler/draw/a.cc", "#include \"dsl/primitives/split.h\""}, "sampler/draw may see only itself, "},
      {{"python/opened_model.cc", "#include \"runtime/export/model_library.h\""}, "python may see only itself, "},
      {{"backends/interpreter.cc", "#include <dsl/schedule/state.h>"}, "backends may see only itself, "},
      {{"backends/kernel.h", "#include \"dsl/base/result.h\""}, "backends/kernel.h may see only itself"},
      {{"backends/kernel.h", "#include \"backends/target.h\""}, "backends/kernel.h may see only itself"},
      {{"costmodel/mlp.cc", "#include \"rules/lang/eval.h\""}, "costmodel may see only itself, "},
      {{"runtime/worker/main.cc", "#include \"runtime/store/database.h\""}, "runtime/worker may see only itself, "},
      {{"runtime/measure/a.cc", "#include \"sampler/search/tune.h\""}, "runtime/measure may see only itself, "},
      {{"runtime/store/a.cc", "#include \"runtime/measure/measurer.h\""}, "runtime/store may see only itself, "},
      {{"bench/a.cc", "#include \"cli/stored.h\""}, "bench may see only itself, "},
      {{"runtime/measure/a.cc", "#include <llvm/IR/Module.h>"}, ": only backends/llvm may"},
      {{"runtime/measure/a.cc", "#include <sqlite3.h>"}, ": only runtime/store/sqlite_rows.h, tests may"},
      {{"runtime/lists/task_list.h", "#include <yaml-cpp/yaml.h>"}, ": only runtime/lists/yaml_tree.cc, tests may"},
      {{"costmodel/mlp.cc", "#include <torch/torch.h>"}, ": only costmodel/torch, bench/peers may"},
      {{"dsl/ir/a.cc", "#include \"nodes.h\""}, ": write the path from the top of the tree"},
      {{"dsl/odd/a.cc", ""}, "dsl/odd/a.cc: its folder is not in the table"},
      {{"cli/main.cc", "#include \"dsl/odd/a.h\""}, ": its folder is not in the table"},
  };
  for (const auto& [file, message] : planted) {
    const auto found = violations({file});
    ASSERT_EQ(found.size(), 1u) << file.path << ": " << file.text;
    EXPECT_NE(found[0].find(message), std::string::npos) << found[0];
  }
}

}  // namespace
}  // namespace tw

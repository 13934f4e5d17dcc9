#include "tests/fuzz/onnx_target.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "graph/fusion.h"
#include "graph/passes/passes.h"
#include "tests/unit/onnx_files.h"

namespace tw::fuzz {
namespace {

namespace fs = std::filesystem;
using graph::test::integer, graph::test::integers, graph::test::model, graph::test::node, graph::test::number,
    graph::test::part, graph::test::real, graph::test::text, graph::test::untyped, graph::test::value_info;

// Larger graphs are only imported: the time of the passes is not what is tested here.
constexpr std::size_t kMostNodes = 64;
constexpr i64 kMostElements = 1 << 20;  // of a value

bool is_small(const graph::Graph& graph) {
  return graph.nodes.size() <= kMostNodes && std::ranges::all_of(graph.values, [](const graph::Value& value) {
           return graph::elements_of(value.type) <= kMostElements;
         });
}

std::string constant(const std::string& name, const std::vector<i64>& values) {
  std::string data = number(1, values.size()) + number(2, 7);
  for (i64 value : values) data += number(7, static_cast<u64>(value));
  return part(5, data + part(8, name));
}

std::string floats(const std::string& name, const std::vector<i64>& shape) {
  std::string dims;
  std::size_t elements = 1;
  for (i64 extent : shape) dims += number(1, static_cast<u64>(extent)), elements *= static_cast<std::size_t>(extent);
  return part(5, dims + number(2, 1) + part(8, name) + part(9, std::string(4 * elements, '?')));
}

// A model with the inputs x[1, 4, 6, 6] and r[2, 6] and the output `y`, of whose type the file says nothing.
std::string file(const std::string& nodes, const std::string& constants = "", const std::string& functions = "") {
  return model(nodes + part(2, "g") + constants + part(11, value_info("x", DType::F32, {1, 4, 6, 6})) +
                   part(11, value_info("r", DType::F32, {2, 6})) + part(12, untyped("y")),
               functions);
}

std::string one(const std::string& op, const std::vector<std::string>& inputs, const std::string& attributes = "",
                const std::string& constants = "") {
  return file(part(1, node(op, inputs, {"y"}, attributes)), constants);
}

}  // namespace

void use_import(const std::variant<graph::Graph, graph::ImportProblems>& imported) {
  if (auto* problems = std::get_if<graph::ImportProblems>(&imported)) {
    TW_CHECK(!problems->lines.empty(), "a file was refused without a problem");
    for (const std::string& line : problems->lines) TW_CHECK(!line.empty(), "a problem says nothing");
    return;
  }
  const graph::Graph& made = std::get<graph::Graph>(imported);
  if (!is_small(made)) return;
  (void)to_string(made);
  graph::Graph simple = graph::simplified(made);
  if (!is_small(simple)) return;
  for (const graph::Group& group : graph::fuse(simple).groups) (void)graph::program_of(simple, group);
}

void fuzz_onnx(const std::string& bytes) {
  static const bool can_import = !graph::onnx_operators().empty();
  static const fs::path path = fs::temp_directory_path() / ("fuzz_" + std::to_string(getpid()) + ".onnx");
  if (!can_import) return;
  std::ofstream(path, std::ios::binary) << bytes;
  auto imported = graph::import_onnx(path.string());
  fs::remove(path);
  use_import(imported);
}

std::vector<std::string> onnx_seeds() {
  std::string given = part(5, part(1, "axis") + part(21, "along"));
  std::string function = part(1, "rows") + part(4, "a") + part(5, "b") + part(7, node("Softmax", {"a"}, {"b"}, given)) +
                         part(6, "along") + part(10, "own");
  std::string branch = part(6, part(1, node("Exp", {"r"}, {"e"})) + part(12, part(1, "e")));
  std::string branches = part(5, part(1, "then_branch") + branch) + part(5, part(1, "else_branch") + branch);
  std::string outside = part(5, number(1, 2) + number(2, 1) + part(8, "w") +
                                    part(13, part(1, "location") + part(2, "../weights.bin")) + number(14, 1));
  std::string network = part(1, node("Conv", {"x", "w", "b"}, {"c"}, integers("pads", {1, 1, 1, 1}))) +
                        part(1, node("Relu", {"c"}, {"d"})) + part(1, node("Add", {"d", "x"}, {"e"})) +
                        part(1, node("GlobalAveragePool", {"e"}, {"f"})) + part(1, node("Flatten", {"f"}, {"g"})) +
                        part(1, node("Gemm", {"g", "m", "b"}, {"y"}));
  return {
      file(network, floats("w", {4, 4, 3, 3}) + floats("b", {4}) + floats("m", {4, 4})),
      one("Exp", {"x"}),
      one("Exp", {"w"}, "", outside),
      one("Split", {"r"}, integer("axis", 1)),
      one("Slice", {"x", "a", "b"}, "", constant("a", {0, 1, 5, 1}) + constant("b", {1, 3, 1, 6})),
      one("Reshape", {"x", "s"}, "", constant("s", {2, -1, 6})),
      one("ConstantOfShape", {"s"}, "", constant("s", {2, 3})),
      one("Tile", {"r", "s"}, "", constant("s", {2, 3})),
      one("MaxPool", {"x"}, integers("kernel_shape", {3, 3}) + integers("strides", {2, 2}) + integer("ceil_mode", 1)),
      one("LayerNormalization", {"r", "w"}, integer("axis", -1) + real("epsilon", 1e-5F), floats("w", {6})),
      one("DepthToSpace", {"x"}, integer("blocksize", 2)),
      one("Resize", {"x", "", "", "s"}, text("mode", "linear"), constant("s", {1, 4, 12, 9})),
      one("Einsum", {"r", "r"}, text("equation", "ij,kj->ik")),
      one("Pad", {"r", "s"}, text("mode", "reflect"), constant("s", {0, 1, 1, 0})),
      one("TopK", {"r", "s"}, integer("axis", 1), constant("s", {3})),
      file(part(1, node("rows", {"r"}, {"y"}, integer("along", 0), "own")), "", part(25, function)),
      file(part(1, node("If", {"s"}, {"y"}, branches)), constant("s", {1})),
  };
}

std::vector<std::string> onnx_test_files(std::size_t most_bytes) {
  std::vector<fs::path> paths;
  std::error_code missing;
  for (const char* kind : {"node", "simple", "pytorch-converted", "pytorch-operator"}) {
    fs::path folder = fs::path("/usr/lib/python3/dist-packages/onnx/backend/test/data") / kind;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, missing))
      paths.push_back(entry.path() / "model.onnx");
  }
  std::ranges::sort(paths);
  std::vector<std::string> files;
  for (const fs::path& path : paths) {
    std::ostringstream text;
    text << std::ifstream(path, std::ios::binary).rdbuf();
    if (!text.str().empty() && text.str().size() <= most_bytes) files.push_back(text.str());
  }
  return files;
}

}  // namespace tw::fuzz

// ONNX files that were made to do harm: each is refused with a message that says where, and soon. Most were found by
// reading or by the fuzzer tests/fuzz/fuzz_onnx.cc.
#include "tests/unit/onnx_files.h"

namespace tw::graph {
namespace {

using test::imported, test::integer, test::integers, test::model, test::node, test::number, test::part,
    test::value_info;

class HostileOnnx : public testing::Test {
 protected:
  void SetUp() override {
    if (onnx_operators().empty()) GTEST_SKIP() << "built without libonnx";
  }
};

std::string longs(const std::string& name, const std::vector<i64>& values) {
  std::string data = number(1, values.size()) + number(2, 7);
  for (i64 value : values) data += number(7, static_cast<u64>(value));
  return part(5, data + part(8, name));
}

// One operator of x and constants; its output is y.
std::string one(const std::string& nodes, const std::vector<i64>& shape, const std::string& constants = "") {
  return model(nodes + part(2, "g") + constants + part(11, value_info("x", DType::F32, shape)) +
               part(12, value_info("y", DType::F32, {1})));
}

TEST_F(HostileOnnx, ANodeWithoutOutputs) {
  EXPECT_EQ(imported(one(part(1, node("Split", {"x"}, {})), {2, 3})), "node `` (Split): it has no outputs");
}

TEST_F(HostileOnnx, BlocksWhoseSquareOverflows) {
  for (i64 size : {i64{1} << 32, i64{1} << 62, i64{3037000500}}) {
    std::string depth = part(1, node("DepthToSpace", {"x"}, {"y"}, integer("blocksize", size)));
    EXPECT_EQ(imported(one(depth, {1, 4, 2, 2})), "node `y` (DepthToSpace): its channels do not divide into blocks");
  }
}

// 2^60 nodes in 4 KiB.
TEST_F(HostileOnnx, FunctionsThatDouble) {
  std::string functions;
  for (int level = 0; level < 60; ++level) {
    std::string inner = level == 0 ? "Exp" : cat("f", level - 1), domain = level == 0 ? "" : "own";
    functions += part(25, part(1, cat("f", level)) + part(4, "a") + part(5, "c") +
                              part(7, node(inner, {"a"}, {"b"}, "", domain)) +
                              part(7, node(inner, {"b"}, {"c"}, "", domain)) + part(10, "own"));
  }
  std::string graph = part(1, node("f59", {"x"}, {"y"}, "", "own")) + part(2, "g") +
                      part(11, value_info("x", DType::F32, {2})) + part(12, value_info("y", DType::F32, {2}));
  EXPECT_NE(imported(model(graph, functions)).find("more than 100000 nodes"), std::string::npos);
}

TEST_F(HostileOnnx, AMillionNodes) {
  std::string nodes, one_node = part(1, node("Identity", {"x"}, {"y"}));
  for (int i = 0; i < 1'000'000; ++i) nodes += one_node;
  EXPECT_NE(imported(one(nodes, {2})).find("more than 100000 nodes"), std::string::npos);
}

TEST_F(HostileOnnx, InputsOfMoreElementsThanCanBe) {
  std::string nodes = part(1, node("Exp", {"x"}, {"y"}));
  EXPECT_EQ(imported(one(nodes, {i64{1} << 62, 4})), "input `x` has too many elements");
  EXPECT_EQ(imported(one(nodes, {i64{1} << 46})), "input `x` has too many elements");
  EXPECT_NE(imported(one(nodes, {i64{1} << 40})).find("exponential"), std::string::npos);
}

// Each would be 128 MiB of data that no file holds.
TEST_F(HostileOnnx, DataThatIsMadeOfNothing) {
  std::string nodes, constants = longs("from", {0}) + longs("to", {1 << 24}) + longs("by", {1});
  for (int i = 0; i < 40; ++i) nodes += part(1, node("Range", {"from", "to", "by"}, {cat("r", i)}));
  std::string found = imported(one(nodes + part(1, node("Exp", {"x"}, {"y"})), {2}, constants));
  EXPECT_NE(found.find("(Range): its data, with that of nodes before it, would take more than 256 MiB"),
            std::string::npos)
      << found;
}

TEST_F(HostileOnnx, ResizingToMillions) {
  std::string sizes = longs("s", {1 << 24});
  std::string nodes = part(1, node("Resize", {"x", "", "", "s"}, {"y"}, test::text("mode", "cubic")));
  EXPECT_NE(imported(one(nodes, {2}, sizes)).find("dimension 0 would have the extent"), std::string::npos);
}

// Each can be computed beforehand; all of them would take minutes.
TEST_F(HostileOnnx, ThousandsOfConstantProducts) {
  std::string nodes, matrix = number(1, 100) + number(1, 100) + number(2, 1) + part(8, "m");
  matrix = part(5, matrix + part(9, std::string(40000, '?')));
  for (int i = 0; i < 1000; ++i) nodes += part(1, node("MatMul", {"m", "m"}, {cat("p", i)}));
  std::string found = imported(one(nodes + part(1, node("Exp", {"x"}, {"y"})), {2}, matrix));
  EXPECT_NE(found.find("const p0: f32[100, 100]"), std::string::npos);
  EXPECT_NE(found.find("p999: f32[100, 100] = matmul(m, m)"), std::string::npos);
}

// It is one dimension more for each that is missing.
TEST_F(HostileOnnx, AnOldAxisFarBeforeTheFirst) {
  for (i64 axis : {-(i64{1} << 31), -(i64{1} << 62), i64{-3}}) {
    std::string graph = part(1, node("Add", {"x", "z"}, {"y"}, integer("axis", axis) + integer("broadcast", 1))) +
                        part(2, "g") + part(11, value_info("x", DType::F32, {2, 3})) +
                        part(11, value_info("z", DType::F32, {3})) + part(12, value_info("y", DType::F32, {2, 3}));
    EXPECT_EQ(imported(model(graph, "", 6)), cat("node `y` (Add): its operand has no dimension ", axis));
  }
}

TEST_F(HostileOnnx, OrdersThatAreNone) {
  for (const std::vector<i64>& order : {std::vector<i64>{0}, {0, 0}, {0, 7}, {1, 1}, {-5, 0}, {0, 1, 2}}) {
    std::string nodes = part(1, node("Transpose", {"x"}, {"y"}, integers("perm", order)));
    EXPECT_EQ(imported(one(nodes, {2, 3})), "node `y` (Transpose): its order is not one of the dimensions");
  }
}

}  // namespace
}  // namespace tw::graph

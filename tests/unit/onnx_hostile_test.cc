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
               part(12, test::untyped("y")));
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
  std::string nodes;
  for (int i = 0; i < 1'000'000; ++i) nodes += part(1, node("Identity", {"x"}, {cat("y", i)}));
  EXPECT_NE(imported(one(nodes, {2})).find("more than 100000 nodes"), std::string::npos);
}

// Each of these becomes more than a thousand.
TEST_F(HostileOnnx, NodesThatBecomeManyOperators) {
  std::string weights = longs("most", {2048}), nodes;
  for (int i = 0; i < 1000; ++i) nodes += part(1, node("NonMaxSuppression", {"x", "s", "most"}, {cat("y", i)}));
  std::string text = model(nodes + part(2, "g") + weights + part(11, value_info("x", DType::F32, {1, 2000, 4})) +
                           part(11, value_info("s", DType::F32, {1, 1, 2000})) + part(12, test::untyped("y0")));
  EXPECT_NE(imported(text).find("its nodes become more than 300000 operators"), std::string::npos);
}

TEST_F(HostileOnnx, InputsOfMoreElementsThanCanBe) {
  std::string nodes = part(1, node("Exp", {"x"}, {"y"}));
  EXPECT_EQ(imported(one(nodes, {i64{1} << 62, 4})),
            "input `x` has too many elements: 4611686018427387904 x 4 are more than 68719476736");
  EXPECT_NE(imported(one(nodes, {i64{1} << 46})).find("input `x` has too many elements"), std::string::npos);
  EXPECT_NE(imported(one(nodes, {i64{1} << 36})).find("exponential"), std::string::npos);
}

// Such a library could be written, but not be read again.
TEST_F(HostileOnnx, TensorsOfMoreElementsThanALibraryMayHave) {
  EXPECT_EQ(imported(one(part(1, node("Relu", {"x"}, {"y"})), {i64{1} << 40, 2})),
            "input `x` has too many elements: 1099511627776 x 2 are more than 68719476736");
  std::string shape = longs("s", {i64{1} << 37, 2});
  EXPECT_EQ(imported(one(part(1, node("Expand", {"x", "s"}, {"y"})), {2}, shape)),
            "node `y` (Expand): it makes a tensor of 137438953472 x 2 elements, which are more than 68719476736");
}

// A kernel would read beside the tensor.
TEST_F(HostileOnnx, ConstantIndicesOutsideOfTheTensor) {
  auto gather = [&](const char* op, const std::vector<i64>& index, const std::string& attributes = "") {
    return imported(one(part(1, node(op, {"x", "i"}, {"y"}, attributes)), {3, 4}, longs("i", index)));
  };
  EXPECT_EQ(gather("Gather", {0, 7}),
            "node `y` (Gather): its index 7 lies outside of dimension 0, whose indices are -3 to 2");
  EXPECT_EQ(gather("Gather", {-5}, integer("axis", 1)),
            "node `y` (Gather): its index -5 lies outside of dimension 1, whose indices are -4 to 3");
  EXPECT_EQ(gather("Gather", {-(i64{1} << 62)}),
            "node `y` (Gather): its index -4611686018427387904 lies outside of dimension 0, whose indices are -3 to 2");
  EXPECT_EQ(gather("GatherND", {2, 4}),
            "node `y` (GatherND): its index 4 lies outside of dimension 1, whose indices are -4 to 3");
  EXPECT_EQ(gather("GatherND", {0, 0, 0}), "node `y` (GatherND): its indices are for another number of dimensions");
  for (const std::vector<i64>& inside : {std::vector<i64>{-3, 2}, {0}})
    EXPECT_NE(gather("Gather", inside).find("gather(x, i"), std::string::npos) << gather("Gather", inside);
  std::string index = part(5, number(1, 1) + number(1, 2) + number(2, 7) + number(7, 0) + number(7, 3) + part(8, "i"));
  EXPECT_EQ(imported(one(part(1, node("GatherElements", {"x", "i"}, {"y"})), {3, 4}, index)),
            "node `y` (GatherElements): its index 3 lies outside of dimension 0, whose indices are -3 to 2");
}

// Indices that nobody knows before are taken for the nearest place.
TEST_F(HostileOnnx, OtherIndicesStayInsideOfTheTensor) {
  auto taken = [](const std::string& nodes, const HostArray& indices) {
    auto made =
        test::import_bytes(model(nodes + part(2, "g") + part(11, value_info("x", DType::F32, {3, 2})) +
                                 part(11, value_info("i", DType::I64, indices.shape)) + part(12, test::untyped("y"))));
    HostArray x = HostArray::zeros(DType::F32, {3, 2});
    for (i64 i = 0; i < x.elements(); ++i) x.set(i, static_cast<double>(i));
    std::string error;
    std::vector<double> out;
    if (auto* problems = std::get_if<ImportProblems>(&made)) return ADD_FAILURE() << problems->lines[0], out;
    std::optional<std::vector<HostArray>> found = evaluate(std::get<Graph>(made), {x, indices}, error);
    EXPECT_TRUE(found) << error;
    for (i64 i = 0; found && i < (*found)[0].elements(); ++i) out.push_back((*found)[0].get(i));
    return out;
  };
  HostArray index = HostArray::zeros(DType::I64, {2, 2});
  const double places[] = {9, -9, -1, 1};
  for (i64 i = 0; i < 4; ++i) index.set(i, places[i]);
  EXPECT_EQ(taken(part(1, node("Gather", {"x", "i"}, {"y"})), index), (std::vector<double>{4, 5, 0, 1, 4, 5, 2, 3}));
  EXPECT_EQ(taken(part(1, node("GatherElements", {"x", "i"}, {"y"})), index), (std::vector<double>{4, 1, 4, 3}));
  EXPECT_EQ(taken(part(1, node("GatherND", {"x", "i"}, {"y"})), index), (std::vector<double>{4, 5}));
  HostArray lengths = HostArray::zeros(DType::I64, {2});
  lengths.set(0, 99), lengths.set(1, -99);
  std::string reverse = node("ReverseSequence", {"x", "i"}, {"y"}, integer("time_axis", 0) + integer("batch_axis", 1));
  EXPECT_EQ(taken(part(1, reverse), lengths), (std::vector<double>{4, 1, 2, 3, 0, 5}));
}

TEST_F(HostileOnnx, ValuesThatAreMadeTwice) {
  std::string exp = part(1, node("Exp", {"x"}, {"y"})), log = part(1, node("Log", {"x"}, {"y"}, part(3, "second")));
  EXPECT_EQ(imported(one(exp + log, {2})), "node `y` (Exp) and node `second` (Log) both make `y`");
  EXPECT_EQ(imported(one(exp + part(1, node("Log", {"y"}, {"x"})), {2})),
            "node `x` (Log) makes `x`, which is the name of an input");
  EXPECT_EQ(imported(one(exp, {2}, longs("y", {1}))), "node `y` (Exp) makes `y`, which is the name of a constant");
  EXPECT_EQ(imported(one(exp, {2}, longs("c", {1}) + longs("c", {2}))), "two constants have the name `c`");
  EXPECT_EQ(imported(one(exp, {2}, part(11, value_info("x", DType::F32, {2})))), "two inputs have the name `x`");
  std::string call = part(1, node("f", {"x"}, {"y"}, "", "own"));
  std::string body = part(7, node("Exp", {"a"}, {"c"})) + part(7, node("Log", {"a"}, {"c"}));
  EXPECT_EQ(
      imported(model(call + part(2, "g") + part(11, value_info("x", DType::F32, {2})) + part(12, test::untyped("y")),
                     part(25, part(1, "f") + part(4, "a") + part(5, "c") + body + part(10, "own")))),
      "function `f`: node `c` (Exp) and node `c` (Log) both make `c`");
  // Outputs that a node leaves out have no names.
  std::string unnamed = part(1, node("Dropout", {"x"}, {"z", ""})) + part(1, node("Dropout", {"z"}, {"y", ""}));
  EXPECT_NE(imported(one(unnamed, {2})).find("output y"), std::string::npos) << imported(one(unnamed, {2}));
}

TEST_F(HostileOnnx, OutputsThatAreDeclaredAsSomethingElse) {
  auto declared = [](const std::string& output) {
    return imported(model(part(1, node("Exp", {"x"}, {"y"})) + part(2, "g") +
                          part(11, value_info("x", DType::F32, {2, 3})) + part(12, output)));
  };
  EXPECT_EQ(declared(value_info("y", DType::F32, {2, 4})),
            "output `y` is declared as f32[2, 4], but its nodes make f32[2, 3]");
  EXPECT_EQ(declared(value_info("y", DType::I64, {2, 3})),
            "output `y` is declared as i64[2, 3], but its nodes make f32[2, 3]");
  EXPECT_EQ(declared(value_info("y", DType::F32, {6})),
            "output `y` is declared as f32[6], but its nodes make f32[2, 3]");
  EXPECT_EQ(declared(test::open_value("y", {"n", "4"})),
            "output `y` is declared as f32[n, 4], but its nodes make f32[2, 3]");
  EXPECT_EQ(declared(test::open_value("y", {"2", "3"}, 99)),
            "output `y` is declared as number 99[2, 3], but its nodes make f32[2, 3]");
  for (const std::string& open :
       {test::untyped("y"), value_info("y", DType::F32, {}), test::open_value("y", {"n", "3"}),
        test::open_value("y", {"0", "m"}), test::open_value("y", {"n"}), value_info("y", DType::F32, {2, 3})})
    EXPECT_NE(declared(open).find("exponential"), std::string::npos) << declared(open);
}

TEST_F(HostileOnnx, TypesOfUnknownNumbers) {
  std::string exp = part(1, node("Exp", {"x"}, {"y"})) + part(2, "g") + part(12, test::untyped("y"));
  EXPECT_EQ(imported(model(exp + part(11, test::open_value("x", {"2"}, 99)))),
            "input `x` has elements of type number 99, which is not supported");
  EXPECT_EQ(imported(model(exp + part(11, test::open_value("x", {"2"}, 8)))),
            "input `x` has elements of type STRING, which is not supported");
  EXPECT_EQ(
      imported(one(part(1, node("Exp", {"x"}, {"y"})), {2}, part(5, number(1, 1) + number(2, 99) + part(8, "c")))),
      "constant `c`: elements of type number 99 are not supported");
  EXPECT_EQ(imported(one(part(1, node("Cast", {"x"}, {"y"}, integer("to", 99))), {2})),
            "node `y` (Cast): it casts to the type number 99, which is not supported");
}

TEST_F(HostileOnnx, InputsThatNothingMakes) {
  EXPECT_EQ(imported(one(part(1, node("Add", {"x", "none"}, {"y"})), {2})),
            "node `y` (Add): nothing makes its input `none`");
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

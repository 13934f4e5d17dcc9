// The key `rewrites` of a task list: what is read of it, the tasks that models become by its files, and what is said of
// bad ones.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>

#include "sampler/tasks/load_list.h"
#include "support/run_program.h"
#include "support/support.h"
#include "tests/unit/onnx_files.h"
#include "tests/unit/parsed_list.h"

namespace tw {
namespace {

namespace fs = std::filesystem;
using test::Finished;

using test::parsed_list;
using test::ParsedList;

constexpr const char* kNet = "tasks:\n  - {name: net, model: net.onnx}\n";
constexpr const char* kRows = "tasks:\n  - {name: rows, op: softmax, args: {M: 2, N: 3}}\n";

TEST(ListRewritesText, AreFilesAsWritten) {
  std::string text = cat("version: 1\nrewrites: [a.tw, \"b c.tw\"]\n", kNet);
  ParsedList parsed = parsed_list(text);
  EXPECT_EQ(parsed.errors, "");
  ASSERT_EQ(parsed.list.rewrites.size(), 2u);
  EXPECT_EQ(parsed.list.rewrites[0].value, "a.tw");
  EXPECT_EQ(parsed.list.rewrites[1].value, "b c.tw");
  Span place = parsed.list.rewrites[0].span;
  EXPECT_EQ(text.substr(place.begin, place.end - place.begin), "a.tw");
  EXPECT_NE(to_json(parsed.list).find(R"("modules":[],"rewrites":["a.tw","b c.tw"],"rules":)"), std::string::npos)
      << to_json(parsed.list);
}

TEST(ListRewritesText, AreAListOfTexts) {
  EXPECT_EQ(parsed_list(cat("version: 1\nrewrites: a.tw\n", kNet)).errors,
            R"yaml(tasks.yaml:2:11: error: expected `rewrites` to be a list, found `a.tw`
    2 | rewrites: a.tw
      |           ^~~~
note: write `rewrites: [a.tw]`
)yaml");
  ParsedList parsed = parsed_list(cat("version: 1\nrewrites: [{file: a.tw}, b.tw]\n", kNet));
  EXPECT_EQ(parsed.errors,
            R"yaml(tasks.yaml:2:12: error: expected `rewrites` to be text, found a mapping
    2 | rewrites: [{file: a.tw}, b.tw]
      |            ^
)yaml");
  ASSERT_EQ(parsed.list.rewrites.size(), 1u);
  EXPECT_EQ(parsed.list.rewrites[0].value, "b.tw");
}

TEST(ListRewritesText, AListWithoutModelsHasNone) {
  EXPECT_EQ(parsed_list(cat("version: 1\nrewrites: [a.tw]\n", kRows)).errors,
            R"yaml(tasks.yaml:2:11: error: `rewrites` goes with tasks that have `model`, and the list has none
    2 | rewrites: [a.tw]
      |           ^
)yaml");
  EXPECT_EQ(parsed_list(cat("version: 1\nrewrites: [a.tw]\n", kRows, "  - {name: net, model: net.onnx}\n")).errors, "");
}

constexpr const char* kBent = "onnx \"own\" Bent(x: value, by: number) { return relu(x) * by }";
constexpr const char* kUnknown = "operators of `own` are not supported";

struct Loaded {
  std::optional<LoadedList> list;
  std::string messages;

  bool says(const std::string& text) const { return messages.find(text) != std::string::npos; }
};

class ListRewrites : public testing::Test {
 protected:
  void SetUp() override {
    if (graph::onnx_operators().empty()) GTEST_SKIP() << "built without libonnx";
    write_model({bent()}, "y");
    test::write_file(at("own.tw"), kBent);
  }
  std::string at(const std::string& name) const { return (fs::path(folder_.path()) / name).lexically_normal(); }
  const std::string& folder() const { return folder_.path(); }
  static std::string bent() { return graph::test::node("Bent", {"x"}, {"y"}, graph::test::integer("by", 2), "own"); }
  // net.onnx, whose input is x: f32[2, 3].
  void write_model(const std::vector<std::string>& nodes, const std::string& output) {
    using namespace graph::test;
    std::string all;
    for (const std::string& node : nodes) all += part(1, node);
    test::write_file(at("net.onnx"), model(all + part(2, "g") + part(11, value_info("x", DType::F32, {2, 3})) +
                                           part(12, untyped(output))));
  }
  // The list of that model with this line; the test runs in another folder.
  Loaded load(const std::string& line, const graph::OwnRewrites& own = {}) {
    test::write_file(at("list.yaml"), cat("version: 1\n", line, "\n", kNet));
    Loaded out;
    out.list = load_list(at("list.yaml"), out.messages, "", "", {}, own);
    return out;
  }

 private:
  test::TemporaryDirectory folder_;
};

TEST_F(ListRewrites, OperatorsAreKnownToModels) {
  Loaded without = load("");
  EXPECT_FALSE(without.list);
  EXPECT_TRUE(without.says(cat("node `y` (Bent): ", kUnknown))) << without.messages;
  fs::create_directory(at("texts"));
  fs::rename(at("own.tw"), at("texts/own.tw"));
  Loaded with = load("rewrites: [texts/own.tw]");
  EXPECT_EQ(with.messages, "");
  ASSERT_TRUE(with.list);
  EXPECT_EQ(with.list->models.size(), 1u);
  EXPECT_FALSE(with.list->tasks.empty());
}

TEST_F(ListRewrites, RewritingsAreTriedOnModels) {
  write_model({graph::test::node("Relu", {"x"}, {"y"})}, "y");
  test::write_file(at("r.tw"), "rewrite r(x: value) { relu(x) -> x * 0.5 + absolute(x) * 0.5 }");
  Loaded without = load(""), with = load("rewrites: [r.tw]");
  EXPECT_EQ(with.messages, "");
  ASSERT_TRUE(without.list && with.list);
  ASSERT_FALSE(without.list->tasks.empty() || with.list->tasks.empty());
  EXPECT_NE(key_of(with.list->tasks[0]).workload, key_of(without.list->tasks[0]).workload);
}

// Where they are named, and where they are wrong; nothing is said of what follows from it.
TEST_F(ListRewrites, BadFilesAreRefused) {
  test::write_file(at("bad.tw"), "onnx \"own\" F(x: value) { return none_such(x) }");
  test::write_file(at("unproved.tw"), "rewrite r(x: value) { relu(x) -> maximum(x, 1) }");
  test::write_file(at("two.tw"), "\nonnx \"own\" Bent(x: value) { return x }");
  struct Wrong {
    std::string files, in_list, in_file;
  };
  for (const Wrong& wrong : std::vector<Wrong>{
           {"none.tw", cat(":2:12: error: there is no file ", at("none.tw")),
            "note: paths are relative to the folder of the task list"},
           {"bad.tw", cat(":2:12: error: ", at("bad.tw"), " has errors, see below"),
            cat(at("bad.tw"), ":1:33: error: unknown operator `none_such`")},
           {"unproved.tw", cat(":2:12: error: ", at("unproved.tw"), " has errors, see below"),
            "error: `r` is not proved"},
           {"own.tw, two.tw", cat(":2:20: error: ", at("two.tw"), " has errors, see below"),
            cat(at("two.tw"), ":2:12: error: there is an operator `Bent` of `own` in ", at("own.tw"), " already")}}) {
    Loaded found = load(cat("rewrites: [", wrong.files, "]"));
    EXPECT_FALSE(found.list) << wrong.files;
    EXPECT_TRUE(found.says(cat(at("list.yaml"), wrong.in_list))) << found.messages;
    EXPECT_TRUE(found.says(wrong.in_file)) << found.messages;
    EXPECT_FALSE(found.says(kUnknown)) << found.messages;
  }
}

TEST_F(ListRewrites, StandBehindThoseOfTheCaller) {
  write_model({bent(), graph::test::node("Next", {"y"}, {"z"}, "", "own")}, "z");
  Loaded alone = load("rewrites: [own.tw]");
  EXPECT_FALSE(alone.list);
  EXPECT_TRUE(alone.says(cat("node `z` (Next): ", kUnknown))) << alone.messages;
  graph::OwnRewrites own;
  std::string messages;
  ASSERT_TRUE(own.add({"flag.tw", "onnx \"own\" Next(x: value) { return x + 1 }"}, messages)) << messages;
  Loaded both = load("rewrites: [own.tw]", own);
  EXPECT_EQ(both.messages, "");
  ASSERT_TRUE(both.list);
  std::vector<const graph::RewriteModule*> modules = both.list->rewrites.modules();
  ASSERT_EQ(modules.size(), 2u);
  EXPECT_EQ(modules[0]->source->name, "flag.tw");
  EXPECT_EQ(modules[1]->source->name, at("own.tw"));
  graph::OwnRewrites same;
  ASSERT_TRUE(same.add({"flag.tw", kBent}, messages)) << messages;
  Loaded twice = load("rewrites: [own.tw]", same);
  EXPECT_FALSE(twice.list);
  EXPECT_TRUE(twice.says(cat(at("own.tw"), ":1:12: error: there is an operator `Bent` of `own` in flag.tw already")))
      << twice.messages;
}

// All commands that take the list see the tasks that `tune` has tuned.
TEST_F(ListRewrites, CommandsReadThem) {
  test::write_file(at("list.yaml"), cat("version: 1\nrewrites: [own.tw]\n", kNet));
  auto run = [&](const std::vector<std::string>& words) {
    Finished found = test::tracewright(words, {.folder = folder()});
    EXPECT_EQ(found.code, 0) << found.err;
    return found;
  };
  EXPECT_NE(run({"space", "list.yaml"}).out.find("net_"), std::string::npos);
  Finished tuned = run({"tune", "list.yaml", "--trials", "2", "--database", "own.db", "--json"});
  ASSERT_EQ(tuned.code, 0);
  EXPECT_EQ(boost::json::parse(tuned.out).at("models").as_array().size(), 1u) << tuned.err;
  run({"export", "list.yaml", "--database", "own.db", "--output", "out"});
  EXPECT_TRUE(fs::exists(at("out/manifest.json")));
}

}  // namespace
}  // namespace tw

#include "runtime/lists/task_list.h"

#include <gtest/gtest.h>

#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "tests/unit/parsed_list.h"

namespace tw {
namespace {

// A small operator library, as the caller would pass it.
std::vector<OperatorSignature> operators() {
  return {
      {"dense", {{"M"}, {"N"}, {"K"}, {"T", true, false, "f32"}}, {"bias", "relu", "gelu", "silu", "add"}},
      {"conv2d",
       {{"N"}, {"H"}, {"W"}, {"CI"}, {"CO"}, {"K"}, {"stride", false, false, "1"}, {"padding", false, false, "0", 0}},
       {"bias", "relu"}},
      {"softmax", {{"M"}, {"N"}, {"T", true, false, "f32"}}, {}},
  };
}

using Parsed = test::ParsedList;

Parsed parse(const std::string& text) {
  const std::vector<OperatorSignature> known = operators();
  return test::parsed_list(text, &known);
}

// The errors of a list whose only task is `task`.
std::string task_errors(const std::string& task) { return parse("version: 1\ntasks:\n  - " + task + "\n").errors; }

TEST(TaskList, NamesMachines) {
  Parsed parsed = parse(
      "version: 1\nmachine: EPYC 7313\ntasks:\n  - {name: a, workload: w.tw, use: w()}\n"
      "  - {name: b, workload: w.tw, use: w(), machine: \"EPYC 7313, class 2\"}\n"
      "  - {name: c, workload: w.tw, use: w(), machine: \"\"}\n");
  EXPECT_EQ(parsed.errors, "");
  EXPECT_EQ(parsed.list.machine.value, "EPYC 7313");
  EXPECT_FALSE(parsed.list.tasks[0].machine.given);
  EXPECT_EQ(parsed.list.tasks[1].machine.value, "EPYC 7313, class 2");
  EXPECT_TRUE(parsed.list.tasks[2].machine.given) << "any machine";
  EXPECT_NE(to_json(parsed.list).find(R"("machine":"EPYC 7313, class 2")"), std::string::npos);
  EXPECT_EQ(
      task_errors("{name: a, workload: w.tw, use: w(), machine: [x]}"),
      R"yaml(tasks.yaml:3:50: error: expected `machine` to be words of a machine's fingerprint, such as `"EPYC 7313, class 1"`, found a list
    3 |   - {name: a, workload: w.tw, use: w(), machine: [x]}
      |                                                  ^
note: `tracewright fleet` prints fingerprints
)yaml");
}

TEST(TaskList, TheExampleOfTheDesignIsRead) {
  std::string text = R"yaml(# what to tune
version: 1
target: {kind: cpu, cpu: znver3, threads: 2}
budget: {trials: 200, seconds: 90.5}
database: out/tuning.db
modules: [my_rules.tw]
rules: reference-cpu
search: {strategy: annealing, chains: 64}
seed: 18446744073709551615
tasks:
  - {name: ffn1, op: dense, args: {M: 128, N: 3072, K: 768, T: bf16}, epilogue: [bias, gelu], weight: 12}
  - {name: c2,   op: conv2d, args: {N: 1, H: 56, W: 56, CI: 64, CO: 64, K: 3, stride: 1, padding: 0}, layout: free, tolerance: [0, 2.5e-2]}
  - name: own
    workload: my_workloads.tw
    use: "banded(M = 512, B = 16)"
    target: cpu -triple=aarch64-linux-gnu -mcpu=cortex-a72 -threads=4
)yaml";
  Parsed parsed = parse(text);
  ASSERT_EQ(parsed.errors, "");
  const TaskList& list = parsed.list;
  EXPECT_EQ(list.target.value.cpu, "znver3");
  EXPECT_EQ(list.target.value.threads, 2);
  EXPECT_EQ(list.trials.value, 200);
  EXPECT_EQ(list.seconds.value, 90.5);
  EXPECT_EQ(list.database.value, "out/tuning.db");
  EXPECT_EQ(list.modules[0].file.value, "my_rules.tw");
  EXPECT_EQ(list.rules.value, "reference-cpu");
  EXPECT_EQ(list.seed.value, ~u64{0});
  ASSERT_EQ(list.tasks.size(), 3u);
  EXPECT_EQ(list.tasks[0].epilogue[1].value, "gelu");
  EXPECT_EQ(list.tasks[0].weight.value, 12);
  EXPECT_EQ(std::get<i64>(list.tasks[0].args[1].value), 3072);
  EXPECT_EQ(std::get<std::string>(list.tasks[0].args[3].value), "bf16");
  EXPECT_EQ(list.tasks[1].layout.value, TaskLayout::Free);
  EXPECT_EQ(list.tasks[1].tolerance.value.relative, 2.5e-2);
  EXPECT_FALSE(list.tasks[0].tolerance.given);
  EXPECT_EQ(list.tasks[2].target.value.cpu, "cortex-a72");
  auto at = [&](Span span) { return text.substr(span.begin, span.end - span.begin); };
  EXPECT_EQ(at(list.tasks[2].use.span), "banded(M = 512, B = 16)") << "the place of what is inside the quotes";
  EXPECT_EQ(at(list.tasks[0].args[2].name_span), "K");
  EXPECT_EQ(at(list.tasks[0].args[2].span), "768");
  EXPECT_EQ(at(list.tasks[0].epilogue[1].span), "gelu");
  EXPECT_EQ(at(list.seed.span), "18446744073709551615");
  EXPECT_EQ(
      to_json(list),
      R"json({"version":1,"target":"cpu -mcpu=znver3 -threads=2","budget":{"trials":200,"total_trials":0,"seconds":9.05E1,"min_gain":5E-3},)json"
      R"json("database":"out/tuning.db","modules":["my_rules.tw"],"rewrites":[],"rules":"reference-cpu","search":{"strategy":"annealing","chains":64},"seed":18446744073709551615,"tasks":[)json"
      R"json({"name":"ffn1","op":"dense","args":{"M":128,"N":3072,"K":768,"T":"bf16"},"epilogue":["bias","gelu"],)json"
      R"json("weight":1.2E1,"layout":"fixed","target":"cpu -mcpu=znver3 -threads=2"},)json"
      R"json({"name":"c2","op":"conv2d","args":{"N":1,"H":56,"W":56,"CI":64,"CO":64,"K":3,"stride":1,"padding":0},)json"
      R"json("epilogue":[],"weight":1E0,"layout":"free","tolerance":[0E0,2.5E-2],"target":"cpu -mcpu=znver3 -threads=2"},)json"
      R"json({"name":"own","workload":"my_workloads.tw","use":"banded(M = 512, B = 16)","weight":1E0,"layout":"fixed",)json"
      R"json("target":"cpu -triple=aarch64-linux-gnu -mcpu=cortex-a72 -threads=4"}]})json");
}

TEST(TaskList, ABudgetHasATotalAndALeastGain) {
  EXPECT_EQ(parse("version: 1\nbudget: {trials: 4, total_trials: 0, min_gain: 1}\ntasks: [{name: a, op: dense, args: "
                  "{M: 1, N: 1, K: 1}}]\n")
                .errors,
            R"yaml(tasks.yaml:2:35: error: expected `total_trials` to be an integer from 1 to 1000000000, found `0`
    2 | budget: {trials: 4, total_trials: 0, min_gain: 1}
      |                                   ^
tasks.yaml:2:48: error: expected `min_gain` to be a number from 0 to below 1, such as 0.005 for half a percent, found `1`
    2 | budget: {trials: 4, total_trials: 0, min_gain: 1}
      |                                                ^
)yaml");
  for (const char* wrong : {"-0.1", "nan", "inf", "little", "[0.1]"})
    EXPECT_NE(parse(cat("version: 1\nbudget: {min_gain: ", wrong, "}\ntasks: []\n")).errors.find("expected `min_gain`"),
              std::string::npos)
        << wrong;
}

TEST(TaskList, AToleranceIsTwoNumbers) {
  for (const char* wrong : {"1e-2", "[1e-2]", "[-1, 1]", "[0, 0]", "[1e-2, x]", "[1, 2, 3]", "[inf, 1]"}) {
    Parsed parsed =
        parse(cat("version: 1\ntasks:\n  - {name: a, op: dense, args: {M: 1, N: 1, K: 1}, tolerance: ", wrong, "}\n"));
    EXPECT_NE(
        parsed.errors.find("expected `tolerance` to be two numbers, absolute and relative, such as `[1e-2, 1e-2]`"),
        std::string::npos)
        << wrong << parsed.errors;
  }
}

TEST(TaskList, DefaultsAreSaidAndNotGiven) {
  TaskList list = parse("version: 1\ntasks: [{name: s, op: softmax, args: {M: 256, N: 256}}]\n").list;
  EXPECT_EQ(list.target.value, host_target());
  EXPECT_FALSE(list.target.given);
  EXPECT_EQ(list.trials.value, 512);
  EXPECT_EQ(list.seconds.value, 0);
  EXPECT_EQ(list.database.value, "tuning.db");
  EXPECT_EQ(list.rules.value, "cpu");
  EXPECT_FALSE(list.seed.given);
  EXPECT_EQ(list.tasks[0].weight.value, 1);
}

TEST(TaskList, AllErrorsOfAFileAreReportedAtOnce) {
  std::string text = R"yaml(version: 1
target: {kind: cpu, thread: 1, cpu: zenver3}
budget: {trials: -5, seconds: soon}
databse: tuning.db
modules: my_rules.tw
seed: "7"
seed: 8
tasks:
  - {name: a-b, op: dens, args: {M: 1, N: 1, K: 1}}
  - {name: ok, op: dense, args: {M: 128, n: 64, K: 0, T: float32}, epilogue: [bias, gelo]}
  - {name: ok, op: conv2d, args: {N: 1, H: 56, padding: -1}, weight: 0, layout: nhwc}
)yaml";
  EXPECT_EQ(parse(text).errors, R"yaml(tasks.yaml:2:21: error: unknown target key `thread`
    2 | target: {kind: cpu, thread: 1, cpu: zenver3}
      |                     ^~~~~~
note: did you mean `threads`?
tasks.yaml:2:37: error: unknown cpu `zenver3`
    2 | target: {kind: cpu, thread: 1, cpu: zenver3}
      |                                     ^~~~~~~
note: did you mean `znver3`?
tasks.yaml:3:18: error: expected `trials` to be an integer from 1 to 1000000000, found `-5`
    3 | budget: {trials: -5, seconds: soon}
      |                  ^~
tasks.yaml:3:31: error: expected `seconds` to be a number above 0, found `soon`
    3 | budget: {trials: -5, seconds: soon}
      |                               ^~~~
tasks.yaml:4:1: error: unknown key `databse` in the task list
    4 | databse: tuning.db
      | ^~~~~~~
note: did you mean `database`?
tasks.yaml:5:10: error: expected `modules` to be a list, found `my_rules.tw`
    5 | modules: my_rules.tw
      |          ^~~~~~~~~~~
note: write `modules: [my_rules.tw]`
tasks.yaml:6:8: error: expected `seed` to be an integer from 0 to 18446744073709551615, found the text "7"
    6 | seed: "7"
      |        ^
note: leave the quotes away
tasks.yaml:7:1: error: key `seed` is given twice
    7 | seed: 8
      | ^~~~
note: remove one of them
tasks.yaml:9:12: error: expected `name` to be a name of letters, digits and `_`, found `a-b`
    9 |   - {name: a-b, op: dens, args: {M: 1, N: 1, K: 1}}
      |            ^~~
note: export makes a C symbol from it
tasks.yaml:11:70: error: expected `weight` to be a number above 0, found `0`
   11 |   - {name: ok, op: conv2d, args: {N: 1, H: 56, padding: -1}, weight: 0, layout: nhwc}
      |                                                                      ^
tasks.yaml:11:81: error: expected `layout` to be `fixed` or `free`, found `nhwc`
   11 |   - {name: ok, op: conv2d, args: {N: 1, H: 56, padding: -1}, weight: 0, layout: nhwc}
      |                                                                                 ^~~~
tasks.yaml:11:12: error: another task has the name `ok`
   11 |   - {name: ok, op: conv2d, args: {N: 1, H: 56, padding: -1}, weight: 0, layout: nhwc}
      |            ^~
tasks.yaml:9:21: error: unknown operator `dens`
    9 |   - {name: a-b, op: dens, args: {M: 1, N: 1, K: 1}}
      |                     ^~~~
note: did you mean `dense`?
tasks.yaml:10:42: error: `dense` has no argument `n`
   10 |   - {name: ok, op: dense, args: {M: 128, n: 64, K: 0, T: float32}, epilogue: [bias, gelo]}
      |                                          ^
note: did you mean `N`?
tasks.yaml:10:52: error: expected `K` to be an integer from 1 to 2147483647, found `0`
   10 |   - {name: ok, op: dense, args: {M: 128, n: 64, K: 0, T: float32}, epilogue: [bias, gelo]}
      |                                                    ^
tasks.yaml:10:58: error: expected `T` to be a type, found `float32`
   10 |   - {name: ok, op: dense, args: {M: 128, n: 64, K: 0, T: float32}, epilogue: [bias, gelo]}
      |                                                          ^~~~~~~
note: known: bool, i8, u8, i32, i64, f16, bf16, f32, f64
tasks.yaml:10:85: error: `dense` has no epilogue `gelo`
   10 |   - {name: ok, op: dense, args: {M: 128, n: 64, K: 0, T: float32}, epilogue: [bias, gelo]}
      |                                                                                     ^~~~
note: did you mean `gelu`?
tasks.yaml:11:57: error: expected `padding` to be an integer from 0 to 2147483647, found `-1`
   11 |   - {name: ok, op: conv2d, args: {N: 1, H: 56, padding: -1}, weight: 0, layout: nhwc}
      |                                                         ^~
tasks.yaml:11:34: error: `conv2d` needs arguments `W`, `CI`, `CO`, `K`
   11 |   - {name: ok, op: conv2d, args: {N: 1, H: 56, padding: -1}, weight: 0, layout: nhwc}
      |                                  ^
note: its arguments: N, H, W, CI, CO, K, stride, padding
)yaml");
}

TEST(TaskList, KeysAndValues) {
  EXPECT_EQ(parse("version: 2\ntask: [gemm]\n").errors,
            R"yaml(tasks.yaml:1:10: error: unknown version 2; this tracewright reads version 1
    1 | version: 2
      |          ^
)yaml");
  EXPECT_EQ(parse("version: one\ntasks: []\n").errors,
            R"yaml(tasks.yaml:1:10: error: expected `version` to be 1, found `one`
    1 | version: one
      |          ^~~
tasks.yaml:2:8: error: expected `tasks` to be a list of at least one task, found an empty list
    2 | tasks: []
      |        ^
note: `- {name: mm, op: matmul, args: {M: 64, N: 64, K: 64}}`
)yaml");
  EXPECT_EQ(parse("target: cpu\n").errors,
            R"yaml(tasks.yaml:1:1: error: missing key `version` in the task list
    1 | target: cpu
      | ^~~~~~~~~~~
note: begin with `version: 1`
tasks.yaml:1:1: error: missing key `tasks` in the task list
    1 | target: cpu
      | ^~~~~~~~~~~
note: a list of what to tune
)yaml");
  EXPECT_EQ(parse("version: 1\ntask: []\n").errors,
            R"yaml(tasks.yaml:2:1: error: unknown key `task` in the task list
    2 | task: []
      | ^~~~
note: did you mean `tasks`?
)yaml");
  EXPECT_EQ(parse("- version: 1\n").errors,
            R"yaml(tasks.yaml:1:1: error: expected the task list to be a mapping, found a list
    1 | - version: 1
      | ^~~~~~~~~~~~
note: its keys: version, target, machine, budget, database, modules, rewrites, rules, search, seed, tasks
)yaml");
  EXPECT_EQ(parse("version: 1\nbudget: 512\ntasks: {name: a}\n[1, 2]: x\n").errors,
            R"yaml(tasks.yaml:2:9: error: expected `budget` to be a mapping, found `512`
    2 | budget: 512
      |         ^~~
note: its keys: trials, total_trials, seconds, min_gain
tasks.yaml:3:8: error: expected `tasks` to be a list of at least one task, found a mapping
    3 | tasks: {name: a}
      |        ^
note: `- {name: mm, op: matmul, args: {M: 64, N: 64, K: 64}}`
tasks.yaml:4:1: error: expected a key, found a list
    4 | [1, 2]: x
      | ^
)yaml");
  EXPECT_EQ(parse("version: 1\ntarget: gpu\ntasks:\n  - dense\n").errors,
            R"yaml(tasks.yaml:2:9: error: unknown target kind `gpu`
    2 | target: gpu
      |         ^~~
note: did you mean `cpu`?
tasks.yaml:4:5: error: expected a task to be a mapping, found `dense`
    4 |   - dense
      |     ^~~~~
note: its keys: name, op, args, epilogue, workload, use, model, shapes, precision, weight, layout, timing, tolerance, target, machine
)yaml");
  EXPECT_EQ(parse("version: 1\ntarget: [cpu]\nbudget: {trials: 1.5, seconds: -1}\ntasks: [{name: , "
                  "op: softmax, args: [1, 2]}]\n")
                .errors,
            R"yaml(tasks.yaml:2:9: error: expected `target` to be a target, found a list
    2 | target: [cpu]
      |         ^
note: write `cpu`, or `{kind: cpu, threads: 1}`
tasks.yaml:3:18: error: expected `trials` to be an integer from 1 to 1000000000, found `1.5`
    3 | budget: {trials: 1.5, seconds: -1}
      |                  ^~~
tasks.yaml:3:32: error: expected `seconds` to be a number above 0, found `-1`
    3 | budget: {trials: 1.5, seconds: -1}
      |                                ^~
tasks.yaml:4:16: error: expected `name` to be a name of letters, digits and `_`, found nothing
    4 | tasks: [{name: , op: softmax, args: [1, 2]}]
      |                ^
note: export makes a C symbol from it
tasks.yaml:4:37: error: expected `args` to be a mapping such as `{M: 128, N: 64}`, found a list
    4 | tasks: [{name: , op: softmax, args: [1, 2]}]
      |                                     ^
)yaml");
  EXPECT_EQ(task_errors("{op: softmax, args: {M: 2, N: [3]}, weigth: 2}"),
            R"yaml(tasks.yaml:3:35: error: expected `N` to be an integer or a type, found a list
    3 |   - {op: softmax, args: {M: 2, N: [3]}, weigth: 2}
      |                                   ^
tasks.yaml:3:41: error: unknown key `weigth` in a task
    3 |   - {op: softmax, args: {M: 2, N: [3]}, weigth: 2}
      |                                         ^~~~~~
note: did you mean `weight`?
tasks.yaml:3:5: error: missing key `name` in a task
    3 |   - {op: softmax, args: {M: 2, N: [3]}, weigth: 2}
      |     ^
note: give the task a name of its own
)yaml");
}

// Names and numbers are those of the search (list_search_test.cc).
TEST(TaskList, TheSearchIsReadAsItIsWritten) {
  Parsed parsed =
      parse("version: 1\nsearch: {strategy: annealing, select: diverse, lambda: 2.5, chains: many}\ntasks: []\n");
  const SearchEntry& search = parsed.list.search;
  EXPECT_EQ(search.strategy.value, "annealing");
  EXPECT_EQ(search.select.value, "diverse");
  EXPECT_FALSE(search.acquisition.given);
  ASSERT_EQ(search.settings.size(), 2u);
  EXPECT_EQ(search.settings[0].value, 2.5);
  EXPECT_EQ(search.settings[1].value, std::nullopt);
  EXPECT_EQ(search.settings[1].text, "`many`");
  EXPECT_EQ(parse("version: 1\nsearch: annealing\ntasks: [{name: s, op: softmax, args: {M: 2, N: 3}}]\n").errors,
            R"yaml(tasks.yaml:2:9: error: expected `search` to be a mapping, found `annealing`
    2 | search: annealing
      |         ^~~~~~~~~
note: write `search: {strategy: annealing}`
)yaml");
}

TEST(TaskList, FormsOfATask) {
  EXPECT_EQ(task_errors("{name: a}"), R"yaml(tasks.yaml:3:5: error: a task needs `op`, `workload` or `model`
    3 |   - {name: a}
      |     ^
note: `op: dense` with `args`, `workload: file.tw` with `use: "name(M = 1)"`, or `model: file.onnx`
)yaml");
  EXPECT_EQ(task_errors("{name: a, op: softmax, workload: a.tw}"),
            R"yaml(tasks.yaml:3:38: error: a task has `op` or `workload`, not both
    3 |   - {name: a, op: softmax, workload: a.tw}
      |                                      ^~~~
)yaml");
  EXPECT_EQ(task_errors("{name: a, workload: a.tw, args: {M: 1}}"),
            R"yaml(tasks.yaml:3:37: error: `args` goes with `op`, not with `workload`
    3 |   - {name: a, workload: a.tw, args: {M: 1}}
      |                                     ^
note: write it in the workload or in `use`
tasks.yaml:3:5: error: missing key `use` in a task
    3 |   - {name: a, workload: a.tw, args: {M: 1}}
      |     ^
note: which workload of the file, as in `use: "name(M = 512)"`
)yaml");
  EXPECT_EQ(task_errors("{name: a, op: softmax, args: {M: 1, N: 2}, use: \"x()\", epilogue: [relu]}"),
            R"yaml(tasks.yaml:3:54: error: `use` goes with `workload`, not with `op`
    3 |   - {name: a, op: softmax, args: {M: 1, N: 2}, use: "x()", epilogue: [relu]}
      |                                                      ^~~
tasks.yaml:3:71: error: `softmax` has no epilogue `relu`
    3 |   - {name: a, op: softmax, args: {M: 1, N: 2}, use: "x()", epilogue: [relu]}
      |                                                                       ^~~~
note: it takes none
)yaml");
}

TEST(TaskList, Operators) {
  EXPECT_EQ(task_errors("{name: a, op: dense}"),
            R"yaml(tasks.yaml:3:19: error: `dense` needs arguments `M`, `N`, `K`
    3 |   - {name: a, op: dense}
      |                   ^~~~~
note: its arguments: M, N, K, T
)yaml");
  EXPECT_EQ(task_errors("{name: a, op: dense, args: {M: 1, N: 2, K: 3, Q: 4}}"),
            R"yaml(tasks.yaml:3:51: error: `dense` has no argument `Q`
    3 |   - {name: a, op: dense, args: {M: 1, N: 2, K: 3, Q: 4}}
      |                                                   ^
note: known: M, N, K, T
)yaml");
  EXPECT_EQ(task_errors("{name: a, op: dense, args: {M: 1, N: 99999999999, K: wide, T: 32}}"),
            R"yaml(tasks.yaml:3:42: error: expected `N` to be an integer from 1 to 2147483647, found `99999999999`
    3 |   - {name: a, op: dense, args: {M: 1, N: 99999999999, K: wide, T: 32}}
      |                                          ^~~~~~~~~~~
tasks.yaml:3:58: error: expected `K` to be an integer from 1 to 2147483647, found `wide`
    3 |   - {name: a, op: dense, args: {M: 1, N: 99999999999, K: wide, T: 32}}
      |                                                          ^~~~
tasks.yaml:3:67: error: expected `T` to be a type, found `32`
    3 |   - {name: a, op: dense, args: {M: 1, N: 99999999999, K: wide, T: 32}}
      |                                                                   ^~
note: known: bool, i8, u8, i32, i64, f16, bf16, f32, f64
)yaml");
  EXPECT_EQ(task_errors("{name: a, op: dense, args: {M: 1, M: 2, N: 3, K: \"4\"}}"),
            R"yaml(tasks.yaml:3:39: error: key `M` is given twice
    3 |   - {name: a, op: dense, args: {M: 1, M: 2, N: 3, K: "4"}}
      |                                       ^
note: remove one of them
tasks.yaml:3:55: error: expected `K` to be an integer or a type, found the text "4"
    3 |   - {name: a, op: dense, args: {M: 1, M: 2, N: 3, K: "4"}}
      |                                                       ^
note: leave the quotes away
)yaml");
  EXPECT_EQ(task_errors("{name: a, op: sort, args: {M: 1}}"),
            R"yaml(tasks.yaml:3:19: error: unknown operator `sort`
    3 |   - {name: a, op: sort, args: {M: 1}}
      |                   ^~~~
note: known: dense, conv2d, softmax
)yaml");
}

TEST(TaskList, TextThatIsNotYaml) {
  EXPECT_EQ(parse("").errors, R"yaml(tasks.yaml:1:1: error: the file is empty
    1 | 
      | ^
)yaml");
  EXPECT_EQ(parse("version: 1\ntasks: [{name: a\n").errors,
            R"yaml(tasks.yaml:3:1: error: not valid YAML: end of map flow not found
    3 | 
      | ^
)yaml");
  EXPECT_EQ(parse("version: 1\n\ttasks: []\n").errors,
            R"yaml(tasks.yaml:2:1: error: not valid YAML: illegal tab when looking for indentation
    2 | 	tasks: []
      | ^
)yaml");
  EXPECT_EQ(parse("version: 1\ndatabase: \"tuning.db\n").errors,
            R"yaml(tasks.yaml:2:11: error: the text in quotes does not end
    2 | database: "tuning.db
      |           ^~~~~~~~~~
)yaml");
  EXPECT_EQ(parse("version: 1\ntasks: &all []\nmodules: *all\n").errors,
            R"yaml(tasks.yaml:3:10: error: aliases such as `*name` are not supported; write the value out
    3 | modules: *all
      |          ^~~~
)yaml");
  EXPECT_EQ(parse("version: 1\n---\nversion: 1\n").errors,
            R"yaml(tasks.yaml:2:1: error: expected one YAML document, found another one
    2 | ---
      | ^~~
)yaml");
  EXPECT_EQ(parse("\xef\xbb\xbfverson: 1\ntasks: 3\n").errors,
            R"yaml(tasks.yaml:1:4: error: unknown key `verson` in the task list
    1 | \ufeffverson: 1
      |       ^~~~~~
note: did you mean `version`?
tasks.yaml:2:8: error: expected `tasks` to be a list of at least one task, found `3`
    2 | tasks: 3
      |        ^
note: `- {name: mm, op: matmul, args: {M: 64, N: 64, K: 64}}`
)yaml");
  EXPECT_EQ(parse("version: 1\r\ntasks:\r\n  - {name: s, op: softmax, args: {M: 2, N: 3}}\r\n").list.tasks.size(), 1u);
  EXPECT_NE(parse("tasks: " + std::string(5000, '[')).errors.find("nested too deeply"), std::string::npos);
}

// Any change of a good file gives a list or errors with places inside the text, never a crash.
TEST(TaskList, DamagedTextsAreSurvived) {
  std::string good =
      "version: 1\ntarget: {kind: cpu, threads: 1}\nbudget: {trials: 4}\ntasks:\n"
      "  - {name: a, op: dense, args: {M: 1, N: 2, K: 3}, epilogue: [bias]}\n  - {name: b, "
      "workload: 'f.tw', use: \"g(1)\"}\n";
  ASSERT_EQ(parse(good).errors.size(), 0u);
  const std::string alphabet = "[]{}:,-\"'#&*!|>%@`\n\t 1a\xff\x00\\";
  Rng rng(3);
  int refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::string text = good;
    for (i64 edit = 0, edits = 1 + rng.below(3); edit < edits; ++edit) {
      text[static_cast<std::size_t>(rng.below(static_cast<i64>(text.size())))] =
          alphabet[static_cast<std::size_t>(rng.below(static_cast<i64>(alphabet.size())))];
    }
    Source source{"t", text};
    Diagnostics diagnostics(source);
    TaskList list = parse_task_list(diagnostics);
    check_tasks(list, operators(), diagnostics);
    refused += diagnostics.has_errors();
    for (const Diagnostic& diagnostic : diagnostics.all()) ASSERT_LE(diagnostic.span.begin, text.size()) << text;
  }
  EXPECT_GT(refused, 1500);
}

}  // namespace
}  // namespace tw

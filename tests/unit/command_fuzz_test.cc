// Whole commands on damaged files: whatever a module, a trace, a list or a database says, a command answers within a
// minute, in less than 1 GiB, and neither by a signal nor as a bug. Some cases in every test run; TW_SECONDS=1800 goes
// on for so long, TW_SEED=n runs one case again, TW_PROGRAM=path asks another build.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <thread>

#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "dsl/ir/print.h"
#include "dsl/text/workload.h"
#include "runtime/store/database.h"
#include "runtime/store/trace_file.h"
#include "support/parsed.h"
#include "support/processes.h"
#include "support/run_program.h"
#include "support/support.h"

namespace tw {
namespace {

using test::Finished;
namespace fs = std::filesystem;

struct Limits {
  double seconds = 60;  // of processor time, so that a busy machine makes no finding; what waits instead is ended after
                        // ten times as much of the clock
  long kilobytes = 1 << 20;
};

// ---- damage

// Names, numbers, texts and signs, with the white space and comments between them.
std::vector<std::string> tokens_of(const std::string& text) {
  auto kind = [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.' ? 1 : std::isspace(c) ? 2 : 0; };
  std::vector<std::string> out;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i + 1;
    if (int k = kind(static_cast<unsigned char>(text[i]))) {
      while (end < text.size() && kind(static_cast<unsigned char>(text[end])) == k) ++end;
    } else if (text[i] == '"') {
      while (end < text.size() && text[end - (end > i + 1)] != '"' && text[end] != '\n') ++end;
      end = std::min(end + 1, text.size());
    }
    out.push_back(text.substr(i, end - i));
    i = end;
  }
  return out;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line + "\n");
  return lines;
}

std::string joined(const std::vector<std::string>& parts) {
  std::string out;
  for (const std::string& part : parts) out += part;
  return out;
}

const std::string& one_of(const std::vector<std::string>& all, Rng& rng) {
  return all[static_cast<std::size_t>(rng.below(static_cast<i64>(all.size())))];
}

const std::vector<std::string> kNumbers = {"0",
                                           "1",
                                           "-1",
                                           "2",
                                           "3",
                                           "7",
                                           "31",
                                           "64",
                                           "255",
                                           "4096",
                                           "65536",
                                           "1000003",
                                           "2147483647",
                                           "2147483648",
                                           "4611686018427387904",
                                           "9223372036854775807",
                                           "-9223372036854775808",
                                           "99999999999999999999",
                                           "0.5",
                                           "1e300",
                                           "1e-300"};

bool is_number(const std::string& token) { return std::isdigit(static_cast<unsigned char>(token[0])) != 0; }
bool is_name(const std::string& token) { return std::isalpha(static_cast<unsigned char>(token[0])) || token[0] == '_'; }

void change_token(std::vector<std::string>& tokens, const std::vector<std::string>& others, Rng& rng) {
  std::vector<std::size_t> places;
  bool numbers = rng.below(2) == 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (numbers ? is_number(tokens[i]) : !std::isspace(static_cast<unsigned char>(tokens[i][0]))) places.push_back(i);
  }
  if (places.empty()) return;
  std::size_t at = places[static_cast<std::size_t>(rng.below(static_cast<i64>(places.size())))];
  if (numbers) {
    tokens[at] = one_of(kNumbers, rng);
  } else if (is_name(tokens[at])) {
    std::vector<std::string> names;
    const std::vector<std::string>& from = rng.below(5) ? tokens : others;
    std::copy_if(from.begin(), from.end(), std::back_inserter(names), is_name);
    if (names.empty()) return;
    tokens[at] = one_of(names, rng);
  } else if (rng.below(2)) {
    tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(at));
  } else {
    tokens[at] = one_of(others, rng);
  }
}

// A line of another text with names that this one has: else hardly one would get further than the parser.
std::string adopted(const std::string& line, const std::vector<std::string>& tokens, Rng& rng) {
  std::vector<std::string> out = tokens_of(line), names;
  std::copy_if(tokens.begin(), tokens.end(), std::back_inserter(names), is_name);
  std::size_t equals = line.find(" = ");
  std::size_t at = 0;
  for (std::size_t i = 0; i < out.size(); at += out[i].size(), ++i) {
    bool is_result = equals != std::string::npos && at < equals, is_called = i + 1 < out.size() && out[i + 1] == "(";
    if (is_name(out[i]) && !is_result && !is_called && !names.empty()) out[i] = one_of(names, rng);
  }
  return joined(out);
}

// The same line with other names for its results, of which a trace has each once.
std::string repeated(const std::string& line, i64 number) {
  std::size_t equals = line.find(" = ");
  if (equals == std::string::npos) return line;
  std::vector<std::string> results = tokens_of(line.substr(0, equals));
  for (std::string& token : results) {
    if (is_name(token)) token += cat("_", number);
  }
  return joined(results) + line.substr(equals);
}

void change_line(std::vector<std::string>& lines, const std::vector<std::string>& others, Rng& rng) {
  auto place = [&] { return static_cast<std::ptrdiff_t>(rng.below(static_cast<i64>(lines.size()))); };
  std::ptrdiff_t at = place();
  switch (rng.below(5)) {
    case 0:
      lines.erase(lines.begin() + at);
      break;
    case 1:
      std::swap(lines[static_cast<std::size_t>(at)], lines[static_cast<std::size_t>(place())]);
      break;
    case 2:
      lines.insert(lines.begin() + at, adopted(one_of(others, rng), tokens_of(joined(lines)), rng));
      break;
    case 3: {
      std::string line = lines[static_cast<std::size_t>(at)];
      lines.insert(lines.begin() + place(), line);
      break;
    }
    default: {
      std::string line = lines[static_cast<std::size_t>(at)];
      for (i64 i = rng.below(2) ? 100 : 3; i > 0; --i) lines.insert(lines.begin() + at, repeated(line, i));
    }
  }
  if (lines.empty()) lines.emplace_back("\n");
}

// Some tokens and lines of a text changed; `other` is a text of the same kind to take from.
std::string damaged(const std::string& text, const std::string& other, Rng& rng) {
  std::string out = text;
  for (i64 changes = 1 + rng.below(3); changes > 0; --changes) {
    if (out.empty()) return other;
    if (rng.below(5) < 3) {
      std::vector<std::string> tokens = tokens_of(out);
      change_token(tokens, tokens_of(other), rng);
      out = joined(tokens);
    } else {
      std::vector<std::string> lines = lines_of(out);
      change_line(lines, lines_of(other), rng);
      out = joined(lines);
    }
  }
  return out;
}

// ---- the files that are damaged

std::vector<std::string> texts_of(const std::string& folder, const std::string& beginning, const std::string& end) {
  std::vector<fs::path> paths;
  for (const auto& entry : fs::directory_iterator(fs::path(TW_SOURCE_DIR) / folder)) {
    std::string name = entry.path().filename();
    if (name.starts_with(beginning) && name.ends_with(end)) paths.push_back(entry.path());
  }
  std::sort(paths.begin(), paths.end());
  std::vector<std::string> out;
  for (const fs::path& path : paths) out.push_back(test::read_file(path));
  return out;
}

const std::vector<std::string>& traces() {
  static const std::vector<std::string> all = texts_of("tests/corpus", "", ".tw");
  return all;
}

const std::vector<std::string>& modules() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out = texts_of("rules", "", ".tw");
    out.push_back(test::read_file(TW_SOURCE_DIR "/examples/my_rules.tw"));
    // Instructions that the built-in rules rarely need, and drawn numbers in them.
    out.push_back(
        "rule tile(b: block)\n  when is_reduction(b)\n{\n  i = loops(b)[0]\n  t = sample_categorical([1, 2, 4])\n  i0, "
        "i1 = split(i, [_, t])\n  k = loops(b)[-1]\n"
        "  promote(b, 0, k)\n  either { unroll(i1) } or { try { vectorize(i1) } }\n  u = add_unit_loop(i0)\n  "
        "parallel(u)\n}\n"
        "rule cache(b: block)\n  when is_reduction(b)\n{\n  q = cache_read(b, 0, \"global\")\n  transform_layout(q, 0, "
        "\"write\", (a, c) -> (c, a))\n  compute_at(q, loops(b)[0])\n"
        "  w = cache_write(b, 0, \"global\")\n  maybe { reverse_compute_at(w, loops(b)[0]) }\n  pad_einsum(b, [4, 4, "
        "4])\n  rfactor(loops(b)[-1], 0)\n}\n");
    return out;
  }();
  return all;
}

const std::vector<std::string>& lists() {
  static const std::vector<std::string> all = {
      test::kGemmAndRows,
      "version: 1\ntarget: {kind: cpu, threads: 2, vector_bits: 256}\nbudget: {trials: 2, seconds: 5}\ndatabase: "
      "small.db\nseed: 3\nmodules: [m.tw]\nrules: cpu\ntasks:\n"
      "  - {name: c, op: conv2d, args: {N: 1, H: 8, W: 8, CI: 4, CO: 8, K: 3, stride: 2, padding: 1}, epilogue: [bias, "
      "relu], weight: 4, layout: free}\n"
      "  - {name: own, workload: w.tw, use: \"banded(M = 32, B = 4)\", tolerance: [1e-2, 1e-2]}\n",
      "version: 1\ntarget: {kind: cuda, arch: sm_80, shared_bytes: 49152}\nbudget: {trials: 2, seconds: 5}\ntasks:\n  "
      "- {name: g, op: matmul, args: {M: 16, N: 16, K: 16}}\n",
      "version: 1\ntarget: cpu -threads=1\nmodules: [{file: m.tw, before: parallelize}]\ntasks:\n  - {name: d, op: "
      "dense, args: {M: 8, N: 12, K: 10}, epilogue: [bias, gelu]}\n",
  };
  return all;
}

// ---- commands

struct Case {
  std::vector<std::string> words;
  std::vector<std::pair<std::string, std::string>> files;
  bool may_be_wrong =
      false;  // a damaged program may leave elements of its outputs unwritten, or read what it has not written
};

struct Answer {
  Finished finished;
  std::string problem;  // "" if the command kept what is promised
};

void kill_tree(pid_t process) {
  kill(process, SIGSTOP);
  for (pid_t child : test::children_of(process)) kill_tree(child);
  kill(process, SIGKILL);
}

struct Use {
  long kilobytes = 0;  // of that process which has most
  double seconds = 0;  // of processor time, together
};

// Of a process and those that it has started.
Use use_of(pid_t process) {
  Use use;
  std::ifstream status(cat("/proc/", process, "/status")), stat(cat("/proc/", process, "/stat"));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) use.kilobytes = std::stol(line.substr(8));
  }
  std::string text;
  std::getline(stat, text);  // empty if the process has ended meanwhile
  std::istringstream fields(text.substr(std::min(text.find(')') + 1, text.size())));
  std::string field;
  for (int i = 3; i <= 17 && fields >> field; ++i) {  // from the state on; 14 to 17 are times in ticks
    if (i >= 14) use.seconds += std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
  }
  for (pid_t child : test::children_of(process)) {
    Use of_child = use_of(child);
    use.kilobytes = std::max(use.kilobytes, of_child.kilobytes);
    use.seconds += of_child.seconds;
  }
  return use;
}

// "" once the process has ended by itself.
std::string watch(pid_t process, const Limits& limits) {
  auto start = std::chrono::steady_clock::now();
  for (;;) {
    siginfo_t ended{};
    if (waitid(P_PID, static_cast<id_t>(process), &ended, WEXITED | WNOHANG | WNOWAIT) != 0 || ended.si_pid == process)
      return "";
    std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    std::string problem;
    Use use = use_of(process);
    if (use.kilobytes > limits.kilobytes) problem = cat("takes ", use.kilobytes >> 10, " MiB");
    if (use.seconds > limits.seconds || passed.count() > 10 * limits.seconds) problem = "gives no answer";
    if (!problem.empty()) return kill_tree(process), problem;
    std::this_thread::sleep_for(std::chrono::milliseconds(passed.count() < 1 ? 2 : 20));
  }
}

Answer ask(const std::vector<std::string>& words, const std::string& folder, bool may_be_wrong,
           const Limits& limits = {}) {
  Answer answer;
  answer.finished =
      test::run_program(words, {.folder = folder, .meanwhile = [&](int pid) { answer.problem = watch(pid, limits); }});
  int code = answer.finished.code;
  if (answer.problem.empty() && code >= 128) answer.problem = cat("ends by signal ", code - 128);
  if (answer.problem.empty() && (code < 0 || code > 4)) answer.problem = cat("ends with exit code ", code);
  if (answer.problem.empty() && code == 4 && !may_be_wrong) answer.problem = "says that a kernel is wrong";
  return answer;
}

// What stands behind the program of a trace file.
std::size_t schedule_of(const std::string& text) { return std::min(text.find("schedule {"), text.size()); }

Case trace_case(Rng& rng) {
  Case out;
  const std::string &text = one_of(traces(), rng), &other = one_of(traces(), rng);
  out.may_be_wrong = rng.below(3) == 0;
  std::size_t kept = out.may_be_wrong ? 0 : schedule_of(text);
  out.files = {{"t.tw", text.substr(0, kept) + damaged(text.substr(kept), other.substr(schedule_of(other)), rng)}};
  const std::vector<std::vector<std::string>> commands = {
      {"replay", "t.tw"},
      {"replay", "t.tw", "--hash", "--json"},
      {"replay", "t.tw", "--check"},
      {"replay", "t.tw", "--emit", "ir"},
      {"replay", "t.tw", "--emit", "source"},
      {"replay", "t.tw", "--target", "cuda -arch=sm_80", "--emit", "source"},
      {"reduce", "t.tw", "--seconds", "2", "--runs", "60"},
      {"export", "t.tw", "--output", "out"},
      {"replay", "t.tw", "--target", "cpu -threads=2", "--check"}};
  out.words = commands[static_cast<std::size_t>(rng.below(static_cast<i64>(commands.size())))];
  return out;
}

Case module_case(Rng& rng) {
  Case out;
  out.files = {{"m.tw", damaged(one_of(modules(), rng), one_of(modules(), rng), rng)},
               {"l.yaml",
                "version: 1\ntarget: {kind: cpu, threads: 1}\nbudget: {trials: 2, seconds: 5}\ndatabase: "
                "l.db\nmodules: [m.tw]\ntasks:\n  - {name: g, op: matmul, args: {M: 48, N: 32, K: 16}}\n"}};
  const std::vector<std::vector<std::string>> commands = {
      {"check", "m.tw", "--op", "dense", "--draws", "4"},
      {"check", "m.tw", "--op", "softmax", "--draws", "4"},
      {"check", "m.tw", "--op", "conv2d", "--draws", "2", "--target", "cuda -arch=sm_80"},
      {"space", "l.yaml"},
      {"explain", "l.yaml", "--draws", "10"},
      {"tune", "l.yaml"}};
  out.words = commands[static_cast<std::size_t>(rng.below(static_cast<i64>(commands.size())))];
  return out;
}

Case list_case(Rng& rng) {
  Case out;
  bool is_workload = rng.below(3) == 0;
  const std::string workloads = test::read_file(TW_SOURCE_DIR "/examples/my_workloads.tw");
  const std::string& list = is_workload ? lists()[1] : one_of(lists(), rng);
  out.files = {{"l.yaml", is_workload ? list : damaged(list, one_of(lists(), rng), rng)},
               {"m.tw", test::read_file(TW_SOURCE_DIR "/examples/my_rules.tw")},
               {"w.tw", is_workload ? damaged(workloads, test::read_file(TW_SOURCE_DIR "/dsl/te/operators.tw"), rng)
                                    : workloads}};
  const std::vector<std::vector<std::string>> commands = {{"space", "l.yaml"},
                                                          {"explain", "l.yaml", "--draws", "5"},
                                                          {"tune", "l.yaml", "--dry-run"},
                                                          {"tune", "l.yaml", "--seconds", "5", "--trials", "2"},
                                                          {"replay", "l.yaml"},
                                                          {"export", "l.yaml", "--output", "out"}};
  out.words = commands[static_cast<std::size_t>(rng.below(static_cast<i64>(commands.size())))];
  return out;
}

// A database whose only record holds a damaged trace.
void make_database(const std::string& path, const std::string& trace_file, Rng& rng) {
  TraceFile file = test::parsed_trace_file(trace_file);
  fs::remove(path);
  DatabaseResult<Database> database = Database::open(path, DatabaseMode::Write);
  ASSERT_TRUE(database) << database.error();
  std::string workload = to_hex(structural_hash(file.program.program)), trace = file.trace.print();
  ASSERT_TRUE(database->add_workload(workload, rng.below(3)
                                                   ? workload_text(file.program.program)
                                                   : damaged(workload_text(file.program.program), trace, rng)));
  ASSERT_TRUE(database->add_record({.workload = workload,
                                    .target = file.target,
                                    .status = "ok",
                                    .seconds = 1e-6,
                                    .task = "t",
                                    .program = workload,
                                    .trace = damaged(trace, trace, rng)}));
}

Case database_case(Rng& rng, const std::string& folder) {
  make_database(folder + "/d.db", one_of(traces(), rng), rng);
  const std::vector<std::vector<std::string>> commands = {
      {"show", "d.db"},       {"show", "d.db", "--best", "t"},
      {"explain", "d.db"},    {"replay", "--record", "1", "--database", "d.db"},
      {"db", "best", "d.db"}, {"db", "export", "d.db"},
      {"report", "d.db"}};
  return {commands[static_cast<std::size_t>(rng.below(static_cast<i64>(commands.size())))], {}};
}

// Everything of a case follows from its number.
void run_case(i64 number) {
  test::TemporaryDirectory folder;
  Rng rng(21, static_cast<u64>(number));
  i64 kind = rng.below(10);
  Case made = kind < 4   ? trace_case(rng)
              : kind < 7 ? module_case(rng)
              : kind < 9 ? list_case(rng)
                         : database_case(rng, folder.path());
  for (const auto& [name, text] : made.files) test::write_file(folder.path() + "/" + name, text);
  const char* another = std::getenv("TW_PROGRAM");
  std::vector<std::string> words{another ? another : TW_BINARY_DIR "/tracewright"};
  words.insert(words.end(), made.words.begin(), made.words.end());
  Answer answer = ask(words, folder.path(), made.may_be_wrong);
  if (answer.problem.empty()) return;
  std::string kept = cat(fs::temp_directory_path().string(), "/tracewright_finding_", number);
  fs::remove_all(kept);
  fs::copy(folder.path(), kept, fs::copy_options::recursive);
  ADD_FAILURE() << "TW_SEED=" << number << ": in " << kept << ": tracewright " << join(made.words, " ") << "\n  "
                << answer.problem << "\n"
                << answer.finished.err.substr(0, 2000);
}

// Also of processes that the command has started.
TEST(Commands, ThatBreakTheirPromisesAreNoticed) {
  test::TemporaryDirectory folder;
  auto problem = [&](const std::string& script, bool may_be_wrong = false) {
    return ask({"sh", "-c", script}, folder.path(), may_be_wrong, {.seconds = 0.5, .kilobytes = 50 << 10}).problem;
  };
  EXPECT_EQ(problem("exit 2"), "");
  EXPECT_EQ(problem("kill -ABRT $$"), "ends by signal 6");
  EXPECT_EQ(problem("exit 134"), "ends by signal 6");
  EXPECT_EQ(problem("exit 5"), "ends with exit code 5");
  EXPECT_EQ(problem("exit 4"), "says that a kernel is wrong");
  EXPECT_EQ(problem("exit 4", true), "");
  EXPECT_EQ(problem("(while :; do :; done); exit 0"), "gives no answer");
  EXPECT_EQ(problem("sleep 100"), "gives no answer");
  EXPECT_TRUE(problem("head -c 300000000 /dev/zero | tail | wc -c; exit 0").starts_with("takes "))
      << "of the memory of a child";
}

TEST(Commands, AnswerWhateverTheirFilesSay) {
  test::Seeds seeds = test::seeds_from_environment(40);
  i64 seconds = test::from_environment("TW_SECONDS", 0);
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  i64 number = seeds.first;
  for (; seconds > 0 ? std::chrono::steady_clock::now() < end : number < seeds.end; ++number) run_case(number);
  std::printf("%lld commands, from case %lld on\n", static_cast<long long>(number - seeds.first),
              static_cast<long long>(seeds.first));
}

}  // namespace
}  // namespace tw

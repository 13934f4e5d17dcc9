// A fuzzer of the ONNX importer that changes models by their meaning (mutate_model.h). Inputs run in children, so that
// a crash, 10 s of processor time for one input or 2 GiB of memory are findings; inputs whose problems or
// operators are new are changed further.
//   fuzz_onnx SECONDS FOLDER [SEED]   exit code 1 after findings, whose inputs are then in FOLDER
//   fuzz_onnx FILE...                 runs these inputs, in this process
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cctype>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "dsl/base/check.h"
#include "tests/fuzz/mutate_model.h"
#include "tests/fuzz/onnx_target.h"

namespace {

namespace fs = std::filesystem;
using tw::i64, tw::u64, tw::u8;

constexpr std::size_t kMostBytes = 1 << 16, kMostInputs = 20000, kPlaces = 1 << 16, kArena = std::size_t{1} << 28;
constexpr i64 kInputsPerChild = 2000, kSeconds = 10, kMostMemory = i64{2} << 30;
constexpr int kMostFindings = 50;

// Of all children and their parent.
struct Shared {
  u64 executed, imported;
  u8 seen[kPlaces];  // outcomes, by their hash
  double slowest;    // seconds of processor time
  std::size_t inputs, used, next_seed;
  struct Input {
    std::size_t at, size;
  } of[kMostInputs];
  std::size_t size;  // of the input that runs
  char running[kMostBytes];
  char arena[kArena];
};
Shared* shared = nullptr;

void keep(const std::string& input) {
  if (shared->inputs == kMostInputs || shared->used + input.size() > kArena) return;
  std::memcpy(shared->arena + shared->used, input.data(), input.size());
  shared->of[shared->inputs++] = {shared->used, input.size()};
  shared->used += input.size();
}

std::string kept(std::size_t index) {
  const Shared::Input& input = shared->of[index];
  return {shared->arena + input.at, input.size};
}

// One half are of the newest ones.
std::string any_kept(tw::Rng& rng) {
  auto all = static_cast<i64>(shared->inputs), newest = std::min<i64>(all, 50);
  return kept(static_cast<std::size_t>(rng.below(2) == 0 ? all - 1 - rng.below(newest) : rng.below(all)));
}

using Imported = std::variant<tw::graph::Graph, tw::graph::ImportProblems>;

// As a user does; a file of data lies beside the model.
Imported run(const std::string& input, const fs::path& folder) {
  fs::path path = folder / "model.onnx";
  std::ofstream(path, std::ios::binary) << input;
  Imported imported = tw::graph::import_onnx(path.string());
  tw::fuzz::use_import(imported);
  return imported;
}

// Problems without numbers and names, and pairs of operators that follow one another.
std::vector<std::string> outcomes(const Imported& imported) {
  std::vector<std::string> found;
  if (auto* problems = std::get_if<tw::graph::ImportProblems>(&imported)) {
    for (const std::string& line : problems->lines) {
      std::string words;
      bool is_name = false;
      for (char c : line) {
        if (c == '`') is_name = !is_name;
        if (!is_name && std::isdigit(static_cast<unsigned char>(c)) == 0) words += c;
      }
      found.push_back(words);
    }
    return found;
  }
  std::string before;
  for (const tw::graph::Node& node : std::get<tw::graph::Graph>(imported).nodes)
    found.push_back(before + " " + node.op), before = node.op;
  return found;
}

double processor_time() {
  rusage used{};
  getrusage(RUSAGE_SELF, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

bool is_new(const std::vector<std::string>& found) {
  bool has_new = false;
  for (const std::string& outcome : found) {
    u8& seen = shared->seen[std::hash<std::string>()(outcome) % kPlaces];
    has_new = has_new || !seen;
    seen = 1;
  }
  return has_new;
}

// Whether it did what no other input did.
bool run_noted(const std::string& input, const fs::path& folder) {
  shared->size = input.size();
  std::memcpy(shared->running, input.data(), input.size());
  itimerval limit{{}, {kSeconds, 0}};
  setitimer(ITIMER_PROF, &limit, nullptr);  // SIGPROF ends the child
  alarm(60);                                // and this one that waits, rather than computes
  double before = processor_time();
  Imported imported = run(input, folder);
  shared->imported += std::holds_alternative<tw::graph::Graph>(imported);
  shared->slowest = std::max(shared->slowest, processor_time() - before);
  ++shared->executed;
  return is_new(outcomes(imported));
}

// A child: the seeds as they are, then changed inputs, until it has run enough or the time is over.
[[noreturn]] void run_many(u64 seed, u64 number, std::size_t seeds, const fs::path& folder,
                           std::chrono::steady_clock::time_point end) {
  rlimit memory{kMostMemory, kMostMemory}, core{0, 0};
  setrlimit(RLIMIT_AS, &memory);
  setrlimit(RLIMIT_CORE, &core);
  if (!std::freopen((folder / "stderr").c_str(), "w", stderr)) std::_Exit(2);
  tw::Rng rng(seed, number);
  for (i64 i = 0; i < kInputsPerChild && std::chrono::steady_clock::now() < end; ++i) {
    bool is_seed = shared->next_seed < seeds;
    std::string input =
        is_seed ? kept(shared->next_seed++) : tw::fuzz::mutated_model(any_kept(rng), any_kept(rng), rng);
    if (input.size() > kMostBytes) continue;
    if (run_noted(input, folder) && !is_seed) keep(input);
  }
  std::_Exit(0);
}

void note_finding(int status, const fs::path& folder, const fs::path& findings, int number) {
  fs::path path = findings / ("onnx_models-" + std::to_string(number) + ".onnx");
  std::ofstream(path, std::ios::binary).write(shared->running, static_cast<std::streamsize>(shared->size));
  std::ostringstream said;
  said << std::ifstream(folder / "stderr").rdbuf();
  std::string text = said.str(), why = "exit code " + std::to_string(WEXITSTATUS(status));
  if (WIFSIGNALED(status))
    why = WTERMSIG(status) == SIGPROF ? "more than 10 s of processor time" : strsignal(WTERMSIG(status));
  if (text.size() > 500) text = text.substr(text.size() - 500);
  std::printf("finding %s: %s\n%s\n", path.c_str(), why.c_str(), text.c_str());
  std::fflush(stdout);
}

int fuzz(i64 seconds, const fs::path& findings, u64 seed) {
  void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return std::perror("mmap"), 2;
  shared = static_cast<Shared*>(memory);
  fs::path folder = fs::temp_directory_path() / ("fuzz_onnx_" + std::to_string(getpid()));
  fs::create_directories(folder);
  fs::create_directories(findings);
  std::ofstream(folder / "weights.bin") << std::string(64, 'x');
  for (const std::string& input : tw::fuzz::onnx_seeds()) keep(input);
  for (const std::string& input : tw::fuzz::onnx_test_files(8192)) keep(input);
  std::size_t seeds = shared->inputs;
  auto end = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  int found = 0;
  for (u64 number = 0; found < kMostFindings && std::chrono::steady_clock::now() < end; ++number) {
    pid_t child = fork();
    if (child < 0) return std::perror("fork"), 2;
    if (child == 0) run_many(seed, number, seeds, folder, end);
    int status = 0;
    waitpid(child, &status, 0);
    if (status != 0) note_finding(status, folder, findings, found++);
  }
  fs::remove_all(folder);
  std::printf(
      "number_of_executed_units: %llu, of which %llu were imported; %zu seeds, %zu inputs kept; slowest: %.1f s; "
      "findings: %d\n",
      static_cast<unsigned long long>(shared->executed), static_cast<unsigned long long>(shared->imported), seeds,
      shared->inputs, shared->slowest, found);
  return found == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  char* end = nullptr;
  i64 seconds = argc > 1 ? std::strtoll(argv[1], &end, 10) : 0;
  if (argc > 2 && *end == '\0') return fuzz(seconds, argv[2], argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 1);
  fs::path folder = fs::temp_directory_path() / ("fuzz_onnx_" + std::to_string(getpid()));
  fs::create_directories(folder);
  std::ofstream(folder / "weights.bin") << std::string(64, 'x');
  for (int i = 1; i < argc; ++i) {
    std::ostringstream text;
    text << std::ifstream(argv[i], std::ios::binary).rdbuf();
    double before = processor_time();
    bool is_imported = std::holds_alternative<tw::graph::Graph>(run(text.str(), folder));
    std::printf("%s: %s, %.1f s\n", argv[i], is_imported ? "imported" : "refused", processor_time() - before);
  }
  fs::remove_all(folder);
}

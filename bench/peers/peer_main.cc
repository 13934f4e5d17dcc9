// tracewright-peer-LIBRARY [--threads N] [--vector-bits 256] [--cpus LIST]: one library in a
// process of its own, driven line by line on standard input and output. Requests and answers:
//   (start)        ready VERSION
//   prepare {"op", "args", "epilogue", "inputs": [{"file", "elements"}]}
//                  ok FLOPS OUTPUT_ELEMENTS HOW | unsupported WHY | error WHY
//   sample CALLS   ok NANOSECONDS of all calls; one more call comes first, outside the time
//   output FILE    ok; the latest result is in the file
//   quit           exits 0; so does the end of the input
// Files are mapped: f32, row-major; see operators.h for layouts.
#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json/src.hpp>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iomanip>
#include <iostream>
#include <limits>
#include <sstream>

#include "bench/peers/library.h"

namespace tw::peers {

double sample(Library& library, i64 calls) {
  library.run();
  const auto begin = std::chrono::steady_clock::now();
  for (i64 call = 0; call < calls; ++call) library.run();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

std::size_t fastest_of(Library& library, std::size_t ways, std::size_t* choice) {
  std::vector<double> best(ways, std::numeric_limits<double>::max());
  for (int round = 0; round < 7 && ways > 1; ++round) {
    for (*choice = 0; *choice < ways; ++*choice) {
      const i64 calls = round == 0 ? 1 : std::max<i64>(1, static_cast<i64>(1e6 / best[*choice]));
      best[*choice] = std::min(best[*choice], sample(library, calls) / static_cast<double>(calls));
    }
  }
  return std::min_element(best.begin(), best.end()) - best.begin();
}

namespace {

struct Options {
  int threads = 1;
  int vector_bits = 0;    // 0: as wide as the CPU has them; 256: AVX2 even where there is more
  std::vector<int> cpus;  // empty: the first `threads` of those allowed
};

bool parse(int argc, char** argv, Options* options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i];
    char* rest = argv[i + 1];
    if (name == "--threads") {
      options->threads = static_cast<int>(std::strtol(rest, &rest, 10));
    } else if (name == "--vector-bits") {
      options->vector_bits = static_cast<int>(std::strtol(rest, &rest, 10));
    } else if (name == "--cpus") {
      do options->cpus.push_back(static_cast<int>(std::strtol(rest + (*rest == ','), &rest, 10)));
      while (*rest == ',');
    } else {
      return false;
    }
    if (*rest != '\0') return false;
  }
  return argc % 2 == 1 && options->threads >= 1;
}

std::vector<int> allowed_cpus() {
  cpu_set_t set;
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

void pin(const Options& options) {
  std::vector<int> cpus = options.cpus.empty() ? allowed_cpus() : options.cpus;
  if (options.cpus.empty() && cpus.size() > static_cast<std::size_t>(options.threads)) cpus.resize(options.threads);
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int cpu : cpus) CPU_SET(cpu, &set);
  if (sched_setaffinity(0, sizeof set, &set) != 0) std::cerr << "cannot pin to the cores asked for\n";
}

struct Setting {
  const char* variable;
  const char* value;
};

// Which of its kernels a library uses. They find that out themselves, but OpenBLAS 0.3.21 and BLIS
// 0.9 take AMD's AVX-512 CPUs for old ones, though they have the right kernels: with those of
// SkylakeX they are twice (BLIS: six times) as fast on Zen 5.
std::vector<Setting> kernel_choice([[maybe_unused]] int vector_bits) {
#ifdef __x86_64__
  if (vector_bits == 256) {
    return {{"OPENBLAS_CORETYPE", "Haswell"},
            {"BLIS_ARCH_TYPE", "3"},
            {"DNNL_MAX_CPU_ISA", "AVX2"},
            {"ATEN_CPU_CAPABILITY", "avx2"}};
  }
  const bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (wide && __builtin_cpu_is("amd")) return {{"OPENBLAS_CORETYPE", "SkylakeX"}, {"BLIS_ARCH_TYPE", "0"}};
#endif
  return {};
}

// A comparison must not depend on what somebody's shell happens to say about these libraries.
void clear_settings() {
  std::vector<std::string> names;
  for (char** entry = environ; *entry; ++entry) {
    const std::string name(*entry, std::strcspn(*entry, "="));
    for (const char* prefix : {"OPENBLAS_", "BLIS_", "DNNL_", "ONEDNN_", "ATEN_", "OMP_", "GOMP_", "MKL_", "GOTO_"}) {
      if (name.starts_with(prefix)) names.push_back(name);
    }
  }
  for (const std::string& name : names) unsetenv(name.c_str());
}

// Libraries read their thread count when they are loaded, before main; so this process starts
// itself once more with the right environment and affinity. Does nothing in the second life.
void restart_with_environment(const Options& options, char** argv) {
  static const char* const kMark = "TRACEWRIGHT_PEER_READY";
  if (std::getenv(kMark)) return;
  pin(options);
  clear_settings();
  const std::string threads = std::to_string(options.threads);
  for (const char* name : {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS", "MKL_NUM_THREADS"}) {
    setenv(name, threads.c_str(), 1);
  }
  for (const Setting& setting : kernel_choice(options.vector_bits)) setenv(setting.variable, setting.value, 1);
  setenv("OMP_DYNAMIC", "false", 1);
  setenv("OMP_PROC_BIND", "true", 1);
  setenv(kMark, "1", 1);
  execv("/proc/self/exe", argv);
  std::cerr << "cannot restart: " << std::strerror(errno) << "\n";
  std::exit(1);
}

// A file mapped for as long as this lives.
class Mapping {
 public:
  Mapping(const std::string& file, std::size_t bytes, bool writable) : bytes_(bytes) {
    const int fd = open(file.c_str(), writable ? O_RDWR : O_RDONLY);
    struct stat info{};
    if (fd >= 0 && fstat(fd, &info) == 0 && static_cast<std::size_t>(info.st_size) >= bytes && bytes > 0) {
      void* at = mmap(nullptr, bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
      if (at != MAP_FAILED) data_ = static_cast<float*>(at);
    }
    if (fd >= 0) close(fd);
  }
  Mapping(Mapping&& other) noexcept : bytes_(other.bytes_), data_(std::exchange(other.data_, nullptr)) {}
  Mapping& operator=(Mapping&&) = delete;
  ~Mapping() {
    if (data_) munmap(data_, bytes_);
  }
  float* data() const { return data_; }  // nullptr: the file is not there or too short

 private:
  std::size_t bytes_;
  float* data_ = nullptr;
};

std::string one_line(std::string text) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  return text;
}

// The prepared problem of this process and the answers to requests about it.
class Session {
 public:
  explicit Session(Library& library) : library_(library) {}

  std::string answer(const std::string& request, const std::string& argument) {
    if (request == "prepare") return prepare(argument);
    if (!prepared_) return "error nothing is prepared";
    if (request == "sample") return take_sample(argument);
    if (request == "output") return output(argument);
    return "error unknown request " + request;
  }

 private:
  std::string prepare(const std::string& text) {
    prepared_ = false;
    boost::json::error_code wrong;
    const boost::json::value json = boost::json::parse(text, wrong);
    if (wrong || !json.is_object()) return "error the problem is not a JSON object";
    problem_ = {};
    mappings_.clear();
    if (std::string why = read(json.get_object()); !why.empty()) return "error " + why;
    const auto understood = understand(problem_);
    if (const auto* why = std::get_if<std::string>(&understood)) return "unsupported " + *why;
    operator_ = std::get<Operator>(understood);
    const Outcome outcome = library_.prepare(problem_, operator_);
    if (outcome.kind == Outcome::Kind::Unsupported) return "unsupported " + one_line(outcome.text);
    if (outcome.kind == Outcome::Kind::Error) return "error " + one_line(outcome.text);
    library_.run();
    prepared_ = true;
    std::ostringstream answer;
    answer << "ok " << std::setprecision(17) << library_.flops(operator_) << " " << operator_.output_elements << " "
           << one_line(outcome.text);
    return answer.str();
  }

  // Fills the problem; returns what is wrong with the request, or "".
  std::string read(const boost::json::object& json) {
    const auto* op = json.if_contains("op");
    const auto* args = json.if_contains("args");
    const auto* epilogue = json.if_contains("epilogue");
    const auto* inputs = json.if_contains("inputs");
    if (!op || !op->is_string() || !args || !args->is_object()) return "op or args are missing";
    problem_.op = op->get_string();
    for (const auto& [name, value] : args->get_object()) {
      if (!value.is_int64()) return "argument " + std::string(name) + " is not an integer";
      problem_.args[name] = value.get_int64();
    }
    for (const auto& step : epilogue && epilogue->is_array() ? epilogue->get_array() : boost::json::array{}) {
      if (!step.is_string()) return "an epilogue step is not a string";
      problem_.epilogue.emplace_back(step.get_string());
    }
    for (const auto& input : inputs && inputs->is_array() ? inputs->get_array() : boost::json::array{}) {
      if (std::string why = map_input(input); !why.empty()) return why;
    }
    return "";
  }

  std::string map_input(const boost::json::value& input) {
    const auto* object = input.if_object();
    const auto* file = object ? object->if_contains("file") : nullptr;
    const auto* elements = object ? object->if_contains("elements") : nullptr;
    if (!file || !file->is_string() || !elements || !elements->is_int64()) return "an input has no file or elements";
    const std::string name(file->get_string());
    mappings_.emplace_back(name, elements->get_int64() * sizeof(float), false);
    if (!mappings_.back().data()) return "cannot map " + name;
    problem_.inputs.push_back(mappings_.back().data());
    return "";
  }

  std::string take_sample(const std::string& argument) {
    const i64 calls = std::strtoll(argument.c_str(), nullptr, 10);
    if (calls < 1) return "error sample needs a positive number of calls";
    return "ok " + std::to_string(static_cast<i64>(sample(library_, calls)));
  }

  std::string output(const std::string& file) {
    const Mapping target(file, operator_.output_elements * sizeof(float), true);
    if (!target.data()) return "error cannot map " + file;
    library_.output(target.data());
    return "ok";
  }

  Library& library_;
  Problem problem_;
  Operator operator_;
  std::vector<Mapping> mappings_;
  bool prepared_ = false;
};

void serve(Library& library) {
  std::cout << "ready " << one_line(library.version()) << std::endl;
  Session session(library);
  for (std::string line; std::getline(std::cin, line) && line != "quit";) {
    const std::size_t space = std::min(line.find(' '), line.size());
    const std::string argument = line.substr(std::min(space + 1, line.size()));
    std::cout << session.answer(line.substr(0, space), argument) << std::endl;
  }
}

}  // namespace
}  // namespace tw::peers

int main(int argc, char** argv) {
  using namespace tw::peers;
  Options options;
  if (!parse(argc, argv, &options)) {
    std::cerr << "usage: " << argv[0] << " [--threads N] [--vector-bits 256] [--cpus 0,1,...]\n";
    return 2;
  }
  restart_with_environment(options, argv);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const auto library = make_library(options.threads, options.vector_bits);
  serve(*library);
}

#include "runtime/peers/model_peer.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "dsl/base/clock.h"
#include "dsl/base/files.h"
#include "dsl/base/quantile.h"
#include "dsl/base/text.h"
#include "runtime/peers/memory_file.h"

namespace tw {
namespace {

boost::json::array json_shape(const std::vector<i64>& shape) { return boost::json::array(shape.begin(), shape.end()); }

// ---- in the fork

// Like the peers of wheels: the first `threads` CPUs, or those that are named.
void use_cpus(const PeerOptions& options) {
  cpu_set_t allowed, mine;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  CPU_ZERO(&mine);
  for (int cpu : options.cpus) CPU_SET(cpu, &mine);
  for (int cpu = 0; options.cpus.empty() && cpu < CPU_SETSIZE && CPU_COUNT(&mine) < options.threads; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) CPU_SET(cpu, &mine);
  }
  sched_setaffinity(0, sizeof mine, &mine);
}

std::string turn_of(ServedModel& model, double seconds) {
  std::vector<double> taken;
  if (!model.run()) return "error a kernel failed";
  for (double end = seconds_now() + seconds; taken.empty() || seconds_now() < end;) {
    double begin = seconds_now();
    if (!model.run()) return "error a kernel failed";
    taken.push_back(seconds_now() - begin);
  }
  return cat("ok ", std::llround(median(taken) * 1e9), " ", taken.size());
}

std::string output_of(const ServedModel& model, const std::string& argument) {
  std::size_t index = 0;
  auto [end, failed] = std::from_chars(argument.data(), argument.data() + argument.size(), index);
  if (failed != std::errc() || *end != ' ' || index >= model.outputs()) return "error there is no such output";
  HostArray array = model.output(index);
  std::FILE* file = std::fopen(end + 1, "r+b");
  bool is_written = file && std::fwrite(array.bytes.data(), 1, array.bytes.size(), file) == array.bytes.size();
  if ((file && std::fclose(file) != 0) || !is_written) return "error the output cannot be written";
  return "ok " + boost::json::serialize(
                     boost::json::object{{"dtype", name_of(array.dtype)}, {"shape", json_shape(array.shape)}});
}

std::string answer_of(ServedModel& model, const std::string& line) {
  std::size_t space = std::min(line.find(' '), line.size());
  std::string word = line.substr(0, space), argument = line.substr(std::min(space + 1, line.size()));
  if (word == "load") {
    std::string problem = model.load();
    if (problem.empty() && !model.run()) problem = "a kernel failed";
    if (!problem.empty()) return "error " + problem;
    return "ok " + boost::json::serialize(boost::json::object{{"outputs", model.outputs()}, {"detail", ""}});
  }
  if (word == "turn") return turn_of(model, std::strtod(argument.c_str(), nullptr));
  return word == "output" ? output_of(model, argument) : "error unknown request";
}

void say_line(const std::string& text) {
  std::string line = text + "\n";
  if (write(STDOUT_FILENO, line.data(), line.size()) != std::ssize(line)) _exit(0);  // nobody is there any more
}

void serve(ServedModel& model, const PeerOptions& options) {
  use_cpus(options);
  say_line("ready ");
  std::string line;
  for (char letter = 0; read(STDIN_FILENO, &letter, 1) == 1;) {
    if (letter != '\n') {
      line += letter;
      continue;
    }
    say_line(answer_of(model, line));
    line.clear();
  }
}

// ---- here

// What a library says as JSON, with these keys; nothing if it is something else.
std::optional<boost::json::object> parsed(const std::string& text, std::initializer_list<const char*> keys) {
  boost::json::error_code wrong;
  boost::json::value value = boost::json::parse(text, wrong);
  if (wrong || !value.is_object()) return std::nullopt;
  for (const char* key : keys) {
    if (!value.as_object().contains(key)) return std::nullopt;
  }
  return std::move(value.as_object());
}

// The bytes of an output i64[n, 3] with fewer rows than this array, else nothing. What NonMaxSuppression selects ends
// with rows of -1 here, which libraries leave out.
std::optional<std::size_t> bytes_of_fewer_rows(const boost::json::value& shape, const HostArray& array) {
  const boost::json::array* found = shape.if_array();
  if (array.dtype != DType::I64 || array.shape.size() != 2 || array.shape[1] != 3) return std::nullopt;
  if (!found || found->size() != 2 || (*found)[1] != 3 || !(*found)[0].is_int64()) return std::nullopt;
  i64 rows = (*found)[0].as_int64();
  if (rows < 0 || rows >= array.shape[0]) return std::nullopt;
  return static_cast<std::size_t>(rows * 3 * bytes_of(DType::I64));
}

template <class T>
PeerResult<T> rubbish(PeerProcess& process, const std::string& answer) {
  constexpr std::size_t most = 200;
  return fail<T>(process.lost(PeerStatus::Failed, cat("answered `", answer.substr(0, most), "`")));
}

}  // namespace

const std::vector<std::string>& model_libraries() {
  static const std::vector<std::string> names = {"onnxruntime", "openvino", "torch-eager", "torch-compile"};
  return names;
}

PeerResult<std::unique_ptr<ModelPeer>> ModelPeer::start(const std::string& library, const PeerOptions& options) {
  const std::vector<std::string> words = peer_words(library, /*is_wheel=*/true, options.folder);
  if (words.empty())
    return {
        PeerStatus::Missing, cat("no peer for ", library, " is here: the folder ", kWheelFolder, " is missing"), {}};
  std::unique_ptr<ModelPeer> peer(new ModelPeer(library, options));
  PeerResult<std::string> ready = peer->process_.launch(words);
  if (ready.status == PeerStatus::Died || (ready.status == PeerStatus::Missing && peer->process_.pid() < 0))
    ready.message += "; TRACEWRIGHT_PYTHON names the Python that has the wheel";
  if (!ready) return fail<std::unique_ptr<ModelPeer>>(ready);
  peer->version_ = ready.value;
  return {PeerStatus::Ok, "", std::move(peer)};
}

PeerResult<std::unique_ptr<ModelPeer>> ModelPeer::start(const std::string& name, ServedModel& model,
                                                        const PeerOptions& options) {
  std::unique_ptr<ModelPeer> peer(new ModelPeer(name, options));
  PeerResult<std::string> ready = peer->process_.launch([&] { serve(model, options); });
  if (!ready) return fail<std::unique_ptr<ModelPeer>>(ready);
  return {PeerStatus::Ok, "", std::move(peer)};
}

PeerResult<std::string> ModelPeer::load(const std::string& file, const std::vector<KernelArgument>& inputs,
                                        const std::vector<HostArray>& data, std::size_t outputs) {
  std::vector<MemoryFile> files;
  boost::json::array described;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    files.emplace_back(data[i].bytes.size());
    if (!files.back().valid() || !files.back().write(std::as_bytes(std::span(data[i].bytes))))
      return {PeerStatus::Failed, cat("cannot share the inputs with ", name_, ": ", std::strerror(errno)), {}};
    described.push_back({{"name", inputs[i].name},
                         {"dtype", name_of(data[i].dtype)},
                         {"shape", json_shape(data[i].shape)},
                         {"file", files.back().path()}});
  }
  boost::json::object request{{"model", file}, {"inputs", described}};
  PeerResult<std::string> answer =
      process_.request("load " + boost::json::serialize(request), options_.prepare_timeout);
  if (!answer) return answer;
  std::optional<boost::json::object> loaded = parsed(answer.value, {"outputs", "detail"});
  if (!loaded || !loaded->at("outputs").is_int64() || !loaded->at("detail").is_string())
    return rubbish<std::string>(process_, answer.value);
  if (i64 count = loaded->at("outputs").as_int64(); count != static_cast<i64>(outputs))
    return {PeerStatus::Failed, cat("it gives ", count, " outputs, the model has ", outputs), {}};
  return {PeerStatus::Ok, "", std::string(loaded->at("detail").as_string())};
}

PeerResult<ModelTurn> ModelPeer::turn(double seconds) {
  const PeerResult<std::string> answer = process_.request(cat("turn ", seconds), options_.sample_timeout);
  if (!answer) return fail<ModelTurn>(answer);
  double nanoseconds = 0;
  long long calls = 0;
  int end = 0;
  bool is_read = std::sscanf(answer.value.c_str(), "%lf %lld%n", &nanoseconds, &calls, &end) == 2 &&
                 end == std::ssize(answer.value);
  if (!is_read || !(nanoseconds > 0) || !std::isfinite(nanoseconds) || calls < 1)
    return rubbish<ModelTurn>(process_, answer.value);
  return {PeerStatus::Ok, "", {nanoseconds * 1e-9, calls}};
}

PeerResult<HostArray> ModelPeer::output(std::size_t index, DType dtype, const std::vector<i64>& shape) {
  HostArray array = HostArray::zeros(dtype, shape);
  const MemoryFile file(array.bytes.size());
  const PeerResult<std::string> answer =
      process_.request(cat("output ", index, " ", file.path()), options_.sample_timeout);
  if (!answer) return fail<HostArray>(answer);
  std::optional<boost::json::object> found = parsed(answer.value, {"dtype", "shape"});
  if (!found) return rubbish<HostArray>(process_, answer.value);
  std::optional<std::size_t> size = bytes_of_fewer_rows(found->at("shape"), array);
  if (!size && found->at("shape") == json_shape(shape)) size = array.bytes.size();
  if (found->at("dtype") != name_of(dtype) || !size)
    return {PeerStatus::Failed,
            cat("output ", index, " is ", answer.value, ", not ", name_of(dtype), "[", join(shape, ", "), "]"),
            {}};
  std::fill(array.bytes.begin() + static_cast<std::ptrdiff_t>(*size), array.bytes.end(), 0xff);
  if (!file.read(std::as_writable_bytes(std::span(array.bytes).first(*size))))
    return {PeerStatus::Failed, cat("cannot read output ", index, " of ", name_), {}};
  return {PeerStatus::Ok, "", std::move(array)};
}

}  // namespace tw

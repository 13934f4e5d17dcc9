#include "runtime/peers/peer.h"

#include <algorithm>
#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/serialize.hpp>
#include <cerrno>
#include <cstring>

#include "dsl/base/text.h"
#include "runtime/peers/memory_file.h"

namespace tw {
namespace {

std::string request_text(const PeerProblem& problem, const std::vector<MemoryFile>& files) {
  boost::json::object args;
  for (const auto& [name, value] : problem.args) args[name] = value;
  boost::json::array inputs;
  for (std::size_t i = 0; i < files.size(); ++i)
    inputs.push_back({{"file", files[i].path()}, {"elements", problem.inputs[i].size()}});
  boost::json::object request{{"op", problem.op},
                              {"args", args},
                              {"epilogue", boost::json::array(problem.epilogue.begin(), problem.epilogue.end())},
                              {"inputs", inputs}};
  return "prepare " + boost::json::serialize(request);
}

struct Hint {
  const char* library;
  const char* package;
};
constexpr Hint kHints[] = {{"openblas", "libopenblas-dev"},
                           {"blis", "libblis-dev"},
                           {"onednn", "libdnnl-dev"},
                           {"libtorch", "libtorch-dev"},
                           {"mkl-wheel", ""},
                           {"openblas-wheel", ""},
                           {"onednn-wheel", ""},
                           {"torch-wheel", ""},
                           {"fma", ""}};

bool is_wheel(const std::string& library) {
  return library.ends_with("-wheel") && std::ranges::count(peer_libraries(), library) > 0;
}

std::string way_to_get(const Hint& hint) { return cat("install the package ", hint.package, " and build again"); }

// For a peer that is there and does not start: most likely its library was removed since, or it is no Python.
std::string start_hint(const std::string& library) {
  for (const Hint& hint : kHints) {
    if (library == hint.library && *hint.package) return cat("; ", way_to_get(hint));
  }
  return is_wheel(library) ? "; TRACEWRIGHT_PYTHON names the Python that has the wheel" : "";
}

// Why a peer is missing, and what to do.
std::string missing_message(const std::string& library) {
  for (const Hint& hint : kHints) {
    if (library != hint.library) continue;
    if (is_wheel(library)) return cat("no peer for ", library, " is here: the folder ", kWheelFolder, " is missing");
    if (!*hint.package) return "the FMA probe was not built: it needs an x86-64 CPU";
    return cat("no peer for ", library, " was built; ", way_to_get(hint));
  }
  const std::string near = closest(library, peer_libraries());
  return cat("unknown library ", library, near.empty() ? "" : cat(": did you mean ", near, "?"),
             "; known: ", join(peer_libraries(), ", "));
}

}  // namespace

const std::vector<std::string>& peer_libraries() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> list;
    for (const Hint& hint : kHints) list.push_back(hint.library);
    return list;
  }();
  return names;
}

PeerResult<std::unique_ptr<Peer>> Peer::start(const std::string& library, const PeerOptions& options) {
  const std::vector<std::string> program = peer_words(library, is_wheel(library), options.folder);
  if (program.empty()) return {PeerStatus::Missing, missing_message(library), {}};
  std::unique_ptr<Peer> peer(new Peer(library, options));
  PeerResult<std::string> ready = peer->process_.launch(program);
  if (ready.status == PeerStatus::Died || (ready.status == PeerStatus::Missing && peer->pid() < 0))
    ready.message += start_hint(library);
  if (!ready) return fail<std::unique_ptr<Peer>>(ready);
  peer->version_ = ready.value;
  return {PeerStatus::Ok, "", std::move(peer)};
}

PeerResult<PeerKernel> Peer::prepare(const PeerProblem& problem) {
  std::vector<MemoryFile> files;
  for (std::span<const float> input : problem.inputs) {
    files.emplace_back(input.size_bytes());
    if (!files.back().valid() || !files.back().write(std::as_bytes(input))) {
      return {PeerStatus::Failed,
              cat("cannot share ", input.size_bytes(), " bytes with ", library_, ": ", std::strerror(errno)),
              {}};
    }
  }
  const PeerResult<std::string> answer = process_.request(request_text(problem, files), options_.prepare_timeout);
  if (!answer) return fail<PeerKernel>(answer);
  PeerKernel kernel;
  int detail_at = 0;
  long long elements = 0;
  if (std::sscanf(answer.value.c_str(), "%lf %lld %n", &kernel.flops, &elements, &detail_at) != 2) {
    return fail<PeerKernel>(process_.lost(PeerStatus::Failed, cat("answered `", answer.value, "`")));
  }
  kernel.output_elements = output_elements_ = elements;
  kernel.detail = answer.value.substr(detail_at);
  return {PeerStatus::Ok, "", kernel};
}

PeerResult<double> Peer::sample(i64 calls) {
  const PeerResult<std::string> answer = process_.request(cat("sample ", calls), options_.sample_timeout);
  if (!answer) return fail<double>(answer);
  return {PeerStatus::Ok, "", std::strtod(answer.value.c_str(), nullptr)};
}

PeerResult<std::vector<float>> Peer::output() {
  std::vector<float> result(output_elements_);
  const MemoryFile file(result.size() * sizeof(float));
  const PeerResult<std::string> answer = process_.request(cat("output ", file.path()), options_.sample_timeout);
  if (!answer) return fail<std::vector<float>>(answer);
  if (!file.read(std::as_writable_bytes(std::span(result)))) {
    return {PeerStatus::Failed, cat("cannot read the result of ", library_), {}};
  }
  return {PeerStatus::Ok, "", std::move(result)};
}

}  // namespace tw

#include "runtime/export/finalist_files.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <filesystem>
#include <limits>
#include <set>

#include "dsl/base/files.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "runtime/export/export_files.h"

namespace tw {
namespace {

namespace json = boost::json;

constexpr i64 kFormat = 2;  // 2: launches say how much shared memory they give
constexpr const char* kManifest = "manifest.json";

std::string base_of(const FinalistFile& finalist) {
  char rank[16];
  std::snprintf(rank, sizeof rank, "%02d", finalist.rank);
  return cat(finalist.task, "/", rank);
}

json::object to_json(const FinalistKernel& kernel) {
  json::object opcodes;
  for (const auto& [name, count] : kernel.opcodes) opcodes[name] = count;
  json::object out{{"name", kernel.name},
                   {"registers", kernel.registers},
                   {"stack_bytes", kernel.stack_bytes},
                   {"shared_bytes", kernel.shared_bytes},
                   {"blocks_per_multiprocessor", kernel.blocks_per_multiprocessor},
                   {"opcodes", opcodes},
                   {"register_conflicts", kernel.register_conflicts}};
  if (kernel.predicted_seconds) out["predicted_us"] = *kernel.predicted_seconds * 1e6;
  return out;
}

json::object to_json(const FinalistFile& finalist) {
  const KernelManifest& manifest = finalist.kernel.manifest;
  std::string base = base_of(finalist);
  json::array kernels;
  for (const FinalistKernel& kernel : finalist.kernels) kernels.push_back(to_json(kernel));
  return {
      {"task", finalist.task},
      {"rank", finalist.rank},
      {"workload", finalist.workload},
      {"program", finalist.program},
      {"target", finalist.target},
      {"device", finalist.device},
      {"nvrtc", finalist.nvrtc},
      {"object", finalist.object},
      {"seed", finalist.seed},
      {"predicted_us", finalist.predicted_seconds * 1e6},
      {"emulation", finalist.emulation},
      {"source", base + ".cu"},
      {"ptx", base + ".ptx"},
      {"cubin", base + ".cubin"},
      {"trace", base + ".tw"},
      {"digest", to_hex(hash_bytes(finalist.kernel.code))},
      {"symbol", manifest.symbol},
      {"scratch_bytes", manifest.scratch_shared_bytes},
      {"kernels", kernels},
      {"run", {{"buffers", export_arguments(manifest.run)}, {"launches", export_launches(manifest.run_launches)}}},
      {"prepack",
       {{"buffers", export_arguments(manifest.prepack)}, {"launches", export_launches(manifest.prepack_launches)}}}};
}

// A value of the manifest and where it stands, "finalists[2].run".
struct Spot {
  const json::value* value = nullptr;  // null: an error was noted before
  std::string path;
};

// Notes the first thing that is wrong; after it every value is empty.
class Reader {
 public:
  explicit Reader(std::string file, std::string& error) : file_(std::move(file)), error_(error) {}

  Spot member(const Spot& of, const char* key) {
    const json::object* object = of.value ? of.value->if_object() : nullptr;
    std::string path = of.path.empty() ? key : cat(of.path, ".", key);
    if (of.value && !object) return wrong(of, "an object");
    const json::value* found = object ? object->if_contains(key) : nullptr;
    if (object && !found) note(cat(path, ": missing"));
    return {found, path};
  }
  bool has(const Spot& of, const char* key) const {
    const json::object* object = of.value ? of.value->if_object() : nullptr;
    return object && object->contains(key);
  }
  std::vector<Spot> items(const Spot& of) {
    const json::array* array = of.value ? of.value->if_array() : nullptr;
    if (of.value && !array) wrong(of, "a list");
    std::vector<Spot> out;
    for (std::size_t i = 0; array && i < array->size(); ++i) out.push_back({&(*array)[i], cat(of.path, "[", i, "]")});
    return out;
  }
  std::string text(const Spot& at) {
    const json::string* text = at.value ? at.value->if_string() : nullptr;
    if (at.value && !text) wrong(at, "text");
    return text ? std::string(*text) : "";
  }
  i64 integer(const Spot& at, i64 least, i64 most = std::numeric_limits<i64>::max()) {
    const i64* number = at.value ? at.value->if_int64() : nullptr;
    if (number && *number >= least && *number <= most) return *number;
    if (at.value)
      wrong(at, most == std::numeric_limits<i64>::max() ? cat("an integer from ", least)
                                                        : cat("an integer from ", least, " to ", most));
    return least;
  }
  double number(const Spot& at) {
    json::error_code code;
    double value = at.value ? at.value->to_number<double>(code) : 0;
    if (at.value && (code || value < 0)) wrong(at, "a number from 0");
    return value;
  }
  u64 count(const Spot& at) {
    json::error_code code;
    u64 value = at.value ? at.value->to_number<u64>(code) : 0;
    if (at.value && code) wrong(at, "an integer from 0");
    return value;
  }
  // A file of the folder; its name may not lead out of it.
  std::string file(const std::string& folder, const Spot& at) {
    std::string name = text(at);
    if (!good()) return "";
    if (name.empty() || name[0] == '/' || name.find("..") != std::string::npos)
      return wrong(at, "a file in this folder"), "";
    std::optional<std::string> bytes = read_whole_file(cat(folder, "/", name));
    if (!bytes) note(cat(at.path, ": ", folder, "/", name, " cannot be read"));
    return bytes.value_or("");
  }
  Spot wrong(const Spot& at, const std::string& expected) {
    std::string found = json::serialize(*at.value);
    note(cat(at.path.empty() ? "the whole" : at.path, ": expected ", expected, ", found ",
             found.size() > 60 ? found.substr(0, 57) + "..." : found));
    return {};
  }
  void note(const std::string& message) {
    if (error_.empty()) error_ = cat(file_, ": ", message);
  }
  bool good() const { return error_.empty(); }

 private:
  std::string file_;
  std::string& error_;
};

KernelArgument read_argument(Reader& reader, const Spot& at) {
  KernelArgument argument;
  argument.name = reader.text(reader.member(at, "name"));
  Spot role = reader.member(at, "role"), type = reader.member(at, "dtype"), bytes = reader.member(at, "bytes");
  std::string role_name = reader.text(role);
  bool is_known = false;
  for (ArgumentRole known : {ArgumentRole::Input, ArgumentRole::Constant, ArgumentRole::Packed, ArgumentRole::Output}) {
    if (role_name == name_of(known)) argument.role = known, is_known = true;
  }
  if (reader.good() && !is_known) reader.wrong(role, "`input`, `const`, `packed` or `output`");
  std::optional<DType> dtype = parse_dtype(reader.text(type));
  if (reader.good() && !dtype) reader.wrong(type, "an element type");
  argument.dtype = dtype.value_or(DType::F32);
  double expected = static_cast<double>(bytes_of(argument.dtype));
  for (const Spot& extent : reader.items(reader.member(at, "shape"))) {
    argument.shape.push_back(reader.integer(extent, 1));
    expected *= static_cast<double>(argument.shape.back());
  }
  argument.bytes = reader.integer(bytes, 0);
  if (reader.good() && static_cast<double>(argument.bytes) != expected)
    reader.wrong(bytes, cat(expected, " bytes, as shape and type say"));
  return argument;
}

std::array<i64, 3> read_extents(Reader& reader, const Spot& at, std::array<i64, 3> most) {
  std::vector<Spot> items = reader.items(at);
  std::array<i64, 3> out{1, 1, 1};
  if (reader.good() && items.size() != 3) reader.wrong(at, "three integers");
  for (std::size_t d = 0; d < 3 && d < items.size(); ++d) out[d] = reader.integer(items[d], 1, most[d]);
  return out;
}

KernelLaunch read_launch(Reader& reader, const Spot& at, const std::vector<KernelArgument>& arguments,
                         i64 scratch_bytes) {
  constexpr i64 kMost = (i64{1} << 31) - 1;
  KernelLaunch launch;
  launch.name = reader.text(reader.member(at, "kernel"));
  launch.groups = read_extents(reader, reader.member(at, "groups"), {kMost, 65535, 65535});
  launch.threads = read_extents(reader, reader.member(at, "threads"), {1024, 1024, 64});
  launch.dynamic_shared_bytes = reader.integer(reader.member(at, "dynamic_shared_bytes"), 0, 1 << 20);
  for (const Spot& parameter : reader.items(reader.member(at, "parameters"))) {
    const json::object* object = parameter.value->if_object();
    bool is_scratch = object && object->contains("scratch_offset");
    Spot where = reader.member(parameter, is_scratch ? "scratch_offset" : "buffer");
    KernelLaunch::Pointer pointer{is_scratch, 0, 0};
    pointer.at = reader.integer(where, 0, is_scratch ? scratch_bytes : static_cast<i64>(arguments.size()) - 1);
    if (!reader.good()) return launch;
    pointer.bytes = is_scratch ? reader.integer(reader.member(parameter, "bytes"), 0, scratch_bytes - pointer.at)
                               : arguments[static_cast<std::size_t>(pointer.at)].bytes;
    launch.pointers.push_back(pointer);
  }
  return launch;
}

void read_entry(Reader& reader, const Spot& at, i64 scratch_bytes, std::vector<KernelArgument>& arguments,
                std::vector<KernelLaunch>& launches) {
  for (const Spot& buffer : reader.items(reader.member(at, "buffers")))
    arguments.push_back(read_argument(reader, buffer));
  for (const Spot& launch : reader.items(reader.member(at, "launches"))) {
    if (reader.good()) launches.push_back(read_launch(reader, launch, arguments, scratch_bytes));
  }
}

FinalistFile read_finalist(Reader& reader, const Spot& at, const std::string& folder) {
  FinalistFile out;
  out.task = reader.text(reader.member(at, "task"));
  out.rank = static_cast<int>(reader.integer(reader.member(at, "rank"), 1, 1000000));
  out.workload = reader.text(reader.member(at, "workload"));
  out.program = reader.text(reader.member(at, "program"));
  out.target = reader.text(reader.member(at, "target"));
  out.device = reader.text(reader.member(at, "device"));
  if (reader.has(at, "nvrtc")) out.nvrtc = reader.text(reader.member(at, "nvrtc"));
  if (reader.has(at, "object")) out.object = reader.text(reader.member(at, "object"));
  out.predicted_seconds = reader.number(reader.member(at, "predicted_us")) * 1e-6;
  out.emulation = reader.text(reader.member(at, "emulation"));
  out.seed = reader.count(reader.member(at, "seed"));
  KernelManifest& manifest = out.kernel.manifest;
  manifest.symbol = reader.text(reader.member(at, "symbol"));
  manifest.scratch_shared_bytes = reader.integer(reader.member(at, "scratch_bytes"), 0);
  read_entry(reader, reader.member(at, "run"), manifest.scratch_shared_bytes, manifest.run, manifest.run_launches);
  read_entry(reader, reader.member(at, "prepack"), manifest.scratch_shared_bytes, manifest.prepack,
             manifest.prepack_launches);
  if (reader.good() && manifest.run_launches.empty()) reader.note(cat(at.path, ".run.launches: expected at least one"));
  out.trace_file = reader.file(folder, reader.member(at, "trace"));
  Spot code = reader.member(at, "cubin"), digest = reader.member(at, "digest");
  out.kernel.code = reader.file(folder, code);
  if (reader.good() && reader.text(digest) != to_hex(hash_bytes(out.kernel.code)))
    reader.note(cat(code.path, ": ", folder, "/", reader.text(code),
                    " is not what the manifest was written for (its digest differs)"));
  return out;
}

// Finalists of an earlier search, which the new manifest does not name: files called as base_of() does.
void remove_old(const std::string& folder, const std::string& task, const std::vector<std::string>& written) {
  std::error_code ignored;
  std::vector<std::filesystem::path> old;
  for (const auto& entry : std::filesystem::directory_iterator(cat(folder, "/", task), ignored)) {
    if (std::find(written.begin(), written.end(), cat(task, "/", entry.path().filename().string())) != written.end())
      continue;
    std::string rank = entry.path().stem().string(), extension = entry.path().extension().string();
    bool is_rank = rank.size() >= 2 && rank.find_first_not_of("0123456789") == std::string::npos;
    if (is_rank && (extension == ".cu" || extension == ".ptx" || extension == ".cubin" || extension == ".tw"))
      old.push_back(entry.path());
  }
  for (const std::filesystem::path& file : old) std::filesystem::remove(file, ignored);
}

}  // namespace

ExportResult write_finalists(const std::vector<FinalistFile>& finalists, const std::string& path) {
  ExportResult result;
  ExportFolder folder(path, result);
  json::array rows;
  std::set<std::string> tasks;
  bool good = true;
  for (const FinalistFile& finalist : finalists) {
    tasks.insert(finalist.task);
    std::string base = base_of(finalist);
    good = good && folder.write(base + ".cu", finalist.source) && folder.write(base + ".ptx", finalist.ptx) &&
           folder.write(base + ".cubin", finalist.kernel.code) && folder.write(base + ".tw", finalist.trace_file);
    rows.push_back(to_json(finalist));
  }
  json::object out{{"format", kFormat}, {"tracewright", TW_VERSION}, {"finalists", rows}};
  if (!good || !folder.write(kManifest, json::serialize(out) + "\n")) return result;
  if (!folder.publish()) return result;
  for (const std::string& task : tasks) remove_old(path, task, result.files);
  return result;
}

std::optional<std::vector<FinalistFile>> read_finalists(const std::string& folder, std::string& error) {
  FolderLock lock(folder, FolderLock::Mode::Read);  // where there are no locks, digests tell
  std::string path = cat(folder, "/", kManifest);
  std::optional<std::string> text = read_whole_file(path);
  if (!text)
    return error = cat(path, " cannot be read; `tracewright tune --compile-only` writes such a folder"), std::nullopt;
  json::error_code code;
  json::value root = json::parse(*text, code);
  if (code) return error = cat(path, " is no JSON: ", code.message()), std::nullopt;
  Reader reader(path, error);
  Spot whole{&root, ""}, format = reader.member(whole, "format");
  reader.integer(format, kFormat, kFormat);
  std::vector<FinalistFile> out;
  for (const Spot& row : reader.items(reader.member(whole, "finalists"))) {
    if (reader.good()) out.push_back(read_finalist(reader, row, folder));
  }
  if (!reader.good()) return std::nullopt;
  return out;
}

}  // namespace tw

#include "tests/fuzz/fuzz_targets.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "dsl/ir/compare.h"
#include "dsl/ir/print.h"
#include "dsl/schedule/parse_schedule.h"
#include "dsl/schedule/state.h"
#include "dsl/text/parse_program.h"
#include "dsl/text/workload.h"
#include "rules/lang/library.h"
#include "rules/lang/module.h"
#include "runtime/lists/device_file.h"
#include "runtime/lists/task_list.h"
#include "runtime/measure/worker_protocol.h"
#include "runtime/store/database_exchange.h"
#include "runtime/store/trace_file.h"
#include "tests/fuzz/onnx_target.h"
#include "tests/fuzz/rewrites_target.h"

namespace tw::fuzz {
namespace {

// Parsed, and every workload of it that needs no arguments made into a program.
void fuzz_workload(const std::string& text) {
  Source source{"fuzz.tw", text};
  Diagnostics diagnostics(source);
  WorkloadModule module = parse_workloads(source, diagnostics);
  if (diagnostics.has_errors()) {
    TW_CHECK(!diagnostics.render().empty(), "errors without a message");
    return;
  }
  for (const Signature& signature : signatures(module)) {
    WorkloadArguments arguments;
    for (const Signature::Parameter& parameter : signature.parameters) {
      if (parameter.required && parameter.kind == ParameterKind::Integer) arguments.push_back({parameter.name, i64{3}});
      if (parameter.required && parameter.kind == ParameterKind::Integers)
        arguments.push_back({parameter.name, std::vector<i64>{2, 3}});
    }
    Diagnostics made(source);
    (void)instantiate(module, signature.name, arguments, {}, made);
  }
}

// What is accepted prints, and is read again as the same.
void fuzz_program(const std::string& text) {
  Source source{"fuzz.tw", text};
  Diagnostics diagnostics(source);
  std::optional<OwnedProgram> program = parse_program(source, diagnostics);
  if (!program) return;
  Source printed{"printed.tw", print(program->program)};
  Diagnostics again(printed);
  std::optional<OwnedProgram> second = parse_program(printed, again);
  TW_CHECK(second && structurally_equal(program->program, second->program),
           "a program that was printed reads as another one");
}

// A schedule that parses is replayed on a small program: it rejects or gives a program.
void fuzz_schedule(const std::string& text) {
  static const std::optional<OwnedProgram> base = [] {
    Diagnostics none(*operator_library().source);
    return instantiate(operator_library(), "matmul", {{"M", i64{6}}, {"N", i64{8}}, {"K", i64{4}}}, {}, none);
  }();
  Source source{"fuzz.tw", text};
  Diagnostics diagnostics(source);
  std::optional<Trace> trace = parse_schedule(source, diagnostics);
  if (!trace || trace->instructions().size() > 60) return;
  Arena arena;
  State state(arena, base->program);
  Rng rng(1, 1);
  (void)replay(*trace, state, ReplayMode::Adapt, &rng);
}

void fuzz_trace_file(const std::string& text) {
  Source source{"fuzz.tw", text};
  Diagnostics diagnostics(source);
  std::optional<TraceFile> file = parse_trace_file(source, diagnostics);
  if (file) (void)print_trace_file(*file);
}

// Parsed, and added to the built-in rules.
void fuzz_rules(const std::string& text) {
  auto source = std::make_shared<Source>(Source{"fuzz.tw", text});
  Diagnostics diagnostics(*source);
  std::shared_ptr<const rules::Module> module = rules::parse_module(source, diagnostics);
  if (!module) return;
  rules::Library library = rules::Library::built_in();
  (void)library.add(module, diagnostics);
}

void fuzz_task_list(const std::string& text) {
  Source source{"fuzz.yaml", text};
  Diagnostics diagnostics(source);
  (void)parse_task_list(diagnostics);
  (void)diagnostics.render();
}

void fuzz_device(const std::string& text) {
  Source source{"fuzz.yaml", text};
  Diagnostics diagnostics(source);
  std::optional<GpuDevice> device = parse_device(diagnostics);
  TW_CHECK(device || !diagnostics.render().empty(), "a description was refused without a message");
  if (device) (void)occupancy(*device, {256, 64, 4096});
}

void fuzz_import(const std::string& text) {
  static auto database = Database::open(
      (std::filesystem::temp_directory_path() / ("fuzz_import_" + std::to_string(getpid()) + ".db")).string(),
      DatabaseMode::Write);
  TW_CHECK(database, "no database for the import");
  std::istringstream in(text);
  TW_CHECK(import_records(*database, in), "lines of a stranger's are no error of the database");
}

// What is taken for a message is written as bytes that are taken for the same message.
template <class Message>
void read_message(std::string_view bytes) {
  Message message, again;
  if (!decode(bytes, message)) return;
  std::string written = encode(message);
  TW_CHECK(decode(written, again) && encode(again) == written, "a message that was written reads as another one");
}

// The first byte chooses the message that the others are taken for.
using ReadMessage = void (*)(std::string_view);
constexpr ReadMessage kMessages[] = {read_message<HelloMessage>,   read_message<BeginTaskMessage>,
                                     read_message<TaskStart>,      read_message<MeasureMessage>,
                                     read_message<MeasureResult>,  read_message<EmulateMessage>,
                                     read_message<EmulatedMessage>};

void fuzz_worker_protocol(const std::string& text) {
  if (text.empty()) return;
  kMessages[static_cast<unsigned char>(text[0]) % std::size(kMessages)](std::string_view(text).substr(1));
}

std::vector<std::string> messages() {
  Kernel kernel;
  kernel.code = "code";
  kernel.manifest.symbol = "f";
  kernel.manifest.run = {{}, {}};
  MeasureMessage measure;
  measure.candidate = kernel;
  measure.new_incumbent = {kernel};
  EmulateMessage emulate;
  emulate.kernel = kernel;
  emulate.arrays = {{"A", "1234"}};
  EmulatedMessage emulated;
  emulated.outputs = {{"C", "1234"}};
  emulated.writes = {.last_groups = {0, 3}, .outputs = {{"C", "1"}}};
  return {'\0' + encode(HelloMessage{}),
          '\1' + encode(BeginTaskMessage{.task = 1, .reference = kernel, .tolerance = {}, .seed = 1}),
          '\2' + encode(TaskStart{}),
          '\3' + encode(measure),
          '\4' + encode(MeasureResult{}),
          '\5' + encode(emulate),
          '\6' + encode(emulated)};
}

std::vector<std::string> files_of(const std::string& folder, const std::string& suffix) {
  std::vector<std::string> out;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(std::string(TW_SOURCE_DIR) + "/" + folder)) {
    if (entry.path().extension() != suffix) continue;
    std::ostringstream text;
    text << std::ifstream(entry.path()).rdbuf();
    out.push_back(text.str());
  }
  return out;
}

constexpr const char* kSchedule =
    "c = get_block(\"C\")\ni, j, k = get_loops(c)\na, b = sample_perfect_tile(i, 2) @ [3, 2]\ni0, i1 = split(i, [a, "
    "b])\n"
    "reorder([i0, j, i1])\nvectorize(j)\nu = sample_categorical([1, 2], [0.5, 0.5]) @ 1\nannotate(c, \"unroll\", u)\n";

std::string trace_file(const std::string& schedule) {
  Diagnostics none(*operator_library().source);
  std::optional<OwnedProgram> base =
      instantiate(operator_library(), "matmul", {{"M", i64{6}}, {"N", i64{8}}, {"K", i64{4}}}, {}, none);
  return "tracewright 1 \"0.1.0\"\ntarget \"cpu -threads=1\"\n" + print(base->program) + "schedule {\n" + schedule +
         "}\n";
}

std::vector<std::string> programs() {
  std::vector<std::string> out;
  Diagnostics none(*operator_library().source);
  std::optional<OwnedProgram> base =
      instantiate(operator_library(), "softmax", {{"M", i64{6}}, {"N", i64{8}}}, {}, none);
  out.push_back(print(base->program));
  out.push_back(
      "program p(X: input f32[8, 6], Y: output f32[8, 6]) {\n  for i in 8 {\n    vectorize for j in 6 {\n      Y[i, j] "
      "= max(X[i, j], 0.0)\n    }\n  }\n}\n");
  return out;
}

}  // namespace

const std::vector<Target>& targets() {
  static const std::vector<Target> all = {
      {"workload", fuzz_workload, files_of("dsl/te", ".tw")},
      {"program", fuzz_program, programs()},
      {"schedule", fuzz_schedule, {kSchedule, "b = get_block(", "x = split(1, [2, 3])\n"}},
      {"trace_file", fuzz_trace_file, {trace_file(kSchedule), trace_file("")}},
      {"rules", fuzz_rules, files_of("rules", ".tw")},
      {"task_list", fuzz_task_list, files_of("examples", ".yaml")},
      {"device", fuzz_device, files_of("costmodel/devices", ".yaml")},
      {"import", fuzz_import, {"{\"workload\": \"x\"}\n", "{\"record\": {}}\n\n[1, 2]\n"}},
      {"worker_protocol", fuzz_worker_protocol, messages()},
      {"onnx", fuzz_onnx, onnx_seeds()},
      {"rewrites", fuzz_rewrites, rewrites_seeds()},
  };
  return all;
}

}  // namespace tw::fuzz

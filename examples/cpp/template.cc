// A schedule by hand with an open sample, tuned; the records that the database then has; the best one exported as a C
// library.
#include <atomic>
#include <iostream>

#include "backends/backend.h"
#include "dsl/schedule/parse_schedule.h"
#include "dsl/text/workload.h"
#include "runtime/export/export.h"
#include "runtime/store/trace_file.h"
#include "sampler/search/trial.h"
#include "sampler/search/tune.h"

namespace {

class Quiet : public tw::TuneObserver {
 public:
  void on_trial(const std::vector<tw::TaskProgress>&, std::size_t, const tw::Record&) override {}
  void on_message(const std::string& text) override { std::cerr << text << "\n"; }
};

}  // namespace

int main(int count, char** words) {
  std::string path = count > 1 ? words[1] : "template.db", folder = count > 2 ? words[2] : "exported";
  const tw::WorkloadModule& operators = tw::operator_library();
  tw::Diagnostics call(*operators.source);
  auto program =
      tw::instantiate(operators, "matmul", {{"M", tw::i64{16}}, {"N", tw::i64{32}}, {"K", tw::i64{8}}}, {}, call);
  tw::Source source{"template", R"(
b = get_block("C")
i, j, k = get_loops(b)
v = sample_categorical([4, 8, 16])
j0, j1 = split(j, [_, v])
reorder([i, j0, k, j1])
init = decompose_reduction(b, k)
vectorize(j1)
)"};
  tw::Diagnostics diagnostics(source);
  std::optional<tw::Trace> by_hand = tw::parse_schedule(source, diagnostics);
  if (!program || !by_hand) return std::cerr << call.render() << diagnostics.render(), 1;

  tw::Target target = tw::host_target();
  target.threads = 1;
  std::vector<tw::TuneTask> tasks = {{"product", *program, target, 1, {*by_hand}}};
  auto database = tw::Database::open(path, tw::DatabaseMode::Write);
  if (!database) return std::cerr << database.error() << "\n", 1;
  tw::WorkerStart worker = tw::start_worker();
  if (!worker.measurer) return std::cerr << worker.error << "\n", 1;
  Quiet quiet;
  std::atomic<bool> stop = false;
  // The set `untuned` has no choices: all trials but one are of the schedule by hand.
  tw::tune(tasks, tw::rules::Library::built_in(), {.trials = 4, .rules = "untuned"}, *database, worker.measurer.get(),
           quiet, stop);

  std::string workload = tw::to_hex(tw::structural_hash(program->program)), target_text = tw::to_string(target);
  auto best = database->best(workload, target_text, tw::machine_of(tw::host_description()), 10);
  if (!best || best->empty()) return std::cerr << "no records\n", 1;
  for (const tw::Record& record : *best)
    std::cout << record.id << " " << record.status << " " << record.seconds * 1e6 << " us\n";

  tw::Source stored{"record", best->front().trace};
  tw::Diagnostics of_record(stored);
  std::optional<tw::Trace> trace = tw::parse_schedule(stored, of_record);
  if (!trace) return std::cerr << of_record.render(), 1;
  tw::Arena arena;
  tw::State state(arena, program->program);
  if (tw::Status done = tw::replay(*trace, state); !done) return std::cerr << tw::to_string(done.rejected()), 1;
  auto lowered = tw::lower(arena, state.program(), tw::lowering_options(target));
  auto compiler = tw::LlvmCompiler::create(tw::codegen_target(target));
  if (!lowered || !compiler) return 1;
  auto kernel = compiler->compile(*lowered, tw::kernel_symbol("mine", "product"));
  if (!kernel) return std::cerr << tw::to_string(kernel.rejected()), 1;
  tw::ExportPlan plan{"mine",
                      {{"product", "16 x 8 times 8 x 32", *kernel, target, best->front().seconds, best->front().id,
                        tw::print_trace_file({TW_VERSION, target_text, *program, *trace})}}};
  tw::ExportResult result = tw::write_export(plan, folder);
  std::cout << result.error << result.files.size() << " files\n";
  return result.error.empty() ? 0 : 1;
}

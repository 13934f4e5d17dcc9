#include "dsl/base/text.h"
#include "sampler/fleet/calibration_kernels.h"
#include "sampler/fleet/kernel_source.h"
#include "sampler/search/trial.h"

namespace tw {
namespace {

class CompilingSource final : public KernelSource {
 public:
  DatabaseResult<std::vector<LeasedTrial>> lease(TrialQueue& queue, i64 machine,
                                                 const std::vector<MeasuredTarget>& targets, int most) override {
    if (targets.empty()) return std::vector<LeasedTrial>();
    if (auto offered = queue.offer(targets); !offered) return offered.failure();
    return queue.lease(machine, targets, most);
  }

  std::unique_ptr<FleetTask> read_task(const QueuedTrial& trial, const MeasuredTarget& target,
                                       const FleetAccess& access, TrialFault& fault) override {
    return tw::read_task(trial, target, access.database, fault);
  }

  TaskStart begin_task(FleetTask& task, const std::function<bool()>& stop) override {
    Result<LlvmCompiler> compiler = LlvmCompiler::create(codegen_target(task.target));
    if (!compiler) return {.error = to_string(compiler.rejected())};
    return begin_judged_task(*task.measurer, task.program.program, task.target, *compiler, task.seed, stop,
                             /*many_kernels=*/true);
  }

  DatabaseStatus read_new_records(FleetTask& task, Database& database) override {
    return tw::read_new_records(task, database);
  }

  DatabaseStatus take_incumbent(TrialQueue&, FleetTask& task, const IncumbentRecord& record) override {
    tw::take_incumbent(task, record);
    return Done{};
  }

  DatabaseResult<Calibrate> calibrate(TrialQueue&, Measurer& measurer, const Target& target, std::string&) override {
    return calibration_with(measurer, target, [target](const std::function<bool()>& must_stop) {
      return compile_calibration(target, host_target(), must_stop);
    });
  }

  BuiltFleetTrial build(const FleetTask& task, const LeasedTrial& trial) override {
    if (!compiler_ || compiles_for_ != task.target_text) {
      Result<LlvmCompiler> made = LlvmCompiler::create(codegen_target(task.target));
      if (!made) return {.fault = {fault::kRefused, to_string(made.rejected())}};
      compiler_.emplace(std::move(*made));
      compiles_for_ = task.target_text;
    }
    return build_fleet_trial(task, trial.trial, *compiler_);
  }

 private:
  std::optional<LlvmCompiler> compiler_;
  std::string compiles_for_;  // target
};

}  // namespace

std::shared_ptr<KernelSource> compile_here() { return std::make_shared<CompilingSource>(); }

}  // namespace tw

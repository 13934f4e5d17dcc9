#include "costmodel/draft_report.h"

#include <cmath>

#include "costmodel/draft_model.h"
#include "dsl/base/text.h"

namespace tw {
namespace {

double tenths(double value) { return static_cast<double>(std::llround(value * 10)) / 10; }

std::string name_of_block(const FlatProgram& program, const FlatStore& store) {
  if (store.blocks == 0) return "(no block)";
  return cat(program.blocks[store.first_block + store.blocks - 1]->name, store.is_init ? ", init" : "");
}

std::string report(const StoreProfile& profile, const MachineRates& rates) {
  return cat("  body: ", std::llround(profile.body_runs), " runs of ", profile.instances, " vectors; ", profile.fma,
             " multiply-adds, ", tenths(profile.other), " other, ", profile.vector_loads, " loads, ",
             profile.broadcasts, " broadcasts, ", profile.element_loads, " element loads, ", profile.stores,
             " stores, ", profile.tests, " tests\n", "  registers: ", profile.accumulators, " accumulators and ",
             profile.operands, " operands, ", profile.registers_over, " too many; lanes in use ",
             tenths(100 * profile.lane_use), " %, skipped ", tenths(100 * profile.waste), " %\n",
             "  cycles: ", std::llround(profile.compute), " issued, ", std::llround(profile.latency), " of chains, ",
             std::llround(profile.overhead), " of loops, ", std::llround(profile.streamed(rates)),
             " of lines read ahead, ", std::llround(profile.strided(rates)), " of other lines\n");
}

}  // namespace

std::string report_draft(const Program& program, const FeatureTarget& target, double code_cycles) {
  FlatReader reader;
  Footprints footprints;
  StoreProfiler profiler(target);
  const FlatProgram& flat = reader.read(program);
  profiler.start(flat);
  DraftSum sum(target.rates);
  sum.start();
  std::string out;
  for (const FlatStore& store : flat.stores) {
    StoreProfile profile = profiler.profile(flat, store, footprints.of(flat, store));
    sum.add(flat, store, profile);
    out += cat(name_of_block(flat, store), ": ", tenths(seconds_of(profile, target.rates) * 1e6), " us\n",
               report(profile, target.rates));
  }
  return cat(out, "all: ", tenths(sum.seconds() * 1e6), " us; by the machine code, ", std::llround(code_cycles),
             " cycles: ", tenths(sum.seconds_with(code_cycles) * 1e6), " us\n");
}

}  // namespace tw

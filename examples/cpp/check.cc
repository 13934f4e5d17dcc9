// Is a rule right? Checked on the operator library, explained on one space, and a trace reduced to what matters.
#include <iostream>

#include "dsl/schedule/parse_schedule.h"
#include "dsl/text/workload.h"
#include "sampler/search/check_rule.h"
#include "sampler/search/explain_space.h"

int main() {
  auto source = std::make_shared<tw::Source>(tw::Source{"mine.tw", R"(
rule columns(b: block)
  when is_reduction(b) and vector_axis(b)?
{
  j0, j1 = split(vector_axis(b), [_, 4])
  try { parallel(reduction_loops(b)[0]) }
  unroll(j1)
}
rules mine { columns }
)"});
  tw::Diagnostics diagnostics(*source);
  tw::rules::Library library = tw::rules::Library::built_in();
  auto module = tw::rules::parse_module(source, diagnostics);
  if (!module || !library.add(module, diagnostics)) return std::cerr << diagnostics.render(), 1;
  const std::vector<tw::rules::RuleUse>& uses = *library.find_set("mine");

  std::vector<tw::TrialProgram> programs = tw::trial_programs();
  programs.resize(2);  // dense and matmul
  tw::RuleCheck check = tw::check_rule(uses, library, programs, tw::host_target(), 20, 1);
  std::cout << check.errors << check.draws << " draws, " << check.different << " wrong\n";

  std::string errors;
  tw::CandidateSpace space =
      tw::make_candidate_space(programs[0].program.program, uses, library, tw::host_target(), errors);
  for (const tw::RejectRow& row : tw::explain_space(space, tw::host_target(), 10, 1).rejects)
    std::cout << row.rule << ": " << row.count << " x " << row.example << "\n";

  // What of a schedule is needed for a property? Here: that some loop is unrolled.
  auto fails = [](const tw::FailingCase& at) {
    tw::Arena arena;
    tw::State state(arena, at.program.program);
    if (!tw::replay(at.trace, state)) return false;
    bool unrolled = false;
    tw::for_each<tw::For>(state.program().body,
                          [&](const tw::For* loop) { unrolled |= loop->loop_kind == tw::LoopKind::Unroll; });
    return unrolled;
  };
  tw::Reduced small = tw::reduce({programs[0].program, space.space.sketches[0].trace}, fails);
  std::cout << "reduced:\n" << small.result.trace.print();
}

// From rules to sketches, and from a sketch to programs: a module as text, the built-in rules, draws from the prior.
#include <iostream>

#include "dsl/text/workload.h"
#include "sampler/space/candidate.h"

int main() {
  auto source = std::make_shared<tw::Source>(tw::Source{"mine.tw", R"(
rule columns(b: block)
  when is_reduction(b) and vector_axis(b)?
{
  j0, j1 = split(vector_axis(b), [_, sample_categorical([8, 16])])
  either { } or { unroll(j1) }
}
rules mine { auto_inline; columns }
)"});
  tw::Diagnostics diagnostics(*source);
  tw::rules::Library library = tw::rules::Library::built_in();
  auto module = tw::rules::parse_module(source, diagnostics);
  if (!module || !library.add(module, diagnostics)) return std::cerr << diagnostics.render(), 1;

  const tw::WorkloadModule& operators = tw::operator_library();
  tw::Diagnostics call(*operators.source);
  auto program = tw::instantiate(operators, "dense", {{"M", tw::i64{8}}, {"N", tw::i64{64}}, {"K", tw::i64{16}}},
                                 {"bias", "relu"}, call);
  if (!program) return std::cerr << call.render(), 1;
  std::string errors;
  tw::CandidateSpace space =
      tw::make_candidate_space(program->program, *library.find_set("mine"), library, tw::host_target(), errors);
  std::cout << errors << space.space.sketches.size() << " sketches\n";

  tw::CandidateBuilder builder(space);  // one for each thread
  tw::Rng rng(7);
  for (int sketch = 0; sketch < static_cast<int>(space.space.sketches.size()); ++sketch) {
    tw::Candidate candidate;
    if (!builder.draw(sketch, candidate, rng)) continue;  // no draw meets the requirements
    auto built = builder.build(candidate, &rng);
    if (!built)
      std::cout << tw::to_string(built.rejected()) << "\n";
    else
      std::cout << tw::full_trace(space, candidate)->print() << "\n";
  }
}

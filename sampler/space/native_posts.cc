#include "sampler/space/native_posts.h"

#include <unistd.h>

#include "dsl/base/clock.h"
#include "dsl/base/text.h"
#include "rules/lang/try_in_child.h"
#include "sampler/space/candidate.h"

namespace tw {
namespace {

constexpr int kDraws = 4;       // of each sketch,
constexpr double kSeconds = 1;  // those after the first as long as this allows

// Draws candidates and postprocesses them: "", or the fault that showed.
std::string try_draws(const CandidateSpace& space) {
  CandidateBuilder builder(space);
  double begin = seconds_now();
  for (int draw = 0; draw < kDraws; ++draw) {
    for (std::size_t sketch = 0; sketch < space.space.sketches.size(); ++sketch) {
      if (draw > 0 && seconds_now() - begin > kSeconds) return "";
      alarm(rules::kNativeSeconds);
      Rng rng(static_cast<u64>(sketch), static_cast<u64>(draw));
      Candidate candidate;
      if (!builder.draw(static_cast<int>(sketch), candidate, rng)) continue;
      Result<Program> made = builder.build(candidate, &rng);
      if (!made && rules::is_fault_of_post(made.rejected())) return to_string(made.rejected());
    }
  }
  return "";
}

}  // namespace

void PostFaults::note(u64 key, const Reject& why) {
  if (!rules::is_fault_of_post(why)) return;
  std::string line = to_string(why);
  std::lock_guard lock(mutex_);
  has_any_ = true;
  rejects_.emplace(key, why);
  if (known_.insert(line).second) lines_ += cat(line, "; candidates of which it does so are left out\n");
}

std::optional<Reject> PostFaults::find(u64 key) {
  if (!has_any_) return std::nullopt;
  std::lock_guard lock(mutex_);
  auto found = rejects_.find(key);
  return found == rejects_.end() ? std::nullopt : std::optional(found->second);
}

std::string PostFaults::take() {
  std::lock_guard lock(mutex_);
  return std::exchange(lines_, {});
}

void leave_out_wrong_posts(CandidateSpace& space, std::string& errors, const std::function<bool()>& stop) {
  for (std::size_t i = 0; i < space.posts.size();) {
    const rules::RuleUse& post = space.posts[i];
    std::string wrong;
    if (post.rule->native_post && !(stop && stop())) {
      // Those before it have been tried; those behind it are none of the child's.
      wrong = rules::try_in_child(cat("postprocessor `", post.rule->name, "`"), rules::kNativeSeconds, [&] {
        space.posts.resize(i + 1);
        return try_draws(space);
      });
    }
    if (wrong.empty()) {
      ++i;
      continue;
    }
    Diagnostics diagnostics(*post.module->source);
    diagnostics.error(post.rule->span, wrong);
    errors +=
        cat(diagnostics.render(), post.rule->kind(), " `", post.rule->name, "` is left out (", space.base.name, ")\n");
    space.posts.erase(space.posts.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace tw

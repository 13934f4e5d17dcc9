// One wrong plugin for each definition.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>

#include "rules/lang/plugin.h"

using Rules = std::vector<std::shared_ptr<const tw::rules::NativeRule>>;

#if defined(RULES)
using Posts = std::vector<std::shared_ptr<const tw::rules::NativePost>>;

// A rule that ends in its own way.
class Rule : public tw::rules::NativeRule {
 public:
  Rule(std::string name, void (*end)()) : name_(std::move(name)), end_(end) {}
  std::string name() const override { return name_; }
  std::string doc() const override { return "it goes wrong"; }
  std::string unmet(const tw::State&, const tw::Block&, const tw::rules::TargetFacts&) const override { return ""; }
  std::vector<tw::Schedule> apply(const tw::Schedule&, tw::BlockId, const tw::rules::TargetFacts&,
                                  std::vector<tw::Reject>&) const override {
    end_();
    return {};
  }

 private:
  std::string name_;
  void (*end_)();
};

// The extent of the outermost loop.
static tw::i64 drawn_extent(const tw::Schedule& schedule) {
  for (const tw::Block* block : schedule.state().blocks()) {
    for (const tw::For* loop : *schedule.state().loops_around(block->id)) return loop->extent;
  }
  return 0;
}

static int deeper(volatile int* outer) {
  volatile int here[1024] = {*outer};
  return deeper(here) + here[7];
}

static const pid_t home = getpid();

// Goes wrong in many ways, by what was drawn, but never in a child process of the one that loaded the plugin.
static void go_wrong_here(tw::Schedule& schedule) {
  static volatile int number = 0;
  tw::i64 extent = drawn_extent(schedule);
  if (getpid() != home) return;
  if (extent == 2) *reinterpret_cast<volatile int*>(8) = 1;
  if (extent == 4) std::abort();
  if (extent == 8) deeper(&number);
  if (extent == 16) throw std::runtime_error("not today");
  while (extent == 32) number = 0;
}

class Post : public tw::rules::NativePost {
 public:
  Post(std::string name, void (*end)(tw::Schedule&)) : name_(std::move(name)), end_(end) {}
  std::string name() const override { return name_; }
  std::string doc() const override { return "it goes wrong"; }
  tw::Status apply(tw::Schedule& schedule, const tw::rules::TargetFacts&) const override {
    return end_(schedule), tw::ok();
  }

 private:
  std::string name_;
  void (*end_)(tw::Schedule&);
};

static void crash() { std::raise(SIGSEGV); }
static void leave() { std::exit(3); }
static void fail() { throw std::runtime_error("not today"); }
static void hang() {
  for (;;) sleep(1);
}

static Rules make() {
  return {std::make_shared<Rule>("crashing", crash), std::make_shared<Rule>("exiting", leave),
          std::make_shared<Rule>("throwing", fail), std::make_shared<Rule>("hanging", hang)};
}
static Posts make_posts() {
  auto as_post = [](const char* name, auto end) { return std::make_shared<Post>(name, end); };
  return {as_post("crashing_post", [](tw::Schedule&) { crash(); }),
          as_post("exiting_post", [](tw::Schedule&) { leave(); }),
          as_post("throwing_post", [](tw::Schedule&) { fail(); }),
          as_post("hanging_post", [](tw::Schedule&) { hang(); }), as_post("late_post", go_wrong_here)};
}
TW_PLUGIN(make, make_posts)
#else
static Rules make() {
#if defined(CRASH)
  std::raise(SIGSEGV);
#elif defined(HANG)
  for (;;) sleep(1);
#elif defined(EXIT)
  std::exit(3);
#elif defined(THROWS)
  throw std::runtime_error("not today");
#endif
  return {};
}

#if defined(OLD)
extern "C" const tw::rules::PluginEntry* tracewright_plugin() {
  static const tw::rules::PluginEntry entry{tw::rules::plugin_interface, "0.0.9", make};
  return &entry;
}
#elif defined(NOTHING)
int no_entry_point() { return static_cast<int>(make().size()); }
#else
TW_PLUGIN(make)
#endif
#endif

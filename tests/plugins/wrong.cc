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
  std::vector<tw::Schedule> apply(const tw::Schedule&, tw::BlockId, const tw::rules::TargetFacts&, std::vector<tw::Reject>&) const override {
    end_();
    return {};
  }

 private:
  std::string name_;
  void (*end_)();
};

class Post : public tw::rules::NativePost {
 public:
  std::string name() const override { return "throwing_post"; }
  std::string doc() const override { return "it goes wrong"; }
  tw::Status apply(tw::Schedule&, const tw::rules::TargetFacts&) const override { throw std::runtime_error("not today"); }
};

static Rules make() {
  return {std::make_shared<Rule>("crashing", [] { std::raise(SIGSEGV); }), std::make_shared<Rule>("exiting", [] { std::exit(3); }),
          std::make_shared<Rule>("throwing", [] { throw std::runtime_error("not today"); })};
}
static Posts make_posts() { return {std::make_shared<Post>()}; }
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

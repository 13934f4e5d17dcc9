// One wrong plugin for each definition.
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <stdexcept>

#include "rules/lang/plugin.h"

using Rules = std::vector<std::shared_ptr<const tw::rules::NativeRule>>;

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

#include "rules/lang/load_plugin.h"

#include <array>
#include <cstring>
#include <fstream>

#define BOOST_DLL_USE_STD_FS
#include <boost/dll/shared_library.hpp>

#include "dsl/base/text.h"
#include "rules/lang/plugin.h"
#include "rules/lang/try_in_child.h"

namespace tw::rules {
namespace {

struct Opened {
  std::shared_ptr<boost::dll::shared_library> library;
  const PluginEntry* entry = nullptr;
};

// The loader's own words, without the path that we say ourselves.
std::string reason_of(const std::string& message, const std::string& path) {
  std::size_t at = message.find(path + ": ");
  return at == std::string::npos ? message : message.substr(at + path.size() + 2);
}

// The loader says of text that the file descriptor is bad.
bool is_shared_library(const std::string& path) {
  std::array<char, 4> begin{};
  std::ifstream file(path, std::ios::binary);
  return file.read(begin.data(), begin.size()) && std::string_view(begin.data(), begin.size()) ==
                                                      "\x7f"
                                                      "ELF";
}

// Opens the library and asks for its version. "" or what is wrong.
std::string open(const std::string& path, Opened& out) {
  if (std::filesystem::exists(path) && !is_shared_library(path)) return "it is no shared library";
  boost::dll::fs::error_code error;
  auto library = std::make_shared<boost::dll::shared_library>();
  library->load(std::filesystem::absolute(path), error,
                boost::dll::load_mode::rtld_now | boost::dll::load_mode::rtld_local);
  if (error) return cat("it cannot be loaded: ", reason_of(error.message(), path));
  if (!library->has(plugin_symbol))
    return cat("it is no plugin: it does not export `", plugin_symbol, "`; write TW_PLUGIN(...) in one of its files");
  const PluginEntry* entry = library->get<const PluginEntry*()>(plugin_symbol)();
  if (!entry) return "its entry point gives nothing";
  if (entry->interface != plugin_interface || std::strcmp(entry->version, TW_VERSION) != 0) {
    return cat("it was built for tracewright ", entry->version, " (interface ", entry->interface, "), this is ",
               TW_VERSION, " (interface ", plugin_interface, "); build it again");
  }
  out = {std::move(library), entry};
  return "";
}

std::vector<std::shared_ptr<const NativeRule>> rules_of(const PluginEntry& entry) {
  return entry.make_rules ? entry.make_rules() : std::vector<std::shared_ptr<const NativeRule>>{};
}
std::vector<std::shared_ptr<const NativePost>> posts_of(const PluginEntry& entry) {
  return entry.make_posts ? entry.make_posts() : std::vector<std::shared_ptr<const NativePost>>{};
}

// "" if the plugin survives being loaded, else what is wrong.
std::string probe(const std::string& path, int seconds) {
  return try_in_child("its entry point", seconds, [&] {
    Opened opened;
    std::string wrong = open(path, opened);
    if (wrong.empty() && rules_of(*opened.entry).empty() && posts_of(*opened.entry).empty()) wrong = "it has no rules";
    return wrong;
  });
}

}  // namespace

std::shared_ptr<const Module> load_plugin(const std::string& path, std::string& error, int seconds) {
  Opened opened;
  error = probe(path, seconds);
  if (error.empty()) error = open(path, opened);
  if (!error.empty()) return nullptr;
  auto module = std::make_shared<Module>();
  module->library = opened.library;
  module->arena = std::make_shared<Arena>();
  std::string text;
  auto add = [&](const std::string& name, const std::string& doc) -> Rule& {
    Rule rule{.name = module->arena->text(name)};
    rule.doc = module->arena->text(doc);
    rule.span = {text.size(), text.size() + name.size()};
    text += name + "\n";
    module->rules.push_back(std::move(rule));
    return module->rules.back();
  };
  for (const auto& native : rules_of(*opened.entry)) add(native->name(), native->doc()).native = native;
  for (const auto& native : posts_of(*opened.entry)) {
    Rule& post = add(native->name(), native->doc());
    post.is_post = post.visits_program = true;
    post.native_post = native;
  }
  // Errors about a rule of a plugin show its name as the text.
  module->source = std::make_shared<const Source>(Source{path, text});
  return module;
}

bool is_plugin(const std::string& path) { return path.ends_with(".so"); }

}  // namespace tw::rules

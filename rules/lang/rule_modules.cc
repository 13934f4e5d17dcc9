#include "rules/lang/rule_modules.h"

#include <filesystem>

#include "dsl/base/files.h"
#include "dsl/base/text.h"
#include "rules/lang/load_plugin.h"

namespace tw::rules {
namespace {

constexpr int most_nested_imports = 16;

// Does the path lead out of the folder that it is relative to?
bool leads_out(const std::filesystem::path& path) {
  std::filesystem::path normal = path.lexically_normal();
  return path.is_absolute() || (!normal.empty() && *normal.begin() == "..");
}

}  // namespace

std::shared_ptr<const Module> RuleModules::add_file(const std::string& path) {
  auto [known, is_new] = done_.try_emplace(path);
  if (!is_new) return known->second;
  if (is_plugin(path)) return done_[path] = add_plugin(path);
  std::string error;
  std::optional<std::string> text = read_text_file(path, error);
  if (!text) return errors_ += cat("error: ", error, "\n"), nullptr;
  auto source = std::make_shared<const Source>(Source{path, *text});
  Diagnostics diagnostics(*source);
  std::shared_ptr<const Module> module = parse_module(source, diagnostics);
  bool is_good = module && add_imports(path, *module, diagnostics) && library_.add(module, diagnostics);
  errors_ += diagnostics.render();
  if (is_good) done_[path] = module;
  return is_good ? module : nullptr;
}

std::shared_ptr<const Module> RuleModules::add_plugin(const std::string& path) {
  std::string error;
  std::shared_ptr<const Module> module = load_plugin(path, error);
  if (!module) return errors_ += cat(path, ": error: the plugin is not loaded: ", error, "\n"), nullptr;
  Diagnostics diagnostics(*module->source);
  bool is_good = library_.add(module, diagnostics);
  errors_ += diagnostics.render();
  return is_good ? module : nullptr;
}

bool RuleModules::add_imports(const std::string& path, const Module& module, Diagnostics& diagnostics) {
  for (const Import& import : module.imports) {
    std::filesystem::path file = std::string(import.path);
    std::string wanted = (std::filesystem::path(path).parent_path() / file).lexically_normal().string();
    if (leads_out(file)) {
      diagnostics.error(import.span, "a module may import files of its own folder and below only");
    } else if (!std::filesystem::is_regular_file(wanted)) {
      diagnostics.error(import.span, cat("there is no file ", wanted),
                        "imports are relative to the folder of the module");
    } else if (done_.count(wanted) && !done_[wanted]) {
      diagnostics.error(import.span, cat(wanted, " imports this module, or has errors"),
                        "modules may not import one another in a circle");
    } else if (depth_ == most_nested_imports) {
      diagnostics.error(import.span, cat("imports nested more than ", most_nested_imports, " deep"));
    } else {
      ++depth_;
      if (!add_file(wanted)) diagnostics.error(import.span, cat(wanted, " has errors, see there"));
      --depth_;
    }
  }
  return !diagnostics.has_errors();
}

}  // namespace tw::rules

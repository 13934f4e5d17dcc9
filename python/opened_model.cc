#include "python/opened_model.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>

namespace tw::python {
namespace {

// dlopen gives the library that is open already if it knows the path, even where another file has taken its place. So
// each opening spells the path in another way: the bits of its number, as "./" and ".//", before the name of the file.
std::string unique_spelling(const std::string& path) {
  static std::atomic<unsigned> openings = 0;
  std::string bits;
  for (unsigned number = ++openings; number > 0; number /= 2) bits += number % 2 ? "./" : ".//";
  std::size_t name = path.rfind('/') + 1;
  return path.substr(0, name) + bits + path.substr(name);
}

}  // namespace

OpenedModel::OpenedModel(const std::string& library, const std::string& name, const std::string& weights, int entries,
                         int threads)
    : weights_(weights),
      threads_(threads),
      handle_(dlopen(unique_spelling(library).c_str(), RTLD_NOW | RTLD_LOCAL)),
      idle_(static_cast<std::size_t>(entries)) {
  if (!handle_) throw std::runtime_error(dlerror());
  create_ = reinterpret_cast<ModelCreate>(dlsym(handle_, (name + "_create").c_str()));
  create_entry_ = reinterpret_cast<ModelCreateEntry>(dlsym(handle_, (name + "_create_entry").c_str()));
  destroy_ = reinterpret_cast<ModelDestroy>(dlsym(handle_, (name + "_destroy").c_str()));
  run_ = reinterpret_cast<ModelRunFunction>(dlsym(handle_, (name + "_run").c_str()));
  try {
    if (!create_ || !destroy_ || !run_ || (entries > 1 && !create_entry_))
      throw std::runtime_error(library + " lacks the functions of a model");
    idle(0).push_back(make_context(0));
  } catch (...) {
    dlclose(handle_);
    throw;
  }
}

OpenedModel::~OpenedModel() {
  for (const std::vector<Context>& contexts : idle_) {
    for (const Context& context : contexts) destroy(context);
  }
  dlclose(handle_);
}

OpenedModel::Context OpenedModel::make_context(int entry) const {
  Context made;
  if (int32_t code = entry > 0 ? create_entry_(weights_.c_str(), entry, threads_, &made.context)
                               : create_(weights_.c_str(), threads_, &made.context))
    throw std::runtime_error(why_not_created(code));
  made.owner = getpid();
  if (threads_ > 1 && !(made.pool = tw_pool_create(threads_, nullptr))) {
    destroy_(made.context);
    throw std::runtime_error("the threads of the model cannot be started");
  }
  return made;
}

OpenedModel::Context OpenedModel::take_context(int entry) {
  {
    std::lock_guard lock(mutex_);
    while (!idle(entry).empty()) {
      Context context = idle(entry).back();
      idle(entry).pop_back();
      if (!context.pool || context.owner == getpid()) return context;
      destroy_(context.context);  // a process that was forked lacks the threads; its copy of the pool is left as it is
    }
  }
  return make_context(entry);
}

void OpenedModel::destroy(const Context& context) const {
  if (context.pool && context.owner == getpid()) tw_pool_destroy(context.pool);
  destroy_(context.context);
}

void OpenedModel::run(int entry, const std::vector<const void*>& inputs, const std::vector<void*>& outputs) {
  Context context = take_context(entry);
  int32_t code =
      run_(context.context, inputs.data(), outputs.data(), context.pool ? tw_pool_run : nullptr, context.pool);
  {
    std::lock_guard lock(mutex_);
    idle(entry).push_back(context);
  }
  if (code != 0) throw std::runtime_error("a kernel of the model failed with code " + std::to_string(code));
}

}  // namespace tw::python

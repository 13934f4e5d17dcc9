#include "runtime/store/libpq.h"

#include <dlfcn.h>

#include "dsl/base/text.h"

namespace tw::libpq {
namespace {

struct Opened {
  Api api{};
  std::string problem;
};

template <class Function>
void find(void* library, const char* name, Function& function, std::string& problem) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function && problem.empty()) problem = cat("libpq.so.5 is older than PostgreSQL 14: it has no function ", name);
}

Opened open() {
  Opened opened;
  void* library = dlopen("libpq.so.5", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) {
    opened.problem = dlerror();
    return opened;
  }
  Api& api = opened.api;
#define TW_FIND(name) find(library, "PQ" #name, api.name, opened.problem)
  TW_FIND(clear), TW_FIND(cmdTuples), TW_FIND(connectPoll), TW_FIND(connectStartParams);
  TW_FIND(connectionNeedsPassword), TW_FIND(conninfoFree), TW_FIND(conninfoParse), TW_FIND(consumeInput);
  TW_FIND(enterPipelineMode), TW_FIND(errorMessage), TW_FIND(escapeIdentifier), TW_FIND(exec);
  TW_FIND(exitPipelineMode), TW_FIND(finish), TW_FIND(freemem), TW_FIND(pipelineSync);
  TW_FIND(getResult), TW_FIND(getisnull), TW_FIND(getlength), TW_FIND(getvalue), TW_FIND(notifies);
  TW_FIND(nfields), TW_FIND(ntuples), TW_FIND(resultErrorField), TW_FIND(resultErrorMessage), TW_FIND(resultStatus);
  TW_FIND(sendPrepare), TW_FIND(sendQueryParams), TW_FIND(sendQueryPrepared);
  TW_FIND(serverVersion), TW_FIND(setErrorVerbosity), TW_FIND(setNoticeProcessor), TW_FIND(setSingleRowMode);
  TW_FIND(socket), TW_FIND(status), TW_FIND(transactionStatus), TW_FIND(user);
#undef TW_FIND
  return opened;
}

}  // namespace

const Api* api(std::string* why) {
  static const Opened opened = open();
  *why = opened.problem;
  return opened.problem.empty() ? &opened.api : nullptr;
}

}  // namespace tw::libpq

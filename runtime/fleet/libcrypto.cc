#include "runtime/fleet/libcrypto.h"

#include <dlfcn.h>

#include "dsl/base/text.h"

namespace tw::libcrypto {
namespace {

struct Opened {
  Api api{};
  std::string problem;
};

Opened open() {
  Opened opened;
  void* library = dlopen("libcrypto.so.3", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!library) {
    opened.problem = cat(dlerror(), "; Debian's package libssl3 has it");
    return opened;
  }
  auto find = [&](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
    if (!function && opened.problem.empty()) opened.problem = cat("libcrypto.so.3 has no function ", name);
  };
#define TW_FIND(name) find(#name, opened.api.name)
  TW_FIND(BIO_free), TW_FIND(BIO_new_mem_buf), TW_FIND(ERR_clear_error), TW_FIND(EVP_DigestSign);
  TW_FIND(EVP_DigestSignInit), TW_FIND(EVP_DigestVerify), TW_FIND(EVP_DigestVerifyInit), TW_FIND(EVP_MD_CTX_free);
  TW_FIND(EVP_MD_CTX_new), TW_FIND(EVP_PKEY_free), TW_FIND(EVP_PKEY_get_raw_public_key), TW_FIND(EVP_PKEY_is_a);
  TW_FIND(PEM_read_bio_PUBKEY), TW_FIND(PEM_read_bio_PrivateKey);
#undef TW_FIND
  return opened;
}

}  // namespace

const Api* api(std::string* why) {
  static const Opened opened = open();
  *why = opened.problem;
  return opened.problem.empty() ? &opened.api : nullptr;
}

}  // namespace tw::libcrypto

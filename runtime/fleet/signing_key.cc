#include "runtime/fleet/signing_key.h"

#include <sys/stat.h>

#include "dsl/base/check.h"
#include "dsl/base/files.h"
#include "dsl/base/text.h"
#include "runtime/fleet/libcrypto.h"

namespace tw {
namespace {

constexpr std::size_t kSignatureBytes = 64, kKeyBytes = 32;

// Whoever holds a key has opened the library.
const libcrypto::Api& crypto() {
  std::string why;
  const libcrypto::Api* api = libcrypto::api(&why);
  TW_CHECK(api, "a key without OpenSSL");
  return *api;
}

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { crypto().EVP_MD_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_MD_CTX, FreeContext>;

const unsigned char* raw(std::string_view text) { return reinterpret_cast<const unsigned char*>(text.data()); }

// A key behind a passphrase is not asked for: a builder runs without a terminal.
int no_passphrase(char*, int, int, void*) { return 0; }

// A key of a file whose mode has none of the bits `forbidden`. `find` reads it with OpenSSL.
template <class Find>
std::shared_ptr<EVP_PKEY> read_key(const std::string& path, mode_t forbidden, const char* advice, const char* kind,
                                   std::string& error, Find&& find) {
  std::string why;
  const libcrypto::Api* api = libcrypto::api(&why);
  if (!api) return error = cat("keys need OpenSSL: ", why), nullptr;
  std::optional<std::string> text = read_whole_file(path);
  struct stat status{};
  if (!text || stat(path.c_str(), &status) != 0) return error = cat(path, ": no such file, or not readable"), nullptr;
  if (status.st_mode & forbidden) return error = cat(path, ": ", advice), nullptr;
  BIO* bytes = api->BIO_new_mem_buf(text->data(), static_cast<int>(text->size()));
  std::shared_ptr<EVP_PKEY> key(bytes ? find(*api, bytes) : nullptr, [api](EVP_PKEY* k) { api->EVP_PKEY_free(k); });
  api->BIO_free(bytes);
  api->ERR_clear_error();
  explicit_bzero(text->data(), text->size());
  if (key && api->EVP_PKEY_is_a(key.get(), "ED25519")) return key;
  return error = cat(path, ": expected ", kind, " (Ed25519, PEM), found something else"), nullptr;
}

}  // namespace

std::optional<CheckingKey> CheckingKey::read(const std::string& path, std::string& error) {
  auto key = read_key(
      path, S_IWOTH, "everybody may write to this file; `chmod o-w` it",
      "a public key as `openssl pkey -in PRIVATE -pubout` writes it", error,
      [](const libcrypto::Api& api, BIO* bytes) { return api.PEM_read_bio_PUBKEY(bytes, nullptr, nullptr, nullptr); });
  if (!key) return std::nullopt;
  return CheckingKey(std::move(key));
}

bool CheckingKey::fits(std::string_view bytes, std::string_view signature) const {
  const libcrypto::Api& api = crypto();
  Context context(api.EVP_MD_CTX_new());
  if (!context || signature.size() != kSignatureBytes) return false;
  bool is_right = api.EVP_DigestVerifyInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1 &&
                  api.EVP_DigestVerify(context.get(), raw(signature), signature.size(), raw(bytes), bytes.size()) == 1;
  api.ERR_clear_error();
  return is_right;
}

std::string CheckingKey::name() const {
  unsigned char bytes[kKeyBytes];
  std::size_t size = sizeof bytes;
  TW_CHECK(crypto().EVP_PKEY_get_raw_public_key(key_.get(), bytes, &size) == 1, "a key without a public part");
  std::string text;
  for (unsigned char byte : bytes) text += "0123456789abcdef"[byte >> 4], text += "0123456789abcdef"[byte & 15];
  return text;
}

std::optional<SigningKey> SigningKey::read(const std::string& path, std::string& error) {
  auto key = read_key(path, S_IRWXG | S_IRWXO, "others may read this private key; `chmod 600` it",
                      "a private key without passphrase as `openssl genpkey -algorithm ed25519` writes it", error,
                      [](const libcrypto::Api& api, BIO* bytes) {
                        return api.PEM_read_bio_PrivateKey(bytes, nullptr, no_passphrase, nullptr);
                      });
  if (!key) return std::nullopt;
  return SigningKey(std::move(key));
}

std::string SigningKey::sign(std::string_view bytes) const {
  const libcrypto::Api& api = crypto();
  Context context(api.EVP_MD_CTX_new());
  std::string signature(kSignatureBytes, '\0');
  std::size_t size = signature.size();
  bool is_done = context && api.EVP_DigestSignInit(context.get(), nullptr, nullptr, nullptr, key_.get()) == 1 &&
                 api.EVP_DigestSign(context.get(), reinterpret_cast<unsigned char*>(signature.data()), &size,
                                    raw(bytes), bytes.size()) == 1;
  TW_CHECK(is_done && size == kSignatureBytes, "OpenSSL does not sign");
  return signature;
}

}  // namespace tw

// Keys that machine code is signed with: Ed25519 (RFC 8032) by OpenSSL, in files of its PEM format. A builder holds the
// private key, which never leaves its file; machines that run what it built hold the public one.
//   openssl genpkey -algorithm ed25519 -out builder.key        (mode 0600)
//   openssl pkey -in builder.key -pubout -out builder.pub
#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>

struct evp_pkey_st;

namespace tw {

// A public key.
class CheckingKey {
 public:
  // nullopt, and in `error` why in one sentence: no file, no such key, a file that everybody may write to, no OpenSSL.
  static std::optional<CheckingKey> read(const std::string& path, std::string& error);
  bool fits(std::string_view bytes, std::string_view signature) const;
  // The key itself in 64 hex digits: builders and machines find each other by it.
  std::string name() const;

 protected:
  explicit CheckingKey(std::shared_ptr<evp_pkey_st> key) : key_(std::move(key)) {}
  std::shared_ptr<evp_pkey_st> key_;
};

// A private key, which has the public one in it.
class SigningKey : public CheckingKey {
 public:
  // As above; also a file that others may read is refused, and a key behind a passphrase.
  static std::optional<SigningKey> read(const std::string& path, std::string& error);
  std::string sign(std::string_view bytes) const;  // 64 bytes

 private:
  using CheckingKey::CheckingKey;
};

}  // namespace tw

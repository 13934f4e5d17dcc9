#include "runtime/fleet/signing_key.h"

#include <gtest/gtest.h>

#include "tests/unit/builder_kit.h"

namespace tw {
namespace {

std::string bytes_of(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

TEST(SigningKey, SignsAsTheStandardSays) {
  EXPECT_EQ(signing_key(kKey).name(), "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
  EXPECT_EQ(checking_key(kKey).name(), signing_key(kKey).name());
  EXPECT_EQ(signing_key(kKey).sign(""),
            bytes_of("e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd"
                     "25bf5f0595bbe24655141438e7a100b"));
  EXPECT_EQ(signing_key(kOtherKey).sign("\x72"),
            bytes_of("92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c3"
                     "87b2eaeb4302aeeb00d291612bb0c00"));
}

TEST(SigningKey, FitsWhatWasSignedAlone) {
  std::string text(100000, 'x'), signature = signing_key().sign(text);
  CheckingKey key = checking_key();
  EXPECT_TRUE(key.fits(text, signature));
  EXPECT_FALSE(checking_key(kOtherKey).fits(text, signature));
  for (std::size_t at : {std::size_t{0}, text.size() / 2, text.size() - 1}) {
    std::string changed = text;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_FALSE(key.fits(changed, signature)) << at;
  }
  for (std::size_t at = 0; at < signature.size(); ++at) {
    std::string changed = signature;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    EXPECT_FALSE(key.fits(text, changed)) << at;
  }
  for (const std::string& none : {std::string(), signature.substr(1), signature + "x", std::string(64, '\0')})
    EXPECT_FALSE(key.fits(text, none));
  EXPECT_FALSE(key.fits(text.substr(1), signature));
}

TEST(SigningKey, SaysWhatIsWrongWithAFile) {
  test::TemporaryDirectory folder;
  const std::string path = folder.path() + "/key";
  auto why_not_signing = [&](const char* text, mode_t mode) {
    std::string error;
    EXPECT_FALSE(SigningKey::read(write_key(path, text, mode), error));
    return error;
  };
  auto why_not_checking = [&](const char* text, mode_t mode) {
    std::string error;
    EXPECT_FALSE(CheckingKey::read(write_key(path, text, mode), error));
    return error;
  };
  EXPECT_NE(why_not_signing(kKey.secret, 0640).find("others may read"), std::string::npos);
  EXPECT_NE(why_not_signing(kKey.open, 0600).find("expected a private key"), std::string::npos);
  EXPECT_NE(why_not_signing("", 0600).find("expected a private key"), std::string::npos);
  EXPECT_NE(why_not_checking(kKey.open, 0666).find("everybody may write"), std::string::npos);
  EXPECT_NE(why_not_checking(kKey.secret, 0600).find("expected a public key"), std::string::npos);
  // A key of another kind: X25519, which signs nothing.
  EXPECT_NE(why_not_checking("-----BEGIN PUBLIC KEY-----\n"
                             "MCowBQYDK2VuAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
                             "-----END PUBLIC KEY-----\n",
                             0644)
                .find("expected a public key"),
            std::string::npos);
  std::string error;
  EXPECT_FALSE(SigningKey::read(folder.path() + "/none", error));
  EXPECT_NE(error.find("no such file"), std::string::npos);
}

}  // namespace
}  // namespace tw

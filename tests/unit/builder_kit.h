// Keys of the first two tests of RFC 8032, section 7.1, in OpenSSL's files; and a builder within this process.
#pragma once
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <string>
#include <thread>

#include "sampler/fleet/trial_builder.h"
#include "support/support.h"

namespace tw {

struct KeyText {
  const char *secret, *open;
};
inline constexpr KeyText kKey = {
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIJ1hsZ3v/VpguoRK9JLsLMREScVpezJpGXA7rAMcrn9g\n"
    "-----END PRIVATE KEY-----\n",
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEA11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=\n"
    "-----END PUBLIC KEY-----\n"};
inline constexpr KeyText kOtherKey = {
    "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIEzNCJso/5banbbDRuwRTg9bijGfNaumJNqM9u1PuKb7\n"
    "-----END PRIVATE KEY-----\n",
    "-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAPUAXw+hDiVqStwqnTRt+vJyYLM8uxJaMwM1V8Sr0Zgw=\n"
    "-----END PUBLIC KEY-----\n"};

inline std::string write_key(const std::string& path, const char* text, mode_t mode) {
  test::write_file(path, text);
  chmod(path.c_str(), mode);
  return path;
}
inline SigningKey signing_key(const KeyText& key = kKey) {
  test::TemporaryDirectory folder;
  std::string error;
  std::optional<SigningKey> read = SigningKey::read(write_key(folder.path() + "/key", key.secret, 0600), error);
  EXPECT_TRUE(read) << error;
  return *read;
}
inline CheckingKey checking_key(const KeyText& key = kKey) {
  test::TemporaryDirectory folder;
  std::string error;
  std::optional<CheckingKey> read = CheckingKey::read(write_key(folder.path() + "/key", key.open, 0644), error);
  EXPECT_TRUE(read) << error;
  return *read;
}

class BuilderHere {
 public:
  BuilderHere(const std::string& address, const Target& target, const KeyText& key = kKey) {
    SigningKey signer = signing_key(key);
    BuilderOptions options{
        .address = address,
        .announced = {.name = "builder", .version = TW_VERSION, .targets = to_string(target), .key = signer.name()},
        .targets = {target}};
    Waiting waiting{.must_stop = [this] { return stop_.load(); }, .say = [](const std::string&) {}};
    thread_ = std::thread(
        [this, builder = std::make_shared<TrialBuilder>(options, signer, waiting)] { report_ = builder->run(); });
  }
  ~BuilderHere() {
    if (thread_.joinable()) stop();
  }
  BuilderReport stop() {
    stop_ = true;
    thread_.join();
    EXPECT_EQ(report_.error, "");
    return report_;
  }

 private:
  std::atomic<bool> stop_ = false;
  BuilderReport report_;
  std::thread thread_;
};

}  // namespace tw

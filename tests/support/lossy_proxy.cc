#include "support/lossy_proxy.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>

#include "dsl/base/text.h"

namespace tw::test {
namespace {

sockaddr_un socket_named(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "%s", path.c_str());
  return address;
}

}  // namespace

LossyProxy::LossyProxy(const PostgresServer& server)
    : server_socket_(cat(server.folder(), "/.s.PGSQL.", server.port())), port_(server.port()) {
  sockaddr_un address = socket_named(cat(folder_.path(), "/.s.PGSQL.", port_));
  listener_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  EXPECT_EQ(bind(listener_, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
  EXPECT_EQ(listen(listener_, 16), 0);
  thread_ = std::thread([this] { work(); });
}

LossyProxy::~LossyProxy() {
  is_over_ = true;
  thread_.join();
  close(listener_);
}

std::string LossyProxy::address(const std::string& database, const std::string& role) const {
  return cat("postgresql://", role, "@/", database, "?host=", folder_.path(), "&port=", port_);
}

// False: the pair ends.
bool LossyProxy::pass(Pair& pair, bool from_client) {
  char bytes[65536];
  ssize_t size = recv(from_client ? pair.client : pair.server, bytes, sizeof bytes, 0);
  if (size <= 0) return false;
  if (!from_client && pair.is_lost) return ++count_, false;
  const char* text = lost_;
  bool holds_it = text && memmem(bytes, static_cast<std::size_t>(size), text, std::strlen(text));
  if (from_client && holds_it) pair.is_lost = true, lost_ = nullptr;
  return send(from_client ? pair.server : pair.client, bytes, static_cast<std::size_t>(size), MSG_NOSIGNAL) == size;
}

void LossyProxy::hold() {
  must_hold_ = true;
  while (must_hold_) std::this_thread::yield();
}

void LossyProxy::work() {
  while (!is_over_) {
    for (Pair& pair : pairs_) pair.is_held |= must_hold_;
    must_hold_ = false;
    std::vector<pollfd> waiting{{listener_, POLLIN, 0}};
    for (const Pair& pair : pairs_) {
      waiting.push_back({pair.is_held ? -1 : pair.client, POLLIN, 0});
      waiting.push_back({pair.is_held ? -1 : pair.server, POLLIN, 0});
    }
    if (poll(waiting.data(), waiting.size(), 20) <= 0) continue;
    for (std::size_t i = pairs_.size(); i-- > 0;) {
      bool goes_on = true;
      for (bool from_client : {true, false}) {
        if (waiting[from_client ? 2 * i + 1 : 2 * i + 2].revents != 0)
          goes_on = goes_on && pass(pairs_[i], from_client);
      }
      if (goes_on) continue;
      close(pairs_[i].client), close(pairs_[i].server);
      pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (waiting[0].revents == 0) continue;
    Pair pair{accept(listener_, nullptr, nullptr), socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    sockaddr_un server = socket_named(server_socket_);
    if (connect(pair.server, reinterpret_cast<sockaddr*>(&server), sizeof server) == 0)
      pairs_.push_back(pair);
    else
      close(pair.client), close(pair.server);
  }
  for (const Pair& pair : pairs_) close(pair.client), close(pair.server);
}

}  // namespace tw::test

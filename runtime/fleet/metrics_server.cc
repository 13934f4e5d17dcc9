#include "runtime/fleet/metrics_server.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <sstream>

#include "dsl/base/clock.h"
#include "dsl/base/text.h"

namespace tw {
namespace {

std::string answer_of(std::string_view status, std::string_view type, std::string_view body, bool with_body = true) {
  return cat("HTTP/1.1 ", status, "\r\nContent-Type: ", type, "\r\nContent-Length: ", body.size(),
             "\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nConnection: close\r\n",
             status.starts_with("405") ? "Allow: GET, HEAD\r\n" : "", "\r\n", with_body ? body : "");
}

constexpr std::string_view kPlain = "text/plain; charset=utf-8";
constexpr std::string_view kMetrics = "text/plain; version=0.0.4; charset=utf-8";

bool is_whole(const std::string& request) {
  return request.find("\r\n\r\n") != std::string::npos || request.find("\n\n") != std::string::npos;
}

// Nothing there now, and the connection is fine.
bool must_wait() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

}  // namespace

std::unique_ptr<MetricsServer> MetricsServer::start(int port, std::function<std::string()> text, std::string& error,
                                                    const MetricsLimits& limits) {
  int listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  int yes = 1;
  sockaddr_in address{};
  address.sin_family = AF_INET, address.sin_port = htons(static_cast<std::uint16_t>(port));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  int wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  bool listens = listening >= 0 && wake >= 0 &&
                 setsockopt(listening, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes) == 0 &&
                 bind(listening, generic, size) == 0 && listen(listening, SOMAXCONN) == 0 &&
                 getsockname(listening, generic, &size) == 0;
  if (listens)
    return std::unique_ptr<MetricsServer>(
        new MetricsServer(listening, wake, ntohs(address.sin_port), std::move(text), limits));
  error = cat("cannot listen on 127.0.0.1:", port, ": ", std::strerror(errno));
  for (int descriptor : {listening, wake}) {
    if (descriptor >= 0) close(descriptor);
  }
  return nullptr;
}

MetricsServer::MetricsServer(int listening, int wake, int port, std::function<std::string()> text,
                             const MetricsLimits& limits)
    : listening_(listening), wake_(wake), port_(port), text_(std::move(text)), limits_(limits) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);  // signals are for the thread that measures
  thread_ = std::thread([this] { serve(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

MetricsServer::~MetricsServer() {
  eventfd_write(wake_, 1);
  thread_.join();
  for (Client& client : clients_) close(client.socket);
  close(listening_), close(wake_);
}

void MetricsServer::serve() {
  setpriority(PRIO_PROCESS, 0, 19);  // of this thread alone
  for (;;) {
    double now = seconds_now();
    if (now - second_ >= 1) second_ = now, connections_ = 0;
    bool may_accept = connections_ < limits_.connections_per_second;
    double wake_at = may_accept ? now + 3600 : second_ + 1;
    std::vector<pollfd> watched = {{wake_, POLLIN, 0}, {may_accept ? listening_ : -1, POLLIN, 0}};
    for (const Client& client : clients_) {
      bool writes = !client.answer.empty() && !client.is_over;
      watched.push_back({client.socket, static_cast<short>(writes ? POLLOUT : POLLIN), 0});
      wake_at = std::min(wake_at, client.deadline);
    }
    int milliseconds = static_cast<int>(std::ceil(std::max(wake_at - now, 0.0) * 1000));
    if (poll(watched.data(), watched.size(), milliseconds) < 0 && errno != EINTR) return;
    if (watched[0].revents) return;
    now = seconds_now();
    for (std::size_t i = 0; i < clients_.size(); ++i) {
      Client& client = clients_[i];
      bool has_news = watched[i + 2].revents != 0;
      if (client.deadline <= now || (has_news && !goes_on(client))) close(client.socket), client.socket = -1;
    }
    std::erase_if(clients_, [](const Client& client) { return client.socket < 0; });
    if (watched[1].revents) accept_clients(now);
  }
}

// Where there are too many, the oldest one has to go: clients that only wait do not keep others away.
void MetricsServer::accept_clients(double now) {
  while (connections_ < limits_.connections_per_second) {
    int socket = accept4(listening_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (socket < 0) {
      if (!must_wait()) connections_ = limits_.connections_per_second;  // no descriptor is free, say: later
      return;
    }
    ++connections_;
    if (clients_.size() == limits_.clients) close(clients_.front().socket), clients_.erase(clients_.begin());
    clients_.push_back({.socket = socket, .deadline = now + limits_.client_seconds});
  }
}

// False: the connection is to be closed.
bool MetricsServer::goes_on(Client& client) {
  if (client.answer.empty() || client.is_over) {
    if (!read_from(client)) return false;
    if (client.answer.empty() || client.is_over) return true;
  }
  return write_to(client);
}

bool MetricsServer::read_from(Client& client) {
  char part[4096];
  ssize_t got = recv(client.socket, part, sizeof part, 0);
  if (got <= 0) return got < 0 && must_wait();
  if (client.is_over) return true;
  client.request.append(part, static_cast<std::size_t>(got));
  if (is_whole(client.request))
    client.answer = answer_to(client.request);
  else if (client.request.size() > limits_.request_bytes)
    client.answer = answer_of("431 Request Header Fields Too Large", kPlain, "the request is too long\n");
  return true;
}

bool MetricsServer::write_to(Client& client) {
  ssize_t sent =
      send(client.socket, client.answer.data() + client.sent, client.answer.size() - client.sent, MSG_NOSIGNAL);
  if (sent < 0) return must_wait();
  client.sent += static_cast<std::size_t>(sent);
  if (client.sent < client.answer.size()) return true;
  // Closing at once would take away what the client has not read yet, where it has sent more than was read.
  client.is_over = true;
  return shutdown(client.socket, SHUT_WR) == 0;
}

std::string MetricsServer::answer_to(const std::string& request) {
  std::istringstream line(request.substr(0, request.find_first_of("\r\n")));
  std::string method, path, version, more;
  line >> method >> path >> version;
  if (!version.starts_with("HTTP/1.") || line >> more) return answer_of("400 Bad Request", kPlain, "no HTTP request\n");
  bool with_body = method != "HEAD";
  if (with_body && method != "GET")
    return answer_of("405 Method Not Allowed", kPlain, "only GET and HEAD are answered\n");
  path = path.substr(0, path.find('?'));
  if (path == "/metrics") return answer_of("200 OK", kMetrics, text_(), with_body);
  if (path == "/") return answer_of("200 OK", kPlain, "tracewright measure: the metrics are at /metrics\n", with_body);
  return answer_of("404 Not Found", kPlain, "the metrics are at /metrics\n", with_body);
}

}  // namespace tw

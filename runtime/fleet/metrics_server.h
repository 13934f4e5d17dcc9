// MetricsServer: answers GET /metrics on loopback with a text, for Prometheus and for people. Used by `tracewright
// measure --metrics`. HTTP/1.1 with one request a connection; no TLS, and nothing to change by a request.
//
// Clients cannot disturb what runs beside: one thread of the lowest priority serves all, holds few connections, gives
// each little time and few bytes, and answers no more than so many requests a second.
#pragma once
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace tw {

struct MetricsLimits {
  std::size_t clients = 16;          // at once; for one more the oldest has to go
  std::size_t request_bytes = 8192;  // with all headers
  double client_seconds = 5;         // from the connection to the end of the answer
  int connections_per_second = 20;   // others wait in the kernel's queue
};

class MetricsServer {
 public:
  // Listens on 127.0.0.1; port 0 = one that is free. `text` is called by the server's thread for each answer. Null, and
  // `error`, if the port cannot be had. The thread runs on the processors that the caller may use now.
  static std::unique_ptr<MetricsServer> start(int port, std::function<std::string()> text, std::string& error,
                                              const MetricsLimits& limits = {});
  ~MetricsServer();
  MetricsServer(const MetricsServer&) = delete;
  int port() const { return port_; }

 private:
  struct Client {
    int socket = -1;
    double deadline = 0;
    std::string request, answer;
    std::size_t sent = 0;
    bool is_over = false;  // the answer was sent; what the client still says is read away until it closes
  };
  MetricsServer(int listening, int wake, int port, std::function<std::string()> text, const MetricsLimits& limits);
  void serve();
  void accept_clients(double now);
  bool goes_on(Client& client);
  bool read_from(Client& client);
  bool write_to(Client& client);
  std::string answer_to(const std::string& request);

  int listening_, wake_, port_;
  std::function<std::string()> text_;
  MetricsLimits limits_;
  std::vector<Client> clients_;
  double second_ = 0;    // begin of the second in which connections are counted
  int connections_ = 0;  // that were taken in it
  std::thread thread_;
};

}  // namespace tw

// A client of HTTP on loopback, byte by byte, for tests of servers.
#pragma once
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>

#include "dsl/base/text.h"

namespace tw::test {

// A connection; -1 if it is refused.
inline int connect_to(int port, const char* host = "127.0.0.1") {
  int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET, address.sin_port = htons(static_cast<in_port_t>(port));
  inet_pton(AF_INET, host, &address.sin_addr);
  if (connect(socket, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return socket;
  close(socket);
  return -1;
}

inline void say_to(int socket, const std::string& text) { (void)!send(socket, text.data(), text.size(), MSG_NOSIGNAL); }

// All until the other side closes, or is silent for so many milliseconds.
inline std::string hear_from(int socket, int milliseconds = 30000) {
  std::string heard;
  char part[65536];
  pollfd readable{socket, POLLIN, 0};
  for (ssize_t got; poll(&readable, 1, milliseconds) == 1 && (got = recv(socket, part, sizeof part, 0)) > 0;)
    heard.append(part, static_cast<std::size_t>(got));
  return heard;
}

// The answer to a request, with its headers; "" if there is none.
inline std::string ask(int port, const std::string& request) {
  int socket = connect_to(port);
  if (socket < 0) return "";
  say_to(socket, request);
  std::string answer = hear_from(socket);
  close(socket);
  return answer;
}
inline std::string get(int port, const std::string& path = "/metrics") {
  return ask(port, cat("GET ", path, " HTTP/1.1\r\nHost: localhost\r\n\r\n"));
}
inline std::string body_of(const std::string& answer) {
  std::size_t end = answer.find("\r\n\r\n");
  return end == std::string::npos ? "" : answer.substr(end + 4);
}

}  // namespace tw::test

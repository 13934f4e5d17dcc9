#include "runtime/store/record.h"

#include <chrono>
#include <cmath>
#include <regex>

#include "dsl/base/utf8.h"
#include "dsl/ir/compare.h"

namespace tw {
namespace {

// Every field with its length, so that no two different rows give the same bytes.
struct DigestInput {
  std::string bytes;
  void operator()(const char*, const std::string& text) {
    number(text.size());
    bytes += text;
  }
  void operator()(const char*, double seconds) { number(static_cast<u64>(to_picoseconds(seconds))); }
  void operator()(const char* name, OptionalTime<const double> time) {
    if (to_picoseconds(time.seconds) != 0) (*this)(name, time.seconds);
  }
  void operator()(const char*, i64 value) { number(static_cast<u64>(value)); }
  void operator()(const char*, u64 value) { number(value); }
  void number(u64 value) {
    for (int shift = 0; shift < 64; shift += 8) bytes += static_cast<char>(value >> shift);
  }
};

template <class Row>
std::string digest_of(const Row& row) {
  DigestInput input;
  input("", std::string(Row::table));
  input("", row.id);
  Row::fields(row, input);
  return to_hex(hash_bytes(input.bytes));
}

}  // namespace

std::string machine_of(const std::string& host) {
  static const std::regex varying("(^|, )[0-9]+ of [0-9]+ cores|, Linux [^,;]*$");
  thread_local std::string last_host, last_machine;  // most records follow one of the same machine
  if (host != last_host) last_machine = std::regex_replace(host, varying, ""), last_host = host;
  return last_machine;
}

i64 to_picoseconds(double seconds) {
  if (!(seconds > 0) || seconds > 1e6) return 0;
  return std::llround(seconds * 1e12);
}

i64 now_ms() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(system_clock::now().time_since_epoch()).count();
}

std::string digest(const Record& record) { return digest_of(record); }
std::string digest(const WorkloadText& workload) { return digest_of(workload); }
std::string digest(const StoredModel& model) { return digest_of(model); }
std::string digest(const StoredRun& run) { return digest_of(run); }

bool is_hash(const std::string& text) {
  return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string clean_text(const std::string& text, std::size_t most) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = text[at] == '\0' ? 0 : utf8_length(text, at);
    if (out.size() + std::max<std::size_t>(1, length) > most) break;
    out += length == 0 ? "?" : text.substr(at, length);
    at += std::max<std::size_t>(1, length);
  }
  return out;
}

}  // namespace tw

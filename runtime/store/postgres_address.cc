#include "runtime/store/postgres_address.h"

#include <algorithm>
#include <cstring>
#include <regex>

#include "dsl/base/text.h"
#include "runtime/store/libpq.h"
#include "runtime/store/record.h"

namespace tw {
namespace {

constexpr const char* kForm = "an address reads postgresql://ROLE@HOST:PORT/DATABASE";
constexpr const char* kNoPassword =
    "the address of the database has a password in it, which others could read in the list of processes; leave it out "
    "and write it into a password file (~/.pgpass, or the file that $PGPASSFILE names)";

// Where the part behind the scheme begins, however it is written.
std::size_t end_of_scheme(const std::string& text) {
  if (std::size_t at = text.find("://"); at != std::string::npos) return at + 3;
  std::size_t colon = text.find(':');
  bool is_scheme = colon != std::string::npos && text.starts_with("postgres") && text.compare(colon, 2, ":/") == 0;
  return is_scheme ? colon + 1 : 0;
}

// An address whose parts are where they belong: an `@` in the value of an option is no end of a password.
bool is_plain_with_options(const std::string& text) {
  static const std::regex form(
      R"(postgres(ql)?://([^:@/?]*@)?[^:@/?,]*(:[0-9]*)?(,[^:@/?,]*(:[0-9]*)?)*/[^:@/?]*\?[a-z_]+=[^&]*(&[a-z_]+=[^&]*)*)");
  return std::regex_match(text, form);
}

// A colon in front of an `@` may begin a password, so nothing of such a text is ever shown.
bool may_hold_password(const std::string& text) {
  std::size_t at = text.rfind('@'), colon = text.find(':', end_of_scheme(text));
  static const std::regex option("password *=");
  if (std::regex_search(text, option)) return true;
  return at != std::string::npos && colon < at && !is_plain_with_options(text);
}

bool is_known_scheme(const std::string& text) {
  return text.starts_with("postgresql://") || text.starts_with("postgres://");
}

// "" or what is wrong with the options that libpq found.
std::string check_options(const PQconninfoOption* options) {
  bool has_database = false;
  for (const PQconninfoOption* option = options; option->keyword; ++option) {
    if (!option->val || !*option->val) continue;
    if (std::strstr(option->keyword, "password")) return kNoPassword;
    has_database |= std::strcmp(option->keyword, "dbname") == 0;
  }
  return has_database ? "" : cat("names no database; ", kForm);
}

}  // namespace

bool is_database_address(const std::string& text) {
  static const std::regex key_words("(^| )(host|hostaddr|port|dbname|user|password|service|sslmode) *=.*");
  if (std::regex_match(text, key_words)) return true;  // libpq's other form, which check_address() refuses
  bool is_like_ours = text.starts_with("postg") && text.find_first_of("@:") != std::string::npos;
  std::size_t colon = text.find("://");
  if (colon == std::string::npos || colon == 0) return is_like_ours;
  return std::all_of(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(colon),
                     [](unsigned char c) { return std::isalnum(c) || c == '+' || c == '-'; });
}

std::string check_address(const std::string& address) {
  if (may_hold_password(address)) return kNoPassword;
  const std::string start = cat("database address ", clean_text(address, 200), " ");
  if (!is_known_scheme(address)) return cat(start, "does not begin with postgresql://; ", kForm);
  std::string why;
  const libpq::Api* api = libpq::api(&why);
  if (!api) return cat(start, "needs PostgreSQL's client library (Debian's libpq5): ", why);
  char* problem = nullptr;
  PQconninfoOption* options = api->conninfoParse(address.c_str(), &problem);
  if (!options) {
    std::string text = problem ? problem : "out of memory";
    api->freemem(problem);
    while (!text.empty() && text.back() == '\n') text.pop_back();
    return cat(start, "cannot be read: ", text, "; ", kForm);
  }
  std::string wrong = check_options(options);
  api->conninfoFree(options);
  return wrong.empty() || wrong == kNoPassword ? wrong : start + wrong;
}

}  // namespace tw

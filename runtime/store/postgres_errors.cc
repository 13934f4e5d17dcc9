#include "runtime/store/postgres_errors.h"

#include <algorithm>
#include <regex>
#include <sstream>

#include "dsl/base/text.h"
#include "runtime/store/record.h"

namespace tw {
namespace {

constexpr std::size_t longest_text = 300;
constexpr const char* kRefused = "28000";  // SQLSTATE where libpq itself refuses, see is_refused()

// One line, without the hints of libpq and the places in the server's source.
std::string one_line(const std::string& text) {
  static const std::regex severity("[A-Z]+: +[0-9A-Z]{5}: ");
  std::vector<std::string> parts;
  std::istringstream lines(std::regex_replace(text, severity, ""));
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '\t' || line.starts_with("LOCATION:")) continue;
    if (std::find(parts.begin(), parts.end(), line) == parts.end()) parts.push_back(line);
  }
  return clean_text(join(parts, ", "), longest_text);
}

struct Words {
  const char* state;  // its beginning
  const char* text;   // after the address
};

std::string words_for(const Words* begin, const Words* end, const std::string& state) {
  for (const Words* row = begin; row != end; ++row) {
    if (state.starts_with(row->state)) return row->text;
  }
  return "";
}

constexpr Words kRefusals[] = {
    {"28P01",
     "the password of this role is wrong; write the right one into the password file (~/.pgpass, or the file "
     "that $PGPASSFILE names)"},
    {"28", "the server does not let this role in; ask whoever runs it for the role, and for a line in its pg_hba.conf"},
    {"3D000",
     "the server has no database of that name; look for a typing error, or make it with `createdb` and "
     "`tracewright db init`"},
    {"42501", "this role may not connect to this database; ask its owner for GRANT CONNECT ON DATABASE"},
    {"53300", "the server has no connection left; try again later, or raise its max_connections"},
    {"57P03", "the server is starting or stopping; try again in a moment"},
    {"57P01", "the server is stopping; try again in a moment"},
};

constexpr Words kFailures[] = {
    {"42501", ": this role has no right to do that; take another role, or ask for `tracewright db init` to give it"},
    {"25006", " is read-only (a replica?); name the server that may be written to"},
    {"42P01", " has no tables of tracewright; make them with `tracewright db init`"},
    {"3F000", " has no tables of tracewright; make them with `tracewright db init`"},
    {"53100",
     " cannot be written: the server's disk is full; what was stored before is safe, free some space and start "
     "again"},
    {"53", ": the server has too little memory or too few connections; try again later"},
    {"55P03", " is held by another program for more than 20 seconds; try again later"},
    {"57014", ": the server stopped the statement; try again later"},
    {"40", ": another program changed the same rows at the same time; try again"},
    {"23514", " refuses a value, which is too long or of a wrong form"},
    {"22021", " cannot store text that is not UTF-8"},
    {"XX", " is damaged, the server says"},
    {"58", ": the server cannot read or write its files; what was stored before is safe, look at its disk"},
};

}  // namespace

DatabaseError connection_error(const std::string& address, const std::string& text, bool needs_password) {
  static const std::regex server_says(": +([0-9][0-9A-Z]{4}|XX[0-9A-Z]{3}): ([^\n]*)");
  std::smatch match;
  const std::string start = cat("cannot open database ", address, ": ");
  if (needs_password) {
    return {cat(start,
                "the server asks for a password, and there is none; write it into the password file (~/.pgpass, or the "
                "file that $PGPASSFILE names)"),
            "28P01"};
  }
  if (std::regex_search(text, match, server_says)) {
    std::string state = match[1], words = words_for(std::begin(kRefusals), std::end(kRefusals), state);
    std::string said = clean_text(match[2], longest_text);
    return {words.empty() ? cat(start, "the server says: ", said) : cat(start, words, " (", said, ")"), state};
  }
  std::string said = one_line(text);
  static const std::regex of_option("invalid (port number|integer value|[a-z_]+ value)|private key file");
  if (std::regex_search(text, of_option))
    return {cat(start, "an option of the address cannot be used (", said, ")"), kRefused};
  const bool has_certificate = text.find("certificate") != std::string::npos;
  if (has_certificate || text.find("SSL") != std::string::npos) {
    return {cat(start, "no encrypted connection (", said,
                "); look at sslmode, sslrootcert and sslcert of the address, and at the dates of the certificates"),
            has_certificate ? kRefused : ""};
  }
  return {cat(start, "no server answers (", said, "); look at the address, and whether the server runs")};
}

bool ends_session(const std::string& state) {
  return state.starts_with("08") || state.starts_with("57P") || state == "25P03";
}

DatabaseError statement_error(const std::string& address, const std::string& state, const std::string& text) {
  std::string said = one_line(text);
  if (ends_session(state)) return {connection_lost(address, said).message, state, true};
  std::string words = words_for(std::begin(kFailures), std::end(kFailures), state);
  return {words.empty() ? cat("database ", address, ": ", said) : cat("database ", address, words, " (", said, ")"),
          state};
}

DatabaseError connection_lost(const std::string& address, const std::string& text) {
  std::string said = one_line(text);
  return {cat("database ", address, ": the connection to the server is lost", said.empty() ? "" : cat(" (", said, ")"),
              "; what it acknowledged before is safe"),
          "", true};
}

}  // namespace tw

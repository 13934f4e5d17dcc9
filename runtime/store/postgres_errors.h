// The words for what a PostgreSQL server or libpq says is wrong. The inside of postgres_connection.cc.
#pragma once
#include <string>

#include "runtime/store/database_result.h"

namespace tw {

// Why no session could be had. `text`: libpq's message, of verbosity PQERRORS_VERBOSE.
DatabaseError connection_error(const std::string& address, const std::string& text, bool needs_password);

// Why a statement failed: SQLSTATE and the server's first line.
DatabaseError statement_error(const std::string& address, const std::string& state, const std::string& text);

DatabaseError connection_lost(const std::string& address, const std::string& text);

// "57P01" and its like: the server ends the session.
bool ends_session(const std::string& state);

}  // namespace tw

// The address of a database on a PostgreSQL server: postgresql://ROLE@HOST:PORT/DATABASE?OPTION=VALUE, as libpq reads
// it.
#pragma once
#include <string>

namespace tw {

// Is `text` meant as an address and not as the name of a file? Addresses with a typing error are among them.
bool is_database_address(const std::string& text);

// Why the address cannot be used, as a sentence that holds no secret; "" if it can. An address with a password in it is
// refused, because other users of the machine see the command line, and databases and logs keep it.
std::string check_address(const std::string& address);

}  // namespace tw

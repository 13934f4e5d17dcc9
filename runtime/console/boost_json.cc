// The code of Boost.JSON, of which Debian has no compiled library: built into libtracewright, which hides it, and into
// each program that uses it.
#include <boost/json/src.hpp>

// Boost.JSON, compiled once for the command: libtracewright keeps its own copy to itself.
#include <boost/json/src.hpp>

// Boost.JSON has no compiled library in Debian; this is its code, once for libtracewright.
#include <boost/json/src.hpp>

#include "dsl/base/result.h"

namespace tw {

std::string to_string(const Reject& reject) {
  std::string out;
  if (*reject.instruction) out = std::string(reject.instruction) + ": ";
  for (const char* at = reject.reason; *at; ++at) {
    if (at[0] == '{' && at[1] && at[2] == '}') {
      char hole = at[1];
      if (hole >= '0' && hole <= '2') out += std::to_string(reject.numbers[hole - '0']);
      if (hole == 'a' || hole == 'b') out += reject.names[hole - 'a'];
      at += 2;
    } else {
      out += *at;
    }
  }
  return out;
}

}  // namespace tw

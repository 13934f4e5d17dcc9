// The stream probe: how long one core takes at least to read so many bytes and to write so many others, where they lie
// as those of a kernel that is called again and again. The search bounds with it what a kernel can still gain.
#pragma once
#include "dsl/base/arena.h"

namespace tw {

// Seconds, the least of repeated runs in several ways (vectors of at most `vector_bits`, memcpy and memset of the C
// library); 0 if there is no memory for it. A busy machine makes it larger, never smaller.
double measure_stream_seconds(i64 read_bytes, i64 written_bytes, int vector_bits, double seconds);

}  // namespace tw

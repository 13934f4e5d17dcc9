// Times of the queue of trials, in seconds of the server's clock.
#pragma once

namespace tw {

inline constexpr int kLeaseSeconds = 20;          // of a lease, and of its prolongation by a heartbeat
inline constexpr int kSlowLeaseSeconds = 40;      // of a lease from a slow server, which has fewer heartbeats then
inline constexpr int kLongestLeaseSeconds = 900;  // however often it is prolonged
inline constexpr int kProlongedSeconds = 12;      // a heartbeat prolongs leases of which less is left
inline constexpr int kHeartbeatSeconds = 4;       // between two heartbeats of a tuner or machine, see life_signs.h
inline constexpr int kGoneSeconds = 60;           // after its last heartbeat a tuner is gone
inline constexpr int kOtherMachineSeconds =
    60;  // so long a lost trial waits for another machine than the one that lost it

}  // namespace tw

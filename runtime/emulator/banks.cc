#include "runtime/emulator/banks.h"

#include <algorithm>
#include <array>

namespace tw::emulator {
namespace {

constexpr std::size_t kMost = 1 << 20;  // accesses of one warp between two barriers that are looked at

}  // namespace

int extra_rounds(const std::vector<u64>& addresses, u64 bytes) {
  u64 words = std::max<u64>(1, bytes / 4);
  std::size_t lanes_at_once = 32 / static_cast<std::size_t>(words);
  int extra = 0;
  for (std::size_t first = 0; first < addresses.size(); first += lanes_at_once) {
    std::array<std::vector<u64>, 32> banks;
    std::size_t last = std::min(addresses.size(), first + lanes_at_once), most = 1;
    for (std::size_t i = first; i < last; ++i) {
      for (u64 word = addresses[i] / 4; word < addresses[i] / 4 + words; ++word) {
        std::vector<u64>& bank = banks[word % 32];
        if (std::find(bank.begin(), bank.end(), word) == bank.end()) bank.push_back(word);
        most = std::max(most, bank.size());
      }
    }
    extra += static_cast<int>(most) - 1;
  }
  return extra;
}

void Banks::begin(int warps) { warps_.assign(static_cast<std::size_t>(warps), {}); }

void Banks::end() {
  barrier();
  warps_.clear();
}

void Banks::add(int warp, int lane, u64 instruction, u64 address, u64 bytes) {
  if (warps_.empty()) return;
  std::vector<One>& list = warps_[static_cast<std::size_t>(warp)];
  if (list.size() < kMost) list.push_back({instruction, address, static_cast<u8>(lane), static_cast<u8>(bytes)});
}

void Banks::barrier() {
  for (std::vector<One>& warp : warps_) {
    count(warp);
    warp.clear();
  }
}

void Banks::count(std::vector<One>& warp) {
  std::stable_sort(warp.begin(), warp.end(), [](const One& a, const One& b) {
    return a.instruction != b.instruction ? a.instruction < b.instruction : a.lane < b.lane;
  });
  for (std::size_t begin = 0, end = 0; begin < warp.size(); begin = end) {
    while (end < warp.size() && warp[end].instruction == warp[begin].instruction) ++end;
    std::vector<std::size_t> lanes;  // where each lane's accesses begin
    std::size_t most = 0;
    for (std::size_t i = begin; i < end; ++i) {
      if (i == begin || warp[i].lane != warp[i - 1].lane) lanes.push_back(i);
      most = std::max(most, i - lanes.back() + 1);
    }
    lanes.push_back(end);
    for (std::size_t time = 0; time < most; ++time) {
      std::vector<u64> addresses;
      for (std::size_t i = 0; i + 1 < lanes.size(); ++i) {
        if (lanes[i] + time < lanes[i + 1]) addresses.push_back(warp[lanes[i] + time].address);
      }
      ++accesses_;
      conflicts_ += extra_rounds(addresses, warp[begin].bytes);
    }
  }
}

}  // namespace tw::emulator

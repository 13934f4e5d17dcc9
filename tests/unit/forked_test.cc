// Work in a child that hands over bytes while it goes on.
#include "dsl/base/forked.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>

namespace tw {
namespace {

using HandOver = ForkedStream::HandOver;

std::string pattern(std::size_t bytes) {
  std::string text(bytes, 0);
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(i % 251);
  return text;
}

// More than a pipe holds, taken in other pieces than those that were handed over.
TEST(ForkedStream, BytesComeInOrder) {
  const std::string text = pattern(3'000'000);
  ForkedStream child([&](const HandOver& hand_over) {
    bool is_good = hand_over(text.data(), 1'000'000) && hand_over(text.data() + 1'000'000, 2'000'000);
    return is_good ? 7 : 1;
  });
  std::string found(2'500'001, 0);
  ASSERT_TRUE(child.take(found.data(), 1));
  ASSERT_TRUE(child.take(found.data() + 1, 2'500'000));
  ForkedAnswer answer = child.finish();
  EXPECT_TRUE(found + answer.text == text);
  EXPECT_EQ(answer.exit_code, 7);
  EXPECT_EQ(answer.signal, 0);
  EXPECT_EQ(answer.not_started, "");
}

// When a piece of 1 MiB is taken, the child has made at most two more: the one in the pipe and the one that waits.
TEST(ForkedStream, AChildWaitsAsLongAsNobodyTakes) {
  void* shared = mmap(nullptr, sizeof(std::atomic<int>), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  auto* made = new (shared) std::atomic<int>(0);
  const int pieces = 40;
  ForkedStream child([&](const HandOver& hand_over) {
    std::string piece(1 << 20, 'x');
    for (int i = 0; i < pieces; ++i) {
      ++*made;
      if (!hand_over(piece.data(), piece.size())) return 1;
    }
    return 0;
  });
  std::string piece(1 << 20, 0);
  for (int taken = 1; taken <= pieces; ++taken) {
    ASSERT_TRUE(child.take(piece.data(), piece.size()));
    EXPECT_LE(*made, taken + 2);
  }
  EXPECT_EQ(child.finish().exit_code, 0);
  munmap(shared, sizeof(std::atomic<int>));
}

TEST(ForkedStream, AChildThatNobodyReadsIsEnded) {
  pid_t pid = 0;
  {
    ForkedStream child([](const HandOver& hand_over) {
      pid_t own = getpid();
      while (hand_over(&own, sizeof own)) {
      }
      return 0;
    });
    ASSERT_TRUE(child.take(&pid, sizeof pid));
  }
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(errno, ESRCH);
}

TEST(ForkedStream, HowAChildEndsIsSaid) {
  char byte = 0;
  ForkedStream leaves([](const HandOver&) -> int { _exit(3); });
  EXPECT_FALSE(leaves.take(&byte, 1));
  EXPECT_EQ(leaves.finish().exit_code, 3);
  ForkedStream stops([](const HandOver& hand_over) {
    hand_over("ab", 2);
    raise(SIGKILL);
    return 0;
  });
  char three[3];
  EXPECT_FALSE(stops.take(three, 3));
  ForkedAnswer answer = stops.finish();
  EXPECT_EQ(answer.signal, SIGKILL);
  EXPECT_EQ(answer.exit_code, -1);
}

TEST(RunForked, TheTextOfTheWorkComesBack) {
  const std::string text = pattern(200'000);
  ForkedAnswer answer = run_forked([&](std::string& own) { return own = text, 5; });
  EXPECT_TRUE(answer.text == text);
  EXPECT_EQ(answer.exit_code, 5);
}

}  // namespace
}  // namespace tw

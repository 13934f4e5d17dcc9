// .npy files: as NumPy writes them, damaged, and back.
#include "runtime/lists/npy.h"

#include <gtest/gtest.h>

#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "support/support.h"

namespace tw {
namespace {

class Npy : public testing::Test {
 protected:
  std::optional<HostArray> read(const std::string& bytes) {
    test::write_file(path(), bytes);
    return read_npy(path(), error);
  }
  std::string path() const { return folder.path() + "/x.npy"; }

  test::TemporaryDirectory folder;
  std::string error;
};

std::string file(const std::string& header, const std::string& data, int version = 1) {
  std::string padded = header;
  std::size_t before = version == 1 ? 10 : 12;
  while ((before + padded.size() + 1) % 64 != 0) padded += ' ';
  padded += '\n';
  std::string out = "\x93NUMPY";
  out += static_cast<char>(version);
  out += '\0';
  for (std::size_t i = 0; i < before - 8; ++i) out += static_cast<char>(padded.size() >> (8 * i) & 255);
  return out + padded + data;
}

TEST_F(Npy, RoundTripsOfAllTypesAndRanks) {
  for (DType type : {DType::Bool, DType::I8, DType::U8, DType::I32, DType::I64, DType::F16, DType::F32, DType::F64}) {
    for (const std::vector<i64>& shape : std::vector<std::vector<i64>>{{}, {3}, {2, 3}, {1, 2, 3, 4}, {0, 5}}) {
      HostArray array = HostArray::zeros(type, shape);
      for (i64 i = 0; i < array.elements(); ++i) array.set(i, static_cast<double>(i % 2));
      std::optional<HostArray> back = read(*npy_bytes(array));
      ASSERT_TRUE(back) << error;
      EXPECT_EQ(back->dtype, type);
      EXPECT_EQ(back->shape, shape);
      EXPECT_EQ(back->bytes, array.bytes);
    }
  }
  EXPECT_FALSE(npy_bytes(HostArray::zeros(DType::BF16, {2})));
}

TEST_F(Npy, FilesOfNumPy) {
  std::string data("\x00\x00\x80\x3f\x00\x00\x00\xc0", 8);  // 1, -2
  for (int version : {1, 2}) {
    std::optional<HostArray> x =
        read(file("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1), }", data, version));
    ASSERT_TRUE(x) << error;
    EXPECT_EQ(x->shape, (std::vector<i64>{2, 1}));
    EXPECT_EQ(x->get(0), 1);
    EXPECT_EQ(x->get(1), -2);
  }
}

TEST_F(Npy, WhatIsWrongIsSaid) {
  auto refused = [&](const std::string& bytes) { return read(bytes) ? "taken" : error.substr(error.find("`: ") + 3); };
  std::string four(16, '\0');
  auto header = [](const char* type, const char* order, const char* shape) {
    return cat("{'descr': '", type, "', 'fortran_order': ", order, ", 'shape': ", shape, ", }");
  };
  EXPECT_EQ(refused("no array"), "it is no .npy file");
  EXPECT_EQ(refused(file(header("<f4", "False", "(4,)"), four).substr(0, 40)), "it is cut off");
  EXPECT_EQ(refused(file(header("<f4", "False", "(5,)"), four)), "its size is not that of its shape");
  EXPECT_EQ(refused(file(header("<c8", "False", "(2,)"), four)), "elements of type `<c8` are not supported");
  EXPECT_EQ(refused(file(header(">f4", "False", "(4,)"), four)), "elements of type `>f4` are not supported");
  EXPECT_EQ(refused(file(header("<f4", "True", "(2, 2)"), four)),
            "it is in Fortran order; save it as np.ascontiguousarray(x)");
  EXPECT_EQ(refused(file("{'descr': '<f4'}", four)), "its header is not understood");
  EXPECT_EQ(refused(file(header("<f4", "False", "(99999999999999999999,)"), four)), "it is too large");
  EXPECT_EQ(refused(file(header("<f4", "False", "(999999999, 999999999, 999999999)"), four)), "it is too large");
  EXPECT_FALSE(read_npy(folder.path() + "/none.npy", error));
}

TEST_F(Npy, DamagedFilesAreRefusedOrRead) {
  std::string good = *npy_bytes(HostArray::zeros(DType::F32, {3, 4}));
  Rng rng(1);
  for (int i = 0; i < 2000; ++i) {
    std::string bad = good;
    for (i64 n = 1 + rng.below(4); n > 0; --n)
      bad[static_cast<std::size_t>(rng.below(std::ssize(bad)))] = static_cast<char>(rng.below(256));
    if (rng.below(3) == 0) bad.resize(static_cast<std::size_t>(rng.below(std::ssize(bad))));
    std::optional<HostArray> read_back = read(bad);
    if (read_back) {
      EXPECT_EQ(std::ssize(read_back->bytes), read_back->elements() * bytes_of(read_back->dtype));
    }
  }
}

}  // namespace
}  // namespace tw

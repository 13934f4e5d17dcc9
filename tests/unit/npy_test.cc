// .npy files: as NumPy writes them, damaged, and back.
#include "runtime/lists/npy.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "support/python.h"
#include "support/run_program.h"
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
    for (const std::vector<i64>& shape :
         std::vector<std::vector<i64>>{{}, {3}, {2, 3}, {3, 1, 2}, {1, 2, 3, 4}, {0, 5}}) {
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
  EXPECT_EQ(refused(""), "it is no .npy file");
  EXPECT_EQ(refused(file(header("<f4", "False", "(4,)"), four, 4)), "format 4 is not known");
  EXPECT_EQ(refused(file(header("<f4", "False", "(4,)"), four, 0)), "format 0 is not known");
  EXPECT_EQ(refused(file(header("<f4", "False", "(4,)"), four).substr(0, 40)), "it is cut off");
  EXPECT_EQ(refused(file(header("<f4", "False", "(5,)"), four)), "its size is not that of its shape");
  EXPECT_EQ(refused(file(header("<c8", "False", "(2,)"), four)), "elements of type `<c8` are not supported");
  EXPECT_EQ(refused(file(header(">f4", "False", "(4,)"), four)), "elements of type `>f4` are not supported");
  EXPECT_EQ(refused(file(header("<f4", "True", "(2, 2)"), four)),
            "it is in Fortran order; save it as np.ascontiguousarray(x)");
  EXPECT_EQ(refused(file("{'descr': '<f4'}", four)), "its header is not understood");
  EXPECT_EQ(refused(file(header("<f4", "False", "(-4,)"), four)), "its header is not understood");
  EXPECT_EQ(refused(file("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (4,), }", four)),
            "its header is not understood");
  EXPECT_EQ(refused(file(header("<f4", "False", "(99999999999999999999,)"), four)), "it is too large");
  EXPECT_EQ(refused(file(header("<f4", "False", "(999999999, 999999999, 999999999)"), four)), "it is too large");
  EXPECT_FALSE(read_npy(folder.path() + "/none.npy", error));
}

TEST_F(Npy, HeadersThatSayTheyAreLong) {
  auto refused = [&](const std::string& bytes) { return read(bytes) ? "taken" : error.substr(error.find("`: ") + 3); };
  std::string four(16, '\0'), good = file("{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }", four, 2);
  std::string longest = good;
  longest.replace(8, 4, 4, '\xff');
  EXPECT_EQ(refused(longest), "it is cut off");
  EXPECT_EQ(refused("\x93NUMPY\x01" + std::string(1, '\0') + "\xff\xff {'descr': '<f4'"), "it is cut off");
  EXPECT_EQ(refused(file("{'descr': '" + std::string(20000, 'a') + "'}", four, 2)), "its header is too long");
  std::string type(9800, 'a');
  EXPECT_EQ(refused(file(cat("{'descr': '", type, "', 'fortran_order': False, 'shape': (4,), }"), four)),
            cat("elements of type `", type, "` are not supported"));
  std::string many;
  for (int i = 0; i < 4000; ++i) many += "1,";
  std::optional<HostArray> deep =
      read(file(cat("{'descr': '<f4', 'fortran_order': False, 'shape': (", many, "), }"), four.substr(0, 4)));
  ASSERT_TRUE(deep) << error;
  EXPECT_EQ(deep->shape.size(), 4000u);
}

// A view of bytes as truth values may hold others than 0 and 1; to NumPy all but 0 are true, to kernels 1 is.
TEST_F(Npy, TruthValuesAreZeroOrOne) {
  std::optional<HostArray> x =
      read(file("{'descr': '|b1', 'fortran_order': False, 'shape': (4,), }", std::string("\x00\x01\x02\xff", 4)));
  ASSERT_TRUE(x) << error;
  EXPECT_EQ(x->bytes, (std::vector<u8>{0, 1, 1, 1}));
}

TEST_F(Npy, FoldersAreNoFiles) {
  EXPECT_FALSE(read_npy(folder.path(), error));
  EXPECT_EQ(error, cat("cannot read ", folder.path()));
}

// A part of the file replaced by another one, or by what headers are made of.
std::string damaged(const std::string& good, Rng& rng) {
  constexpr const char* words[] = {"'shape': ", "(", ")",  ",",         "-1",    "0",    "4", "99999999999",
                                   "'<f8'",     "'", "{}", "'descr': ", "True,", "\xff", "",  "'fortran_order': "};
  std::string bad = good;
  for (i64 n = 1 + rng.below(4); n > 0; --n) {
    std::size_t at = static_cast<std::size_t>(rng.below(std::ssize(bad)));
    if (rng.below(2) == 0)
      bad[at] = static_cast<char>(rng.below(256));
    else
      bad.replace(at, static_cast<std::size_t>(rng.below(12)), words[rng.below(std::ssize(words))]);
  }
  if (rng.below(3) == 0) bad.resize(static_cast<std::size_t>(rng.below(std::ssize(bad))));
  return bad;
}

TEST_F(Npy, DamagedFilesAreRefusedOrRead) {
  std::string good = *npy_bytes(HostArray::zeros(DType::F32, {3, 4}));
  for (int i = 0; i < 4000; ++i) {
    Rng rng(1, static_cast<u64>(i));
    std::optional<HostArray> read_back = read(damaged(good, rng));
    if (read_back) {
      EXPECT_EQ(std::ssize(read_back->bytes), read_back->elements() * bytes_of(read_back->dtype));
    }
  }
}

// NumPy itself, both ways.
TEST_F(Npy, NumPyReadsAndWritesTheSame) {
  std::string python = test::python_with("numpy");
  if (python.empty()) GTEST_SKIP() << "no Python has numpy (Debian's package python3-numpy)";
  constexpr const char* program = R"py(
import numpy as np
for kind in "?", "i1", "u1", "i4", "i8", "f2", "f4", "f8":
    for rank in range(5):
        shape = (2, 3, 1, 4)[:rank]
        x = np.arange(np.prod(shape, dtype=int)).reshape(shape) % 2
        np.save(f"{np.dtype(kind).name}_{rank}.npy", x.astype(kind))
)py";
  test::Finished made = test::run_program({python, "-c", program}, {.folder = folder.path()});
  ASSERT_EQ(made.code, 0) << made.err;
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) files.push_back(entry.path());
  ASSERT_EQ(files.size(), 40u);
  for (const std::filesystem::path& path : files) {
    std::optional<HostArray> array = read_npy(path.string(), error);
    ASSERT_TRUE(array) << error;
    EXPECT_TRUE(path.string().ends_with(cat("_", array->shape.size(), ".npy"))) << path;
    std::string again = *npy_bytes(*array), first = test::read_file(path.string());
    EXPECT_EQ(again.substr(again.find('\n')), first.substr(first.find('\n'))) << path;
    test::write_file(path.string() + ".again", again);
  }
  constexpr const char* compare = R"py(
import glob
import numpy as np
for name in glob.glob("*.npy"):
    a, b = np.load(name), np.load(name + ".again")
    assert a.dtype == b.dtype and a.shape == b.shape and (a == b).all(), name
)py";
  test::Finished same = test::run_program({python, "-c", compare}, {.folder = folder.path()});
  EXPECT_EQ(same.code, 0) << same.err;
}

}  // namespace
}  // namespace tw

// The object loader: code from a C compiler runs; damaged and foreign objects are refused with the
// reason.
#include "runtime/measure/object_loader.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "tests/unit/test_kernels.h"

namespace tw {
namespace {

std::string object(const std::string& name) {
  return test::read_file(cat(TW_BINARY_DIR, "/tests/kernels/", name, ".o"));
}

std::string error_of(const std::string& bytes) {
  std::string error;
  LoadedObject loaded = load_object(bytes, error);
  EXPECT_EQ(loaded.begin() == nullptr, !error.empty());
  return error;
}

TEST(ObjectLoader, RunsEveryKindOfRelocation) {
  std::string error;
  LoadedObject loaded = load_object(object("honest"), error);
  ASSERT_EQ(error, "");
  std::vector<float> x(test::kOdd), y(test::kOdd);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i) / 500 - 1;
  void* buffers[] = {x.data(), y.data()};
  tw_run_function run = loaded.run("relocations");
  ASSERT_TRUE(run);
  EXPECT_EQ(run(buffers, nullptr, nullptr, nullptr), 0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    float wanted = std::tanh(std::tanh(x[i])) + static_cast<float>(i % 2 ? 4 : 1) * 3.25f;
    ASSERT_NEAR(y[i], wanted, 1e-5) << i;
  }
}

TEST(ObjectLoader, FindsEntryPoints) {
  std::string error;
  LoadedObject loaded = load_object(object("honest"), error);
  EXPECT_TRUE(loaded.prepack("matmul_packed"));
  EXPECT_FALSE(loaded.prepack("matmul"));
  EXPECT_FALSE(loaded.find("one_row")) << "a static function is not found";
  LoadedObject moved = std::move(loaded);
  EXPECT_TRUE(moved.run("matmul"));
}

TEST(ObjectLoader, LoadsFromAnyAlignment) {
  std::string shifted = "x" + object("honest"), error;
  LoadedObject loaded = load_object(std::string_view(shifted).substr(1), error);
  EXPECT_EQ(error, "");
  EXPECT_TRUE(loaded.run("matmul"));
}

TEST(ObjectLoader, CodeIsNotWritableAndDataNotExecutable) {
  std::string error;
  LoadedObject loaded = load_object(object("honest"), error);
  std::string maps = test::read_file("/proc/self/maps");
  auto protection = [&](const char* at) {
    std::size_t line = maps.find(cat(std::hex, reinterpret_cast<u64>(at), "-"));
    return line == std::string::npos ? std::string() : maps.substr(maps.find(' ', line) + 1, 4);
  };
  EXPECT_EQ(protection(loaded.begin()), "r-xp");
  EXPECT_EQ(protection(loaded.code_end()), "r--p");
}

TEST(ObjectLoader, NamesWhatItDoesNotUnderstand) {
  EXPECT_EQ(error_of("int main() {}"), "the code is not an ELF object");
  EXPECT_EQ(error_of(""), "the code is not an ELF object");
  EXPECT_EQ(error_of(object("unknown")), "symbol `not_in_the_table` is not among the functions that a kernel may call");
  EXPECT_EQ(error_of(object("thread_local")), "section `.tbss` is thread-local, which kernels may not have");
  EXPECT_EQ(error_of(object("constructor")), "section `.init_array` holds constructors, which kernels may not have");
  std::string foreign = object("honest");
  auto* header = reinterpret_cast<Elf64_Ehdr*>(foreign.data());
  header->e_machine = EM_AARCH64;
  EXPECT_EQ(error_of(foreign), cat("the code is not a relocatable x86-64 object (type 1, machine ", EM_AARCH64, ")"));
}

// The relocation table of .text in an object.
Elf64_Rela* text_relocations(std::string& bytes) {
  auto* header = reinterpret_cast<Elf64_Ehdr*>(bytes.data());
  auto* sections = reinterpret_cast<Elf64_Shdr*>(bytes.data() + header->e_shoff);
  const char* names = bytes.data() + sections[header->e_shstrndx].sh_offset;
  for (int i = 0; i < header->e_shnum; ++i) {
    if (std::strcmp(names + sections[i].sh_name, ".rela.text") == 0)
      return reinterpret_cast<Elf64_Rela*>(bytes.data() + sections[i].sh_offset);
  }
  return nullptr;
}

TEST(ObjectLoader, RefusesRelocationsThatItCannotDo) {
  std::string bytes = object("honest");
  Elf64_Rela* entry = text_relocations(bytes);
  ASSERT_TRUE(entry);
  Elf64_Rela good = *entry;
  entry->r_info = ELF64_R_INFO(ELF64_R_SYM(good.r_info), R_X86_64_TPOFF64);
  EXPECT_NE(error_of(bytes).find(cat("relocation type ", R_X86_64_TPOFF64, " against ")), std::string::npos);
  entry->r_info = ELF64_R_INFO(ELF64_R_SYM(good.r_info), R_X86_64_32S);
  EXPECT_NE(error_of(bytes).find("does not fit into 32 bits"), std::string::npos);
  entry->r_info = ELF64_R_INFO(1u << 20, R_X86_64_PC32);
  EXPECT_EQ(error_of(bytes), "a relocation names a symbol that does not exist");
  *entry = good;
  entry->r_offset = 1u << 30;
  EXPECT_EQ(error_of(bytes), "a relocation lies outside its section");
}

// No damage may crash the loader (the code is not run). The sanitizers see what a plain build does
// not.
TEST(ObjectLoader, SurvivesDamage) {
  const std::string whole = object("honest");
  Rng rng(1);
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string bytes = whole;
    if (i % 4 == 0) bytes.resize(static_cast<std::size_t>(rng.below(static_cast<i64>(bytes.size()))));
    for (int change = 0; change < 3 && !bytes.empty(); ++change) {
      // Half of the changes hit the headers at both ends, where they matter most.
      i64 size = static_cast<i64>(bytes.size()), near = std::min<i64>(size, 2048);
      i64 at = i % 2 ? rng.below(size) : size - 1 - rng.below(near);
      bytes[static_cast<std::size_t>(at)] = static_cast<char>(rng.next());
    }
    std::string error;
    LoadedObject loaded = load_object(bytes, error);
    refused += !error.empty();
  }
  EXPECT_GT(refused, 500);
}

}  // namespace
}  // namespace tw

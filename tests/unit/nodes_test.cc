// The lists of fields (dsl/ir/nodes.h), for each kind of node: they are complete, and children, rebuilding, copying,
// hash and equality go by them.
#include "dsl/ir/nodes.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>

#include "dsl/analysis/affine.h"
#include "dsl/base/rng.h"
#include "dsl/base/text.h"
#include "dsl/ir/compare.h"
#include "dsl/ir/walk.h"
#include "support/support.h"

namespace tw {
namespace {

// ---- how many members a struct has

struct Anything {
  template <class T>
  operator T() const;
};
template <class T, class... Members>
constexpr int member_count() {
  using Base = std::conditional_t<std::is_base_of_v<Expr, T>, Expr, Stmt>;
  if constexpr (std::is_base_of_v<Node, T>) {
    if constexpr (requires { T{Base{}, Members{}..., Anything{}}; }) return member_count<T, Members..., Anything>();
  } else {
    if constexpr (requires { T{Members{}..., Anything{}}; }) return member_count<T, Members..., Anything>();
  }
  return sizeof...(Members);
}

// The addresses of the members that the list names.
template <class T>
std::set<const void*> listed(const T& node) {
  std::set<const void*> out;
  for_each_field(node, [&](const auto& field) { out.insert(&field); });
  return out;
}

template <class T>
void expect_complete_list(const char* name) {
  EXPECT_EQ(static_cast<int>(listed(T{}).size()), member_count<T>())
      << name << "::fields leaves a member out, or names one twice";
}

// ---- random nodes

// Fills the fields of a node by their types. Children are not folded away: they read a buffer at a random place.
class Maker {
 public:
  explicit Maker(u64 seed) : rng_(seed) {}
  Arena arena;

  template <class T>
  T node() {
    T made{};
    if constexpr (std::is_base_of_v<Node, T>) made.kind = T::own_kind;
    if constexpr (std::is_base_of_v<Expr, T>) made.type = {DType::F32, 2};
    for_each_field(made, [&](auto& field) { fill(field); });
    return made;
  }

  void fill(const Expr*& child) { child = read_at(integer()); }
  void fill(const Stmt*& child) {
    child = build_.store(buffer(), arena.list<const Expr*>({integer()}), read_at(integer()));
  }
  void fill(const Var*& defined) { defined = variable(); }
  void fill(const Buffer*& used) { used = buffer(); }
  void fill(Str& text) { text = arena.text(cat("text", next())); }
  void fill(i64& value) { value = next(); }
  void fill(u32& value) { value = static_cast<u32>(next()); }
  void fill(double& value) { value = static_cast<double>(next()); }
  void fill(LoopId& id) { fill(id.value); }
  void fill(BlockId& id) { fill(id.value); }
  void fill(Annotation& mark) { fill(mark.key), mark.value = Literal::of(next()); }
  void fill(Function& function) { function = Function::Pow; }  // of two arguments, as many as fill() puts into a list
  template <class T>
    requires std::is_enum_v<T>
  void fill(T& value) {
    value = static_cast<T>(rng_.below(2));
  }  // each enumeration has two values
  template <class T>
  void fill(Array<T>& list) {
    T items[2]{};
    for (T& item : items) fill(item);
    list = arena.copy(items, 2);
  }
  template <HasFields T>
  void fill(T& record) {
    record = node<T>();
  }

  const Var* variable() { return build_.var(static_cast<u32>(next()), arena.text(cat("v", next()))); }
  const Expr* integer() { return build_.integer(next()); }
  const Expr* read_at(const Expr* index) { return build_.load(buffer(), arena.list<const Expr*>({index})); }
  const Buffer* buffer() {
    return arena.make<Buffer>(Buffer{.id = {static_cast<u32>(next())},
                                     .name = arena.text(cat("B", next())),
                                     .dtype = DType::F32,
                                     .shape = arena.list<i64>({next()})});
  }
  // No number comes twice.
  i64 next() { return last_ += 2 + rng_.below(100); }

 private:
  Rng rng_;
  i64 last_ = 0;
  Build build_{arena};
};

// ---- changing one place of a node

// Each place of a node that can be changed by itself: fields, items of lists, fields of records in lists. change()
// changes the n-th one.
class Change {
 public:
  Change(Maker& maker, int place) : maker_(maker), left_(place) {}

  template <class T>
  void all_of(T& node) {
    for_each_field(node, [&](auto& field) { (*this)(field); });
  }
  bool done() const { return left_ < 0; }

 private:
  template <class T>
  void operator()(T& field) {
    if (done()) return;
    if constexpr (is_array<T>) return list(field);
    if constexpr (HasFields<T>) return all_of(field);
    if (left_-- != 0) return;
    T before = field;
    maker_.fill(field);
    if constexpr (std::is_enum_v<T>) field = static_cast<T>(static_cast<int>(before) ^ 1);
  }
  template <class T>
  void list(Array<T>& items) {
    std::vector<T> copy(items.begin(), items.end());
    for (T& item : copy) (*this)(item);
    if (!done() && left_-- == 0) copy.pop_back();
    items = maker_.arena.copy(copy);
  }

  Maker& maker_;
  int left_;
};

// The node in a program; behind it stand the variables that it defines, so that it counts which they are.
template <class T>
Program program_with(Maker& maker, const T& node) {
  Build build{maker.arena};
  const Buffer* out = maker.arena.make<Buffer>(
      Buffer{.id = {1}, .name = "out", .dtype = DType::F32, .shape = maker.arena.list<i64>({7})});
  std::vector<const Stmt*> stmts;
  auto store = [&](const Expr* index, const Expr* value) {
    stmts.push_back(build.store(out, maker.arena.list<const Expr*>({index}), value));
  };
  const T* kept = maker.arena.make<T>(node);
  if constexpr (std::is_base_of_v<Expr, T>)
    store(build.integer(0), kept);
  else
    stmts.push_back(kept);
  return {.name = "p", .body = maker.arena.make<Seq>(Stmt{{Kind::Seq}}, maker.arena.copy(stmts))};
}

// Uses of the variables that `node` defines.
void add_uses(Maker& maker, const Var* defined, std::vector<const Stmt*>& out) {
  Build build{maker.arena};
  out.push_back(build.store(maker.buffer(), maker.arena.list<const Expr*>({defined}), maker.integer()));
}
template <class T>
std::vector<const Stmt*> uses_of_defined(Maker& maker, const T& node) {
  std::vector<const Stmt*> out;
  for_each_field(node, [&](const auto& field) {
    using Field = std::decay_t<decltype(field)>;
    if constexpr (std::is_same_v<Field, const Var*>) add_uses(maker, field, out);
    if constexpr (std::is_same_v<Field, Array<IterVar>>)
      for (const IterVar& iter : field) add_uses(maker, iter.var, out);
  });
  return out;
}
Program with_behind(Maker& maker, Program program, const std::vector<const Stmt*>& behind) {
  std::vector<const Stmt*> stmts(as<Seq>(program.body)->stmts.begin(), as<Seq>(program.body)->stmts.end());
  stmts.insert(stmts.end(), behind.begin(), behind.end());
  program.body = maker.arena.make<Seq>(Stmt{{Kind::Seq}}, maker.arena.copy(stmts));
  return program;
}

template <class T, class Entry>
constexpr bool is_uncompared = false;
template <class T, class Member>
constexpr bool is_uncompared<T, Uncompared<Member>> = true;

// The fields of a node that do not count in comparisons get other values.
template <class T>
T with_other_names(Maker& maker, T node) {
  auto change = [&](auto entry) {
    if constexpr (is_uncompared<T, decltype(entry)>) maker.fill(node.*entry.member);
  };
  std::apply([&](auto... entry) { (change(entry), ...); }, T::fields);
  return node;
}

template <class T>
bool differs_in_name(const T& a, const T& b) {
  bool differs = false;
  auto note = [&](auto entry) {
    if constexpr (is_uncompared<T, decltype(entry)>) differs |= a.*entry.member != b.*entry.member;
  };
  std::apply([&](auto... entry) { (note(entry), ...); }, T::fields);
  return differs;
}

// ---- the checks, for one kind

constexpr int kSeeds = 20;

// Each place that is changed, but for names and handles, makes another program.
template <class T>
void expect_every_field_counts(Maker& maker, const char* name) {
  T node = maker.node<T>();
  std::vector<const Stmt*> behind = uses_of_defined(maker, node);
  Program program = with_behind(maker, program_with(maker, node), behind);
  Program renamed = with_behind(maker, program_with(maker, with_other_names(maker, node)), behind);
  EXPECT_TRUE(structurally_equal(program, renamed)) << name;
  EXPECT_EQ(structural_hash(program), structural_hash(renamed)) << name;
  int changed = 0;
  for (int place = 0;; ++place) {
    T other = node;
    Change change(maker, place);
    change.all_of(other);
    if (!change.done()) break;
    Program with_other = with_behind(maker, program_with(maker, other), behind);
    bool is_name = differs_in_name(node, other);
    EXPECT_EQ(structurally_equal(program, with_other), is_name) << name << ", place " << place;
    EXPECT_EQ(structural_hash(program) == structural_hash(with_other), is_name) << name << ", place " << place;
    if constexpr (std::is_base_of_v<Expr, T> && !std::is_same_v<T, Var>) {
      EXPECT_FALSE(same_expr(maker.arena.make<T>(node), maker.arena.make<T>(other))) << name << ", place " << place;
    }
    ++changed;
  }
  EXPECT_GT(changed, 0) << name;
}

// A child that may be null counts by being there.
template <class T, class... Members>
void expect_null_counts(Maker& maker, const T& node, Nullable<Members...> nullable, const char* name) {
  auto without = [&](auto member) {
    T other = node;
    other.*member = nullptr;
    EXPECT_FALSE(structurally_equal(program_with(maker, node), program_with(maker, other))) << name;
    int children = 0, left = 0;
    for_each_child(&node, [&](const auto*) { ++children; });
    for_each_child(&other, [&](const auto*) { ++left; });
    EXPECT_EQ(left, children - 1) << name;
  };
  std::apply([&](auto... member) { (without(member), ...); }, nullable.members);
}
template <class T, class Entry>
void expect_null_counts(Maker&, const T&, Entry, const char*) {}

std::vector<const Node*> children_of(const Node* node) {
  std::vector<const Node*> out;
  for_each_child(node, [&](const auto* child) { out.push_back(child); });
  return out;
}

// Puts `planted` in the place of one child, and keeps all others.
struct Planting {
  const Node* from;
  const Expr* expr;
  const Stmt* stmt;
  int calls = 0;
  ChildMap map() {
    return {this,
            [](void* self, const Expr* e) {
              return static_cast<Planting*>(self)->of(e, static_cast<Planting*>(self)->expr);
            },
            [](void* self, const Stmt* s) {
              return static_cast<Planting*>(self)->of(s, static_cast<Planting*>(self)->stmt);
            }};
  }
  template <class T>
  const T* of(const T* child, const T* planted) {
    ++calls;
    return child == from ? planted : child;
  }
};

template <class T>
void expect_children_are_mapped(Maker& maker, const char* name) {
  using Base = std::conditional_t<std::is_base_of_v<Expr, T>, Expr, Stmt>;
  const Base* node = maker.arena.make<T>(maker.node<T>());
  std::vector<const Node*> children = children_of(node);
  Planting none{nullptr, nullptr, nullptr};
  EXPECT_EQ(with_children(maker.arena, node, none.map()), node) << name << " is rebuilt though no child changed";
  EXPECT_EQ(none.calls, static_cast<int>(children.size())) << name;
  for (const Node* child : children) {
    const Var* planted = maker.variable();
    Planting one{child, maker.read_at(planted),
                 Build{maker.arena}.store(maker.buffer(), maker.arena.list<const Expr*>({planted}), maker.integer())};
    EXPECT_FALSE(uses(node, planted));
    EXPECT_TRUE(uses(with_children(maker.arena, node, one.map()), planted)) << name;
  }
}

// Every pointer in the node itself.
template <class T>
std::set<const void*> pointers_in(const T& node) {
  std::set<const void*> out;
  for_each_field(node, [&](const auto& field) {
    using Field = std::decay_t<decltype(field)>;
    if constexpr (std::is_pointer_v<Field>) out.insert(field);
    if constexpr (is_array<Field> || std::is_same_v<Field, Str>) out.insert(field.data());
    if constexpr (std::is_same_v<Field, Array<StoreTarget>> || std::is_same_v<Field, Array<IterVar>>) {
      for (const auto& record : field) out.merge(pointers_in(record));
    }
  });
  out.erase(nullptr);
  return out;
}

template <class T>
void expect_clone_is_apart(Maker& maker, const char* name) {
  Program program = program_with(maker, maker.node<T>());
  OwnedProgram copy = clone(program);
  EXPECT_TRUE(structurally_equal(program, copy.program)) << name;
  std::set<const void*> before, after;
  auto note = [](std::set<const void*>& into, const Node* root) {
    walk(root, [&](const Node* node) {
      dispatch(node, [&](const auto& n) { into.merge(pointers_in(n)); });
      return true;
    });
  };
  note(before, program.body), note(after, copy.program.body);
  EXPECT_FALSE(after.empty());
  for (const void* pointer : after)
    EXPECT_FALSE(before.count(pointer)) << name << ": the copy points into the original";
}

// Calls check(Struct<T>, name) for each kind.
template <class Check>
void for_each_kind(Check check) {
  for (int kind = 0; kind <= static_cast<int>(kLastKind); ++kind) {
    with_struct(static_cast<Kind>(kind), [&](auto is) {
      using T = typename decltype(is)::Type;
      EXPECT_EQ(static_cast<int>(T::own_kind), kind);
      check(is, cat("kind ", kind).c_str());
    });
  }
}

TEST(Nodes, ListsOfFieldsAreComplete) {
  for_each_kind([](auto is, const char* name) {
    using T = typename decltype(is)::Type;
    expect_complete_list<T>(name);
    EXPECT_EQ(can_hold_children<T>, T::own_kind > kLastLeaf) << name;
  });
  expect_complete_list<StoreTarget>("StoreTarget");
  expect_complete_list<IterVar>("IterVar");
  expect_complete_list<Param>("Param");
}

TEST(Nodes, EachFieldCountsInHashAndEquality) {
  for_each_kind([](auto is, const char* name) {
    using T = typename decltype(is)::Type;
    for (u64 seed = 0; seed < kSeeds; ++seed) {
      Maker maker(seed);
      if constexpr (!std::is_same_v<T, Var>)
        expect_every_field_counts<T>(maker, name);  // a variable is the place where it was met
      T node = maker.node<T>();
      std::apply([&](auto... entry) { (expect_null_counts(maker, node, entry, name), ...); }, T::fields);
    }
  });
}

TEST(Nodes, EachChildIsVisitedAndReplaced) {
  for_each_kind([](auto is, const char* name) {
    for (u64 seed = 0; seed < kSeeds; ++seed) {
      Maker maker(seed);
      expect_children_are_mapped<typename decltype(is)::Type>(maker, name);
    }
  });
}

TEST(Nodes, ACopyPointsNowhereIntoTheOriginal) {
  for_each_kind([](auto is, const char* name) {
    using T = typename decltype(is)::Type;
    for (u64 seed = 0; seed < kSeeds; ++seed) {
      Maker maker(seed);
      if constexpr (!std::is_same_v<T, Var>) expect_clone_is_apart<T>(maker, name);
    }
  });
}

// A kind that a switch forgets is a compiler's error there, and not a silent default.
TEST(Nodes, NoSwitchOfTheIrHasADefault) {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(TW_SOURCE_DIR "/dsl/ir")) {
    ++files;
    std::string text = test::read_file(entry.path().string());
    EXPECT_EQ(text.find("default:"), std::string::npos) << entry.path();
  }
  EXPECT_GT(files, 10);
}

// docs/add_a_node.md: at most nine files each for an expression and for a statement, and they exist.
TEST(Nodes, ANewOneTouchesAtMostNineFiles) {
  std::string text = test::read_file(TW_SOURCE_DIR "/docs/add_a_node.md");
  std::regex row(R"(\n\| `([^`]+)` \|)");
  std::size_t statements = text.find("## A statement");
  ASSERT_NE(statements, std::string::npos);
  for (const std::string& part : {text.substr(0, statements), text.substr(statements)}) {
    int count = 0;
    for (auto at = std::sregex_iterator(part.begin(), part.end(), row); at != std::sregex_iterator(); ++at, ++count) {
      EXPECT_TRUE(std::filesystem::exists(std::string(TW_SOURCE_DIR "/") + (*at)[1].str())) << (*at)[1];
    }
    EXPECT_GT(count, 4);
    EXPECT_LE(count, 9);
  }
}

}  // namespace
}  // namespace tw

#include "backends/llvm/lane_use.h"

#include <algorithm>
#include <map>
#include <vector>

#include "backends/llvm/emitter.h"
#include "dsl/analysis/affine.h"
#include "dsl/ir/walk.h"

namespace tw::codegen {
namespace {

class LaneUse {
 public:
  explicit LaneUse(const Buffer* buffer) : buffer_(buffer) {}

  bool is_same() const {
    i64 end = 0;
    for (const auto& [begin, vector] : vectors_) {
      if (begin < end) return false;
      end = begin + vector.lanes;
    }
    return is_same_;
  }

  void visit(const Node* node) {
    if (!is_same_) return;
    if (const For* loop = as<For>(node)) inner_.push_back(loop->var);
    const If* branch = as<If>(node);
    if (branch && branch->condition->type.lanes > 1) {
      visit(branch->condition);
      under(branch->condition, true, branch->then);
      if (branch->otherwise) under(branch->condition, false, branch->otherwise);
      return;
    }
    if (const Load* load = as<Load>(node)) note(load->buffer, load->indices);
    if (const Store* store = as<Store>(node)) {
      for (const StoreTarget& target : store->targets) note(target.buffer, target.indices);
    }
    for_each_child(node, [&](const Node* child) { visit(child); });
  }

 private:
  // Conditions that hold around an access, outermost first.
  struct Test {
    const Expr* condition;
    bool holds;
  };
  struct Vector {
    int lanes;
    std::vector<Test> tests;
  };

  void under(const Expr* condition, bool holds, const Stmt* body) {
    // A loop inside of the buffer's scope may change which lanes it holds for, and so may a store.
    for (const Var* var : inner_) is_same_ &= !uses(condition, var);
    for_each<Load>(condition, [&](const Load*) { is_same_ = false; });
    tests_.push_back({condition, holds});
    visit(body);
    tests_.pop_back();
  }

  void note(const Buffer* buffer, Array<const Expr*> indices) {
    if (buffer != buffer_) return;
    std::optional<Address> address = split_index(indices[0]);
    int lanes = indices[0]->type.lanes;
    if (!address || !address->terms.empty() || (lanes > 1 && address->stride != 1)) {
      is_same_ = false;
      return;
    }
    auto [known, is_new] = vectors_.try_emplace(address->constant, Vector{lanes, tests_});
    const Vector& vector = known->second;
    is_same_ &= vector.lanes == lanes && std::equal(vector.tests.begin(), vector.tests.end(), tests_.begin(),
                                                    tests_.end(), [](const Test& a, const Test& b) {
                                                      return a.holds == b.holds && same_expr(a.condition, b.condition);
                                                    });
  }

  const Buffer* buffer_;
  bool is_same_ = true;
  std::map<i64, Vector> vectors_;  // by first element
  std::vector<Test> tests_;
  std::vector<const Var*> inner_;  // of all loops met so far
};

}  // namespace

bool uses_same_lanes(const Alloc& alloc) {
  LaneUse use(alloc.buffer);
  use.visit(alloc.body);
  return use.is_same();
}

}  // namespace tw::codegen

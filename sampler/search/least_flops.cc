#include "sampler/search/least_flops.h"

#include <algorithm>
#include <map>
#include <set>

#include "dsl/analysis/points.h"
#include "dsl/ir/walk.h"

namespace tw {
namespace {

// Which part of a buffer's elements is computed from data, where the rest is filled in by a condition.
using Shares = std::map<const Buffer*, double>;

double share_of(const Shares& shares, const Buffer* buffer) {
  auto found = shares.find(buffer);
  return found == shares.end() ? 1 : found->second;
}

bool has_condition(const Node* node) {
  bool found = false;
  walk(node, [&](const Node* child) {
    found |= child->kind == Kind::Select || child->kind == Kind::If;
    return !found;
  });
  return found;
}

// A block with a condition fills at most as many elements with data as what it reads has.
void note_shares(const Block* block, Shares& shares) {
  double share = 1, read = 0;
  for_each<Load>(block->body, [&](const Load* load) {
    share = std::min(share, share_of(shares, load->buffer));
    read = std::max(read, static_cast<double>(elements_of(load->buffer)));
  });
  bool is_conditional = has_condition(block->body);
  for_each<Store>(block->body, [&](const Store* store) {
    for (const StoreTarget& target : store->targets) {
      double filled = is_conditional ? std::min(1.0, read / static_cast<double>(elements_of(target.buffer))) : 1;
      shares[target.buffer] = share * filled;
    }
  });
}

// Variables that `index` moves with at every step; those below // and % do not.
void add_plain_variables(const Expr* index, std::set<const Var*>& out) {
  walk(index, [&](const Node* node) {
    if (const Var* var = as<Var>(node)) out.insert(var);
    const Binary* binary = as<Binary>(node);
    return !binary || binary->op == BinaryOp::Add || binary->op == BinaryOp::Sub || binary->op == BinaryOp::Mul;
  });
}

// The product in `sum + a * b`, where sum is what the store writes to; null if it is something else.
const Binary* multiplied_term(const Store* store) {
  if (store->values.size() != 1) return nullptr;
  const Binary* add = as<Binary>(store->values[0]);
  if (!add || add->op != BinaryOp::Add) return nullptr;
  for (auto [sum, term] : {std::pair{add->a, add->b}, std::pair{add->b, add->a}}) {
    const Load* load = as<Load>(sum);
    const Binary* product = as<Binary>(term);
    if (load && load->buffer == store->targets[0].buffer && product && product->op == BinaryOp::Mul) return product;
  }
  return nullptr;
}

// Operations for one point; 0 if nothing can be said.
double operations(const Block* block, const Binary* product, const Shares& shares) {
  DType type = product->type.dtype;
  bool is_counted = (type == DType::F32 || type == DType::F64) && !has_condition(product);
  double share = 1;
  std::set<const Var*> moved_by;
  for (const Expr* factor : {product->a, product->b}) {
    bool reads = false;
    for_each<Load>(factor, [&](const Load* load) {
      reads = true;
      is_counted &= load->buffer->dtype == DType::F32 || load->buffer->dtype == DType::F64;
      share *= share_of(shares, load->buffer);
      for (const Expr* index : load->indices) add_plain_variables(index, moved_by);
    });
    is_counted &= reads;
  }
  for (const IterVar& iter : block->iters) is_counted &= iter.extent == 1 || moved_by.count(iter.var) > 0;
  return is_counted ? share * (type == DType::F64 ? 4 : 2) : 0;
}

}  // namespace

double least_flops(const Program& program) {
  double total = 0;
  Shares shares;
  for_each<Block>(program.body, [&](const Block* block) {
    const Store* store = as<Store>(block->body);
    const Binary* product = store && block->init ? multiplied_term(store) : nullptr;
    if (product) total += points_of(block) * operations(block, product, shares);
    note_shares(block, shares);
  });
  return total;
}

}  // namespace tw

#include "backends/llvm/register_pressure.h"

#include <llvm/ADT/SmallPtrSet.h>
#include <llvm/IR/IRBuilder.h>
#include <llvm/IR/IntrinsicInst.h>
#include <llvm/IR/Module.h>
#include <llvm/Transforms/Utils/SSAUpdater.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <vector>

#include "backends/llvm/opaque_pointer.h"

namespace tw::codegen {
namespace {

using BlockSet = llvm::SmallPtrSet<const llvm::BasicBlock*, 16>;

// Copies of pointers in one block. Each needs a general register; x86-64 has 16 in all.
constexpr std::size_t kMostPointers = 9;
constexpr int kFirstNumber = 1 << 20;  // of a copy; the emitter counts its own from 1
const llvm::Align kStackAlign(16);     // of the stack by the ABI; more would cost a register

// Where the value has to be for its use.
llvm::BasicBlock* block_of(const llvm::Use& use) {
  auto* user = llvm::cast<llvm::Instruction>(use.getUser());
  auto* phi = llvm::dyn_cast<llvm::PHINode>(user);
  return phi ? phi->getIncomingBlock(use) : user->getParent();
}

// The only block that leads into a loop of one block, and nowhere else; null if there is none.
llvm::BasicBlock* block_before(llvm::BasicBlock& loop) {
  llvm::BasicBlock* before = nullptr;
  for (llvm::BasicBlock* from : llvm::predecessors(&loop)) {
    if (from == &loop) continue;
    if (before || !from->getSingleSuccessor()) return nullptr;
    before = from;
  }
  return before;
}
// A block that only the loop leads to.
llvm::BasicBlock* block_behind(llvm::BasicBlock& loop) {
  for (llvm::BasicBlock* to : llvm::successors(&loop)) {
    if (to != &loop && to->getSinglePredecessor()) return to;
  }
  return nullptr;
}

// Not masks, which have registers of their own.
bool is_data(const llvm::Type* type) { return type->isVectorTy() && type->getScalarSizeInBits() >= 8; }

class BodyPressure {
 public:
  BodyPressure(llvm::BasicBlock& body, const VectorRegisters& registers) : body_(body), registers_(registers) {}

  void reduce() {
    if (writes_memory()) return;
    find_operands();
    if (operands_.empty()) return;
    // One for the other factor of a multiplication. One more where a multiplication reads only registers.
    free_ = registers_.count - (registers_.are_loads_free ? 1 : 2);
    // What a loop hands on has the registers of its phis, what another block does those of what it read: sums.
    free_ -= is_loop() ? registers_from_outside() : std::max(registers_from_outside(), registers_read_behind());
    int wanted = 2 * most_operands();  // LLVM's scheduler loads those of the next step early
    for (llvm::Instruction* value : values_across()) {
      free_ -= registers_of(value->getType());
      if (free_ < wanted && is_loop() && store_around(*value)) free_ += registers_of(value->getType());
    }
    for (const Operand& operand : operands_without_register()) reload(operand);
  }

 private:
  // A loaded vector that several multiplications read, and where in the block they do.
  struct Operand {
    llvm::LoadInst* load;
    int first, last, uses;
  };

  bool is_loop() const { return llvm::is_contained(llvm::successors(&body_), &body_); }

  bool writes_memory() const {
    return std::any_of(body_.begin(), body_.end(), [](const llvm::Instruction& instruction) {
      const auto* call = llvm::dyn_cast<llvm::IntrinsicInst>(&instruction);
      return instruction.mayWriteToMemory() && !(call && call->getIntrinsicID() == llvm::Intrinsic::prefetch);
    });
  }

  int registers_of(const llvm::Type* type) const {
    const auto* vector = is_data(type) ? llvm::dyn_cast<llvm::FixedVectorType>(type) : nullptr;
    if (!vector) return type->isFloatingPointTy() ? 1 : 0;
    return std::max(1, static_cast<int>(vector->getPrimitiveSizeInBits().getFixedValue()) / registers_.bits);
  }

  void find_operands() {
    std::unordered_map<const llvm::Instruction*, int> places;
    for (const llvm::Instruction& instruction : body_) places.emplace(&instruction, static_cast<int>(places.size()));
    for (llvm::Instruction& instruction : body_) {
      auto* load = llvm::dyn_cast<llvm::LoadInst>(&instruction);
      bool is_shared = load && load->isSimple() && is_data(load->getType()) && registers_of(load->getType()) == 1 &&
                       load->hasNUsesOrMore(2);
      if (!is_shared) continue;
      Operand operand{load, static_cast<int>(places.size()), 0, static_cast<int>(load->getNumUses())};
      bool is_multiplied = llvm::all_of(load->users(), [&](const llvm::User* user) {
        const auto* multiply = llvm::cast<llvm::Instruction>(user);
        bool is_product =
            multiply->getOpcode() == llvm::Instruction::FMul || multiply->getOpcode() == llvm::Instruction::Mul;
        if (!is_product || multiply->getParent() != &body_) return false;
        operand.first = std::min(operand.first, places.at(multiply));
        operand.last = std::max(operand.last, places.at(multiply));
        return true;
      });
      if (is_multiplied) operands_.push_back(operand);
    }
    std::ranges::sort(operands_, {}, &Operand::first);
  }

  int registers_from_outside() const {
    llvm::SmallPtrSet<const llvm::Value*, 16> read;
    int registers = 0;
    for (const llvm::PHINode& phi : body_.phis()) registers += registers_of(phi.getType());
    for (const llvm::Instruction& instruction : body_) {
      if (llvm::isa<llvm::PHINode>(instruction)) continue;
      for (const llvm::Value* operand : instruction.operands()) {
        const auto* outside = llvm::dyn_cast<llvm::Instruction>(operand);
        if (outside && outside->getParent() != &body_ && is_data(outside->getType()) && read.insert(outside).second)
          registers += registers_of(outside->getType());
      }
    }
    return registers;
  }

  int registers_read_behind() const {
    int registers = 0;
    for (const llvm::Instruction& value : body_) {
      if (is_data(value.getType()) && value.isUsedOutsideOfBlock(&body_)) registers += registers_of(value.getType());
    }
    return registers;
  }

  // ---- values that the body does not touch

  // Those that are read after it: sums of rows that this part of a window leaves out.
  std::vector<llvm::Instruction*> values_across() const {
    std::vector<llvm::Instruction*> values;
    std::map<const llvm::BasicBlock*, BlockSet> reached;  // by where a value is defined
    for (llvm::BasicBlock& defining : *body_.getParent()) {
      if (&defining == &body_) continue;
      for (llvm::Instruction& value : defining) {
        if (!is_data(value.getType()) || value.isUsedInBasicBlock(&body_)) continue;
        auto [at, is_new] = reached.try_emplace(&defining);
        if (is_new) at->second = reached_without(defining);
        if (llvm::any_of(value.uses(), [&](const llvm::Use& use) { return at->second.contains(block_of(use)); }))
          values.push_back(&value);
      }
    }
    return values;
  }

  // The blocks that may run after the loop before `defining` does again.
  BlockSet reached_without(const llvm::BasicBlock& defining) const {
    BlockSet reached;
    llvm::SmallVector<const llvm::BasicBlock*, 16> open{&body_};
    while (!open.empty()) {
      for (const llvm::BasicBlock* next : llvm::successors(open.pop_back_val())) {
        if (next != &defining && reached.insert(next).second) open.push_back(next);
      }
    }
    return reached;
  }

  // Stores a value before the loop and loads it behind it. False: it stays in its register.
  bool store_around(llvm::Instruction& value) {
    llvm::BasicBlock *before = block_before(body_), *behind = block_behind(body_);
    if (!before || !behind) return false;
    if (llvm::any_of(value.uses(), [&](const llvm::Use& use) { return block_of(use) == &body_; })) return false;
    llvm::BasicBlock& entry = body_.getParent()->getEntryBlock();
    llvm::IRBuilder<> builder(&entry, entry.getFirstInsertionPt());
    llvm::AllocaInst* place = builder.CreateAlloca(value.getType());
    place->setAlignment(kStackAlign);
    builder.SetInsertPoint(before->getTerminator());
    builder.CreateAlignedStore(&value, place, kStackAlign);
    builder.SetInsertPoint(behind, behind->getFirstInsertionPt());
    llvm::Value* loaded = builder.CreateAlignedLoad(value.getType(), place, kStackAlign);

    llvm::SSAUpdater updater;
    updater.Initialize(value.getType(), value.getName());
    updater.AddAvailableValue(value.getParent(), &value);
    updater.AddAvailableValue(behind, loaded);
    std::vector<llvm::Use*> uses;
    for (llvm::Use& use : value.uses()) {
      if (block_of(use) != value.getParent()) uses.push_back(&use);
    }
    for (llvm::Use* use : uses) updater.RewriteUseAfterInsertions(*use);
    return true;
  }

  // ---- operands that multiplications share

  int most_operands() const {
    int most = 0;
    for (const Operand& operand : operands_) {
      most = std::max(most, static_cast<int>(llvm::count_if(operands_, [&](const Operand& other) {
                        return other.first <= operand.first && operand.first <= other.last;
                      })));
    }
    return most;
  }

  // Where more operands are in use than there are registers, those with the fewest multiplications have none.
  std::vector<Operand> operands_without_register() const {
    std::vector<Operand> held, others;
    for (const Operand& operand : operands_) {
      std::erase_if(held, [&](const Operand& other) { return other.last < operand.first; });
      held.push_back(operand);
      if (static_cast<int>(held.size()) <= std::max(0, free_)) continue;
      auto fewest = std::ranges::min_element(held.rbegin(), held.rend(), {}, [](const Operand& o) { return o.uses; });
      others.push_back(*fewest);
      held.erase(std::next(fewest).base());
    }
    return others;
  }

  void reload(const Operand& operand) {
    llvm::LoadInst* load = operand.load;
    const llvm::DataLayout& layout = body_.getModule()->getDataLayout();
    llvm::APInt offset(layout.getIndexTypeSizeInBits(load->getPointerOperandType()), 0);
    llvm::Value* base = load->getPointerOperand()->stripAndAccumulateConstantOffsets(layout, offset, true);
    std::vector<llvm::Use*> uses;
    for (llvm::Use& use : load->uses()) uses.push_back(&use);
    std::ranges::sort(uses, [](const llvm::Use* a, const llvm::Use* b) {
      return llvm::cast<llvm::Instruction>(a->getUser())->comesBefore(llvm::cast<llvm::Instruction>(b->getUser()));
    });
    std::vector<llvm::Value*>& copies = copies_[base];
    if (!has_copies(base, copies, uses.size() - 1)) return;
    for (std::size_t i = 1; i < uses.size(); ++i) {
      llvm::IRBuilder<> builder(llvm::cast<llvm::Instruction>(uses[i]->getUser()));
      llvm::Value* at = builder.CreateGEP(builder.getInt8Ty(), copies[i - 1], builder.getInt64(offset.getSExtValue()));
      uses[i]->set(builder.CreateAlignedLoad(load->getType(), at, load->getAlign()));
    }
  }

  // Loads from pointers that LLVM knows to be equal would become one again. False: too many are wanted.
  bool has_copies(llvm::Value* base, std::vector<llvm::Value*>& copies, std::size_t wanted) {
    if (wanted > copies.size() && count_ + wanted - copies.size() > kMostPointers) return false;
    auto* defined = llvm::dyn_cast<llvm::Instruction>(base);
    bool is_here = defined && defined->getParent() == &body_ && !llvm::isa<llvm::PHINode>(defined);
    llvm::IRBuilder<> builder(&body_, is_here ? std::next(defined->getIterator()) : body_.getFirstInsertionPt());
    for (; copies.size() < wanted; ++count_)
      copies.push_back(opaque_copy(builder, base, kFirstNumber + static_cast<int>(count_)));
    return true;
  }

  llvm::BasicBlock& body_;
  const VectorRegisters& registers_;
  int free_ = 0;  // registers for operands
  std::vector<Operand> operands_;
  std::map<llvm::Value*, std::vector<llvm::Value*>> copies_;  // of pointers
  std::size_t count_ = 0;                                     // of all copies
};

}  // namespace

void reduce_register_pressure(llvm::Function& function, const VectorRegisters& registers) {
  for (llvm::BasicBlock& block : function) BodyPressure(block, registers).reduce();
}

}  // namespace tw::codegen

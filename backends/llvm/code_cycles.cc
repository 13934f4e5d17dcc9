#include "backends/llvm/code_cycles.h"

#include <llvm/Analysis/AssumptionCache.h>
#include <llvm/Analysis/LoopInfo.h>
#include <llvm/Analysis/ScalarEvolution.h>
#include <llvm/Analysis/TargetLibraryInfo.h>
#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/CodeGen/MachineModuleInfo.h>
#include <llvm/CodeGen/Passes.h>
#include <llvm/CodeGen/TargetPassConfig.h>
#include <llvm/CodeGen/TargetRegisterInfo.h>
#include <llvm/CodeGen/TargetSchedule.h>
#include <llvm/CodeGen/TargetSubtargetInfo.h>
#include <llvm/IR/Constants.h>
#include <llvm/IR/Dominators.h>
#include <llvm/IR/Instructions.h>
#include <llvm/IR/LegacyPassManager.h>

#include <algorithm>
#include <unordered_map>

#include "dsl/base/check.h"

namespace tw::codegen {
namespace {

// What wide cores do in a cycle, about.
constexpr double kVectorOperations = 2, kLoads = 2, kStores = 1, kMicroOperations = 4;
constexpr double kLatency = 4;  // cycles of a floating-point operation

struct BlockRuns {
  double runs = 0;   // in one call
  double chain = 0;  // cycles of a run that wait for the run before
};
using RunsOfBlocks = std::unordered_map<const llvm::BasicBlock*, BlockRuns>;

// ---- how often blocks run

bool is_floating(const llvm::Type* type) { return type->isVectorTy() || type->isFloatingPointTy(); }

// A product that becomes one instruction with the sum that uses it.
bool is_fused(const llvm::Instruction& product) {
  if (product.getOpcode() != llvm::Instruction::FMul || !product.hasOneUse() || !product.hasAllowContract())
    return false;
  unsigned user = llvm::cast<llvm::Instruction>(*product.user_begin())->getOpcode();
  return user == llvm::Instruction::FAdd || user == llvm::Instruction::FSub;
}

// The longest way from what a loop of one block carries to what it carries into its next run.
double chain_of(const llvm::BasicBlock& block) {
  std::unordered_map<const llvm::Value*, double> depth;
  for (const llvm::PHINode& carried : block.phis()) {
    if (is_floating(carried.getType())) depth[&carried] = 0;
  }
  for (const llvm::Instruction& instruction : block) {
    if (!is_floating(instruction.getType()) || llvm::isa<llvm::PHINode>(instruction)) continue;
    for (const llvm::Value* operand : instruction.operands()) {
      if (auto at = depth.find(operand); at != depth.end()) {
        double& own = depth[&instruction];
        own = std::max(own, at->second + (is_fused(instruction) ? 0 : kLatency));
      }
    }
  }
  double longest = 0;
  for (const llvm::PHINode& carried : block.phis()) {
    for (const llvm::Value* value : carried.incoming_values()) {
      if (auto at = depth.find(value); at != depth.end()) longest = std::max(longest, at->second);
    }
  }
  return longest;
}

// How many values a remainder can take; 0 = it is none.
double count_remainders(const llvm::Value* value) {
  const auto* operation = llvm::dyn_cast<llvm::BinaryOperator>(value);
  const auto* by = operation ? llvm::dyn_cast<llvm::ConstantInt>(operation->getOperand(1)) : nullptr;
  if (!by) return 0;
  auto divisor = static_cast<double>(by->getSExtValue());
  switch (operation->getOpcode()) {
    case llvm::Instruction::And:
      return divisor + 1;
    case llvm::Instruction::SRem:
    case llvm::Instruction::URem:
      return divisor;
    default:
      return 0;
  }
}

// The share of the times that a condition holds. One of the remainders has a certain value; what else is tested are
// ends of tiles, which are rare.
double share_of(const llvm::Value* condition) {
  if (const auto* both = llvm::dyn_cast<llvm::BinaryOperator>(condition);
      both && both->getOpcode() == llvm::Instruction::And)
    return share_of(both->getOperand(0)) * share_of(both->getOperand(1));
  const auto* compare = llvm::dyn_cast<llvm::ICmpInst>(condition);
  double remainders = compare && compare->isEquality() ? count_remainders(compare->getOperand(0)) : 0;
  if (remainders <= 1) return 1;
  return compare->getPredicate() == llvm::CmpInst::ICMP_EQ ? 1 / remainders : 1 - 1 / remainders;
}

// The share of the times that a block's dominators lead to it.
double share_of_ways(const llvm::BasicBlock* block, const llvm::DominatorTree& tree) {
  double share = 1;
  for (const auto* node = tree.getNode(block); node; node = node->getIDom()) {
    const llvm::BasicBlock* from = node->getBlock()->getSinglePredecessor();
    const auto* branch = from ? llvm::dyn_cast<llvm::BranchInst>(from->getTerminator()) : nullptr;
    if (!branch || !branch->isConditional()) continue;
    double taken = share_of(branch->getCondition());
    if (branch->getSuccessor(0) == node->getBlock())
      share *= taken;
    else if (taken < 1)
      share *= 1 - taken;
  }
  return share;
}

void add_runs(llvm::Function& function, double calls, RunsOfBlocks& out) {
  llvm::DominatorTree tree(function);
  llvm::LoopInfo loops(tree);
  llvm::TargetLibraryInfoImpl functions(llvm::Triple(function.getParent()->getTargetTriple()));
  llvm::TargetLibraryInfo library(functions);
  llvm::AssumptionCache assumptions(function);
  llvm::ScalarEvolution evolution(function, library, assumptions, tree, loops);
  for (llvm::BasicBlock& block : function) {
    double runs = calls * share_of_ways(&block, tree);
    llvm::Loop* innermost = loops.getLoopFor(&block);
    for (llvm::Loop* loop = innermost; loop; loop = loop->getParentLoop())
      runs *= std::max(1u, evolution.getSmallConstantTripCount(loop));
    BlockRuns& own = out[&block];
    own.runs += runs;
    if (innermost && innermost->getNumBlocks() == 1) own.chain = chain_of(block);
    for (llvm::Instruction& instruction : block) {
      auto* call = llvm::dyn_cast<llvm::CallInst>(&instruction);
      llvm::Function* called = call ? call->getCalledFunction() : nullptr;
      if (called && !called->isDeclaration()) add_runs(*called, runs, out);
    }
  }
}

// ---- what a block issues

struct Issued {
  double vector_operations = 0, loads = 0, stores = 0, micro_operations = 0;

  double cycles() const {
    return std::max(
        {vector_operations / kVectorOperations, loads / kLoads, stores / kStores, micro_operations / kMicroOperations});
  }
};

class CountCycles : public llvm::MachineFunctionPass {
 public:
  static char ID;
  CountCycles(const RunsOfBlocks& runs, double& cycles) : MachineFunctionPass(ID), runs_(runs), cycles_(cycles) {}
  llvm::StringRef getPassName() const override { return "Count cycles"; }

  bool runOnMachineFunction(llvm::MachineFunction& function) override {
    schedule_.init(&function.getSubtarget());
    registers_ = function.getSubtarget().getRegisterInfo();
    BlockRuns known;  // a block that code generation made runs about as often as the one before it
    for (const llvm::MachineBasicBlock& block : function) {
      if (auto at = runs_.find(block.getBasicBlock()); at != runs_.end()) known = at->second;
      Issued issued;
      for (const llvm::MachineInstr& instruction : block) add(instruction, issued);
      cycles_ += known.runs * std::max(issued.cycles(), known.chain);
    }
    return false;
  }

 private:
  void add(const llvm::MachineInstr& instruction, Issued& out) {
    if (instruction.isMetaInstruction() || instruction.isTransient()) return;
    out.micro_operations += schedule_.getNumMicroOps(&instruction);
    bool gives = false, takes = false;
    for (const llvm::MachineOperand& operand : instruction.operands()) {
      if (is_vector(operand)) (operand.isDef() ? gives : takes) = true;
    }
    if (gives && (takes || !instruction.mayLoad())) ++out.vector_operations;
    if (instruction.mayStore()) ++out.stores;
    for (const llvm::MachineMemOperand* memory : instruction.memoperands()) {
      if (memory->isLoad()) out.loads += 1 + crossed_lines(*memory);
    }
  }

  bool is_vector(const llvm::MachineOperand& operand) const {
    if (!operand.isReg() || operand.isImplicit() || !operand.getReg().isPhysical()) return false;
    llvm::TypeSize bits = registers_->getRegSizeInBits(*registers_->getMinimalPhysRegClass(operand.getReg()));
    return bits.isScalable() || bits.getFixedValue() >= 128;
  }

  // Bounds of cache lines inside of what is read, on the average; each costs another access.
  static double crossed_lines(const llvm::MachineMemOperand& memory) {
    constexpr double kLine = 64;
    if (!memory.getSize().hasValue() || memory.getSize().isScalable()) return 0;
    auto bytes = static_cast<double>(memory.getSize().getValue().getFixedValue());
    return static_cast<double>(memory.getAlign().value()) >= bytes ? 0 : std::min(1.0, bytes / kLine);
  }

  const RunsOfBlocks& runs_;
  double& cycles_;
  llvm::TargetSchedModel schedule_;
  const llvm::TargetRegisterInfo* registers_ = nullptr;
};
char CountCycles::ID = 0;

}  // namespace

double code_cycles(llvm::Module& module, llvm::StringRef function, llvm::TargetMachine& machine) {
  RunsOfBlocks runs;
  add_runs(*module.getFunction(function), 1, runs);
  double cycles = 0;
  auto& target = static_cast<llvm::LLVMTargetMachine&>(machine);  // all of ours are
  llvm::legacy::PassManager passes;
  llvm::TargetPassConfig* config = target.createPassConfig(passes);
  config->setDisableVerify(true);
  passes.add(config);
  passes.add(new llvm::MachineModuleInfoWrapperPass(&target));
  bool is_unable = config->addISelPasses();
  TW_CHECK(!is_unable, "the target cannot generate code");
  config->addMachinePasses();
  config->setInitialized();
  passes.add(new CountCycles(runs, cycles));
  passes.add(llvm::createFreeMachineFunctionPass());
  passes.run(module);
  return cycles;
}

}  // namespace tw::codegen

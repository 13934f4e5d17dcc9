// Entry points, tasks, and the internal functions that hold the bodies. A body takes its buffers as noalias arguments:
// that is how LLVM learns that they do not overlap. An output and an input that a model may give the same memory
// (overwrites.h) are not marked so.
#include <algorithm>
#include <numeric>

#include "backends/llvm/emitter.h"
#include "backends/overwrites.h"
#include "dsl/base/check.h"
#include "dsl/base/text.h"
#include "dsl/ir/program.h"

namespace tw::codegen {
namespace {

u64 alignment_at(i64 offset) { return offset == 0 ? 64 : static_cast<u64>(std::gcd(offset, i64{64})); }

}  // namespace

ModuleEmitter::ModuleEmitter(llvm::Module& module, const LoweredProgram& program, std::string_view symbol,
                             int vector_bits, const std::string& cpu, const std::string& features, bool has_table)
    : module_(module),
      program_(program),
      symbol_(symbol),
      vector_bits_(vector_bits),
      cpu_(cpu),
      features_(features),
      has_table_(has_table),
      overwrites_(overwrites_of(program)) {}

void ModuleEmitter::emit() {
  if (program_.prepack.body) emit_entry(program_.prepack, false);
  emit_entry(program_.run, true);
}

std::string ModuleEmitter::symbol_for(const char* suffix) { return cat(symbol_, "_", suffix, ++functions_); }

llvm::Function* ModuleEmitter::make_function(llvm::FunctionType* type, const std::string& name, bool is_entry) {
  auto linkage = is_entry ? llvm::Function::ExternalLinkage : llvm::Function::InternalLinkage;
  llvm::Function* function = llvm::Function::Create(type, linkage, name, module_);
  if (!is_entry) function->setDSOLocal(true);
  function->setDoesNotThrow();
  function->addFnAttr("target-cpu", cpu_);
  if (!features_.empty()) function->addFnAttr("target-features", features_);
  function->addFnAttr("prefer-vector-width", std::to_string(vector_bits_));
  function->addFnAttr("min-legal-vector-width", std::to_string(vector_bits_));
  return function;
}

// Scratch buffers whose lifetimes do not meet may share memory; those are not noalias.
bool ModuleEmitter::overlaps_other(const Placement& placement) const {
  i64 begin = placement.offset, end = begin + bytes_of(placement.buffer);
  for (const Placement& other : program_.run.scratch) {
    if (other.buffer == placement.buffer || other.place != placement.place) continue;
    if (other.offset < end && begin < other.offset + bytes_of(other.buffer)) return true;
  }
  return false;
}

const Placement* ModuleEmitter::worker_placement(const Buffer* buffer) const {
  for (const Placement& placement : program_.run.scratch) {
    if (placement.buffer == buffer && placement.place == Place::WorkerScratch) return &placement;
  }
  return nullptr;
}

llvm::Value* ModuleEmitter::worker_pointer(llvm::IRBuilder<>& builder, llvm::Value* scratch, llvm::Value* worker,
                                           const Placement& placement) {
  llvm::Value* part = builder.CreateNSWMul(worker, builder.getInt64(program_.scratch_worker_bytes));
  llvm::Value* base = builder.CreateInBoundsGEP(builder.getInt8Ty(), scratch, part);
  return builder.CreateInBoundsGEP(builder.getInt8Ty(), base,
                                   builder.getInt64(program_.scratch_shared_bytes + placement.offset));
}

bool ModuleEmitter::may_be_overwritten(const Placement& argument) const {
  return std::ranges::any_of(overwrites_, [&](const Overwrite& pair) {
    return argument.buffer == program_.run.arguments[pair.output].buffer ||
           argument.buffer == program_.run.arguments[pair.input].buffer;
  });
}

std::vector<BoundBuffer> ModuleEmitter::entry_buffers(llvm::IRBuilder<>& builder, const LoweredFunction& function,
                                                      llvm::Function* entry) {
  std::vector<BoundBuffer> bound;
  llvm::Type* pointer = builder.getPtrTy();
  for (const Placement& argument : function.arguments) {
    llvm::Value* slot =
        builder.CreateConstInBoundsGEP1_64(pointer, entry->getArg(0), static_cast<u64>(argument.offset));
    bound.push_back({argument.buffer, builder.CreateLoad(pointer, slot), 64, !may_be_overwritten(argument)});
  }
  for (const Placement& placement : function.scratch) {
    TW_CHECK(&function == &program_.run, "prepack has no scratch");
    llvm::Value* scratch = entry->getArg(1);
    llvm::Value* place =
        placement.place == Place::WorkerScratch
            ? worker_pointer(builder, scratch, builder.getInt64(0), placement)
            : builder.CreateInBoundsGEP(builder.getInt8Ty(), scratch, builder.getInt64(placement.offset));
    bound.push_back({placement.buffer, place, alignment_at(placement.offset), !overlaps_other(placement)});
  }
  return bound;
}

void ModuleEmitter::emit_entry(const LoweredFunction& function, bool is_run) {
  llvm::LLVMContext& context = module_.getContext();
  llvm::IRBuilder<> builder(context);
  llvm::Type* pointer = builder.getPtrTy();
  std::vector<llvm::Type*> types(is_run ? 4 : 1, pointer);
  llvm::FunctionType* type = llvm::FunctionType::get(builder.getInt32Ty(), types, false);
  llvm::Function* entry = make_function(type, symbol_ + (is_run ? "_run" : "_prepack"), true);
  builder.SetInsertPoint(llvm::BasicBlock::Create(context, "entry", entry));
  std::vector<BoundBuffer> buffers = entry_buffers(builder, function, entry);
  bool is_parallel = is_run && program_.parallel;
  llvm::Value* null = llvm::Constant::getNullValue(pointer);
  call_body(builder, symbol_for(is_run ? "body" : "pack"), buffers, {}, function.body,
            is_parallel ? entry->getArg(2) : null, is_parallel ? entry->getArg(3) : null,
            is_run ? entry->getArg(1) : null);
  builder.CreateRet(builder.getInt32(0));
}

void ModuleEmitter::call_body(llvm::IRBuilder<>& builder, const std::string& name,
                              const std::vector<BoundBuffer>& buffers, const std::vector<BoundVar>& vars,
                              const Stmt* stmt, llvm::Value* parallel_for, llvm::Value* pool, llvm::Value* scratch) {
  std::vector<llvm::Value*> arguments;
  for (const BoundBuffer& buffer : buffers) arguments.push_back(buffer.pointer);
  for (const BoundVar& var : vars) arguments.push_back(var.value);
  bool may_fork = parallel_for && !llvm::isa<llvm::Constant>(parallel_for);
  if (may_fork) arguments.insert(arguments.end(), {parallel_for, pool, scratch});
  std::vector<llvm::Type*> types;
  for (llvm::Value* argument : arguments) types.push_back(argument->getType());
  llvm::Function* body = make_function(llvm::FunctionType::get(builder.getVoidTy(), types, false), name, false);
  body->addFnAttr(llvm::Attribute::NoInline);
  builder.CreateCall(body, arguments);

  FunctionEmitter emitter(*this, body);
  unsigned index = 0;
  for (BoundBuffer buffer : buffers) {
    if (buffer.is_noalias) body->addParamAttr(index, llvm::Attribute::NoAlias);
    llvm::LLVMContext& context = module_.getContext();
    body->addParamAttr(index, llvm::Attribute::getWithAlignment(context, llvm::Align(buffer.alignment)));
    body->addParamAttr(
        index, llvm::Attribute::getWithDereferenceableBytes(context, static_cast<u64>(bytes_of(buffer.buffer))));
    buffer.pointer = body->getArg(index++);
    emitter.bind(buffer);
  }
  for (const BoundVar& var : vars) emitter.bind({var.var, body->getArg(index++), var.range});
  if (may_fork) emitter.allow_parallel(body->getArg(index), body->getArg(index + 1), body->getArg(index + 2));
  emitter.run(stmt);
}

llvm::StructType* ModuleEmitter::context_type(const LiveIns& ins) {
  llvm::LLVMContext& context = module_.getContext();
  std::vector<llvm::Type*> fields(1 + ins.buffers.size(), llvm::PointerType::get(context, 0));
  fields.insert(fields.end(), ins.vars.size(), llvm::Type::getInt64Ty(context));
  return llvm::StructType::get(context, fields);
}

llvm::Function* ModuleEmitter::make_task(const For& loop, const LiveIns& ins, const std::vector<BoundBuffer>& outer,
                                         const VarRanges& ranges) {
  llvm::IRBuilder<> builder(module_.getContext());
  llvm::Type *pointer = builder.getPtrTy(), *i64_type = builder.getInt64Ty();
  llvm::FunctionType* type = llvm::FunctionType::get(builder.getVoidTy(), {pointer, i64_type, i64_type}, false);
  std::string name = symbol_for("task");
  llvm::Function* task = make_function(type, name, false);
  builder.SetInsertPoint(llvm::BasicBlock::Create(module_.getContext(), "entry", task));
  llvm::StructType* fields = context_type(ins);
  unsigned field = 0;
  auto get = [&] {
    llvm::Value* place = builder.CreateStructGEP(fields, task->getArg(0), field);
    return builder.CreateLoad(fields->getElementType(field++), place);
  };
  llvm::Value* scratch = get();
  std::vector<BoundBuffer> buffers;
  for (BoundBuffer buffer : outer) {
    buffer.pointer = get();
    if (const Placement* own = worker_placement(buffer.buffer)) {
      buffer.pointer = worker_pointer(builder, scratch, task->getArg(2), *own);
    }
    buffers.push_back(buffer);
  }
  std::vector<BoundVar> vars;
  for (const Var* var : ins.vars) vars.push_back({var, get(), *ranges.find(var)});
  vars.push_back({loop.var, task->getArg(1), {0, loop.extent - 1}});
  call_body(builder, name + "_body", buffers, vars, loop.body, nullptr, nullptr, nullptr);
  builder.CreateRetVoid();
  return task;
}

}  // namespace tw::codegen

// Hand-made plans for tests of the run-time: names instead of indices, offsets
// and acks filled in. The plans are not the compiler's, only well formed.
//
//   PlanBuilder b("train");
//   uint32_t host = b.AddDevice("fake:0", /*is_inline=*/true);
//   uint32_t s = b.AddStream("compute", host, /*worker=*/0, /*ordered=*/true);
//   uint32_t x = b.AddRegister("x", host, {4}, /*copies=*/2);
//   uint32_t y = b.AddRegister("y", host, {4});
//   uint32_t t = b.AddTask(plan::Task::COMPUTE, "neg", s);
//   b.Input(t, x).Output(t, y).Launch(t, WEFT_OP_NEG, {In(0)}, {Out(0)});
//   b.Order(s, {t});
//   plan::Plan plan = b.Build();
//
// All tensors are f32 unless said. Memory is laid out without any reuse.
//
// Threading: thread-compatible.
#ifndef WEFT_RUNTIME_TESTING_PLAN_BUILDER_H_
#define WEFT_RUNTIME_TESTING_PLAN_BUILDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/proto/plan.pb.h"
#include "core/types/dtype.h"

namespace weft::runtime::testing {

plan::Operand In(uint32_t port);
plan::Operand Out(uint32_t port);
plan::Operand Const(uint32_t constant);

class PlanBuilder {
 public:
  explicit PlanBuilder(const std::string& program);

  uint32_t AddDevice(const std::string& name, bool is_inline);
  uint32_t AddStream(const std::string& name, uint32_t device, uint32_t worker,
                     bool ordered);
  // `dims` empty and dtype kInvalid: a control register.
  uint32_t AddRegister(const std::string& name, uint32_t device,
                       const std::vector<int64_t>& dims, uint32_t copies = 1,
                       DType dtype = DType::kF32);
  uint32_t AddControl(const std::string& name, uint32_t copies = 1);
  // A variable's two registers, shared and exclusive.
  std::pair<uint32_t, uint32_t> AddState(const std::string& name,
                                         uint32_t device,
                                         const std::vector<int64_t>& dims);
  // Slice i of `of` at act i, in `slices` equal parts along dimension 0.
  uint32_t AddSlices(const std::string& name, uint32_t of, uint32_t slices);
  uint32_t AddConstant(uint32_t device, const std::vector<float>& values);
  uint32_t AddTask(plan::Task::Kind kind, const std::string& name,
                   uint32_t stream, uint32_t acts = 1,
                   const std::string& binding = "");
  // Patterns as in core/actor/spec.h; empty is every act.
  PlanBuilder& Input(uint32_t task, uint32_t reg,
                     const std::string& pattern = "", bool aliased = false);
  PlanBuilder& Output(uint32_t task, uint32_t reg,
                      const std::string& pattern = "");
  // The kernel's tensors are those of the operands.
  PlanBuilder& Launch(uint32_t task, uint32_t op,
                      const std::vector<plan::Operand>& inputs,
                      const std::vector<plan::Operand>& outputs);
  PlanBuilder& Order(uint32_t stream, const std::vector<uint32_t>& tasks);

  // For what has no method here.
  plan::Plan& proto() { return plan_; }

  plan::Plan Build();

 private:
  uint32_t ArenaOf(uint32_t device, plan::Arena::Kind kind);
  void Place(plan::Register* reg, uint32_t arena);
  plan::TensorDesc TensorOf(uint32_t task, const plan::Operand& operand) const;

  plan::Plan plan_;
  std::map<std::pair<uint32_t, int>, uint32_t> arenas_;
};

}  // namespace weft::runtime::testing

#endif  // WEFT_RUNTIME_TESTING_PLAN_BUILDER_H_

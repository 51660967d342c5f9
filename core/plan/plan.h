// PlanView: a plan that is known to be well formed, with what follows from it.
//
// A plan (core/proto/plan.proto) is everything that will happen at run time, as
// lists that refer to one another by index:
//
//     devices <-- streams <-- tasks --> kernels, constants
//        ^                    |   ^
//        |              gives v   | reads
//     arenas <------------- registers (copies; tensors; alias of another)
//
// One task is one actor at run time. It acts a fixed number of times a period;
// an output port gives copies of one register, an input port reads one. Nothing
// else is decided later, so a plan can be read: "weft plan explain" prints it.
//
//   WEFT_ASSIGN_OR_RETURN(PlanView view, PlanView::Create(&plan));
//   for (uint32_t t = 0; t < view.num_tasks(); ++t) {
//     for (const auto& in : view.task(t).inputs()) {
//       Use from = view.producer(in.register_());     // who gives it
//       uint32_t owner = view.root(in.register_());   // whose memory it is
//     }
//   }
//
// Terms. The *root* of a register is the register whose memory and credits it
// uses: itself, unless it is an alias. A *slice* is one of the copies of an
// alias within one copy of its root (usually the only one). A *final reader* is
// an input port that acks: one that no output of its task aliases.
//
// Validation is about form only: indices, lengths, sizes. Whether the plan can
// run, and never overwrites what is still read, is compiler/check.
//
// Threading: a view is immutable, so thread-safe. Ownership: borrows the plan,
// which must outlive the view and stay unchanged.
#ifndef WEFT_CORE_PLAN_PLAN_H_
#define WEFT_CORE_PLAN_PLAN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "core/proto/plan.pb.h"

namespace weft::plan {

// Whether registers, scratch and accumulators have their final places. Before
// the memory planner ran, offsets and arena sizes mean nothing.
enum class Placement { kFinal, kIgnored };

// kBadPlan, naming the task or register and both values, where the plan is not
// well formed. Safe for any content of `plan`.
absl::Status Validate(const Plan& plan,
                      Placement placement = Placement::kFinal);

// A port of a task.
struct Use {
  uint32_t task = 0;
  uint32_t port = 0;
  friend bool operator==(Use a, Use b) {
    return a.task == b.task && a.port == b.port;
  }
};

class PlanView {
 public:
  // Validates. `plan` is borrowed.
  static absl::StatusOr<PlanView> Create(
      const Plan* plan, Placement placement = Placement::kFinal);

  const Plan& proto() const { return *plan_; }
  uint32_t num_tasks() const { return plan_->tasks_size(); }
  uint32_t num_registers() const { return plan_->registers_size(); }
  const Task& task(uint32_t t) const { return plan_->tasks(t); }
  const Register& reg(uint32_t r) const { return plan_->registers(r); }
  const Stream& stream_of(uint32_t t) const {
    return plan_->streams(plan_->tasks(t).stream());
  }
  // Index of the device that a task runs on.
  uint32_t device_of(uint32_t t) const { return stream_of(t).device(); }

  // The output port that gives register `r`.
  Use producer(uint32_t r) const { return producer_[r]; }
  // Every input port on register `r`, in order of tasks.
  absl::Span<const Use> readers(uint32_t r) const { return readers_[r]; }
  // The register whose memory and credits `r` uses.
  uint32_t root(uint32_t r) const { return root_[r]; }
  // Copies of `r` within one copy of its root.
  uint32_t slices(uint32_t r) const {
    return reg(r).copies() / reg(root_[r]).copies();
  }
  // The ACKs that one copy of root `r` gets: of all final readers, those of its
  // aliases included.
  uint32_t expected_acks(uint32_t r) const { return expected_acks_[r]; }

  // The device whose memory holds register `r`. Meaningless without bytes.
  uint32_t memory_device(uint32_t r) const {
    return plan_->arenas(reg(root_[r]).arena()).device();
  }
  // Place of copy `copy` of register `r`, in bytes from the start of its root's
  // arena.
  uint64_t offset(uint32_t r, uint32_t copy) const;

  // Whether the act of a task changes the memory of what it reads there: a
  // kernel writes its result in place of an operand.
  bool writes_input(Use input) const;
  // Whether a kernel of the task writes an output that is an alias; a view
  // (Reshape) gives the same bytes unchanged. True for outputs with memory of
  // their own.
  bool writes_output(Use output) const;
  // Whether the task looks at what it reads there on the host, at launch.
  bool reads_on_host(Use input) const;

  // "'fc1' [task 3]", "'fc1/y' [register 7]": the user's names first.
  std::string TaskName(uint32_t t) const;
  std::string RegisterName(uint32_t r) const;

 private:
  PlanView() = default;

  const Plan* plan_ = nullptr;
  std::vector<Use> producer_;
  std::vector<std::vector<Use>> readers_;
  std::vector<uint32_t> root_;
  std::vector<uint32_t> expected_acks_;
};

// "channel 'fc1/y' to rank 1".
std::string ChannelName(const Channel& channel);

// Bytes that one transfer takes along. None where the word is enough: of
// control edges, and of values that the other end reads or makes where they
// lie.
uint64_t CarriedBytes(const Channel& channel);

// The buffers that the task of a weft.Accumulate keeps to sum `acts` operands
// as a tree: buffer j holds a sum of 2^j of them. floor(log2(acts)) + 1.
// Pre-condition: acts >= 1.
uint32_t NumAccumulators(uint32_t acts);

// Bytes of a tensor, not padded. 0 for an absent one (dtype 0).
// Pre-condition: a tensor of a validated plan.
uint64_t TensorBytes(const TensorDesc& tensor);

}  // namespace weft::plan

#endif  // WEFT_CORE_PLAN_PLAN_H_

// PlanBuilder: small plans for tests, by the names of tasks and registers.
//
//   PlanBuilder b;
//   b.Stream("compute", /*ordered=*/true);
//   b.Task("x", Task::SOURCE, "compute");
//   b.Task("fc1", Task::COMPUTE, "compute");
//   b.Task("out", Task::SINK, "compute");
//   b.Edge("x", "fc1", {"x/y"});
//   b.Edge("fc1", "out", {"fc1/y"});
//   Plan plan = b.Build();
//
// Build gives every register bytes of its own, counts the ACKs, launches in the
// order in which tasks were added (all acts of one after another) and sizes the
// arenas, unless the test has set them.
//
// Threading: thread-compatible. Test only. A name that was not added ends the
// test.
#ifndef WEFT_CORE_PLAN_TESTING_PLAN_BUILDER_H_
#define WEFT_CORE_PLAN_TESTING_PLAN_BUILDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "core/proto/plan.pb.h"

namespace weft::plan {

struct EdgeOptions {
  std::string reg;      // name of its tensor; unique
  uint64_t bytes = 64;  // 0: an order edge
  uint32_t copies = 1;
  std::string give = {};  // pattern of the output; empty: every act
  std::string take = {};  // pattern of the input; empty: every act
};

class PlanBuilder {
 public:
  PlanBuilder();

  uint32_t Device(const std::string& name);
  // On device 0 and worker 0 unless said otherwise.
  uint32_t Stream(const std::string& name, bool ordered, uint32_t device = 0,
                  uint32_t worker = 0);
  uint32_t Task(const std::string& name, Task::Kind kind,
                const std::string& stream, uint32_t acts = 1);
  // Where the register exists, adds a reader: then only `take` counts.
  uint32_t Edge(const std::string& from, const std::string& to,
                const EdgeOptions& options);
  // A register that nobody reads yet.
  uint32_t Output(const std::string& from, const EdgeOptions& options);
  // `through` gives register `of` on as `alias`, changed in place by a kernel.
  uint32_t InPlace(const std::string& through, const std::string& of,
                   const std::string& alias);
  // `through` gives `of` on in slices, unchanged.
  uint32_t Slices(const std::string& through, const std::string& of,
                  const std::string& alias, uint32_t slices);
  // A variable with both phases: registers `name`/shared, `name`/exclusive.
  uint32_t Variable(const std::string& name, const std::string& stream,
                    uint64_t bytes = 64);
  // `to` reads `reg` and writes it in place, without a register of its own.
  void Update(const std::string& to, const std::string& reg);
  void Order(const std::string& stream, const std::vector<std::string>& tasks);

  weft::plan::Plan Build();

  uint32_t FindTask(const std::string& name) const;
  uint32_t FindRegister(const std::string& name) const;
  weft::plan::Plan& plan() { return plan_; }

 private:
  uint32_t FindStream(const std::string& name) const;
  // A kernel that writes one f32 operand onto another of the same size.
  uint32_t KernelOf(uint64_t bytes, uint32_t device);
  void CountAcks();
  void Place();

  weft::plan::Plan plan_;
  std::vector<std::string> register_names_;
};

// Arenas as large as what lies in them (registers only).
void FitArenas(weft::plan::Plan* plan);

}  // namespace weft::plan

#endif  // WEFT_CORE_PLAN_TESTING_PLAN_BUILDER_H_

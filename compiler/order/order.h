// Order: works become tasks, and the acts of one period get one linear order,
// of which each ordered stream's launch order is a part.
//
//   WEFT_ASSIGN_OR_RETURN(Schedule schedule,
//                         OrderWorks(parts, options));
//   schedule.orders[stream];   // acts of a period, as task indices
//
// Chains. Successive kernels of one stream that act equally often become one
// task; its inner values are scratch. A kernel joins the open chain of its
// stream if all that it waits for outside the chain comes before the chain's
// first kernel in the linear order: then no cycle can arise, because every edge
// between tasks leads forward in the order of their first kernels. A chain ends
// after a kernel whose result leaves the stream (a copy, another stream), so
// that nobody waits for the rest of the chain; and updates of state are tasks
// of their own.
//
// Order. Works of the section "before", then all works for micro-batch 0, 1,
// ... and then the section "after"; a variable's shared phase just before its
// first reader. In a pipeline the middle goes by phases of micro-batches, in
// the order of its schedule (compiler/pipeline/schedule.h), no chain has works
// of two phases, and registers that are read in a later phase have as many
// copies as there are micro-batches in between. With a launch_order_seed: any
// topological order of the acts that respects data, control and credits.
// Executing the acts one by one in the linear order is a legal run of the
// protocol, and the protocol is persistent, so no plan made from it can block.
//
// Receives. A value from another rank takes memory from the moment when its
// receive is posted. Where nothing else bounds that, a control edge does:
// - POST follows the last chain but one before it, so that there is a chain's
//   time for the data to come in, where nobody waits for the SEND at the far
//   end (as by_rank.h makes them). Only its readers here do, and they come
//   after that chain anyway.
// - All POSTs of a collective follow the last chain but one before the rank's
//   first SEND or POST of it: all ranks do those that they share in one order
//   (that of the graph, core/graph/graph.h), and none waits for one that comes
//   later.
// - Other POSTs follow the last chain of the section before theirs: who waits
//   for a SEND that comes after the micro-batches does so, too.
// So these edges block nothing.
//
// Releases. What peers read where it lies takes memory until they have. Where
// it is large and goes out in a step of a collective in which this rank gets
// something, too, the next chain but one after the last here that reads what it
// gets waits for that: peers, which do the same in the same order, have read
// theirs by then or are about to, for what reads a peer's memory goes as early
// as the last of it has come (linear.h). So memory of one chain's values serves
// those of later ones, and a wait is always for something that comes earlier in
// the order of all.
//
// Threading: free functions, thread-safe; Schedule is a value.
#ifndef WEFT_COMPILER_ORDER_ORDER_H_
#define WEFT_COMPILER_ORDER_ORDER_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "compiler/partition/partition.h"
#include "compiler/pipeline/schedule.h"

namespace weft {

struct OrderOptions {
  int register_copies = 2;
  int io_copies = 2;  // at least, of registers that I/O fills
  uint64_t launch_order_seed = 0;
  int max_chain_ops = 128;
  // Its micro_batches are those of the partition.
  PipelineSpec pipeline;
};

// One task to be.
struct TaskDraft {
  // kCompute: a chain, in order. A variable: its phases, shared first. Others:
  // one work.
  std::vector<int> works;
  int stream = 0;
  int acts = 1;  // of a period; a variable's phases are one act each
};

struct Schedule {
  std::vector<TaskDraft> tasks;  // by first act in the linear order
  std::vector<int> task_of;      // by work
  // By buffer: how many copies its register has, if it gets one.
  std::vector<int> copies;
  // The same of control edges, by works; one where there is none.
  std::map<std::pair<int, int>, int> control_copies;
  // Works, and the POST that follows each by a control edge of its own.
  std::vector<std::pair<int, int>> receives;
  // RECVs that say that peers have read a value, and the first work of the
  // chain that follows each in the same way.
  std::vector<std::pair<int, int>> releases;
  // By stream: the acts of a period as task indices; empty if not ordered.
  std::vector<std::vector<uint32_t>> orders;
};

// True where `work` must come after `before` by an edge that neither data nor
// the order of their common stream implies: it needs a control register.
bool NeedsControlRegister(const Partition& parts, const Schedule& schedule,
                          int before, int work);

// Copies of the control register from `before` to `work`.
int ControlCopies(const Schedule& schedule, int before, int work);

// Errors: kBadJob for a pipeline that cannot be; kBadGraph names the nodes of a
// cycle (for example two updates, each of which reads what the other replaces).
absl::StatusOr<Schedule> OrderWorks(const Partition& parts,
                                    const OrderOptions& options);

// One line a task, in order: "cpu:0/compute x4: fc1, relu, fc2".
std::string ToString(const Partition& parts, const Schedule& schedule);

}  // namespace weft

#endif  // WEFT_COMPILER_ORDER_ORDER_H_

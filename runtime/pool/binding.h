// CoreBinding: a core for each thread that computes, by hwloc's view of the
// machine. Threads of one rank then stay where their caches are; two of them
// never share a core while another is free.
//
//   WEFT_ASSIGN_OR_RETURN(std::shared_ptr<const CoreBinding> cores,
//                         CoreBinding::Find(/*threads=*/2));
//   cores->BindThisThread(0);   // the thread that calls kernels
//   cores->BindThisThread(1);   // its first helper
//
// Only what this process may use counts (affinity mask, cpuset). Threads take
// the cores in hwloc's order, which keeps neighbours together; the second
// hardware thread of a core comes after the first ones of all.
//
// Threading: immutable after Find. Ownership: holds the topology.
#ifndef WEFT_RUNTIME_POOL_BINDING_H_
#define WEFT_RUNTIME_POOL_BINDING_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

struct hwloc_topology;

namespace weft::runtime {

class CoreBinding {
 public:
  // kBadJob where there are fewer hardware threads than `threads`, kInternal
  // where the system does not tell what there is.
  static absl::StatusOr<std::shared_ptr<const CoreBinding>> Find(
      uint32_t threads);

  // Of the hardware threads that the calling thread may use, in the order of
  // Find, it and the threads that it starts keep to the `part`-th of `parts`
  // equal parts. What does not divide is left out. kBadJob where there are
  // fewer than parts, kInternal where the system refuses.
  static absl::Status KeepToPart(uint32_t part, uint32_t parts);

  // False where the system refuses; the thread then stays unbound.
  bool BindThisThread(size_t thread) const;

  // The operating system's numbers of the hardware threads, by thread.
  const std::vector<unsigned>& processors() const { return processors_; }

 private:
  struct Destroy {
    void operator()(hwloc_topology* topology) const;
  };
  CoreBinding() = default;
  // With all that this process may use.
  static absl::StatusOr<std::shared_ptr<CoreBinding>> FindAll();

  std::unique_ptr<hwloc_topology, Destroy> topology_;
  std::vector<unsigned> processors_;
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_POOL_BINDING_H_

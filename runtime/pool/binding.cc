#include "runtime/pool/binding.h"

#include <hwloc.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/error.h"
#include "core/base/status_macros.h"

namespace weft::runtime {
namespace {

using Topology = hwloc_topology_t;

// Hardware threads that this process may use: the first of each core, then the
// second of each, and so on.
std::vector<unsigned> InOrder(Topology topology, hwloc_const_cpuset_t allowed) {
  std::vector<unsigned> order;
  hwloc_bitmap_t of_core = hwloc_bitmap_alloc();
  const int cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
  bool any = true;
  for (int sibling = 0; any; ++sibling) {
    any = false;
    for (int i = 0; i < cores; ++i) {
      hwloc_obj_t core = hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, i);
      hwloc_bitmap_and(of_core, core->cpuset, allowed);
      int processor = hwloc_bitmap_first(of_core);
      for (int k = 0; k < sibling && processor >= 0; ++k) {
        processor = hwloc_bitmap_next(of_core, processor);
      }
      if (processor < 0) continue;
      order.push_back(static_cast<unsigned>(processor));
      any = true;
    }
  }
  hwloc_bitmap_free(of_core);
  return order;
}

}  // namespace

void CoreBinding::Destroy::operator()(hwloc_topology* topology) const {
  hwloc_topology_destroy(topology);
}

absl::StatusOr<std::shared_ptr<CoreBinding>> CoreBinding::FindAll() {
  const auto unknown = [] {
    return MakeError(ErrorCode::kInternal,
                     "hwloc does not tell which cores this machine has");
  };
  std::shared_ptr<CoreBinding> binding(new CoreBinding());
  Topology topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return unknown();
  binding->topology_.reset(topology);
  if (hwloc_topology_load(topology) != 0) return unknown();
  hwloc_bitmap_t allowed = hwloc_bitmap_alloc();
  if (hwloc_get_cpubind(topology, allowed, HWLOC_CPUBIND_THREAD) != 0) {
    hwloc_bitmap_copy(allowed, hwloc_topology_get_allowed_cpuset(topology));
  }
  binding->processors_ = InOrder(topology, allowed);
  hwloc_bitmap_free(allowed);
  if (binding->processors_.empty()) return unknown();
  return binding;
}

absl::StatusOr<std::shared_ptr<const CoreBinding>> CoreBinding::Find(
    uint32_t threads) {
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<CoreBinding> binding, FindAll());
  const size_t found = binding->processors_.size();
  if (threads > found) {
    return MakeError(
        ErrorCode::kBadJob,
        absl::StrCat("runtime.bind_threads gives each thread a core, but "
                     "runtime.threads is ",
                     threads, " and this process may use ", found));
  }
  binding->processors_.resize(threads);
  return std::shared_ptr<const CoreBinding>(std::move(binding));
}

absl::Status CoreBinding::KeepToPart(uint32_t part, uint32_t parts) {
  WEFT_ASSIGN_OR_RETURN(std::shared_ptr<CoreBinding> all, FindAll());
  const size_t size = all->processors_.size() / parts;
  if (size == 0) {
    return MakeError(
        ErrorCode::kBadJob,
        absl::StrCat("runtime.bind_threads gives each rank cores of its own, "
                     "but ",
                     parts, " ranks of this host may use ",
                     all->processors_.size()));
  }
  hwloc_bitmap_t mine = hwloc_bitmap_alloc();
  for (size_t i = part * size; i < (part + 1) * size; ++i) {
    hwloc_bitmap_set(mine, all->processors_[i]);
  }
  const bool kept =
      hwloc_set_cpubind(all->topology_.get(), mine, HWLOC_CPUBIND_THREAD) == 0;
  hwloc_bitmap_free(mine);
  if (kept) return absl::OkStatus();
  return MakeError(ErrorCode::kInternal,
                   "the system does not bind this rank to its cores");
}

bool CoreBinding::BindThisThread(size_t thread) const {
  if (thread >= processors_.size()) return false;
  hwloc_bitmap_t one = hwloc_bitmap_alloc();
  hwloc_bitmap_only(one, processors_[thread]);
  const bool bound =
      hwloc_set_cpubind(topology_.get(), one, HWLOC_CPUBIND_THREAD) == 0;
  hwloc_bitmap_free(one);
  return bound;
}

}  // namespace weft::runtime

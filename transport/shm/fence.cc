#include "transport/shm/fence.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace weft_shm {
namespace {

bool Does(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

}  // namespace

bool HasFences() {
  static const bool has = Does(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
                          Does(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
  return has;
}

void HeavyFence(Reach reach) {
  const int command = reach == Reach::kProcess
                          ? MEMBARRIER_CMD_PRIVATE_EXPEDITED
                          : MEMBARRIER_CMD_GLOBAL_EXPEDITED;
  // It may lack memory for a moment; the slow one needs none, nor that this
  // process has taken part before.
  while (!Does(command) && !Does(MEMBARRIER_CMD_GLOBAL)) sched_yield();
}

}  // namespace weft_shm

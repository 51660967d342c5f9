#include "transport/shm/fence.h"

#include <linux/membarrier.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace weft_shm {
namespace {

constexpr int kMostLooks = 2'000;  // a millisecond apart

bool Does(int command) { return syscall(SYS_membarrier, command, 0, 0) == 0; }

// Runs on each core that it may. Makes system calls only: another thread of the
// process that it is a copy of may have held any lock. It keeps nothing of that
// one, and goes with it.
[[noreturn]] void Visit(long cores) {
  syscall(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  syscall(SYS_close_range, 0u, ~0u, 0u);
  for (long core = 0; core < cores && core < CPU_SETSIZE; ++core) {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(core, &one);
    sched_setaffinity(0, sizeof(one), &one);
  }
  for (;;) syscall(SYS_exit_group, 0);
}

// A core that this process has left for nobody keeps its memory at hand. When a
// thread comes back there Linux does not look again at whether the process
// takes part in fences by now, and leaves the core out. So somebody else goes
// there once: a child, which has memory of its own. It says nothing when it
// ends, not to disturb who waits for other children. False where it cannot be.
bool VisitCores() {
  const long cores = sysconf(_SC_NPROCESSORS_CONF);
  const long child = syscall(SYS_clone, 0, 0, 0, 0, 0);
  if (child == 0) Visit(cores);
  if (child < 0) return false;
  for (int looks = 0; looks < kMostLooks; ++looks) {
    int status = 0;
    const pid_t ended =
        waitpid(static_cast<pid_t>(child), &status, __WALL | WNOHANG);
    if (ended != 0) return ended == child && status == 0;
    const timespec millisecond = {0, 1'000'000};
    nanosleep(&millisecond, nullptr);
  }
  // A core that nobody gets: it ends when it gets that, and this process has it
  // as one that has ended.
  kill(static_cast<pid_t>(child), SIGKILL);
  return false;
}

}  // namespace

bool HasFences() {
  static const bool has = Does(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) &&
                          Does(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED) &&
                          VisitCores();
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

#include "tools/weft/launcher_flags.h"

namespace weft {

void AddLauncherFlags(Command* command, runtime::LauncherFlags* flags) {
  command->Option("--launcher", &flags->launcher,
                  "what started the ranks: auto, env (RANK, WORLD_SIZE, ...), "
                  "mpi, slurm, or none for one process; default auto, the "
                  "first whose variables are all there");
  command->Option("--rank", &flags->rank, "by hand: which rank this is");
  command->Option("--ranks", &flags->ranks, "by hand: how many there are");
  command->Option("--local-rank", &flags->local_rank,
                  "by hand: which of the ranks of this host");
  command->Option("--local-ranks", &flags->local_ranks,
                  "by hand: how many of them are on this host");
  command->Option("--coordinator", &flags->coordinator,
                  "HOST:PORT where the ranks meet; rank 0 listens there");
}

}  // namespace weft

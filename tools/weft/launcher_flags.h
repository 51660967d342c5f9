// The flags of a command that is a rank of a job, where no launcher says of
// which (runtime/rendezvous/worker_spec.h).
//
//   AddLauncherFlags(train, &flags->launcher);
//   WEFT_ASSIGN_OR_RETURN(WorkerSpec spec,
//                         WorkerSpecFrom(env, flags->launcher));
//
// Threading: one thread.
#ifndef WEFT_TOOLS_WEFT_LAUNCHER_FLAGS_H_
#define WEFT_TOOLS_WEFT_LAUNCHER_FLAGS_H_

#include "runtime/rendezvous/worker_spec.h"
#include "tools/weft/command_line.h"

namespace weft {

void AddLauncherFlags(Command* command, runtime::LauncherFlags* flags);

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_LAUNCHER_FLAGS_H_

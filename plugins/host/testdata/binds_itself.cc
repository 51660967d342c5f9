// A plugin that binds the thread that loads it to one processor, as an OpenMP
// library does where OMP_PROC_BIND is set. It is no device.
#include <sched.h>

#include "plugins/sdk/weft_plugin.hpp"

__attribute__((constructor)) static void Bind() {
  cpu_set_t may, one;
  CPU_ZERO(&one);
  if (sched_getaffinity(0, sizeof(may), &may) != 0) return;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &may)) continue;
    CPU_SET(i, &one);
    break;
  }
  sched_setaffinity(0, sizeof(one), &one);
}

WEFT_PLUGIN_NOTE(1u << WEFT_SECTION_DEVICE, WEFT_ISA_BASELINE)
WEFT_PLUGIN_ENTRY(host) { return nullptr; }

// A plugin that was linked without the version script: it exports more than its
// entry, so its names could collide with another plugin's.
#include "plugins/sdk/weft_plugin.hpp"

extern "C" __attribute__((visibility("default"))) int weft_another_symbol() {
  return 1;
}

WEFT_PLUGIN_NOTE(1u << WEFT_SECTION_DEVICE, WEFT_ISA_BASELINE)
WEFT_PLUGIN_ENTRY(host) { return nullptr; }

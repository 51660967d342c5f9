// Everything for the author of a plugin in C++17: header-only, no dependency
// but the ABI. A device of the simplest kind is one description and its
// kernels: devices/null is the shortest example.
//
//   weft_host.hpp    errors, the host's services, the ELF note
//   weft_kernel.hpp  typed views of ops and operands, a registry of kernels
//   weft_inline.hpp  a whole device that works in host memory
//
// A plugin in another language, or one with queues of its own, needs only
// plugins/abi/weft_plugin.h.
#ifndef WEFT_PLUGINS_SDK_WEFT_PLUGIN_HPP_
#define WEFT_PLUGINS_SDK_WEFT_PLUGIN_HPP_

#include "plugins/abi/weft_plugin.h"
#include "plugins/sdk/weft_host.hpp"
#include "plugins/sdk/weft_inline.hpp"
#include "plugins/sdk/weft_kernel.hpp"

#endif  // WEFT_PLUGINS_SDK_WEFT_PLUGIN_HPP_

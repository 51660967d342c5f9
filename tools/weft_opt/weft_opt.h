// weft-opt: runs passes on a graph's text. Its main() is a call of WeftOpt,
// which tests call as well.
//
// Threading: thread-compatible.
#ifndef WEFT_TOOLS_WEFT_OPT_WEFT_OPT_H_
#define WEFT_TOOLS_WEFT_OPT_WEFT_OPT_H_

#include <istream>
#include <ostream>
#include <string>
#include <vector>

namespace weft {

// `args` without the program's name. The graph goes to `out`, errors as
// "WEFT-2008: message" to `err`. Returns the exit code (core/base/error.h).
int WeftOpt(const std::vector<std::string>& args, std::istream& in,
            std::ostream& out, std::ostream& err);

}  // namespace weft

#endif  // WEFT_TOOLS_WEFT_OPT_WEFT_OPT_H_

#include "core/ops/families.h"
#include "core/ops/schema.h"

namespace weft {

void RegisterSystemOps(OpRegistry* registry) {}

}  // namespace weft

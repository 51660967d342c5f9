#include "core/ops/families.h"
#include "core/ops/schema.h"

namespace weft {

void RegisterFusedOps(OpRegistry* registry) {}

}  // namespace weft

#include "core/ops/families.h"
#include "core/ops/schema.h"

namespace weft {

void RegisterMovementOps(OpRegistry* registry) {}

}  // namespace weft

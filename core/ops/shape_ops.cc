#include "core/ops/families.h"
#include "core/ops/schema.h"

namespace weft {

void RegisterShapeOps(OpRegistry* registry) {}

}  // namespace weft

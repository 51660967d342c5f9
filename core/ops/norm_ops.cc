#include "core/ops/families.h"
#include "core/ops/schema.h"

namespace weft {

void RegisterNormOps(OpRegistry* registry) {}

}  // namespace weft

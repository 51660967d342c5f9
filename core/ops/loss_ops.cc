#include "core/ops/families.h"
#include "core/ops/schema.h"

namespace weft {

void RegisterLossOps(OpRegistry* registry) {}

}  // namespace weft

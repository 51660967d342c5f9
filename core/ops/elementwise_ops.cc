#include "core/ops/families.h"
#include "core/ops/schema.h"

namespace weft {

void RegisterElementwiseOps(OpRegistry* registry) {}

}  // namespace weft

#include "core/ops/families.h"
#include "core/ops/schema.h"

namespace weft {

void RegisterReduceOps(OpRegistry* registry) {}

}  // namespace weft

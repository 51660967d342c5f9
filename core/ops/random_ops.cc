#include "core/ops/families.h"
#include "core/ops/schema.h"

namespace weft {

void RegisterRandomOps(OpRegistry* registry) {}

}  // namespace weft

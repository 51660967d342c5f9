#include "core/ops/families.h"
#include "core/ops/schema.h"

namespace weft {

void RegisterUpdateOps(OpRegistry* registry) {}

}  // namespace weft

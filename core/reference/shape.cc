#include "core/reference/evaluators.h"

namespace weft {
namespace reference {

void AddShapeEvaluators(EvaluatorTable* table) {}

}  // namespace reference
}  // namespace weft

#include "core/reference/evaluators.h"

namespace weft {
namespace reference {

void AddLinearAlgebraEvaluators(EvaluatorTable* table) {}

}  // namespace reference
}  // namespace weft

#include "core/reference/evaluators.h"

namespace weft {
namespace reference {

void AddLossEvaluators(EvaluatorTable* table) {}

}  // namespace reference
}  // namespace weft

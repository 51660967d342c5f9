#include "core/reference/evaluators.h"

namespace weft {
namespace reference {

void AddReduceEvaluators(EvaluatorTable* table) {}

}  // namespace reference
}  // namespace weft

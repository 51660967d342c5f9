#include "core/reference/evaluators.h"

namespace weft {
namespace reference {

void AddRandomEvaluators(EvaluatorTable* table) {}

}  // namespace reference
}  // namespace weft

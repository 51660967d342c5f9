#include "core/reference/evaluators.h"

namespace weft {
namespace reference {

void AddConvEvaluators(EvaluatorTable* table) {}

}  // namespace reference
}  // namespace weft

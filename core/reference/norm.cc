#include "core/reference/evaluators.h"

namespace weft {
namespace reference {

void AddNormEvaluators(EvaluatorTable* table) {}

}  // namespace reference
}  // namespace weft

#include "core/reference/evaluators.h"

namespace weft {
namespace reference {

void AddElementwiseEvaluators(EvaluatorTable* table) {}

}  // namespace reference
}  // namespace weft

#include "core/reference/evaluators.h"

namespace weft {
namespace reference {

void AddSystemEvaluators(EvaluatorTable* table) {}

}  // namespace reference
}  // namespace weft

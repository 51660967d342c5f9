#include "core/reference/evaluators.h"

namespace weft {
namespace reference {

void AddUpdateEvaluators(EvaluatorTable* table) {}

}  // namespace reference
}  // namespace weft

#include "core/reference/evaluators.h"

namespace weft {
namespace reference {

void AddPoolEvaluators(EvaluatorTable* table) {}

}  // namespace reference
}  // namespace weft

// Where the operands of an update of state lie. Most updates change any number
// of variables at once: first the state of each variable in turn, then one
// gradient for each, then what all share (learning rate, counter, multiplier).
//
//   // weft.AdamUpdate of two variables, all 11 operands:
//   //   p0 m0 v0  p1 m1 v1  g0 g1  lr counter multiplier
//   UpdateLayout layout = LayoutOfUpdate(op.schema(), op.num_inputs());
//   layout.State(1, 2);                // v1: 5
//   layout.Gradient(0);                // g0: 6
//   layout.Shared(0);                  // lr: 8
//
// Threading: thread-safe.
#ifndef WEFT_CORE_OPS_UPDATE_H_
#define WEFT_CORE_OPS_UPDATE_H_

#include "core/ops/schema.h"

namespace weft {

struct UpdateLayout {
  int slots = 0;      // tensors of state of each variable
  int variables = 0;  // how many are updated
  int shared = 0;     // operands after the gradients

  int State(int variable, int slot) const { return variable * slots + slot; }
  int Gradient(int variable) const { return variables * slots + variable; }
  int Shared(int i) const { return variables * (slots + 1) + i; }
};

// Whether it may update several variables at once.
inline bool UpdatesMany(const OpSchema& schema) {
  return schema.effect == OpEffect::kUpdate && schema.outputs.max >= kVariadic;
}

// Pre-condition: the schema is of an update with gradients: not of
// weft.LossScaleUpdate.
inline UpdateLayout LayoutOfUpdate(const OpSchema& schema, int num_inputs) {
  UpdateLayout layout;
  layout.slots = schema.state_slots;
  const int always = schema.inputs.min - layout.slots - 1;
  layout.variables = (num_inputs - always) / (layout.slots + 1);
  layout.shared = num_inputs - layout.variables * (layout.slots + 1);
  return layout;
}

}  // namespace weft

#endif  // WEFT_CORE_OPS_UPDATE_H_

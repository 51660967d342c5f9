// The learning rate of a step: the exact definition of weft.LearningRate. It
// needs nothing but <math.h> and compiles as C and C++, so that a device plugin
// can carry the same text and get the same bits. All arithmetic is in double,
// in the order written here; the op rounds the result to f32.
//
//   while step < warmup_steps, whatever the schedule:
//     base * (step + 1) / warmup_steps
//   then
//     constant:  base
//     step:      base * pow(gamma, floor(step / step_size))   (integer
//     division) cosine:    p = (step - warmup_steps) / (total_steps -
//     warmup_steps), at
//                most 1;  final + (base - final) * (0.5 * (1 + cos(pi * p)))
//
//   WeftLearningRate(WEFT_SCHEDULE_STEP, 0.1, 0, 0, 30, 0.1, 0, 65);  // 0.001
//
// Pre-conditions: step >= 0, warmup_steps >= 0; step_size > 0 for the step
// schedule, total_steps > warmup_steps for the cosine.
// Threading: free function, thread-safe.
#ifndef WEFT_CORE_OPS_LEARNING_RATE_H_
#define WEFT_CORE_OPS_LEARNING_RATE_H_

#include <math.h>
#include <stdint.h>

enum {
  WEFT_SCHEDULE_CONSTANT = 0,
  WEFT_SCHEDULE_STEP = 1,
  WEFT_SCHEDULE_COSINE = 2
};

static inline double WeftLearningRate(int schedule, double base,
                                      int64_t warmup_steps, int64_t total_steps,
                                      int64_t step_size, double gamma,
                                      double final_rate, int64_t step) {
  if (step < warmup_steps) {
    return base * (double)(step + 1) / (double)warmup_steps;
  }
  if (schedule == WEFT_SCHEDULE_STEP) {
    return base * pow(gamma, (double)(step / step_size));
  }
  if (schedule == WEFT_SCHEDULE_COSINE) {
    double progress =
        (double)(step - warmup_steps) / (double)(total_steps - warmup_steps);
    if (progress > 1.0) progress = 1.0;
    return final_rate +
           (base - final_rate) *
               (0.5 * (1.0 + cos(3.14159265358979323846 * progress)));
  }
  return base;
}

#endif  // WEFT_CORE_OPS_LEARNING_RATE_H_

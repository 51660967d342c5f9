// Runs one op on the CPU plugin, as the run-time would, and compares it with
// the op's reference in double. For tests.
//
//   ExpectMatchesReference({"MatMul", {}, {a, b}}, Numerics::kAccumulated);
//   StatusOr<std::vector<Literal>> y = RunOnCpu({"Relu", {}, {x}}, {});
//
// Around every operand and the workspace lie guard bytes, the workspace is
// exactly as large as asked for, and results and workspace hold garbage before
// the launch. ExpectMatchesReference launches several times, with other
// garbage, with other addresses, and in place where the kernel allows it, and
// expects the same bits each time.
//
// Threading: the functions are thread-safe.
#ifndef WEFT_DEVICES_CPU_KERNEL_HARNESS_H_
#define WEFT_DEVICES_CPU_KERNEL_HARNESS_H_

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/ops/attr.h"
#include "core/types/literal.h"
#include "plugins/host/device.h"
#include "plugins/host/op_desc.h"

namespace weft::cpu {

// One use of an op on concrete values. A default Literal is an absent operand.
struct OpCase {
  std::string op;
  AttrMap attrs;
  std::vector<Literal> inputs;
  int num_outputs = -1;  // < 0: the schema's minimum

  std::string ToString() const;
};

// How far a kernel may be from the reference; the table is in
// kernel_harness.cc.
enum class Numerics {
  kExact,           // moves, comparisons, integers
  kRounded,         // one or few correctly rounded operations
  kTranscendental,  // exp and its kin
  kAccumulated,     // sums; relative to the magnitude of the result's tensor
};

struct RunOptions {
  uint8_t garbage = 0xA5;  // in results and workspace before the launch
  uint64_t shift = 0;      // bytes added to each operand's address
  int in_place = -1;       // result 0 in the memory of this input
  uint32_t updates = 0;    // bit i: result i in the memory of input i
};

// The CPU device of the plugin in the runfiles.
Device& CpuDevice();

// The result types by inference. Dies on an error: cases are right.
std::vector<TensorType> OutputTypes(const OpCase& c);

// A description with all attributes, defaults included.
std::unique_ptr<OpDesc> Describe(const OpCase& c);

// kKernelUnsupported... is an absl::UnimplementedError here: no kernel.
absl::StatusOr<std::vector<Literal>> RunOnCpu(const OpCase& c,
                                              const RunOptions& options);

void ExpectMatchesReference(const OpCase& c, Numerics numerics);

// Expects `got` to be within the table's tolerance of `want`.
void ExpectClose(const Literal& got, const Literal& want, Numerics numerics,
                 const std::string& what);

// Values of one seeded stream.
class Values {
 public:
  explicit Values(uint32_t seed) : engine_(seed) {}

  // Uniform in [low, high); integers are whole. Equal on every machine.
  Literal Uniform(DType dtype, const Shape& shape, double low, double high);
  // As Uniform, with every fourth element a special value: zeros of both signs,
  // infinities, NaN, denormals, extremes.
  Literal Special(DType dtype, const Shape& shape);
  int64_t Pick(int64_t low, int64_t high);  // in [low, high]

 private:
  double Next();

  std::mt19937 engine_;
};

}  // namespace weft::cpu

#endif  // WEFT_DEVICES_CPU_KERNEL_HARNESS_H_

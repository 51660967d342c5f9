// Devices and capability answers for tests of the compiler.
//
//   FakeOracle oracle;                       // the host runs everything
//   oracle.Allow(1, OpId::kMatMul);          // device 1: only this
//   options.devices = {HostDevice(), PrivateDevice("sim:0")};
//
// Threading: thread-compatible. Test only.
#ifndef WEFT_COMPILER_TESTING_FAKE_ORACLE_H_
#define WEFT_COMPILER_TESTING_FAKE_ORACLE_H_

#include <map>
#include <set>
#include <string>
#include <utility>

#include "compiler/capability.h"
#include "compiler/placement/device_names.h"
#include "core/ops/schema.h"

namespace weft {

class FakeOracle : public CapabilityOracle {
 public:
  // Device 0 supports all ops but those denied; others only those allowed.
  void Deny(OpId op) { denied_.insert(op); }
  void Allow(uint32_t device, OpId op) { allowed_.insert({device, op}); }
  void AllowAll(uint32_t device) { all_.insert(device); }
  // Whatever the device: no more than so many results.
  void Limit(OpId op, int results) { limits_[op] = results; }
  // What is added to the answer where `op` is supported.
  MatchAnswer& Answer(OpId op) { return answers_[op]; }

  MatchAnswer Match(uint32_t device, const plan::Kernel& kernel) override {
    ++questions;
    const OpId op = static_cast<OpId>(kernel.op());
    MatchAnswer answer;
    auto it = answers_.find(op);
    if (it != answers_.end()) answer = it->second;
    answer.supported = device == 0 ? denied_.count(op) == 0
                                   : all_.count(device) > 0 ||
                                         allowed_.count({device, op}) > 0;
    auto limit = limits_.find(op);
    if (limit != limits_.end() && kernel.outputs_size() > limit->second) {
      answer.supported = false;
    }
    return answer;
  }

  int questions = 0;

 private:
  std::set<OpId> denied_;
  std::set<std::pair<uint32_t, OpId>> allowed_;
  std::set<uint32_t> all_;
  std::map<OpId, int> limits_;
  std::map<OpId, MatchAnswer> answers_;
};

inline plan::Device HostDevice() {
  plan::Device d;
  d.set_name("cpu:0");
  d.set_kind("cpu");
  d.set_inline_(true);
  d.set_host_mapped(true);
  d.set_alignment(64);
  return d;
}

// Asynchronous, with memory that the host does not see.
inline plan::Device PrivateDevice(const std::string& name) {
  plan::Device d;
  d.set_name(name);
  d.set_kind(name.substr(0, name.find(':')));
  d.set_alignment(256);
  return d;
}

}  // namespace weft

#endif  // WEFT_COMPILER_TESTING_FAKE_ORACLE_H_

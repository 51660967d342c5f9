// LocalRendezvous: the ranks are threads of this process.
//
//   LocalRendezvous meeting(/*ranks=*/4, /*deadline_ns=*/60'000'000'000);
//
// Threading: thread-safe. Ownership: outlives the ranks.
#ifndef WEFT_RUNTIME_RENDEZVOUS_LOCAL_RENDEZVOUS_H_
#define WEFT_RUNTIME_RENDEZVOUS_LOCAL_RENDEZVOUS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/base/mutex.h"
#include "runtime/rendezvous/rendezvous.h"

namespace weft::runtime {

class LocalRendezvous : public Rendezvous {
 public:
  // `deadline_ns`: of each AllGather, from its call on.
  LocalRendezvous(uint32_t ranks, uint64_t deadline_ns)
      : ranks_(ranks), deadline_ns_(deadline_ns) {}

  uint32_t ranks() const override { return ranks_; }
  absl::StatusOr<std::vector<std::string>> AllGather(
      uint32_t rank, const std::string& key, const std::string& value) override;
  void Fail(uint32_t rank, const absl::Status& cause) override;
  absl::Status failure() const override;
  absl::Status Verdict(uint32_t rank, const absl::Status& mine) override {
    return mine;
  }
  void SetWake(uint32_t rank, std::function<void()> wake) override;

 private:
  struct Round {
    std::vector<std::string> values;
    std::vector<bool> here;
    uint32_t missing = 0;
    uint32_t left = 0;  // ranks that have taken the result
  };

  absl::Status MissingError(const std::string& key, const Round& round) const;

  const uint32_t ranks_;
  const uint64_t deadline_ns_;
  mutable Mutex mu_;
  CondVar changed_;
  std::map<std::string, Round> rounds_ WEFT_GUARDED_BY(mu_);
  std::map<uint32_t, std::function<void()>> wakes_ WEFT_GUARDED_BY(mu_);
  absl::Status failure_ WEFT_GUARDED_BY(mu_);
};

}  // namespace weft::runtime

#endif  // WEFT_RUNTIME_RENDEZVOUS_LOCAL_RENDEZVOUS_H_

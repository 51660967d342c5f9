#include "runtime/launch/coordinator_hub.h"

#include <string>
#include <utility>

#include "core/base/status_macros.h"
#include "runtime/rendezvous/coordinator.h"

namespace weft::launch {
namespace {

class RealHub : public Hub {
 public:
  explicit RealHub(std::unique_ptr<runtime::Coordinator> coordinator)
      : coordinator_(std::move(coordinator)) {}
  std::string address() const override { return coordinator_->address(); }
  std::optional<runtime::JobFailure> failure() const override {
    return coordinator_->failure();
  }
  void Fail(uint32_t rank, const absl::Status& cause) override {
    coordinator_->Fail(rank, cause);
  }

 private:
  const std::unique_ptr<runtime::Coordinator> coordinator_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Hub>> CoordinatorHub(const HubOptions& options) {
  runtime::CoordinatorOptions coordinator;
  coordinator.listen = options.listen;
  coordinator.ranks = options.ranks;
  coordinator.job_id = options.job_id;
  coordinator.epoch = options.epoch;
  coordinator.secret = options.secret;
  WEFT_ASSIGN_OR_RETURN(std::unique_ptr<runtime::Coordinator> started,
                        runtime::Coordinator::Start(coordinator));
  return std::make_unique<RealHub>(std::move(started));
}

}  // namespace weft::launch

#include "tools/weft/scalar_sinks.h"

#include <cstring>
#include <utility>

namespace weft {

class ScalarSinks::Sink : public runtime::SinkConsumer {
 public:
  Sink(ScalarSinks* owner, size_t index) : owner_(owner), index_(index) {}

  absl::Status Consume(uint64_t step, uint32_t micro,
                       absl::Span<const runtime::HostTensor> in) override {
    if (in.size() != 1 || in[0].dtype != DType::kF32 ||
        in[0].bytes != sizeof(float)) {
      return absl::InternalError("a metric is not one f32");
    }
    float value;
    std::memcpy(&value, in[0].data, sizeof(value));
    return owner_->Take(index_, step, value);
  }

 private:
  ScalarSinks* owner_;
  size_t index_;
};

ScalarSinks::ScalarSinks(std::vector<std::string> names, OnStep on_step)
    : names_(std::move(names)), on_step_(std::move(on_step)) {
  for (size_t i = 0; i < names_.size(); ++i) {
    sinks_.push_back(std::make_unique<Sink>(this, i));
  }
}

ScalarSinks::~ScalarSinks() = default;

runtime::Bindings ScalarSinks::bindings() const {
  runtime::Bindings out;
  for (size_t i = 0; i < names_.size(); ++i) {
    out.sinks[names_[i]] = sinks_[i].get();
  }
  return out;
}

absl::Status ScalarSinks::Take(size_t index, uint64_t step, double value) {
  MutexLock lock(&mu_);
  auto it = partial_.find(step);
  if (it == partial_.end()) {
    it = partial_.emplace(step, Partial{Values(names_.size()), names_.size()})
             .first;
  }
  it->second.values[index] = value;
  if (--it->second.missing > 0) return absl::OkStatus();
  Values values = std::move(it->second.values);
  partial_.erase(it);
  return on_step_(step, values);
}

}  // namespace weft
